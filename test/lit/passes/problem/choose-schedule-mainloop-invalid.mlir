// choose-schedule refuses fields of the mainloop that no schedule has: the rule broken, its limit and the nearest legal value.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @copy(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: a.copy = cp.async.32 is not one of cp.async.16, cp.async.8, cp.async.4, staged.16, staged.8, staged.4, staged.2, realigned.16, realigned.8, realigned.4, tma, tma.3d, tma.4d, tma.5d, ld.global.1, ld.global.2, ld.global.4, ld.global.8, ld.global.16 [copy-words]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<mainloop = <a = <copy = cp.async.32>>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @one_stage(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[stages-range]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<mainloop = <stages = 1>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @many_stages(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: stages = 65 is out of range: 2 to 64; nearest is 64 [stages-range]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<mainloop = <stages = 65>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// A stage that the threads cannot share evenly.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @shares(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[copy-threads]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<
      grid = <tile = [64, 32]>,
      mainloop = <k = 16>,
      multiply = <permutation = [64, 16, 16]>,
      epilogue = <tile = [32, 32]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// A permutation of K that parts the eight elements that one row of ldmatrix loads.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @rows(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: operand a: ldmatrix needs eight elements side by side along the columns of the tile 32x16, 8-aligned; this tiled MMA's permutation scatters them; drop it or use ld.shared [ldmatrix-rows]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<
      grid = <tile = [32, 32]>,
      multiply = <atoms = [1, 1, 1], permutation = [16, 16, #tile.layout<(2,8):(8,1)>]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Swizzles: within the tile, and in units that hold the widest access.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @span(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: a.swizzle = <3,3,5> permutes 2048 elements, which do not divide the tile's 32×32; take B + M + S ≤ 10 [swizzle-span]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<
      grid = <tile = [32, 32]>,
      mainloop = <k = 32, a = <swizzle = <3,3,5>>>,
      multiply = <atoms = [1, 1, 1]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @units(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[swizzle-unit]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<
      mainloop = <k = 32, stages = 2, b = <swizzle = <3,2,3>>>,
      multiply = <atoms = [1, 1, 1]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Shared memory: with fewer stages it fits.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @stages(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: needs 262144 bytes of shared memory (64 stages of 4096), sm_80 has 166912 per CTA; take stages = 40 [ring-too-large]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<
      grid = <tile = [32, 32]>,
      mainloop = <k = 32, stages = 64>,
      multiply = <atoms = [1, 1, 1]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Registers that setmaxnreg does not take: negative, too few, too many, not a multiple of 8.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: registers = [-8, 232]: setmaxnreg takes multiples of 8 from 24 to 256, or 0 to leave them; nearest is [24, 232]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <registers = [-8, 232]>>) {
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
  // expected-error @below {{choose-schedule: registers = [16, 232]: setmaxnreg takes multiples of 8 from 24 to 256, or 0 to leave them; nearest is [24, 232]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <registers = [16, 232]>>) {
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
  // expected-error @below {{choose-schedule: registers = [40, 264]: setmaxnreg takes multiples of 8 from 24 to 256, or 0 to leave them; nearest is [40, 256]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <registers = [40, 264]>>) {
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
  // expected-error @below {{choose-schedule: registers = [40, 230]: setmaxnreg takes multiples of 8 from 24 to 256, or 0 to leave them; nearest is [40, 232]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <registers = [40, 230]>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: a producer and its consumers are 1152 threads, sm_90a has at most 1024 per CTA; take at most roles = cooperative(4) [too-many-threads]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = cooperative(8)>, multiply = <permutation = [128, 8, 16]>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: a.copy = tma needs a producer and consumers; take roles = cooperative(2) with wgmma, or a.copy = cp.async.16 [atom-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <a = <copy = tma>>, multiply = <atom = mma.m16n8k16>>) {
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
  // expected-error @below {{choose-schedule: no schedule fits: atom = wgmma.m64n8k16 needs a producer and consumers; take roles = cooperative(2) with wgmma, or atom = mma.m16n8k16 [atom-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <b = <copy = cp.async.16>>, multiply = <atom = wgmma.m64n8k16>>) {
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
  // expected-error @below {{choose-schedule: no schedule fits: registers = [40, 232] are those of roles; take roles = cooperative(2) with wgmma, or [0, 0] [registers-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <registers = [40, 232]>, multiply = <atom = mma.m16n8k16>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[atom-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <a = <copy = cp.async.16>>, multiply = <atom = wgmma.m64n8k16>>) {
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
  // expected-error @below {{choose-schedule: no schedule fits: b.copy = tma needs a producer and consumers; take roles = cooperative(2) with wgmma, or b.copy = cp.async.16 [atom-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <b = <copy = tma>>, multiply = <atom = mma.m16n8k16>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: operand b: rows of 16 bytes with b.swizzle = <3,3,3>; they must be whole panels of 128 bytes: take a tile whose contiguous side is a multiple of 16, not 8 [tma-panels]}}
  tile.gemm nt %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <b = <swizzle = <3,3,3>>>, multiply = <atom = wgmma.m64n8k16>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[atom-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<multiply = <atom = wgmma.m64n8k16, atoms = [4, 2, 1]>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: scheduler = one_shot with roles, whose ring outlives a tile; take scheduler = persistent or even_split; nor with roles = single: atom = wgmma.m64n8k16 needs a producer and consumers; take roles = cooperative(2) with wgmma, or atom = mma.m16n8k16}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <scheduler = one_shot>, multiply = <atom = wgmma.m64n8k16>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: fragment_buffers = 2: wgmma reads shared memory; take 1; nor with roles = single: atom = wgmma.m64n8k16 needs a producer and consumers; take roles = cooperative(2) with wgmma, or atom = mma.m16n8k16}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<multiply = <atom = wgmma.m64n8k16, fragment_buffers = 2>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: registers = [0, 232]: both roles ask for registers, or none (0) [registers-both]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <registers = [0, 232]>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: registers = [40, 240] need 520 per lane over all warpgroups, the CTA enters with 504; take consumer ≤ 232 [registers-sum]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <registers = [40, 240]>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: registers = [40, 160]: the CTA enters with 168 per thread, from which a producer may only come down and a consumer go up; take producer ≤ 168 ≤ consumer [registers-entry]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <registers = [40, 160]>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: operand a: a TMA box of 320 rows; at most 256: take a smaller CTA tile, of at most cooperative(4) [tma-box]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = cooperative(5)>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: operand a: rows of 64 bytes with a.swizzle = <3,3,3>; they must be whole panels of 128 bytes: take <2,3,3> [tma-panels]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <k = 32, a = <swizzle = <3,3,3>>>, multiply = <atom = wgmma.m64n8k16>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: operand b: rows of 128 bytes with b.swizzle = <0,3,3>; TMA and wgmma have <3,3,3>, <2,3,3> and <1,3,3>: take <3,3,3> [tma-swizzle]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <b = <swizzle = <0,3,3>>>, multiply = <atom = wgmma.m64n8k16>>) {
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
  // expected-error @below {{[tma-swizzle]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <b = <swizzle = <3,3,4>>>, multiply = <atom = wgmma.m64n8k16>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Ring, scratch and two mbarriers a slot: 13·34816 + 8192 + 13·16 bytes.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: needs 461008 bytes of shared memory (13 stages of 34816), sm_90a has 232448 per CTA; take stages = 6; nor with roles = single: grid.tile = [128, 256] needs 512 accumulator registers per thread, sm_90a has 255; take more warps or a smaller tile [accumulators-per-thread]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
      mainloop = <stages = 13>,
      multiply = <atoms = [2, 1, 1], permutation = [128, 16, 16]>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !matk, %b: !matk, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: a.copy = tma.3d sees operand a as panels of 64 elements, which do not divide K = 72; take a.copy = tma, or pad K to 128 [panels-divide]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <a = <copy = tma.3d>>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: b.cache = streaming is not one of normal, evict_first, evict_last [cache-words]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <b = <cache = streaming>>>) {
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
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: a.cache = evict_first goes with a.copy = tma, not cp.async.16; take normal [cache-copy]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <a = <cache = evict_first>>, multiply = <atom = mma.m16n8k16>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// A tile whose accumulators one warpgroup cannot hold.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @pingpong(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: grid.tile = [128, 256]: each thread of 1 consumer warpgroup holds 256 accumulator registers and needs about 40 beside them; it has 232: take grid.tile = [128, 192]; atom = wgmma.m64n192k16 goes with that tile [consumer-registers]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [128, 256]>, mainloop = <roles = pingpong(2)>>) {
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
func.func @pingpong_warpgroups(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: atoms = [2, 1, 1] count the consumer warpgroups that share a tile; take [1, 1, 1] [roles-atoms]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = pingpong(2)>, multiply = <atoms = [2, 1, 1]>>) {
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
func.func @pingpong_tail(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: tail = halves is a second loop over tiles, in which turns begin anew; take whole, or cooperative(2) [tail-turns]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tail = halves>, mainloop = <roles = pingpong(2)>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// CTAs of one tile have no next one.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: prologue = once needs CTAs of several tiles: take scheduler = persistent or even_split [prologue-scheduler]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <scheduler = one_shot>, mainloop = <prologue = once>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Fragments are not loaded across work tiles.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: prologue = once goes with fragment_buffers = 1: fragments are not loaded across work tiles; take fragment_buffers = 1, or prologue = per_tile [prologue-buffers]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <prologue = once>, multiply = <fragment_buffers = 2>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// A producer runs ahead by itself.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: prologue = once goes with roles = single: a producer runs ahead by itself; take per_tile [prologue-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = cooperative(2), prologue = once>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// A range of K has no next one that is known here.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: prologue = once goes with whole tiles, not k_division = split(2); take k_division = none [prologue-division]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <k_division = split(2)>, mainloop = <prologue = once>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Fragments from global memory take no ring.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: prologue = once keeps stages filled, and loads from global memory have none; take per_tile [prologue-direct]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <prologue = once, a = <copy = ld.global.16>, b = <copy = ld.global.16>>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @half_elements(%a: memref<64x32xf64>, %b: memref<64x32xf64>, %d: memref<64x64xf64>) {
  // expected-error @below {{choose-schedule: no schedule fits: operand a: cp.async.4 moves less than one element of 8 bytes; take cp.async.8 [copy-element]}}
  tile.gemm tn %a, %b into %d acc(f64) schedule(#tile.schedule<mainloop = <a = <copy = cp.async.4>>>) {
  ^bb0(%x: f64):
    tile.yield %x : f64
  } : memref<64x32xf64>, memref<64x32xf64>, memref<64x64xf64>
  return
}
}

// -----

// A ring that is drained keeps nothing.
!mat = memref<?x96xbf16, strided<[?, 1]>>
!rhs = memref<64x96xbf16, strided<[?, 1]>>
!out = memref<?x64xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !rhs, %d: !out) {
  // expected-error @below {{choose-schedule: no schedule fits: b.load = once needs a ring that outlives a work tile; take prologue = once, or b.load = per_tile [load-once-ring]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [64, 64]>, mainloop = <k = 32, stages = 3, b = <load = once>>, multiply = <atoms = [2, 2, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !rhs, !out
  return
}
}

