// Ops with several results print as they are written here, and read back to themselves.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt | filecheck %s

!mat = memref<?x?xbf16, strided<[?, 1]>>

// CHECK-LABEL: func.func @two(
// CHECK:         tile.gemm tn %{{.+}}, %{{.+}} into (%{{.+}}, %{{.+}}) acc(f32) {
// CHECK:           tile.yield %{{.+}}, %{{.+}} : bf16, bf16
// CHECK-NEXT:    } : memref<{{.+}}>, memref<{{.+}}>, memref<{{.+}}>, memref<{{.+}}>
func.func @two(%a: !mat, %b: !mat, %d: !mat, %pre: !mat) {
  tile.gemm tn %a, %b into (%d, %pre) acc(f32) {
  ^bb0(%x: f32):
    %p = arith.truncf %x : f32 to bf16
    %n = arith.negf %p : bf16
    tile.yield %n, %p : bf16, bf16
  } : !mat, !mat, !mat, !mat
  return
}

// CHECK-LABEL: func.func @no_full_result(
// CHECK:         tile.gemm tn %{{.+}}, %{{.+}} into amax %{{.+}} acc(f32) {
func.func @no_full_result(%a: !mat, %b: !mat, %amax: memref<1xf32>) attributes {
    test.problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [amax f32]>} {
  tile.gemm tn %a, %b into amax %amax acc(f32) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, memref<1xf32>
  return
}

// CHECK-LABEL: tile.kernel @store(
// CHECK:         tile.store %{{.+}} into (%{{.+}}, amax %{{.+}}, %{{.+}})[%c0, %c0] {
tile.kernel @store(%d: !mat, %amax: memref<1xf32>, %pre: !mat) {
  %c0 = arith.constant 0 : index
  %sum = tile.splat 0.0 : !tile.tile<64x64xf32>
  tile.store %sum into (%d, amax %amax, %pre)[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x, %y : bf16, f32, bf16
  } : !tile.tile<64x64xf32>, !mat, memref<1xf32>, !mat
  tile.return
}
