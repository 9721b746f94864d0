// pipeline-mainloop takes the K loop as promote-operands-to-smem leaves it, and refuses any other.
// RUN: lowtide-opt %s -p pipeline-mainloop --split-input-file --verify-diagnostics

// A ring of one slot would wait for itself.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{pipeline-mainloop: schedule has stages = 1; a pipeline needs at least 2 [ring-stages]}}
tile.kernel @kernel(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <stages = 1>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %c64 step %c32 iter_args(%c = %zero) -> (!tile) {
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x32xbf16>
    sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !buffer
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}
}
// -----

// How many stages is for choose-schedule to say.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{[schedule-open]}}
tile.kernel @kernel(%a: !mat) attributes {schedule = #tile.schedule<grid = <order = row>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %c64 step %c32 iter_args(%c = %zero) -> (!tile) {
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x32xbf16>
    sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !buffer
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}
}
// -----

// No loop to run ahead in.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{[main-loop]}}
  %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile
  tile.return
}
}
// -----

// Only what promote-operands-to-smem puts there may stand in the loop.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %c64 step %c32 iter_args(%c = %zero) -> (!tile) {
    // expected-error @below {{pipeline-mainloop: is not part of a K loop as promote-operands-to-smem leaves it [staged-loop]}}
    %held = tile.splat 0.0 : !tile
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x32xbf16>
    sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !buffer
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}
}
// -----

// Both operands must be copied where they are multiplied.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %c64 step %c32 iter_args(%c = %zero) -> (!tile) {
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x32xbf16>
    sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
    sm.barrier
    // expected-error @below {{pipeline-mainloop: needs both operands copied into shared memory in its loop; run promote-operands-to-smem [staged-operands]}}
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}
}
// -----

// A copy runs ahead of the loop, so it cannot depend on what the loop computes.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile
  %acc:2 = scf.for %i = %c0 to %c64 step %c32 iter_args(%c = %zero, %n = %c0) -> (!tile, index) {
    %at = tile.view %a[%n, %i] : !mat to !tile.view<32x32xbf16>
    // expected-error @below {{pipeline-mainloop: copies a window that depends on results of the loop, so it cannot be copied ahead [staged-ahead]}}
    sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !buffer
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next, %i : !tile, index
  }
  tile.return
}
}
// -----

// The ring takes the place of the buffers.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %as: !buffer) attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %c64 step %c32 iter_args(%c = %zero) -> (!tile) {
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x32xbf16>
    // expected-error @below {{pipeline-mainloop: must fill a buffer of sm.alloc, which the ring replaces [staged-buffer]}}
    sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !buffer
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %c64 step %c32 iter_args(%c = %zero) -> (!tile) {
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x32xbf16>
    // expected-error @below {{pipeline-mainloop: fills a buffer that is used outside its loop, so no ring can replace it [staged-uses]}}
    sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !buffer
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  %v = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  sm.copy %v to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}
}

// -----

// A ring that stays filled from tile to tile needs work tiles.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <stages = 2, prologue = once>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{pipeline-mainloop: must stand in tile.work_tiles of whole tiles that carry nothing, for prologue = once [filled-ring-tiles]}}
  %acc = scf.for %i = %c0 to %c64 step %c32 iter_args(%c = %zero) -> (!tile) {
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x32xbf16>
    sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !buffer
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}
}

// -----

// Columns of tiles that are not known to be one do not share B.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %m: index) attributes {schedule = #tile.schedule<mainloop = <stages = 2, prologue = once, b = <load = once>>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c96 = arith.constant 96 : index
  tile.work_tiles (%i, %j) of (%m, %m) by [32, 32] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    // expected-error @below {{pipeline-mainloop: b.load = once keeps what all work tiles of a CTA share: it needs one product, N known at compile time, and at most 32, the extent of the tile, or scheduler = persistent, order = row and a multiple of the tiles along N as the number of CTAs [kept-operand]}}
    %acc = scf.for %l = %c0 to %c96 step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%i, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
      %bt = tile.view %a[%j, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %bt to %bs : !tile.view<32x32xbf16>, !buffer
      sm.barrier
      %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
      scf.yield %next : !tile
    }
  }
  tile.return
}
}

// -----

// Three CTAs do not stay in two columns of tiles.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
func.func @host(%a: !mat, %m: index) {
  %sms = tile.sm_count : index
  %c3 = arith.constant 3 : index
  %grid = arith.muli %sms, %c3 : index
  tile.launch @kernel grid(%grid) threads(32) args(%a, %m) : !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %m: index) attributes {schedule = #tile.schedule<mainloop = <stages = 3, prologue = once, b = <load = once>>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c96 = arith.constant 96 : index
  tile.work_tiles (%i, %j) of (%m, %c64) by [32, 32] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    // expected-error @below {{[kept-operand]}}
    %acc = scf.for %l = %c0 to %c96 step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%i, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
      %bt = tile.view %a[%j, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %bt to %bs : !tile.view<32x32xbf16>, !buffer
      sm.barrier
      %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
      scf.yield %next : !tile
    }
  }
  tile.return
}
}

// -----

// Three K steps do not stay in two slots.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %m: index) attributes {schedule = #tile.schedule<mainloop = <stages = 2, prologue = once, b = <load = once>>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c96 = arith.constant 96 : index
  tile.work_tiles (%i, %j) of (%m, %c32) by [32, 32] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    // expected-error @below {{pipeline-mainloop: b.load = once keeps a K step in each slot: it needs K steps, known at compile time, that divide the 2 slots of the ring [kept-steps]}}
    %acc = scf.for %l = %c0 to %c96 step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%i, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
      %bt = tile.view %a[%j, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %bt to %bs : !tile.view<32x32xbf16>, !buffer
      sm.barrier
      %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
      scf.yield %next : !tile
    }
  }
  tile.return
}
}

// -----

// A loop of unknown length is not unrolled.
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %k: index) attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{pipeline-mainloop: unroll = full needs a K that is known at compile time; take none [unroll-known]}}
  %acc = scf.for %i = %c0 to %k step %c32 iter_args(%c = %zero) -> (!tile) {
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x32xbf16>
    sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !buffer
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  } {sm.timing = #sm.timing<steps = unrolled>}
  tile.return
}
}
