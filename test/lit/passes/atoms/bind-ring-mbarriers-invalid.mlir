// bind-ring refuses rings whose copies are no TMA boxes, or whose slots cannot be counted by mbarriers.
// RUN: lowtide-opt %s -p bind-ring --split-input-file --verify-diagnostics

// Tensor maps are arguments of a launch: a kernel needs one,
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  return
}
// expected-error @below {{bind-ring: is launched at 0 places; its tensor maps are made at one [tensor-map-launch]}}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 64 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c1] : !ring
      %at = tile.view %a[%n, %k] : !mat to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %b[%c0, %k] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %as, %bs = sm.consumer_wait %ring[%c0, %c1] : !ring
      %retired = ub.poison : !sm.retired
      sm.consumer_release %ring, %full after %retired : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
// -----

// and one alone.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
// expected-error @below {{[tensor-map-launch]}}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 64 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c1] : !ring
      %at = tile.view %a[%n, %k] : !mat to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %b[%c0, %k] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %as, %bs = sm.consumer_wait %ring[%c0, %c1] : !ring
      %retired = ub.poison : !sm.retired
      sm.consumer_release %ring, %full after %retired : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
// -----

// A role that fills slots and reads those of another one.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 64 : index
  // expected-error @below {{bind-ring: must be filled and read by one agent, or filled by one role and read by others [ring-agents]}}
  %ring = sm.ring : !ring
  sm.roles {
    consumer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
  }
  tile.return
}
}
// -----

// A release that nothing proves: a wgmma may still read the slot.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 64 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c1] : !ring
      %at = tile.view %a[%n, %k] : !mat to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %b[%c0, %k] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %as, %bs = sm.consumer_wait %ring[%c0, %c1] : !ring
      // expected-error @below {{bind-ring: releases a slot without the proof (`after`) that its reads are done [release-proof]}}
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
// -----

// A matrix that no tensor map can be made of on the host.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 64 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c1] : !ring
      %other = memref.cast %a : !mat to memref<?x64xbf16, strided<[?, 1]>>
      %at = tile.view %other[%n, %k] : memref<?x64xbf16, strided<[?, 1]>> to !tile.view<64x64xbf16>
      // expected-error @below {{bind-ring: names a matrix that is not an argument of the kernel; TMA needs a tensor map of it [tensor-map-argument]}}
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %as, %bs = sm.consumer_wait %ring[%c0, %c1] : !ring
      %retired = ub.poison : !sm.retired
      sm.consumer_release %ring, %full after %retired : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
// -----

// Something else than a copy writes the slot.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 64 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c1] : !ring
      %at = tile.view %a[%n, %k] : !mat to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %b[%c0, %k] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
      // expected-error @below {{bind-ring: uses a slot that is being filled; only copies to it may [slot-being-filled]}}
      sm.copy %at to %as : !tile.view<64x64xbf16>, !a
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %as, %bs = sm.consumer_wait %ring[%c0, %c1] : !ring
      %retired = ub.poison : !sm.retired
      sm.consumer_release %ring, %full after %retired : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
// -----

// A box with a side of more than 256.
#a = #tile.layout<(264,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<264x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 64 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c1] : !ring
      %at = tile.view %a[%n, %k] : !mat to !tile.view<264x64xbf16>
      // expected-error @below {{bind-ring: needs a TMA box of 264×64 bf16: a box has two to five sides of 1 to 256 elements [box-sides] [tensor-map-box]}}
      sm.copy_async %at to %as : !tile.view<264x64xbf16>, !a
      %bt = tile.view %b[%c0, %k] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %as, %bs = sm.consumer_wait %ring[%c0, %c1] : !ring
      %retired = ub.poison : !sm.retired
      sm.consumer_release %ring, %full after %retired : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
// -----

// Rows longer than the swizzle spans that are not cut into panels.
#a = #tile.layout<(64,64):(64,1), swizzle<2,3,3>>
#b = #tile.layout<(8,64):(64,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 64 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c1] : !ring
      %at = tile.view %a[%n, %k] : !mat to !tile.view<64x64xbf16>
      // expected-error @below {{bind-ring: a buffer of layout (64, 64) : (64, 1) does not lie in panels; assign-smem-layouts writes (64, (32, 2)) : (32, (1, 2048)) [panel-layout]}}
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %b[%c0, %k] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %as, %bs = sm.consumer_wait %ring[%c0, %c1] : !ring
      %retired = ub.poison : !sm.retired
      sm.consumer_release %ring, %full after %retired : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
// -----

// Two rings: whose slots an mbarrier counts would not be said.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !a]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %n) : !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  // expected-error @below {{[second-ring]}}
  %other = sm.ring : !ring
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      %full, %as, %bs = sm.consumer_wait %other[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
// -----

// Copies by threads are bound before.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !a]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %n) : !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %n: index) attributes {
    schedule = #tile.schedule<mainloop = <roles = cooperative(1), a = <copy = cp.async.16>>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    copiers warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %c0] : !mat to !tile.view<64x64xbf16>
      // expected-error @below {{bind-ring: a.copy = cp.async.16 is by threads; run bind-copy-atoms first [copy-by-threads]}}
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
// -----

// A slot that is never committed: nothing says when its copies are all under way.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !a]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %n) : !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      // expected-error @below {{bind-ring: must give its slot to one sm.producer_commit: what lies between fills the slot [one-commit]}}
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %c0] : !mat to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
// -----

// Elements that nothing computes with have no bytes to expect.
!mat = memref<?x?xi16, strided<[?, 1]>>
!a = memref<64x64xi16, #tile.layout<(64,64):(64,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !a]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %n) : !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      // expected-error @below {{[element-known]}}
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
