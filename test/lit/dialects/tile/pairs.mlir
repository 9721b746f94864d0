// Pairs of columns: a tile.gemm whose region takes two accumulators, the problem, windows of halves, and a tile.store.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s

!a = memref<64x32xbf16, strided<[?, 1]>>
!b = memref<96x32xbf16, strided<[?, 1]>>
!d = memref<64x48xbf16, strided<[?, 1]>>
!halves = memref<2x48x32xbf16, strided<[?, ?, 1]>>
// CHECK-DAG:  = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], pairs>
// CHECK-DAG:  = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], pairs, interleaved>
// CHECK:      tile.gemm tn %{{.+}}, %{{.+}} into %{{.+}} acc(f32) pairs {
// CHECK-NEXT: ^bb0(%acc: f32, %acc_0: f32):
// CHECK:      tile.gemm tn %{{.+}}, %{{.+}} into %{{.+}} acc(f32) pairs interleaved operands(per_column %{{.+}} : memref<48xbf16>) {
// CHECK-NEXT: ^bb0(%acc: f32, %acc_0: f32, %per_column: bf16):
func.func @gemm(%a: !a, %b: !b, %d: !d, %bias: memref<48xbf16>) {
  tile.gemm tn %a, %b into %d acc(f32) pairs {
  ^bb0(%gate: f32, %up: f32):
    %0 = arith.mulf %gate, %up : f32
    %1 = arith.truncf %0 : f32 to bf16
    tile.yield %1 : bf16
  } : !a, !b, !d
  tile.gemm tn %a, %b into %d acc(f32) pairs interleaved operands(per_column %bias : memref<48xbf16>) {
  ^bb0(%gate: f32, %up: f32, %x: bf16):
    tile.yield %x : bf16
  } : !a, !b, !d
  return
}

func.func @stacked(%a: !a) attributes {tile.problem =
    #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], pairs>} {
  return
}
func.func @interleaved(%a: !a) attributes {tile.problem =
    #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], pairs, interleaved>} {
  return
}

// CHECK: tile.view %{{.+}}[%{{.+}}, %{{.+}}, %{{.+}}] halves : memref<2x48x32xbf16, strided<[?, ?, 1]>> to !tile.view<32x16xbf16>
// CHECK: tile.view %{{.+}}[%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}] halves : memref<2x5x48x32xbf16, strided<[?, ?, ?, 1]>> to !tile.view<32x16xbf16>
// CHECK: tile.store %{{.+}} pairs into %{{.+}}[%{{.+}}, %{{.+}}] {
// CHECK: sm.tma_load %{{.+}} to %{{.+}} signals %{{.+}} : !sm.tensor_map<2x16x16xbf16>, memref<32x16xbf16
// CHECK: sm.tma_load %{{.+}} to %{{.+}} signals %{{.+}} : !sm.tensor_map<2x1x16x16xbf16>, memref<32x16xbf16
!buffer = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!batches = memref<2x5x48x32xbf16, strided<[?, ?, ?, 1]>>
tile.kernel @kernel(%a: !halves, %b: !halves, %d: !d, %map: !sm.tensor_map<2x16x16xbf16>, %acc: !tile.tile<16x32xf32>,
                    %m: index, %k: index, %e: !batches, %maps: !sm.tensor_map<2x1x16x16xbf16>) {
  %c0 = arith.constant 0 : index
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %view = tile.view %b[%c0, %m, %k] halves : !halves to !tile.view<32x16xbf16>
  %of_both = tile.view %e[%c0, %m, %m, %k] halves : !batches to !tile.view<32x16xbf16>
  tile.store %acc pairs into %d[%m, %k] {
  ^bb0(%gate: f32, %up: f32):
    %0 = arith.truncf %up : f32 to bf16
    tile.yield %0 : bf16
  } : !tile.tile<16x32xf32>, !d
  %buffer = sm.alloc : !buffer
  sm.tma_load %map[%c0, %m, %k] to %buffer signals %full[%c0]
    : !sm.tensor_map<2x16x16xbf16>, !buffer, !sm.mbarriers<2>
  sm.tma_load %maps[%m, %m, %k] to %buffer signals %full[%c0]
    : !sm.tensor_map<2x1x16x16xbf16>, !buffer, !sm.mbarriers<2>
  tile.return
}
