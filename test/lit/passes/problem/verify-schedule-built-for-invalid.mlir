// verify-schedule refuses a kernel that is not what its schedule says: an edit of only one of the two.
// RUN: lowtide-opt %s -p verify-schedule --split-input-file --verify-diagnostics

// Who takes which tile.
!mat = memref<?x?xf16, strided<[?, 1]>>
!window = !tile.view<32x32xf16>
!acc = !tile.tile<32x32xf16>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = grouped(4), scheduler = one_shot, roles = single, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{verify-schedule: has the order #tile.raster<row>, but the kernel's schedule says raster = grouped(4); write the same in both, or lower again from level problem with it}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
    %at = tile.view %a[%m, %c0] : !mat to !window
    %bt = tile.view %b[%n, %c0] : !mat to !window
    %zero = tile.splat 0.0 : !acc
    %acc = tile.mma tn %at, %bt, %zero : !window, !window, !acc
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !acc, !mat
  }
  tile.return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
!window = !tile.view<32x32xf16>
!acc = !tile.tile<32x32xf16>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, roles = single, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{verify-schedule: is persistent, but the kernel's schedule says scheduler = one_shot; lower again from level problem with it}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) persistent {
    %at = tile.view %a[%m, %c0] : !mat to !window
    %bt = tile.view %b[%n, %c0] : !mat to !window
    %zero = tile.splat 0.0 : !acc
    %acc = tile.mma tn %at, %bt, %zero : !window, !window, !acc
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !acc, !mat
  }
  tile.return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
!window = !tile.view<32x32xf16>
!acc = !tile.tile<32x32xf16>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = groups(16, 8), scheduler = one_shot, roles = single, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{verify-schedule: has the order #tile.raster<groups 16, 4>, but the kernel's schedule says raster = groups(16, 8); write the same in both, or lower again from level problem with it}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<groups 16, 4>) one_shot {
    %at = tile.view %a[%m, %c0] : !mat to !window
    %bt = tile.view %b[%n, %c0] : !mat to !window
    %zero = tile.splat 0.0 : !acc
    %acc = tile.mma tn %at, %bt, %zero : !window, !window, !acc
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !acc, !mat
  }
  tile.return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
!window = !tile.view<32x32xf16>
!acc = !tile.tile<32x32xf16>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = persistent, roles = single, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{verify-schedule: is even_split, but the kernel's schedule says scheduler = persistent; lower again from level problem with it}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) even_split {
    %at = tile.view %a[%m, %c0] : !mat to !window
    %bt = tile.view %b[%n, %c0] : !mat to !window
    %zero = tile.splat 0.0 : !acc
    %acc = tile.mma tn %at, %bt, %zero : !window, !window, !acc
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !acc, !mat
  }
  tile.return
}
}
// -----

// How deep a K step is.
!mat = memref<?x?xf16, strided<[?, 1]>>
!window = !tile.view<32x16xf16>
!acc = !tile.tile<32x32xf16>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, roles = single, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
    %at = tile.view %a[%m, %c0] : !mat to !window
    %bt = tile.view %b[%n, %c0] : !mat to !window
    %zero = tile.splat 0.0 : !acc
    // expected-error @below {{verify-schedule: takes a in tiles of [32, 16], but the kernel's schedule says cta = [32, 32, 32], which makes them [32, 32]; lower again}}
    %acc = tile.mma tn %at, %bt, %zero : !window, !window, !acc
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !acc, !mat
  }
  tile.return
}
}
// -----

// How a stage lies in shared memory.
!mat = memref<?x?xf16, strided<[?, 1]>>
!acc = !tile.tile<32x32xf16>
!abuffer = memref<32x32xf16, #tile.layout<(32,32):(32,1), swizzle<2,3,3>>, #gpu.address_space<workgroup>>
!bbuffer = memref<32x32xf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, roles = single, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %as = sm.alloc : !abuffer
  %bs = sm.alloc : !bbuffer
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
    %zero = tile.splat 0.0 : !acc
    // expected-error @below {{verify-schedule: keeps b with swizzle<0,3,3>, but the kernel's schedule says swizzle_b = <2,3,3>; write the same in both}}
    %acc = tile.mma tn %as, %bs, %zero : !abuffer, !bbuffer, !acc
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !acc, !mat
  }
  tile.return
}
}
// -----

// How large a CTA is launched.
!mat = memref<?x?xf16, strided<[?, 1]>>
!window = !tile.view<32x32xf16>
!acc = !tile.tile<32x32xf16>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, roles = single, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  %c1 = arith.constant 1 : index
  // expected-error @below {{verify-schedule: launches 64 threads a CTA, but the kernel's schedule says warps = [1, 1, 1], which are 32; lower again from level problem with it}}
  tile.launch @kernel grid(%c1) threads(64) args(%a, %b, %d) : !mat, !mat, !mat
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
    %at = tile.view %a[%m, %c0] : !mat to !window
    %bt = tile.view %b[%n, %c0] : !mat to !window
    %zero = tile.splat 0.0 : !acc
    %acc = tile.mma tn %at, %bt, %zero : !window, !window, !acc
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !acc, !mat
  }
  tile.return
}
}
