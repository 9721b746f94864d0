// verify-mbarriers in clusters refuses counts, shares and ends that do not fit what the CTAs do to each other.
// RUN: lowtide-opt %s --target sm_90a -p verify-mbarriers --split-input-file --verify-diagnostics

// Two consumer warpgroups of each of two CTAs arrive.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<32x64xbf16, swizzle<3,3,3>>
func.func @host(%n: index, %map: !map) {
  tile.launch @kernel grid(%n) threads(384) cluster [2, 1] args(%map) : !map
  return
}
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  // expected-error @below {{verify-mbarriers: completes a phase after 2 arrivals, but its roles make 4: 4 by the consumer; write arrivals(4) [arrival-count]}}
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  sm.cluster_barrier
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %p = ub.poison : !sm.retired
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] multicast(column) : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] to(column) after %p : !sm.mbarriers<2>
    }
  }
  sm.cluster_barrier
  tile.return
}
// -----

// A share of whole boxes.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
func.func @host(%n: index, %map: !map) {
  tile.launch @kernel grid(%n) threads(384) cluster [2, 1] args(%map) : !map
  return
}
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(4) : !sm.mbarriers<2>
  sm.cluster_barrier
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %p = ub.poison : !sm.retired
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      // expected-error @below {{verify-mbarriers: shares 64 rows among 2 CTAs in boxes of 64; each loads whole boxes, and a multiple of 8 rows [shared-boxes]}}
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] multicast(column) : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] to(column) after %p : !sm.mbarriers<2>
    }
  }
  sm.cluster_barrier
  tile.return
}
// -----

// Both ends.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<32x64xbf16, swizzle<3,3,3>>
func.func @host(%n: index, %map: !map) {
  tile.launch @kernel grid(%n) threads(384) cluster [2, 1] args(%map) : !map
  return
}
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(4) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %p = ub.poison : !sm.retired
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      // expected-error @below {{verify-mbarriers: uses mbarriers of other CTAs, which may not have initialised them; write sm.cluster_barrier between the last sm.mbarriers and sm.roles [cluster-begins]}}
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] multicast(column) : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] to(column) after %p : !sm.mbarriers<2>
    }
  }
  sm.cluster_barrier
  tile.return
}
// -----

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<32x64xbf16, swizzle<3,3,3>>
func.func @host(%n: index, %map: !map) {
  tile.launch @kernel grid(%n) threads(384) cluster [2, 1] args(%map) : !map
  return
}
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(4) : !sm.mbarriers<2>
  sm.cluster_barrier
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %p = ub.poison : !sm.retired
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      %x = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile]>
      // expected-error @below {{verify-mbarriers: uses mbarriers of other CTAs, which may have ended; write sm.cluster_barrier behind sm.roles [cluster-ends]}}
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] multicast(column) : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] to(column) after %p : !sm.mbarriers<2>
    }
  }
  tile.return
}
