// Ops that split matrices into pieces, and what says so of a problem, print as they are written here, and read back.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt | filecheck %s

// CHECK: #tile.problem<tn, a = tf32, b = tf32, acc = f32, results = [full f32], by = tf32x3>
#problem = #tile.problem<tn, a = tf32, b = tf32, acc = f32, results = [full f32], by = tf32x3>
!mat = memref<?x?xf32, strided<[?, 1]>>
!pieces = memref<?x?xtf32, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a", test.problem = #problem} {
// CHECK-LABEL: func.func @host
// CHECK:         %[[A:.+]] = tile.pack %{{.+}} pieces(left of tf32x3) align(16) : memref<?x?xf32, strided<[?, 1]>> to memref<?x?xtf32, strided<[?, 1]>>
// CHECK:         %[[B:.+]] = tile.pack %{{.+}} transposed pieces(right of tf32x3) align(16) :
// CHECK:         tile.gemm tn %[[A]], %[[B]] into %{{.+}} acc(f32 by tf32x3)
// CHECK:         tile.gemm nn %{{.+}}, %{{.+}} into %{{.+}} acc(f32 fast by bf16x6)
func.func @host(%a: !mat, %b: !mat, %d: !mat) {
  %0 = tile.pack %a pieces(left of tf32x3) align(16) : !mat to !pieces
  %1 = tile.pack %b transposed pieces(right of tf32x3) align(16) : !mat to !pieces
  tile.gemm tn %0, %1 into %d acc(f32 by tf32x3) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !pieces, !pieces, !mat
  tile.gemm nn %a, %b into %d acc(f32 fast by bf16x6) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !mat
  return
}
// CHECK-LABEL: tile.kernel @split
// CHECK:         tile.prepare %{{.+}} from %{{.+}} transposed pieces(right of bf16x6) : memref<2x8x96xbf16, strided<[?, ?, 1]>> from memref<2x16x8xf32, strided<[?, ?, 1]>>
tile.kernel @split(%s: memref<2x16x8xf32, strided<[?, ?, 1]>>, %t: memref<2x8x96xbf16, strided<[?, ?, 1]>>) {
  tile.prepare %t from %s transposed pieces(right of bf16x6)
      : memref<2x8x96xbf16, strided<[?, ?, 1]>> from memref<2x16x8xf32, strided<[?, ?, 1]>>
  tile.return
}
}
