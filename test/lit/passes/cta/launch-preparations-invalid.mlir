// launch-preparations prepares matrices for one launch of a product, and clears what the launch passes.
// RUN: lowtide-opt %s -p launch-preparations --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @two(%a: !mat, %g: index) {
  // expected-error @below {{launch-preparations: is for one tile.launch of a product in its function, which has 2 [prepared-launch]}}
  %p = tile.pack %a align(16) : !mat to !mat
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
  // expected-error @below {{[prepared-launch]}}
  %p = tile.pack %a align(16) : !mat to !mat
  return
}
}

// -----

!d = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%d: !d, %all: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %amax = memref.cast %all : memref<1xf32> to memref<1xf32>
  %sum = tile.splat 0.0 : !tile.tile<64x64xf32>
  // expected-error @below {{has an amax that is no argument of its kernel; pass it at the launch [amax-argument]}}
  tile.store %sum into (%d, amax %amax)[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !tile.tile<64x64xf32>, !d, memref<1xf32>
  tile.return
}
}
