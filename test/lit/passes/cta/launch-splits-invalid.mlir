// launch-splits splits for one launch.
// RUN: lowtide-opt %s -p launch-splits --split-input-file --verify-diagnostics

!mat = memref<?x?xf32, strided<[?, 1]>>
!pieces = memref<?x?xtf32, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @two(%a: !mat, %g: index) {
  // expected-error @below {{launch-splits: is for one tile.launch of a product in its function, which has 2 [splits-launch]}}
  %p = tile.split %a left by tf32x3 : !mat to !pieces
  tile.launch @kernel grid(%g) threads(32) args(%p) : !pieces
  tile.launch @kernel grid(%g) threads(32) args(%p) : !pieces
  return
}
tile.kernel @kernel(%a: !pieces) {
  tile.return
}
}

// -----

!mat = memref<?x?xf32, strided<[?, 1]>>
!pieces = memref<?x?xtf32, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @none(%a: !mat) {
  // expected-error @below {{[splits-launch]}}
  %p = tile.split %a left by tf32x3 : !mat to !pieces
  return
}
}
