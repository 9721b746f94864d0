// verify-mbarriers refuses arrivals and bytes that the roles and the copies do not bear out: what, and what to write.
// RUN: lowtide-opt %s --target sm_90a -p verify-mbarriers --split-input-file --verify-diagnostics

// Bytes: fewer, more, none, where one box of 64 × 64 elements of 16 bits comes.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      // expected-error @below {{verify-mbarriers: expects 8176 bytes, but the copies that signal this slot (1) bring 8192; write expects 8192 [expected-bytes]}}
      sm.mbarrier_arrive %full[%c0] expects 8176 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      // expected-error @below {{[expected-bytes]}}
      sm.mbarrier_arrive %full[%c0] expects 8208 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      // expected-error @below {{[expected-bytes]}}
      sm.mbarrier_arrive %full[%c0] : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

// Bytes of another slot are no bytes of this one.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      // expected-error @below {{verify-mbarriers: expects 8192 bytes, but the copies that signal this slot (0) bring 0; write expects 0 [expected-bytes]}}
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c1] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      // expected-error @below {{verify-mbarriers: signals a slot at which no arrival beside it expects its bytes; arrive there before it [bytes-expected-nowhere]}}
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c1] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

// Arrivals: one thread of the producer, one of each consumer warpgroup.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  // expected-error @below {{verify-mbarriers: completes a phase after 2 arrivals, but its roles make 1: 1 by the producer; write arrivals(1) [arrival-count]}}
  %full = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  // expected-error @below {{verify-mbarriers: completes a phase after 1 arrivals, but its roles make 2: 2 by the consumer; write arrivals(2) [arrival-count]}}
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

// Twice at one slot, one right after the other.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  // expected-error @below {{[arrival-count]}}
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

// By both roles.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  // expected-error @below {{verify-mbarriers: completes a phase after 2 arrivals, but its roles make 3: 1 by the producer and 2 by the consumer; write arrivals(3) [arrival-count]}}
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

// By nobody.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      // expected-error @below {{verify-mbarriers: waits for mbarriers at which no thread arrives; arrive where the slot is ready [no-arrivals]}}
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

// A slot that wgmma reads is released with the proof that it has been read.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @kernel(%x: !map, %a: !a, %b: !b) {
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      sm.tma_load %x[%c0, %c0] to %a signals %full[%c0] : !map, !a, !sm.mbarriers<2>
    }
    consumer warps(4) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma tn %a, %b, %zero by #mma : !a, !b, !acc -> !pending
      %c, %retired = sm.mma_wait 0, %p : !pending -> !acc
      // expected-error @below {{verify-mbarriers: releases a slot that wgmma may still read; write `after` and what the sm.mma_wait for it, or its sm.wgmma_promote, retires [release-after-wgmma]}}
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}

// -----

// So is one that threads fill.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @kernel(%a: !a, %b: !b) {
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    copiers warps(4) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.barrier
      sm.mbarrier_arrive %full[%c0] : !sm.mbarriers<2>
    }
    consumer warps(4) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma tn %a, %b, %zero by #mma : !a, !b, !acc -> !pending
      %c, %retired = sm.mma_wait 0, %p : !pending -> !acc
      // expected-error @below {{[release-after-wgmma]}}
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}

// -----

// Scales that threads load from a slot: each warp must have read them before the slot is filled again.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
!a = memref<64x128xf8E4M3FN, #tile.layout<(64,128):(128,1), swizzle<3,4,3>>, #gpu.address_space<workgroup>>
!b = memref<8x128xf8E4M3FN, #tile.layout<(8,128):(128,1), swizzle<3,4,3>>, #gpu.address_space<workgroup>>
!rs = memref<1x64xf32, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
tile.kernel @scales(%map: !sm.tensor_map<1x64xf32>) {
  %ring = sm.ring : !sm.ring<2 x [!a, !b, !rs]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 256 : !sm.mbarriers<2>
      %x, %y, %s = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!a, !b, !rs]>
      sm.tma_load %map[%c0, %c0] to %s signals %full[%c0] : !sm.tensor_map<1x64xf32>, !rs, !sm.mbarriers<2>
    }
    consumer warps(4) {
      %zero = sm.splat 0.0 : !acc
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      %x, %y, %s = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!a, !b, !rs]>
      %rows = sm.load_scales row_scale %s[%c0, %c0] : !rs to !acc
      %sum, %done = sm.wgmma_promote tn %x, %y into %zero scaled(%rows : !acc, %rows : !acc) by <wgmma.m64n8k32.f32.e4m3, atoms [1, 1, 1]> : !a, !b, !acc
      // expected-error @below {{verify-mbarriers: releases a slot for a warpgroup, but each of its warps reads it by itself; write each_warp [release-each-warp]}}
      sm.mbarrier_arrive %empty[%c0] after %done : !sm.mbarriers<2>
    }
  }
  tile.return
}

// -----

// Bytes of loads with rows, of which there are none.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @rows(%a: !map, %rows: index, %bytes: index) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      // expected-error @below {{verify-mbarriers: must expect `plus` bytes if and only if a copy that signals this slot has `rows`; write both, or none [expected-rows]}}
      sm.mbarrier_arrive %full[%c0] expects 8192 plus %bytes : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(4) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}

// -----

// A load with rows, whose bytes nobody expects.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @rows(%a: !map, %rows: index, %bytes: index) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      // expected-error @below {{[expected-rows]}}
      sm.mbarrier_arrive %full[%c0] expects 0 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] rows(%rows) to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(4) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}

// -----

// A load with rows is not expected as a full box.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @rows(%a: !map, %rows: index, %bytes: index) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      // expected-error @below {{[expected-bytes]}}
      sm.mbarrier_arrive %full[%c0] expects 8192 plus %bytes : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] rows(%rows) to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(4) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
// -----

// A consumer that loads for itself, without the wait between its arrivals: both would be in one phase.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %x = sm.alloc : !tile
  // expected-error @below {{verify-mbarriers: completes a phase after 1 arrivals, but its roles make 2: 2 by the consumer; write arrivals(2) [arrival-count]}}
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
    }
    consumer warps(4) registers(0) {
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<1>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<1>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<1>
      sm.tma_load %a[%c0, %c1] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<1>
      sm.mbarrier_wait %full[%c0, %c1] : !sm.mbarriers<1>
    }
  }
  tile.return
}
// -----

// Bytes of the second phase.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
tile.kernel @kernel(%a: !map) {
  %x = sm.alloc : !tile
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
    }
    consumer warps(4) registers(0) {
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<1>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<1>
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<1>
      // expected-error @below {{verify-mbarriers: expects 4096 bytes, but the copies that signal this slot (1) bring 8192; write expects 8192 [expected-bytes]}}
      sm.mbarrier_arrive %full[%c0] expects 4096 : !sm.mbarriers<1>
      sm.tma_load %a[%c0, %c1] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<1>
      sm.mbarrier_wait %full[%c0, %c1] : !sm.mbarriers<1>
    }
  }
  tile.return
}
// -----

// Threads that copy by cp.async arrive one by one.
tile.kernel @kernel() {
  // expected-error @below {{completes a phase after 1 arrivals, but its roles make 129: 129 by the copiers; write arrivals(129) [arrival-count]}}
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    copiers warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] : !sm.mbarriers<2>
      sm.cp_async_arrive %full[%c0] : !sm.mbarriers<2>
    }
    consumer warps(4) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
