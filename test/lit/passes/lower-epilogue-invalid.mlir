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
// expected-error @below {{lower-epilogue: schedule leaves swizzle_d open; run choose-schedule first, or write it}}
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<warps = [1, 1, 1], scheduler = one_shot,
      epilogue = smem, epilogue_math = registers, epilogue_tile = [32, 32]>} {
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
    schedule = #tile.schedule<warps = [1, 1, 1], swizzle_d = <2,2,3>, scheduler = one_shot,
      epilogue = smem, epilogue_math = registers, epilogue_tile = [32, 32]>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: stores !tile.tile<32x32xf32>, not a fragment; run bind-mma-atoms first}}
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
    schedule = #tile.schedule<warps = [1, 1, 1], swizzle_d = <2,2,3>, scheduler = one_shot,
      epilogue = smem, epilogue_math = registers, epilogue_tile = [32, 32]>} {
  %acc = sm.splat 0.0 : !c
  // expected-error @below {{lower-epilogue: has no sm.mma_sync or sm.wgmma in its kernel that says how its fragment is held}}
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
    schedule = #tile.schedule<warps = [1, 1, 1], swizzle_d = <2,2,3>, scheduler = one_shot,
      epilogue = smem, epilogue_math = registers, epilogue_tile = [32, 32]>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: unknown mma atom 'mma.m16n8k99.f32.bf16'}}
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
    schedule = #tile.schedule<warps = [1, 1, 1], swizzle_d = <2,2,3>, scheduler = one_shot,
      epilogue = smem, epilogue_math = registers, epilogue_tile = [24, 32]>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: epilogue_tile = [24, 32] does not divide the tile 32×32}}
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
    schedule = #tile.schedule<warps = [1, 1, 1], swizzle_d = <2,2,3>, scheduler = one_shot,
      epilogue = smem, epilogue_math = registers, epilogue_tile = [8, 32]>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: operand c: the tile's m = 8 is not a multiple of the tiled MMA's 16; nearest is 16}}
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
    schedule = #tile.schedule<warps = [8, 1, 1], swizzle_d = <2,2,3>, scheduler = one_shot,
      epilogue = smem, epilogue_math = registers, epilogue_tile = [32, 16]>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: 256 threads cannot share a tile 32x16 in vectors of 4 elements}}
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
!mat = memref<?x?xf64, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<warps = [1, 1, 1], swizzle_d = <2,2,3>, scheduler = one_shot,
      epilogue = smem, epilogue_math = registers, epilogue_tile = [32, 32]>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  // expected-error @below {{lower-epilogue: elements of f64: they are one of f16, bf16, f32}}
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    %y = arith.extf %x : f32 to f64
    tile.yield %y : f64
  } : !c, !mat
  tile.return
}
}
