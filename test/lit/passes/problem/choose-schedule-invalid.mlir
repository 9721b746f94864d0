// choose-schedule refuses a problem for which no schedule with the given fields is legal, and names the rule.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

// The fields given do not fit together: no candidate's other fields help.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @no_candidate(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: grid.tile M = 100 is not a multiple of 32, one step of the tiled mma; nearest is 96 [tile-steps]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [100, 128]>, mainloop = <k = 32>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// The threads of no candidate's warps can share the tile.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @copies(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[copy-threads]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [32, 64]>, mainloop = <k = 16>, multiply = <atoms = [2, 2, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A field that is out of range by itself is refused before any candidate is tried.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @stages(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: stages = 0 is out of range: 2 to 64; nearest is 2 [stages-range]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <stages = 0>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @warps(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: atoms = [0, 1, 1]: every extent is at least 1 [atom-extents]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<multiply = <atoms = [0, 1, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// No mma.sync takes these types.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @accumulator(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[atom-of-types]}}
  tile.gemm tn %a, %b into %d acc(f16) {
  ^bb0(%x: f16):
    %y = arith.extf %x : f16 to f32
    %z = arith.truncf %y : f32 to bf16
    tile.yield %z : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!wide = memref<?x?xf8E4M3, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @element(%a: !mat, %b: !mat, %d: !wide) {
  // expected-error @below {{[elements-of-problem]}}
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f8E4M3
    tile.yield %y : f8E4M3
  } : !mat, !mat, !wide
  return
}
}
// -----

// wgmma is asked for where there is none.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90"} {
func.func @wgmma(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: a producer and a consumer share the registers of a CTA by instructions that sm_90 does not have; take roles = single, or target sm_90a}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = cooperative(2)>, multiply = <atom = wgmma.m64n128k16>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Buffers take turns with the whole parts of a tile; the narrower last one of a row has its own.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @buffers(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: epilogue.buffers = 4 take turns with 2 parts of the tile, evenly; nearest is 2 [buffers-turns]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
  grid = <tile = [128, 184]>,
  mainloop = <k = 64, roles = cooperative(2)>,
  epilogue = <path = tma, buffers = 4>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// TMA stores would write behind D's rows, which are not packed.
!mat = memref<?x4092xbf16, strided<[?, 1]>>
!b = memref<4092x?xbf16, strided<[?, 1]>>
!a = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @rows(%a: !a, %b: !b, %d: !mat) {
  // expected-error @below {{would overwrite what lies behind D's rows of 4092 elements; take epilogue.path = smem, epilogue.pack = rows, or N = 4096 [tma-store-overwrites]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = cooperative(2)>, epilogue = <path = tma, pack = none>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !a, !b, !mat
  return
}
}
// -----

// The edges of a full result say which elements there are.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @no_d(%a: !mat, %b: !mat, %amax: memref<1xf32>) {
  // expected-error @below {{a kernel takes its elements from a full result; give the product one [no-full-result]}}
  tile.gemm tn %a, %b into amax %amax acc(f32) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, memref<1xf32>
  return
}
}