// -----

// Tiles side by side do not share B.
!mat = memref<?x96xbf16, strided<[?, 1]>>
!rhs = memref<128x96xbf16, strided<[?, 1]>>
!out = memref<?x128xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !rhs, %d: !out) {
  // expected-error @below {{choose-schedule: no schedule fits: b.load = once: tiles of N = 64 do not share B where N is 128; take b.load = per_tile [load-once-shared]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [64, 64]>, mainloop = <k = 32, stages = 3, prologue = once, b = <load = once>>, multiply = <atoms = [2, 2, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !rhs, !out
  return
}
}

// -----

// Nor do those of a CTA, where four CTAs per SM take tiles of three columns in turn.
!mat = memref<?x96xbf16, strided<[?, 1]>>
!rhs = memref<192x96xbf16, strided<[?, 1]>>
!out = memref<?x192xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !rhs, %d: !out) {
  // expected-error @below {{[load-once-shared]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [64, 64], order = row, scheduler = persistent>, mainloop = <k = 32, stages = 3, prologue = once, b = <load = once>>, multiply = <atoms = [2, 2, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !rhs, !out
  return
}
}

// -----

// Each K step has a slot of its own.
!mat = memref<?x96xbf16, strided<[?, 1]>>
!rhs = memref<64x96xbf16, strided<[?, 1]>>
!out = memref<?x64xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !rhs, %d: !out) {
  // expected-error @below {{choose-schedule: no schedule fits: b.load = once keeps each K step in slots of its own: stages = 4 are no multiple of the 3 K steps; take stages = 3 [load-once-slots]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [64, 64]>, mainloop = <k = 32, stages = 4, prologue = once, b = <load = once>>, multiply = <atoms = [2, 2, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !rhs, !out
  return
}
}

