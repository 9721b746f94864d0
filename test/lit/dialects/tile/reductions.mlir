// Reductions print as they are written here, and read back to themselves.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt | filecheck %s

!mat = memref<?x?xbf16, strided<[?, 1]>>
!vec = memref<?xf32>

// CHECK-LABEL: func.func @gemm(
// CHECK:         tile.gemm tn %{{.+}}, %{{.+}} into (%{{.+}}, row_sum %{{.+}}, all_max %{{.+}}, row_value %{{.+}}) acc(f32) operands(target %{{.+}} : memref<?xi32>) {
// CHECK:           tile.yield %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} : bf16, f32, f32, f32
func.func @gemm(%a: !mat, %b: !mat, %d: !mat, %s: !vec, %m: memref<1xf32>, %v: !vec, %t: memref<?xi32>) {
  tile.gemm tn %a, %b into (%d, row_sum %s, all_max %m, row_value %v) acc(f32) operands(target %t : memref<?xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x, %x, %x : bf16, f32, f32, f32
  } : !mat, !mat, !mat, !vec, memref<1xf32>, !vec
  return
}

// CHECK-LABEL: tile.kernel @store(
// CHECK:         tile.store %{{.+}} into (%{{.+}}, column_logsumexp %{{.+}})[%c0, %c0] {
// CHECK:         tile.store %{{.+}} into (absent %{{.+}}, row_min %{{.+}})[%c0, %c0] {
// CHECK-NEXT:    ^bb0(%[[X:.+]]: f32):
// CHECK-NEXT:      tile.yield %[[X]] : f32
tile.kernel @store(%d: !mat, %p: memref<?x?xf32, strided<[?, 1]>>) {
  %c0 = arith.constant 0 : index
  %sum = tile.splat 0.0 : !tile.tile<64x64xf32>
  tile.store %sum into (%d, column_logsumexp %p)[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !tile.tile<64x64xf32>, !mat, memref<?x?xf32, strided<[?, 1]>>
  tile.store %sum into (absent %d, row_min %p)[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<64x64xf32>, !mat, memref<?x?xf32, strided<[?, 1]>>
  tile.return
}

// CHECK-LABEL: tile.kernel @finish(
// CHECK-NEXT:    tile.finish row_sum %{{.+}} from %{{.+}} : memref<?xf32> from memref<?xf32>
// CHECK-NEXT:    tile.finish row_logsumexp %{{.+}} from %{{.+}} pairs : memref<?xf32> from memref<?xf32>
// CHECK-NEXT:    tile.finish row_sum %{{.+}} from %{{.+}} : memref<?xf32> from memref<?x?xf32, strided<[?, 1]>>
tile.kernel @finish(%s: !vec, %p: !vec, %m: memref<?x?xf32, strided<[?, 1]>>) {
  tile.finish row_sum %s from %p : !vec from !vec
  tile.finish row_logsumexp %s from %p pairs : !vec from !vec
  tile.finish row_sum %s from %m : !vec from memref<?x?xf32, strided<[?, 1]>>
  tile.return
}
