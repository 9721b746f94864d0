// Rows of D at an index: an operand of tile.gemm, the problem, and a store to the rows that are named.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s

!mat = memref<?x64xbf16, strided<[?, 1]>>
// CHECK-LABEL: func.func @gemm
// CHECK: tile.gemm tn {{.*}} operands(per_row %{{.+}} : memref<128xf32>, a_rows %{{.+}} : memref<128xi32>, d_rows %{{.+}} : memref<128xi32>) {
func.func @gemm(%a: !mat, %b: !mat, %d: memref<40x?xbf16, strided<[?, 1]>>, %w: memref<128xf32>, %from: memref<128xi32>, %to: memref<128xi32>) {
  tile.gemm tn %a, %b into %d acc(f32) operands(per_row %w : memref<128xf32>, a_rows %from : memref<128xi32>, d_rows %to : memref<128xi32>) {
  ^bb0(%x: f32, %w_m: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, memref<40x?xbf16, strided<[?, 1]>>
  return
}

// A full operand has the rows of the product.
// CHECK-LABEL: func.func @residual
// CHECK: tile.gemm tn {{.*}} operands(full %{{.+}} : memref<128x?xbf16, strided<[?, 1]>>, d_rows %{{.+}} : memref<128xi32>) {
func.func @residual(%a: !mat, %b: !mat, %d: memref<40x?xbf16, strided<[?, 1]>>, %c: memref<128x?xbf16, strided<[?, 1]>>, %to: memref<128xi32>) {
  tile.gemm tn %a, %b into %d acc(f32) operands(full %c : memref<128x?xbf16, strided<[?, 1]>>, d_rows %to : memref<128xi32>) {
  ^bb0(%x: f32, %c_mn: bf16):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, memref<40x?xbf16, strided<[?, 1]>>
  return
}

// CHECK-LABEL: tile.kernel @kernel
// CHECK: %[[ROWS:.+]] = tile.take_rows %{{.+}} at %{{.+}} : memref<40x64xbf16, strided<[?, 1]>>, memref<?xi32> to memref<?x64xbf16, strided<[?, 1]>>
// CHECK: tile.store %{{.+}} into %[[ROWS]][
tile.kernel @kernel(%d: memref<40x64xbf16, strided<[?, 1]>>, %index: memref<?xi32>, %m: index) {
  %zero = tile.splat 0.0 : !tile.tile<32x16xf32>
  %rows = tile.take_rows %d at %index : memref<40x64xbf16, strided<[?, 1]>>, memref<?xi32> to !mat
  tile.store %zero into %rows[%m, %m] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile.tile<32x16xf32>, !mat
  tile.return
}