// -----

// Many steps are a loop.
!mat = memref<?x4096xbf16, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{choose-schedule: no schedule fits: unroll = full unrolls at most 16 K steps, not 64; take unroll = none or a larger k [unroll-steps]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <k = 64, unroll = full>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

// A K that is given at run time.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: unroll = full needs a K that is known at compile time; take unroll = none, or give K [k-known]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <k = 64, unroll = full>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Work items of different lengths.
!mat = memref<?x4096xbf16, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{choose-schedule: no schedule fits: unroll = full needs K undivided, not k_division = split(2); take unroll = none [unroll-division]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <k_division = split(2)>, mainloop = <k = 256, unroll = full>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

// Loops of roles are left to ptxas.
!mat = memref<?x4096xbf16, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{choose-schedule: unroll = full goes with roles = single: ptxas unrolls the loops of roles as it likes; take unroll = none [unroll-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <k = 256, roles = cooperative(2), unroll = full>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

// What is shifted into place is more than one element.
!mat = memref<?x4096xf32, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{choose-schedule: no schedule fits: a.copy = realigned.4: an element of f32 lies aligned wherever it lies; take staged.4 [staged-aligned]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <a = <copy = realigned.4>>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}
}

// -----

// Threads hold no elements of 8-bit floats.
!mat = memref<?x4096xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{choose-schedule: b.copy = staged.16: no threads copy elements of e4m3; take cp.async.16 or tma [staged-element]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = cooperative(2), b = <copy = staged.16>>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}
}
