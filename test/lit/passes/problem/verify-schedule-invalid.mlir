// verify-schedule refuses fields that break a rule together: the rule, the limit and the way out.
// RUN: lowtide-opt %s -p verify-schedule --split-input-file --verify-diagnostics

// More threads than a CTA may have.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [8, 8, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @threads(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: warps = [8, 8, 1] are 2048 threads, sm_80 has at most 1024 a CTA; take at most 32 warps}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Each warp keeps its own sum.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 2], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @warps_along_k(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: warps = [1, 1, 2]: warps along K would need a sum across warps; take 1 along K}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// The tiled mma: its atom, its permutation, its step.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m64n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @atom(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: mma = mma.m64n8k16 with f16 operands and f16 accumulators: unknown mma atom 'mma.m64n8k16.f16.f16'}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [2, 1, 1], permutation = [40, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @permutation(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: permutation of m has extent 40, which the 2 atoms of 16 do not divide; nearest is 32}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, #tile.layout<(8,2):(1,1)>, 16],
  mma = mma.m16n8k16, copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>,
  swizzle_b = <2,3,3>, swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem,
  epilogue_math = registers, epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @not_a_permutation(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: permutation of n (8, 2) : (1, 1) does not permute 0…15}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 40], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @cta_step(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cta K = 40 is not a multiple of 16, one step of the tiled mma; nearest is 32}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Accumulators that no thread can hold.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [256, 256, 16], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @registers(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cta 256×256 needs 1024 accumulator registers a thread, sm_80 has 255; take more warps or a smaller tile}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A stage that the threads cannot share evenly.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [64, 32, 16], warps = [4, 1, 1], permutation = [64, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @shares(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: operand b: 128 threads cannot share a tile 32x16 in vectors of 8 elements; take a larger tile, fewer warps, or extents that are powers of two}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A permutation of K that parts the eight elements that one row of ldmatrix loads.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, #tile.layout<(2,8):(8,1)>],
  mma = mma.m16n8k16, copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>,
  swizzle_b = <2,3,3>, swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem,
  epilogue_math = registers, epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @rows(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: operand a: ldmatrix needs eight elements side by side along the columns of the tile 32x16, 8-aligned; this tiled MMA's permutation scatters them}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// The part of the tile that goes through shared memory at a time.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [24, 32]>
module attributes {tile.target = "sm_80"} {
func.func @epilogue_step(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: epilogue_tile M = 24 must be a multiple of 16, one step of the tiled mma, and divide the CTA tile's 32; nearest is 32}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 64, 32], warps = [2, 2, 1], permutation = [32, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 16]>
module attributes {tile.target = "sm_80"} {
func.func @epilogue_shares(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: epilogue_tile: 128 threads cannot share a tile 32x16 in vectors of 8 elements}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Swizzles: within the tile, and in units that hold the widest access.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <3,3,5>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @span(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: swizzle_a = <3,3,5> permutes 2048 elements, which do not divide the tile's 32×32; take B + M + S ≤ 10}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <3,2,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @units(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: swizzle_b = <3,2,3> moves units of 8 bytes, accesses are of 16; take M ≥ 3}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,2,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @scratch_units(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: swizzle_d = <2,2,3> moves units of 8 bytes, accesses are of 16; take M ≥ 3}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Shared memory: with fewer stages it fits.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 64, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @stages(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: needs 262144 bytes of shared memory (64 stages of 4096), sm_80 has 166912 a CTA; take stages = 40}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// With fewer than two it is no ring: the tile must shrink.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [512, 512, 64], warps = [8, 4, 1], permutation = [128, 64, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [128, 512]>
module attributes {tile.target = "sm_80"} {
func.func @tile(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: needs 262144 bytes of shared memory (2 stages of 131072), sm_80 has 166912 a CTA; take a smaller CTA tile}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
