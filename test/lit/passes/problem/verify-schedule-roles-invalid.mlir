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
  // expected-error @below {{verify-schedule: operand b: rows of 16 bytes with swizzle_b = <3,3,3>; they must be whole panels of 128 bytes: take a tile whose contiguous side is a multiple of 16, not 8}}
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
  // expected-error @below {{verify-schedule: roles go with scheduler = persistent or even_split and fragment_buffers = 1}}
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
  // expected-error @below {{verify-schedule: roles go with scheduler = persistent or even_split and fragment_buffers = 1}}
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

// A tile whose rows are no whole blocks of 64 for each consumer, or whose columns are not the atom's.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [192, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [192, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cta M = 192 is not a multiple of 128, one step of the tiled mma; nearest is 256}}
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
  // expected-error @below {{verify-schedule: cta = [128, 16, 64]: 2 consumer warpgroups multiply 128×8 at once by wgmma.m64n8k16; take N = 8, or mma = wgmma.m64n16k16}}
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

// of rows that are whole panels of the swizzle,
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 32], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <2,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: operand a: rows of 64 bytes with swizzle_a = <3,3,3>; they must be whole panels of 128 bytes: take <2,3,3>}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// in a swizzle that TMA and wgmma have,
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <0,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: operand b: rows of 128 bytes with swizzle_b = <0,3,3>; TMA and wgmma have <3,3,3>, <2,3,3> and <1,3,3>: take <3,3,3>}}
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
  swizzle_b = <3,3,4>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct, epilogue_math =
  registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: operand b: rows of 128 bytes with swizzle_b = <3,3,4>; TMA and wgmma have <3,3,3>, <2,3,3> and <1,3,3>: take <3,3,3>}}
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
// -----

// Accumulators of all blocks of rows that a consumer has, in the registers that setmaxnreg gives it,
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [256, 256, 64], warps = [2, 1, 1], permutation = [128, 256, 16], mma = wgmma.m64n256k16,
  copy = tma, stages = 2, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [256, 256]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cta = [256, 256, 64]: each thread of 2 consumer warpgroups holds 256 accumulators and needs about 40 registers beside them; it has 232: take cta = [256, 192, 64], or more for consumers in registers}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
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
#schedule = #tile.schedule<cta = [256, 136, 64], warps = [2, 1, 1], permutation = [128, 136, 16], mma = wgmma.m64n136k16,
  copy = tma, stages = 2, roles = cooperative(2), registers = [0, 0], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [256, 136]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cta = [256, 136, 64]: each thread of 2 consumer warpgroups holds 136 accumulators and needs about 40 registers beside them; it has 168: take cta = [256, 128, 64], or more for consumers in registers}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
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
#schedule = #tile.schedule<cta = [192, 208, 64], warps = [3, 1, 1], permutation = [192, 208, 16], mma = wgmma.m64n208k16,
  copy = tma, stages = 2, roles = cooperative(3), registers = [32, 160], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [192, 208]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: mma = wgmma.m64n208k16 holds 104 accumulators a thread; with 26 beside them they exceed the 128 that each of 512 threads enters with: take N ≤ 200 in cta and mma}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Maps of more dimensions count panels.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!matk = memref<?x72xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma.3d, stages = 2, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !matk, %b: !matk, %d: !mat) {
  // expected-error @below {{verify-schedule: copy = tma.3d sees operand a as panels of 64 elements, which do not divide K = 72; take copy = tma, or pad K to 128}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !matk, !matk, !mat
  return
}
}
// -----

// Cache hints of loads.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 2, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, cache_hints = [normal, streaming, normal],
  epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cache_hints: B = streaming is not one of normal, evict_first, evict_last}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A single role copies by cp.async, which has no hints.
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [32, 8, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, registers = [0, 0], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, cache_hints = [evict_first, normal, normal],
  epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cache_hints: A = evict_first goes with copy = tma, not cp.async.16; take normal}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
