// pipeline-mainloop refuses kernels that it cannot split between a producer and consumers.
// RUN: lowtide-opt %s -p pipeline-mainloop --split-input-file --verify-diagnostics

// Slots are counted by the schedule.
#a = #tile.layout<(64,32):(32,1)>
#b = #tile.layout<(8,32):(32,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
// expected-error @below {{[schedule-open]}}
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}
// -----

// Something carried from tile to tile already.
#a = #tile.layout<(64,32):(32,1)>
#b = #tile.layout<(8,32):(32,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  %s = tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent iter_args(%t = %M) -> (index) {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    // expected-error @below {{pipeline-mainloop: must be the one K loop of tile.work_tiles that carry nothing, for roles [role-tile]}}
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
    tile.yield %t : index
  }
  tile.return
}
}
// -----

// What waits before the K loop would not hold up a producer.
#a = #tile.layout<(64,32):(32,1)>
#b = #tile.layout<(8,32):(32,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    // expected-error @below {{pipeline-mainloop: stands before the K loop, and another agent would not wait for it; put it behind [role-of-op]}}
    sm.barrier
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}
// -----

// Nor inside the loop.
#a = #tile.layout<(64,32):(32,1)>
#b = #tile.layout<(8,32):(32,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      // expected-error @below {{[staged-loop]}}
      sm.cp_async_wait 0
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}
// -----

// An operand that no copy fills.
#a = #tile.layout<(64,32):(32,1)>
#b = #tile.layout<(8,32):(32,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  %other = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      // expected-error @below {{[staged-operands]}}
      %next = tile.mma tn %as, %other, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}
// -----

// A buffer that is not the kernel's own.
#a = #tile.layout<(64,32):(32,1)>
#b = #tile.layout<(8,32):(32,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index, %bs: !b) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %as = sm.alloc : !a
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      // expected-error @below {{[staged-buffer]}}
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}
// -----

// A buffer that something else reads.
#a = #tile.layout<(64,32):(32,1)>
#b = #tile.layout<(8,32):(32,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      // expected-error @below {{[staged-uses]}}
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  %w = tile.view %b[%M, %M] : !mat to !tile.view<8x32xbf16>
  sm.copy %w to %bs : !tile.view<8x32xbf16>, !b
  tile.return
}
}
// -----

// No loop.
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %M: index) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    // expected-error @below {{[main-loop]}}
    %acc = tile.mma tn %as, %bs, %zero : !a, !b, !tile
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}

// -----

// A ring's slots are those of the first loop over work tiles.
#a = #tile.layout<(128,32):(32,1)>
#half = #tile.layout<(64,32):(32,1)>
#b = #tile.layout<(8,32):(32,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<128x32xbf16, #a, #gpu.address_space<workgroup>>
!half = memref<64x32xbf16, #half, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<128x8xf32>
!half_tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @tail(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {
    schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %hs = sm.alloc : !half
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  %cs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !half_tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!half_tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %hs : !tile.view<64x32xbf16>, !half
      sm.copy %bt to %cs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %hs, %cs, %c : !half, !b, !half_tile
      scf.yield %next : !half_tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !half_tile, !out
  }
  tile.work_tiles (%m, %n) of (%M, %M) by [128, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    // expected-error @below {{pipeline-mainloop: operand A is memref<128x32xbf16, #tile.layout<(128,32):(32,1)>, #gpu.address_space<workgroup>>, which the slots of the ring, memref<64x32xbf16, #tile.layout<(64,32):(32,1)>, #gpu.address_space<workgroup>>, cannot hold; put the loop with the largest tiles first [staged-slots]}}
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<128x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<128x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #tile.layout<(64,32):(32,1)>, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #tile.layout<(8,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @turns(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {
    schedule = #tile.schedule<mainloop = <stages = 2, roles = pingpong(2)>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  %cs = sm.alloc : !a
  %ds = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent part(full_waves) {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  // expected-error @below {{pipeline-mainloop: is a second loop over work tiles, and turns would begin anew there; take one loop [roles-second-loop]}}
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent part(tail_halves) {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %cs : !tile.view<64x32xbf16>, !a
      sm.copy %bt to %ds : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %cs, %ds, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}
