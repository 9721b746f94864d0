// launch-copies copies for one launch.
// RUN: lowtide-opt %s -p launch-copies --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @two(%a: !mat, %g: index) {
  // expected-error @below {{launch-copies: is for one tile.launch in its function, which has 2 [copies-launch]}}
  %p = tile.pack %a align(16) : !mat
  tile.launch @kernel grid(%g) threads(32) args(%p) : !mat
  tile.launch @kernel grid(%g) threads(32) args(%p) : !mat
  return
}
tile.kernel @kernel(%a: !mat) {
  tile.return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @none(%a: !mat) {
  // expected-error @below {{[copies-launch]}}
  %p = tile.pack %a align(16) : !mat
  return
}
}
