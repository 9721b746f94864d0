// lower-epilogue refuses an epilogue tile that the tiled mma or the threads cannot share, and a store that is no fragment's.
// RUN: lowtide-opt %s -p lower-epilogue --split-input-file --verify-diagnostics

// What the epilogue is like is for choose-schedule to say.
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{[schedule-open]}}
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [32, 32]>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !c, !mat
  tile.return
}
}
// -----

// An accumulator that is not held in registers yet.
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %tile: !tile.tile<32x32xf32>, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <2,2,3>>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: stores !tile.tile<32x32xf32>, not a fragment; run bind-mma-atoms first [stores-fragment]}}
  tile.store %tile into %d[%m, %m] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<32x32xf32>, !mat
  tile.return
}
}
// -----

// Nothing says how the fragment is held.
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <2,2,3>>>} {
  %acc = sm.splat 0.0 : !c
  // expected-error @below {{lower-epilogue: has no sm.mma_sync or sm.wgmma in its kernel that says how its fragment is held [fragment-held]}}
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !c, !mat
  tile.return
}
}
// -----

// An atom that nobody knows.
#mma = #sm.tiled_mma<mma.m16n8k99.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <2,2,3>>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{[unknown-atom]}}
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !c, !mat
  tile.return
}
}
// -----

// Parts that do not make up the tile.
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [24, 32], swizzle = <2,2,3>>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: epilogue.tile = [24, 32] does not divide the tile 32×32 [parts-divide]}}
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !c, !mat
  tile.return
}
}
// -----

// Parts that cut a step of the tiled mma.
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [8, 32], swizzle = <2,2,3>>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: operand c: the tile's m = 8 is not a multiple of the tiled MMA's 16; nearest is 16 [tiled-mma-divides]}}
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !c, !mat
  tile.return
}
}
// -----

// Parts that the threads cannot share.
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [8, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [32, 16], swizzle = <2,2,3>>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{[copy-threads]}}
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !c, !mat
  tile.return
}
}
// -----

// Elements that nothing here computes with.
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xf8E4M3, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <2,2,3>>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{[element-known]}}
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f8E4M3
    tile.yield %y : f8E4M3
  } : !c, !mat
  tile.return
}
}
// -----

// TMA stores are made by warpgroups of a role.
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%fa: !a, %fb: !b, %d: !mat, %m: index) {
  tile.launch @kernel grid(%m) threads(32) args(%fa, %fb, %d, %m) : !a, !b, !mat, index
  return
}
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [32, 32], swizzle = <0,2,3>>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: epilogue.path = tma stores 64 rows per warpgroup, 0 warpgroups hold parts of 32 rows; take epilogue.path = smem [tma-store-warpgroups]}}
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !c, !mat
  tile.return
}
}
// -----

// A part of another height than the warpgroups have,
#tv = #tile.tv<threads (4,8,8):(512,1,16), values ((2,2,4),2,1):((256,8,2048),128,8192)>
#mma = #sm.tiled_mma<wgmma.m64n32k16.f32.bf16, atoms [2, 1, 1]>
!mat = memref<?x?xf32, strided<[?, 1]>>
!acc = !sm.fragment<256x32xf32, #tv>
!a = memref<256x64xbf16, #tile.layout<(256,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<32x64xbf16, #tile.layout<(32,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: !mat, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) args(%d) : !mat
  return
}
tile.kernel @kernel(%d: !mat) attributes {schedule = #tile.schedule<
  grid = <scheduler = persistent>,
  mainloop = <roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [256, 32], swizzle = <3,2,3>>>} {
  %c256 = arith.constant 256 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  %zero = sm.splat 0.0 : !acc
  tile.work_tiles (%m, %n) of (%c256, %c256) by [256, 32] order(<row>) persistent {
    %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
    %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
    // expected-error @below {{lower-epilogue: epilogue.path = tma stores 64 rows per warpgroup, 2 warpgroups hold parts of 256 rows; take epilogue.tile = [128, 32] [tma-store-warpgroups]}}
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !acc, !mat
  }
  tile.return
}
}
// -----

// or that is no whole number of boxes.
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,3),1,1):((128,8,1024),128,3072)>
#mma = #sm.tiled_mma<wgmma.m64n24k16.f32.bf16, atoms [2, 1, 1]>
!mat = memref<?x?xf32, strided<[?, 1]>>
!acc = !sm.fragment<128x24xf32, #tv>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<24x64xbf16, #tile.layout<(24,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: !mat, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) args(%d) : !mat
  return
}
tile.kernel @kernel(%d: !mat) attributes {schedule = #tile.schedule<
  grid = <scheduler = persistent>,
  mainloop = <roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 24], swizzle = <3,2,3>>>} {
  %c128 = arith.constant 128 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  %zero = sm.splat 0.0 : !acc
  tile.work_tiles (%m, %n) of (%c128, %c128) by [128, 24] order(<row>) persistent {
    %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
    %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
    // expected-error @below {{lower-epilogue: epilogue.path = tma stores boxes of 32 columns with epilogue.swizzle = (3, 2, 3), which must divide epilogue.tile's 24; take a multiple, or a narrower swizzle [tma-store-box-width]}}
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !acc, !mat
  }
  tile.return
}
}
// -----

