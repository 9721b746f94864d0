// choose-schedule refuses fields of the epilogue that no schedule has: the rule broken, its limit and the nearest legal value.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

// Words that do not go together.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @direct_rows(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: epilogue.math = rows needs epilogue.path = smem; with direct stores take registers [math-path]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<epilogue = <path = direct, math = rows>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @epilogue_tile(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: epilogue.tile = [32, 0]: every extent is at least 1 [epilogue-tile]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<epilogue = <tile = [32, 0]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// The part of the tile that goes through shared memory at a time.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @epilogue_step(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: epilogue.tile M = 24 must be a multiple of 16, one step of the tiled mma, and divide the CTA tile's 32; nearest is 32 [part-extent]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<
      grid = <tile = [32, 32]>,
      multiply = <atoms = [1, 1, 1]>,
      epilogue = <tile = [24, 32]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @epilogue_shares(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[copy-threads]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<
      multiply = <atoms = [2, 2, 1], permutation = [32, 16, 16]>,
      epilogue = <tile = [32, 16]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @scratch_units(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: epilogue.swizzle = <2,2,3> moves units of 8 bytes, accesses are of 16; take M ≥ 3 [swizzle-unit]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<
      mainloop = <k = 32, stages = 2>,
      multiply = <atoms = [1, 1, 1]>,
      epilogue = <swizzle = <2,2,3>>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Parts of an epilogue through shared memory: whole atoms along M, runs of 8 columns along N.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: epilogue.tile M = 64 must be a multiple of 128, one step of the tiled mma, and divide the CTA tile's 128; nearest is 128; nor with roles = single: epilogue.tile N = 8 must be a multiple of 64, one step of the tiled mma, and divide the CTA tile's 256; nearest is 64 [part-extent]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<epilogue = <tile = [64, 8]>>) {
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
  // expected-error @below {{choose-schedule: no schedule fits: epilogue.tile N = 4 must be a multiple of 8, one step of the tiled mma, and divide the CTA tile's 8; nearest is 8; nor with roles = single: permutation of n has extent 8, which the 4 atoms of 8 do not divide; nearest is 32 [permutation-divides]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<multiply = <permutation = [128, 8, 16]>, epilogue = <tile = [128, 4]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
