// verify-schedule refuses roles, their registers and their TMA boxes by the rule broken, its limit and the nearest legal value.
// RUN: lowtide-opt %s -p verify-schedule --split-input-file --verify-diagnostics

// Words that no pass knows, and numbers that no role has.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = producers, registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles = producers is not single or cooperative(n)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = single(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles = single(2): single takes no number; take single, or cooperative(2)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(0), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles = cooperative(0): at least 1 warpgroup consumes; nearest is cooperative(1)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A number is asked for.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative, registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles = cooperative(0): at least 1 warpgroup consumes; nearest is cooperative(1)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(-1), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles = cooperative(-1): at least 1 warpgroup consumes; nearest is cooperative(1)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Registers that setmaxnreg does not take: negative, too few, too many, not a multiple of 8.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [-8, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: registers = [-8, 232]: setmaxnreg takes multiples of 8 from 24 to 256, or 0 to leave them; nearest is 24}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [16, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: registers = [16, 232]: setmaxnreg takes multiples of 8 from 24 to 256, or 0 to leave them; nearest is 24}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 264], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: registers = [40, 264]: setmaxnreg takes multiples of 8 from 24 to 256, or 0 to leave them; nearest is 256}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 230], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: registers = [40, 230]: setmaxnreg takes multiples of 8 from 24 to 256, or 0 to leave them; nearest is 232}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Registers of roles must be decided.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), fragment_buffers = 1, swizzle_a = <3,3,3>, swizzle_b = <3,3,3>,
  swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math = registers,
  epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: field registers is not decided; run choose-schedule first, or write it}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Warps of roles are warpgroups.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [8, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(8), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles = cooperative(8) are 1152 threads, sm_90a has at most 1024 a CTA; take at most cooperative(7)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// TMA and wgmma without roles, and registers that only roles have.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 64], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16, copy
  = tma, stages = 4, roles = single, registers = [0, 0], fragment_buffers = 1, swizzle_a = <3,3,3>, swizzle_b =
  <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = one_shot, epilogue = direct, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: copy = tma needs a producer and consumers; take roles = cooperative(2)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 64], warps = [1, 1, 1], permutation = [16, 16, 16], mma = wgmma.m64n8k16,
  copy = cp.async.16, stages = 4, roles = single, registers = [0, 0], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = one_shot, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: mma = wgmma.m64n8k16 needs a producer and consumers; take roles = cooperative(2)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 64], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16, copy
  = cp.async.16, stages = 4, roles = single, registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = one_shot, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: registers = [40, 232] are those of roles; take [0, 0], or roles = cooperative(2)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Roles without TMA and wgmma.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = cp.async.16, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a =
  <3,3,3>, swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles = cooperative(2) go with copy = tma and wgmma, not cp.async.16 and wgmma.m64n8k16}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = mma.m16n8k16, copy
  = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles = cooperative(2) go with copy = tma and wgmma, not tma and mma.m16n8k16}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// K that is not contiguous.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: layout nt has no schedule with roles; take tn, or roles = single}}
  tile.gemm nt %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Warps that are not the consumers'.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [4, 2, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: warps = [4, 2, 1] count the consumer warpgroups; take [2, 1, 1]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A ring that outlives a tile is for CTAs that do.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = one_shot, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles go with scheduler = persistent and fragment_buffers = 1}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// wgmma has no fragments of A and B.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 2, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: roles go with scheduler = persistent and fragment_buffers = 1}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// setmaxnreg: one role takes what the other gives.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [0, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: registers = [0, 232]: both roles ask for registers, or none (0)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// More than there are would wait for ever: 3 · 168 a lane is what a CTA of 384 threads has.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 240], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: registers = [40, 240] need 520 a lane over all warpgroups, the CTA enters with 504; take consumer ≤ 232}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Each role goes its own way only.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 160], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: registers = [40, 160]: the CTA enters with 168 a thread, from which a producer may only come down and a consumer go up; take producer ≤ 168 ≤ consumer}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// An atom that the target lacks.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: mma = wgmma.m64n8k16 with bf16 operands and f32 accumulators: sm_90 has no wgmma.m64n8k16.f32.bf16}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A tile that is not one atom for each consumer.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [256, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [256, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cta = [256, 8, 64]: 2 consumer warpgroups multiply 128×8 by wgmma.m64n8k16; take [128, 8, 64]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 16, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 16]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cta = [128, 16, 64]: 2 consumer warpgroups multiply 128×8 by wgmma.m64n8k16; take [128, 8, 64]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
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
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [#tile.layout<(8,2,8):(1,64,8)>, 8,
  16], mma = wgmma.m64n8k16, copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers =
  1, swizzle_a = <3,3,3>, swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue =
  direct, epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: permutation is not [128, 8, 16]: wgmma takes rows and columns in order; take that}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Boxes: at most 256 rows,
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [320, 8, 64], warps = [5, 1, 1], permutation = [320, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(5), registers = [0, 0], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [320, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: operand a: a TMA box of 320 rows; at most 256: take a smaller CTA tile}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// each of 128 bytes,
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 32], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <2,3,3>,
  swizzle_b = <2,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: operand a: rows of 64 bytes with swizzle_a = <2,3,3>; wgmma is fed from rows of 128 bytes, <3,3,3>: take K = 64 in cta}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// in the 128-byte swizzle.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <0,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: operand b: rows of 128 bytes with swizzle_b = <0,3,3>; wgmma is fed from rows of 128 bytes, <3,3,3>: take K = 64 in cta}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Parts of an epilogue through shared memory: whole atoms along M, runs of 8 columns along N.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = smem, epilogue_math =
  registers, epilogue_tile = [64, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: epilogue_tile M = 64 must be a multiple of 128, one step of the tiled mma, and divide the CTA tile's 128; nearest is 128}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = smem, epilogue_math =
  registers, epilogue_tile = [128, 4]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: epilogue_tile N = 4 must be a multiple of 8, one step of the tiled mma, and divide the CTA tile's 8; nearest is 8}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Ring, scratch and two mbarriers a slot: 13·18432 + 4096 + 13·16 bytes.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 16, 64], warps = [2, 1, 1], permutation = [128, 16, 16], mma = wgmma.m64n16k16,
  copy = tma, stages = 13, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = smem, epilogue_math =
  registers, epilogue_tile = [128, 16]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: needs 243920 bytes of shared memory (13 stages of 18432), sm_90a has 232448 a CTA; take stages = 12}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
