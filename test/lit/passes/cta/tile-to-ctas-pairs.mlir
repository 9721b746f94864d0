// Pairs of columns: the host passes a view of B as two matrices; tiles are half as wide in D as in the accumulators, and
// a window of B has rows of both matrices. Interleaved columns differ in the strides of the view only.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @stacked
// CHECK-SAME:    (%[[A:.+]]: memref<?x32xbf16, {{.*}}>, %[[B:.+]]: memref<?x32xbf16, {{.*}}>, %[[D:.+]]: memref<?x?xbf16, {{.*}}>)
// CHECK-DAG:     %{{.*}}, %{{.*}}, %{{.*}}:2, %[[STRIDES:.*]]:2 = memref.extract_strided_metadata %[[B]]
// CHECK-DAG:     %[[N:.+]] = memref.dim %[[D]], %c1
// CHECK:         %[[HALF:.+]] = arith.muli %[[N]], %[[STRIDES]]#0
// CHECK:         %[[PAIR:.+]] = memref.reinterpret_cast %[[B]] to offset: [0], sizes: [2, %[[N]], 32], strides: [%[[HALF]], %[[STRIDES]]#0, 1]
// CHECK:         cf.assert %{{.+}}, "B must have two rows for each of the N columns of D"
// CHECK:         arith.ceildivsi %[[N]], %c32
// CHECK:         tile.launch @stacked_kernel grid(%{{.+}}) threads(128) args(%[[A]], %[[PAIR]], %[[D]])
// CHECK-LABEL: func.func @interleaved
// CHECK:         %{{.*}}, %{{.*}}, %{{.*}}:2, %[[OTHER:.*]]:2 = memref.extract_strided_metadata
// CHECK:         %[[TWO:.+]] = arith.muli %[[OTHER]]#0, %c2
// CHECK:         strides: [%[[OTHER]]#0, %[[TWO]], 1]

// CHECK-LABEL: tile.kernel @stacked_kernel(
// CHECK-SAME:    %B: memref<2x?x32xbf16, strided<[?, ?, 1]>>
// CHECK:         tile.work_tiles (%m, %n) of (%{{.+}}, %{{.+}}) by [32, 32]
// CHECK:           tile.view %A[%m, %[[K:.+]]] : {{.*}} to !tile.view<32x16xbf16>
// CHECK:           tile.view %B[%c0, %n, %[[K]]] halves : {{.*}} to !tile.view<64x16xbf16>
// CHECK:           tile.mma tn {{.*}}, !tile.tile<32x64xf32>
// CHECK:           tile.store %{{.+}} pairs into %D[%m, %n] {
// CHECK-NEXT:      ^bb0(%acc: f32, %acc_{{.}}: f32):
!a = memref<?x32xbf16, strided<[?, 1]>>
!d = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<
    grid = <tile = [32, 64], order = row, scheduler = one_shot>,
    mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
    multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
    epilogue = <path = direct, math = registers>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @stacked(%a: !a, %b: !a, %d: !d) {
    tile.gemm tn %a, %b into %d acc(f32) pairs schedule(#schedule) {
    ^bb0(%gate: f32, %up: f32):
      %0 = arith.mulf %gate, %up : f32
      %1 = arith.truncf %0 : f32 to bf16
      tile.yield %1 : bf16
    } : !a, !a, !d
    return
  }
  func.func @interleaved(%a: !a, %b: !a, %d: !d) {
    tile.gemm tn %a, %b into %d acc(f32) pairs interleaved schedule(#schedule) {
    ^bb0(%gate: f32, %up: f32):
      %0 = arith.mulf %gate, %up : f32
      %1 = arith.truncf %0 : f32 to bf16
      tile.yield %1 : bf16
    } : !a, !a, !d
    return
  }
}
