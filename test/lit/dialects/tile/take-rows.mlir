// Rows of A at an index: an operand of tile.gemm, the problem, and the matrix of the rows that are taken.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s

!mat = memref<?x64xbf16, strided<[?, 1]>>
// CHECK-LABEL: func.func @gemm
// CHECK: tile.gemm tn {{.*}} operands(a_rows %{{.+}} : memref<?xi32>) {
func.func @gemm(%a: memref<40x64xbf16, strided<[?, 1]>>, %b: !mat, %d: memref<128x?xbf16, strided<[?, 1]>>, %index: memref<?xi32>) {
  tile.gemm tn %a, %b into %d acc(f32) operands(a_rows %index : memref<?xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : memref<40x64xbf16, strided<[?, 1]>>, !mat, memref<128x?xbf16, strided<[?, 1]>>
  return
}

// CHECK-LABEL: tile.kernel @kernel
// CHECK: %[[TAKEN:.+]] = tile.take_rows %{{.+}} at %{{.+}} : memref<40x64xbf16, strided<[?, 1]>>, memref<?xi32> to memref<?x64xbf16, strided<[?, 1]>>
// CHECK: tile.view %[[TAKEN]][
tile.kernel @kernel(%a: memref<40x64xbf16, strided<[?, 1]>>, %index: memref<?xi32>, %m: index) {
  %taken = tile.take_rows %a at %index : memref<40x64xbf16, strided<[?, 1]>>, memref<?xi32> to !mat
  %window = tile.view %taken[%m, %m] : !mat to !tile.view<32x16xbf16>
  tile.return
}
