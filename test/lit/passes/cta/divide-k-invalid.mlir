// divide-k exchanges partial sums of work items that have ranges of K, in workspaces made at one launch.
// RUN: lowtide-opt %s -p divide-k --split-input-file --verify-diagnostics

!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_80"} {
func.func @host(%d: !mat, %n: index) {
  tile.launch @k grid(%n) threads(32) args(%d) : !mat
  return
}
tile.kernel @k(%d: !mat) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %d, %c0 : !mat
  tile.work_tiles (%m, %c) of (%n, %n) by [32, 32] order(<row>) one_shot {
    %acc = tile.splat 0.0 : !tile.tile<32x32xf32>
    // expected-error @below {{divide-k: stores a part of a sum, but stands in no tile.work_tiles that divides K; drop `part` [part-undivided]}}
    tile.store %acc part(%m of %n at %c) into %d[%m, %c] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile.tile<32x32xf32>, !mat
  }
  tile.return
}
}
// -----

!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_80"} {
func.func @host(%d: !mat, %n: index) {
  tile.launch @k grid(%n) threads(32) args(%d) : !mat
  tile.launch @k grid(%n) threads(32) args(%d) : !mat
  return
}
// expected-error @below {{divide-k: is launched at 2 places; its workspaces are made at one [workspace-launch]}}
tile.kernel @k(%d: !mat) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %d, %c0 : !mat
  tile.work_tiles (%m, %c) of (%n, %n) by [32, 32] k(%k0 to %k1 of %n by 32) split 2 (%p of %q at %s) order(<row>) one_shot {
    %acc = tile.splat 0.0 : !tile.tile<32x32xf32>
    tile.store %acc part(%p of %q at %s) into %d[%m, %c] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile.tile<32x32xf32>, !mat
  }
  tile.return
}
}
