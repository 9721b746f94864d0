// double-buffer-fragments takes the main loop as split-k-slices leaves it, and refuses any other.
// RUN: lowtide-opt %s -p double-buffer-fragments --split-input-file --verify-diagnostics

// How many buffers is for choose-schedule to say.
#layout = #tile.layout<(32,32):(32,1)>
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
!buffer = memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{[schedule-open]}}
tile.kernel @kernel(%k: index) attributes {schedule = #tile.schedule<mainloop = <stages = 3>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc:3 = scf.for %i = %c0 to %k step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!c, index, index) {
    %full, %a, %b = sm.consumer_wait %ring[%r, %rp] : !ring
    %fa = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !a
    %fb = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : !buffer to !b
    %p = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    scf.yield %p, %r2, %rp2 : !c, index, index
  }
  tile.return
}
}
// -----

// No loop to rotate.
#layout = #tile.layout<(32,32):(32,1)>
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
!buffer = memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%k: index) attributes {schedule = #tile.schedule<multiply = <fragment_buffers = 2>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  // expected-error @below {{[main-loop]}}
  %full, %a, %b = sm.consumer_wait %ring[%c0, %c0] : !ring
  sm.consumer_release %ring, %full : !ring, !sm.slot<read>
  tile.return
}
}
// -----

// A slot that is never given back.
#layout = #tile.layout<(32,32):(32,1)>
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
!buffer = memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%k: index) attributes {schedule = #tile.schedule<multiply = <fragment_buffers = 2>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  // expected-error @below {{double-buffer-fragments: must hold one wait, one release, one advance of the read cursor, and mma.sync [slices-loop]}}
  %acc:3 = scf.for %i = %c0 to %k step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!c, index, index) {
    %full, %a, %b = sm.consumer_wait %ring[%r, %rp] : !ring
    %fa = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !a
    %fb = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : !buffer to !b
    %p = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    scf.yield %p, %r2, %rp2 : !c, index, index
  }
  tile.return
}
}
// -----

// An operand that is not loaded in the loop.
#layout = #tile.layout<(32,32):(32,1)>
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
!buffer = memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%k: index) attributes {schedule = #tile.schedule<multiply = <fragment_buffers = 2>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc:3 = scf.for %i = %c0 to %k step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!c, index, index) {
    %full, %a, %b = sm.consumer_wait %ring[%r, %rp] : !ring
    %fa = sm.splat 1.0 : !a
    %fb = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : !buffer to !b
    // expected-error @below {{double-buffer-fragments: operands must be loaded from the slot that its loop waits for [slices-operands]}}
    %p = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    scf.yield %p, %r2, %rp2 : !c, index, index
  }
  tile.return
}
}
// -----

// An operand that is loaded from elsewhere.
#layout = #tile.layout<(32,32):(32,1)>
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
!buffer = memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%k: index, %other: !buffer) attributes {schedule = #tile.schedule<multiply = <fragment_buffers = 2>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc:3 = scf.for %i = %c0 to %k step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!c, index, index) {
    %full, %a, %b = sm.consumer_wait %ring[%r, %rp] : !ring
    %fa = sm.ldmatrix %other[0, 0] by "ldmatrix.x4" : !buffer to !a
    %fb = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : !buffer to !b
    // expected-error @below {{[slices-operands]}}
    %p = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    scf.yield %p, %r2, %rp2 : !c, index, index
  }
  tile.return
}
}
// -----

// A cursor that does not go round with the loop.
#layout = #tile.layout<(32,32):(32,1)>
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
!buffer = memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%k: index) attributes {schedule = #tile.schedule<multiply = <fragment_buffers = 2>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc:3 = scf.for %i = %c0 to %k step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!c, index, index) {
    // expected-error @below {{double-buffer-fragments: must wait at a cursor that its loop carries [slices-cursor]}}
    %full, %a, %b = sm.consumer_wait %ring[%c1, %rp] : !ring
    %fa = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !a
    %fb = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : !buffer to !b
    %p = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%c1, %rp] : !ring
    scf.yield %p, %r2, %rp2 : !c, index, index
  }
  tile.return
}
}
