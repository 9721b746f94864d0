// verify-schedule refuses a kernel whose roles, or wgmmas, are not those of the schedule that it carries.
// RUN: lowtide-opt %s -p verify-schedule --split-input-file --verify-diagnostics

// Registers are set in both places.
#a = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>
!out = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<128x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tv>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %as: !a, %bs: !b) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{verify-schedule: asks for [32, 232] registers, but the kernel's schedule says registers = [40, 232]; write the same in both, or lower again from level problem with it}}
  sm.roles {
    producer warps(4) registers(32) {
    }
    consumer warps(8) registers(232) {
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1], permutation [128, 8, 16]> : !a, !b, !acc -> !sm.pending<!acc>
      %c, %r = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
      tile.store %c into %d[%c0, %c0] {
      ^bb0(%x: f32):
        %y = arith.truncf %x : f32 to bf16
        tile.yield %y : bf16
      } : !acc, !out
    }
  }
  tile.return
}
}
// -----

// The warps of each role are in the arrival counts already.
#a = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>
!out = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<128x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tv>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %as: !a, %bs: !b) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{verify-schedule: has roles of [4, 4] warps, but the kernel's schedule says roles = cooperative(2); lower again from level problem with it}}
  sm.roles {
    producer warps(4) registers(40) {
    }
    consumer warps(4) registers(232) {
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1], permutation [128, 8, 16]> : !a, !b, !acc -> !sm.pending<!acc>
      %c, %r = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
      tile.store %c into %d[%c0, %c0] {
      ^bb0(%x: f32):
        %y = arith.truncf %x : f32 to bf16
        tile.yield %y : bf16
      } : !acc, !out
    }
  }
  tile.return
}
}
// -----

// The accumulator's layout is that of the wgmma.
#a = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>
!out = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<128x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tv>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %as: !a, %bs: !b) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  sm.roles {
    producer warps(4) registers(40) {
    }
    consumer warps(8) registers(232) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{verify-schedule: multiplies by #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]>, but the kernel's schedule says #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1], permutation [128, 8, 16]>; lower again from level problem with it}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
      %c, %r = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
      tile.store %c into %d[%c0, %c0] {
      ^bb0(%x: f32):
        %y = arith.truncf %x : f32 to bf16
        tile.yield %y : bf16
      } : !acc, !out
    }
  }
  tile.return
}
}
// -----

// Tensor maps have the dimensions of the copy.
#a = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>
!out = memref<?x?xbf16, strided<[?, 1]>>
!map = !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
!a = memref<128x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<4 x [!a, !b]>
!acc = !sm.fragment<128x8xf32, #tv>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma.3d, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %map: !map) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<4>
  sm.roles {
    producer warps(4) registers(40) {
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      // expected-error @below {{verify-schedule: loads boxes of 2 dimensions, but the kernel's schedule says copy = tma.3d; lower again from level problem with it}}
      sm.tma_load %map[%c0, %c0] to %as signals %full[%c0] : !map, !a, !sm.mbarriers<4>
    }
    consumer warps(8) registers(232) {
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1], permutation [128, 8, 16]> : !a, !b, !acc -> !sm.pending<!acc>
      %c, %r = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
      tile.store %c into %d[%c0, %c0] {
      ^bb0(%x: f32):
        %y = arith.truncf %x : f32 to bf16
        tile.yield %y : bf16
      } : !acc, !out
    }
  }
  tile.return
}
}

// -----

// Cache hints stand in both places: one that is missing,
#a = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>
!out = memref<?x?xbf16, strided<[?, 1]>>
!map = !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
!a = memref<128x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<4 x [!a, !b]>
!acc = !sm.fragment<128x8xf32, #tv>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, cache_hints = [evict_last, normal, normal],
  epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %map: !map) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<4>
  sm.roles {
    producer warps(4) registers(40) {
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      // expected-error @below {{verify-schedule: has cache(normal), but the kernel's schedule says cache_hints = [evict_last, normal, normal]; write the same in both, or lower again from level problem with it}}
      sm.tma_load %map[%c0, %c0] to %as signals %full[%c0] : !map, !a, !sm.mbarriers<4>
    }
    consumer warps(8) registers(232) {
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1], permutation [128, 8, 16]> : !a, !b, !acc -> !sm.pending<!acc>
      %c, %r = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
      tile.store %c into %d[%c0, %c0] {
      ^bb0(%x: f32):
        %y = arith.truncf %x : f32 to bf16
        tile.yield %y : bf16
      } : !acc, !out
    }
  }
  tile.return
}
}
// -----

// one that nobody asked for.
#a = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>
!out = memref<?x?xbf16, strided<[?, 1]>>
!map = !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
!a = memref<128x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<4 x [!a, !b]>
!acc = !sm.fragment<128x8xf32, #tv>
#schedule = #tile.schedule<cta = [128, 8, 64], warps = [2, 1, 1], permutation = [128, 8, 16], mma = wgmma.m64n8k16,
  copy = tma, stages = 4, roles = cooperative(2), registers = [40, 232], fragment_buffers = 1, swizzle_a = <3,3,3>,
  swizzle_b = <3,3,3>, swizzle_d = <0,3,3>, raster = row, scheduler = persistent, epilogue = direct,
  epilogue_math = registers, epilogue_tile = [128, 8]>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %map: !map) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<4>
  sm.roles {
    producer warps(4) registers(40) {
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      // expected-error @below {{verify-schedule: has cache(evict_first), but the kernel's schedule says cache_hints = [normal, normal, normal]; write the same in both, or lower again from level problem with it}}
      sm.tma_load %map[%c0, %c0] to %as signals %full[%c0] cache(evict_first) : !map, !a, !sm.mbarriers<4>
    }
    consumer warps(8) registers(232) {
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1], permutation [128, 8, 16]> : !a, !b, !acc -> !sm.pending<!acc>
      %c, %r = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
      tile.store %c into %d[%c0, %c0] {
      ^bb0(%x: f32):
        %y = arith.truncf %x : f32 to bf16
        tile.yield %y : bf16
      } : !acc, !out
    }
  }
  tile.return
}
}