// A part that is narrower than a tile's others is as wide as the tile leaves it, but none is wider than the tile.
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,3),1,1):((128,8,1024),128,3072)>
#mma = #sm.tiled_mma<wgmma.m64n24k16.f32.bf16, atoms [2, 1, 1]>
!mat = memref<?x?xf32, strided<[?, 1]>>
!acc = !sm.fragment<128x24xf32, #tv>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<24x64xbf16, #tile.layout<(24,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: !mat, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) args(%d) : !mat
  return
}
tile.kernel @kernel(%d: !mat) attributes {schedule = #tile.schedule<
  grid = <scheduler = persistent>,
  mainloop = <roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 32], swizzle = <3,2,3>>>} {
  %c128 = arith.constant 128 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  %zero = sm.splat 0.0 : !acc
  tile.work_tiles (%m, %n) of (%c128, %c128) by [128, 24] order(<row>) persistent {
    %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
    %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
    // expected-error @below {{[parts-divide]}}
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !acc, !mat
  }
  tile.return
}
}
// -----

// A matrix that the host has not passed has no tensor map.
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,4),1,1):((128,8,1024),128,4096)>
#mma = #sm.tiled_mma<wgmma.m64n32k16.f32.bf16, atoms [2, 1, 1]>
!mat = memref<128x32xf32, strided<[32, 1]>>
!acc = !sm.fragment<128x32xf32, #tv>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<32x64xbf16, #tile.layout<(32,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: !mat, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) args(%d) : !mat
  return
}
tile.kernel @kernel(%e: !mat) attributes {schedule = #tile.schedule<
  grid = <scheduler = persistent>,
  mainloop = <roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 32], swizzle = <3,2,3>>>} {
  %c128 = arith.constant 128 : index
  %yes = arith.constant true
  %d = arith.select %yes, %e, %e : !mat
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  %zero = sm.splat 0.0 : !acc
  tile.work_tiles (%m, %n) of (%c128, %c128) by [128, 32] order(<row>) persistent {
    %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
    %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
    // expected-error @below {{[tensor-map-argument]}}
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !acc, !mat
  }
  tile.return
}
}
// -----

// Maps are made where the kernel is launched: at one place.
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,4),1,1):((128,8,1024),128,4096)>
!mat = memref<?x?xf32, strided<[?, 1]>>
!acc = !sm.fragment<128x32xf32, #tv>
module attributes {tile.target = "sm_90a"} {
// expected-error @below {{[tensor-map-launch]}}
tile.kernel @kernel(%d: !mat, %acc: !acc) attributes {schedule = #tile.schedule<
  grid = <scheduler = persistent>,
  mainloop = <roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 32], swizzle = <3,2,3>>>} {
  %c0 = arith.constant 0 : index
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !acc, !mat
  tile.return
}
}
// -----

// Full operands that TMA loads, in a kernel of two stores: the parity of a slot would depend on the tiles of both.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>
#mma = #sm.tiled_mma<wgmma.m64n16k16.f32.bf16, atoms [1, 1, 1]>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!acc = !sm.fragment<64x16xf32, #tv>
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<16x64xbf16, #tile.layout<(16,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: !mat, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(256) args(%d, %d) : !mat, !mat
  return
}
tile.kernel @kernel(%d: !mat, %x: !mat) attributes {schedule = #tile.schedule<
  grid = <scheduler = persistent>,
  mainloop = <roles = cooperative(1)>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [64, 16], swizzle = <1,3,3>>>} {
  %c64 = arith.constant 64 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      tile.work_tiles (%m, %n) of (%c64, %c64) by [64, 16] order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc
        %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
        // expected-error @below {{lower-epilogue: has full operands that TMA loads: it must be the only store of its work tiles, in a role; take epilogue.path = smem [staged-operand-stores]}}
        tile.store %acc into %d[%m, %n] operands(full %x : !mat) {
        ^bb0(%s: f32, %e: bf16):
          tile.yield %e : bf16
        } : !acc, !mat
        tile.store %acc into %d[%m, %n] {
        ^bb0(%s: f32):
          %e = arith.truncf %s : f32 to bf16
          tile.yield %e : bf16
        } : !acc, !mat
      }
    }
  }
  tile.return
}
}
