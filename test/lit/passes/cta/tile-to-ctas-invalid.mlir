// tile-to-ctas makes one kernel of a function's one tile.gemm, by its schedule.
// RUN: lowtide-opt %s -p tile-to-ctas --split-input-file --verify-diagnostics

module attributes {tile.target = "sm_80"} {
func.func @no_schedule(%a: memref<64x32xf16>, %b: memref<64x32xf16>, %d: memref<64x64xf16>) {
  // expected-error @below {{tile-to-ctas: has no schedule; run choose-schedule first, or write one [no-schedule]}}
  tile.gemm tn %a, %b into %d acc(f16) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<64x32xf16>, memref<64x32xf16>, memref<64x64xf16>
  return
}
}
// -----

module attributes {tile.target = "sm_80"} {
func.func @incomplete(%a: memref<64x32xf16>, %b: memref<64x32xf16>, %d: memref<64x64xf16>) {
  // expected-error @below {{[schedule-open]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<grid = <tile = [32, 32]>, mainloop = <k = 32>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<64x32xf16>, memref<64x32xf16>, memref<64x64xf16>
  return
}
}
// -----

module attributes {tile.target = "sm_80"} {
func.func @two(%a: memref<64x32xf16>, %b: memref<64x32xf16>, %d: memref<64x64xf16>) {
  tile.gemm tn %a, %b into %d acc(f16) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<64x32xf16>, memref<64x32xf16>, memref<64x64xf16>
  // expected-error @below {{tile-to-ctas: is the second tile.gemm of its function; put each in its own function [second-gemm]}}
  tile.gemm tn %a, %b into %d acc(f16) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<64x32xf16>, memref<64x32xf16>, memref<64x64xf16>
  return
}
}
// -----

// A pass takes IR of its own level only.
// expected-error @below {{tile-to-ctas takes level problem, but the module is of level smem: run the passes from problem on, or correct tile.level [pass-level]}}
module attributes {tile.level = "smem", tile.target = "sm_80"} {
}
// -----

module attributes {tile.target = "sm_80"} {
func.func @reads_the_host(%a: memref<64x32xf16>, %b: memref<64x32xf16>, %d: memref<64x64xf16>, %s: f16) {
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = one_shot>,
  mainloop = <k = 32>,
  multiply = <atoms = [1, 1, 1]>>) {
  ^bb0(%x: f16):
    // expected-error @below {{tile-to-ctas: reads a value from outside the epilogue; make it one of the tile.gemm's operands [epilogue-captures]}}
    %y = arith.mulf %x, %s : f16
    tile.yield %y : f16
  } : memref<64x32xf16>, memref<64x32xf16>, memref<64x64xf16>
  return
}
}
