// split-operands puts the pieces of A and B in their place, with K contiguous in whatever layout they lie.
// RUN: lowtide-opt %s -p split-operands --split-input-file | filecheck %s

// Three blocks of K, of whole units of four: 3 · 12. The second product is of pieces already.
// CHECK-LABEL: func.func @known(
// CHECK-SAME:    %[[A:.+]]: memref<10x64xf32{{.*}}, %[[B:.+]]: memref<10x?xf32{{.*}}, %[[D:.+]]: memref<64x?xf32
// CHECK-NEXT:  %[[P:.+]] = tile.pack %[[A]] transposed pieces(left of tf32x3) align(16) : {{.+}} to memref<64x36xtf32, strided<[?, 1]>>
// CHECK-NEXT:  %[[Q:.+]] = tile.pack %[[B]] transposed pieces(right of tf32x3) align(16) : {{.+}} to memref<?x36xtf32, strided<[?, 1]>>
// CHECK-NEXT:  tile.gemm tn %[[P]], %[[Q]] into %[[D]] acc(f32 by tf32x3)
// CHECK-NOT:   tile.split
!a = memref<10x64xf32, strided<[?, 1]>>
!b = memref<10x?xf32, strided<[?, 1]>>
!d = memref<64x?xf32, strided<[?, 1]>>
!pieces = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @known(%a: !a, %b: !b, %d: !d, %p: !pieces, %q: !pieces) {
  tile.gemm nt %a, %b into %d acc(f32 by tf32x3) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !a, !b, !d
  tile.gemm tn %p, %q into %d acc(f32 by bf16x6) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !pieces, !pieces, !d
  return
}
}

// -----

// Run-time extents, a batch, and what else a product has.
// CHECK-LABEL: func.func @batch(
// CHECK:       tile.pack %{{.+}} pieces(left of bf16x6) align(16) : {{.+}} to memref<4x?x?xbf16, strided<[?, ?, 1]>>
// CHECK-NEXT:  tile.pack %{{.+}} transposed pieces(right of bf16x6) align(16) : {{.+}} to memref<4x?x?xbf16, strided<[?, ?, 1]>>
// CHECK-NEXT:  tile.gemm tn {{.+}} acc(f32 fast by bf16x6) operands(per_column %{{.+}} : memref<?xf32>) schedule(
!mat = memref<4x?x?xf32, strided<[?, ?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @batch(%a: !mat, %b: !mat, %d: !mat, %bias: memref<?xf32>) {
  tile.gemm tt %a, %b into %d acc(f32 fast by bf16x6) operands(per_column %bias : memref<?xf32>)
      schedule(#tile.schedule<mainloop = <stages = 3>>) {
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %y : f32
    tile.yield %z : f32
  } : !mat, !mat, !mat
  return
}
}
