// verify-schedule holds a kernel, entered from a dump, to its schedule.
// RUN: lowtide-opt %s -p verify-schedule --split-input-file --verify-diagnostics

// A kernel is held to the same rules as the tile.gemm that it came from.
!mat = memref<?x?xf16, strided<[?, 1]>>
!buffer = memref<32x32xf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 1, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{verify-schedule: stages = 1 is out of range: 2 to 64; nearest is 2}}
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !sm.ring<2 x [!buffer, !buffer]>
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
    %slot, %as, %bs = sm.consumer_wait %ring[%c0, %c0] : !sm.ring<2 x [!buffer, !buffer]>
    %zero = tile.splat 0.0 : !tile.tile<32x32xf16>
    %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf16>
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !tile.tile<32x32xf16>, !mat
  }
  tile.return
}
}
// -----

// A kernel that was built for other tiles, or for another ring, than its schedule says.
!mat = memref<?x?xf16, strided<[?, 1]>>
!buffer = memref<32x32xf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !sm.ring<2 x [!buffer, !buffer]>
  // expected-error @below {{verify-schedule: cuts tiles of [64, 32], but the kernel's schedule says cta = [32, 32, 32]; lower again from level problem with it}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [64, 32] order(<row>) one_shot {
    %slot, %as, %bs = sm.consumer_wait %ring[%c0, %c0] : !sm.ring<2 x [!buffer, !buffer]>
    %zero = tile.splat 0.0 : !tile.tile<32x32xf16>
    %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf16>
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !tile.tile<32x32xf16>, !mat
  }
  tile.return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
!buffer = memref<32x32xf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{verify-schedule: has 3 stages, but the kernel's schedule says stages = 2; lower again from level problem with it}}
  %ring = sm.ring : !sm.ring<3 x [!buffer, !buffer]>
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
    %slot, %as, %bs = sm.consumer_wait %ring[%c0, %c0] : !sm.ring<3 x [!buffer, !buffer]>
    %zero = tile.splat 0.0 : !tile.tile<32x32xf16>
    %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf16>
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !tile.tile<32x32xf16>, !mat
  }
  tile.return
}
}
// -----

// A kernel that says too little of what it computes.
!mat = memref<?x?xf16, strided<[?, 1]>>
!buffer = memref<32x32xf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{verify-schedule: has no schedule; run choose-schedule first, or write one}}
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !sm.ring<2 x [!buffer, !buffer]>
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
    %slot, %as, %bs = sm.consumer_wait %ring[%c0, %c0] : !sm.ring<2 x [!buffer, !buffer]>
    %zero = tile.splat 0.0 : !tile.tile<32x32xf16>
    %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf16>
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !tile.tile<32x32xf16>, !mat
  }
  tile.return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
!buffer = memref<32x32xf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{verify-schedule: has no tile.mma, sm.mma_sync or sm.wgmma that says what it multiplies}}
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !sm.ring<2 x [!buffer, !buffer]>
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
  }
  tile.return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
!buffer = memref<32x32xf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{verify-schedule: has no tile.store or sm.store_global that says what it writes}}
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !sm.ring<2 x [!buffer, !buffer]>
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
    %slot, %as, %bs = sm.consumer_wait %ring[%c0, %c0] : !sm.ring<2 x [!buffer, !buffer]>
    %zero = tile.splat 0.0 : !tile.tile<32x32xf16>
    %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf16>
  }
  tile.return
}
}
