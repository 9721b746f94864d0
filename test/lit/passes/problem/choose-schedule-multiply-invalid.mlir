// choose-schedule refuses fields of the multiply that no schedule has: the rule broken, its limit and the nearest legal value.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @warps(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[atom-extents]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<multiply = <atoms = [-1, 1, 1]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @permutation_extent(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[atom-extents]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<multiply = <permutation = [0, 16, 16]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @fragment_buffers(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: fragment_buffers = 3 is not 1 or 2; nearest is 2 [fragment-buffers]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<multiply = <fragment_buffers = 3>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// More threads than a CTA may have.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @threads(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: atoms = [8, 8, 1] are 2048 threads, sm_80 has at most 1024 per CTA; take at most 32 warps [atoms-threads]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<multiply = <atoms = [8, 8, 1]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// The sums of warps along K are added in rows of shared memory.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @warps_along_k(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: atoms = [1, 1, 2]: the sums of 2 warps along K meet in rows of shared memory; take epilogue.path = smem with epilogue.math = rows, or 1 along K [warps-along-k]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<multiply = <atoms = [1, 1, 2]>, epilogue = <path = direct>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// The tiled mma: its atom, its permutation, its step.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @atom(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: atom = mma.m64n8k16 with f16 operands and f16 accumulators: unknown mma atom 'mma.m64n8k16.f16.f16'; take mma.m16n8k8, mma.m16n8k16 [atom-of-types]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<multiply = <atom = mma.m64n8k16>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @permutation(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[permutation-divides]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<multiply = <permutation = [40, 16, 16]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @not_a_permutation(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: permutation of n (8, 2) : (1, 1) does not permute 0…15 [permutation-permutes]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<multiply = <atoms = [1, 1, 1], permutation = [16, #tile.layout<(8,2):(1,1)>, 16]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @cta_step(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: k = 40 is not a multiple of 16, one step of the tiled mma; nearest is 32 [tile-steps]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<mainloop = <k = 40>, multiply = <atoms = [1, 1, 1]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Accumulators that no thread can hold.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @registers(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[accumulators-per-thread]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<grid = <tile = [256, 256]>, multiply = <atoms = [1, 1, 1]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// An atom that the target lacks.
!mat = memref<?x?xf64, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: atom = mma.m16n8k4 with f64 operands and f64 accumulators: sm_80 does not have mma.m16n8k4.f64.f64; take mma.m8n8k4}}
  tile.gemm tn %a, %b into %d acc(f64) schedule(#tile.schedule<multiply = <atom = mma.m16n8k4>>) {
  ^bb0(%x: f64):
    tile.yield %x : f64
  } : !mat, !mat, !mat
  return
}
}

// -----

// A tile whose rows are no whole blocks of 64 for each consumer, or whose columns are not the atom's.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: grid.tile M = 192 is not a multiple of 128, one step of the tiled mma; nearest is 256 [tile-steps]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [192, 8]>, mainloop = <roles = cooperative(2)>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: grid.tile = [128, 16]: 2 consumer warpgroups can multiply 128×8 at once by wgmma.m64n8k16; take N = 8, or atom = wgmma.m64n16k16 [wgmma-width]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [128, 16]>, multiply = <atom = wgmma.m64n8k16>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// A permutation of rows: wgmma reads them as they lie.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: permutation is not [128, 8, 16]: wgmma takes rows and columns in order; take that [wgmma-permutation]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
      multiply = <atom = wgmma.m64n8k16, permutation = [#tile.layout<(8,2,8):(1,64,8)>, 8, 16]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Accumulators of all blocks of rows that a consumer has, in the registers that setmaxnreg gives it,
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: grid.tile = [256, 256]: each thread of 2 consumer warpgroups holds 256 accumulator registers and needs about 40 beside them; it has 232: take grid.tile = [256, 192]; atom = wgmma.m64n192k16 goes with that tile; nor with roles = single: grid.tile = [256, 256] needs 256 accumulator registers per thread, sm_90a has 255; take more warps or a smaller tile}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [256, 256]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// or in those that it enters with.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: grid.tile = [256, 136]: each thread of 2 consumer warpgroups holds 136 accumulator registers and needs about 40 beside them; it has 168: take grid.tile = [256, 128], or registers = [24, 176]; atom = wgmma.m64n128k16 goes with that tile; nor with roles = single: grid.tile N = 136 is not a multiple of 32, one step of the tiled mma; nearest is 128}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [256, 136]>, mainloop = <registers = [0, 0]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// What one wgmma writes must fit what its threads enter with.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: atom = wgmma.m64n208k16 holds 104 accumulator registers per thread; with 26 beside them they exceed the 128 with which each of 512 threads enters: take N ≤ 200 in grid.tile and atom [accumulators-at-entry]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = cooperative(3)>, multiply = <permutation = [192, 208, 16]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// A register holds two sums in f16, so that twice as many fit.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: grid.tile = [512, 256]: each thread of 2 consumer warpgroups holds 256 accumulator registers and needs about 40 beside them; it has 232: take grid.tile = [512, 192]; atom = wgmma.m64n192k16 goes with that tile}}
  tile.gemm nt %a, %b into %d acc(f16) schedule(#tile.schedule<grid = <tile = [512, 256]>, mainloop = <roles = cooperative(2)>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
