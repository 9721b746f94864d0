// bind-ring: what a box of a buffer in panels is, by the dimensions of the map; and the cache hints of loads.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// Two dimensions: a box is a panel; one load names the whole buffer, whose bytes are expected: 16384 and 6144.
// CHECK-LABEL: func.func @host_flat(
// CHECK-NOT:     cf.assert
// CHECK:         sm.tensor_map %{{.+}} to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK-NEXT:    sm.tensor_map %{{.+}} to !sm.tensor_map<32x32xbf16, swizzle<2,3,3>>
// CHECK-LABEL: tile.kernel @flat(
// CHECK:         sm.mbarrier_arrive %{{.+}}[%c0] expects 22528
// CHECK:         sm.tma_load %{{.+}}[%{{.+}}, %c0] to %{{.+}} signals %{{.+}}[%c0] : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK:         tile.view
// CHECK:         sm.tma_load %{{.+}}[%c0, %{{.+}}] to %{{.+}} signals %{{.+}}[%c0] : !sm.tensor_map<32x32xbf16, swizzle<2,3,3>>

// Three: a box is all panels, and the host asserts that they divide the matrix. Hints are for each operand.
// CHECK-LABEL: func.func @host_three(
// CHECK:         %[[CA:.+]] = memref.dim %arg0, %c1
// CHECK:         %[[REST:.+]] = arith.remui %[[CA]], %c64
// CHECK:         %[[WHOLE:.+]] = arith.cmpi eq, %[[REST]], %c0
// CHECK:         cf.assert %[[WHOLE]], "copies by tma.3d: the contiguous extent of A and of B must be a multiple of 64, the row of a panel; pad it, or compile with a.copy = tma and b.copy = tma"
// CHECK-NEXT:    sm.tensor_map %arg0 : {{.*}} to !sm.tensor_map<2x64x64xbf16, swizzle<3,3,3>>
// CHECK:         cf.assert {{.*}} multiple of 32
// CHECK-NEXT:    sm.tensor_map %arg1 : {{.*}} to !sm.tensor_map<3x32x32xbf16, swizzle<2,3,3>>
// CHECK-LABEL: tile.kernel @three(
// CHECK:         sm.mbarrier_arrive %{{.+}}[%c0] expects 22528
// CHECK:         sm.tma_load {{.*}} cache(evict_first) : !sm.tensor_map<2x64x64xbf16, swizzle<3,3,3>>
// CHECK:         sm.tma_load {{.*}}[%c0] : !sm.tensor_map<3x32x32xbf16, swizzle<2,3,3>>

// Five, of a matrix whose extent is known to be whole panels: nothing to assert.
// CHECK-LABEL: func.func @host_five(
// CHECK-NOT:     cf.assert
// CHECK:         sm.tensor_map %arg0 : {{.*}} to !sm.tensor_map<1x1x2x64x64xbf16, swizzle<3,3,3>>
// CHECK-LABEL: tile.kernel @five(
// CHECK:         sm.tma_load {{.*}}[%c0] : !sm.tensor_map<1x1x2x64x64xbf16, swizzle<3,3,3>>
// CHECK:         sm.tma_load {{.*}} cache(evict_last) :
!mat = memref<?x?xbf16, strided<[?, 1]>>
!known = memref<?x640xbf16, strided<[?, 1]>>
!a = memref<64x128xbf16, #tile.layout<(64,(64,2)):(64,(1,4096)), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<32x96xbf16, #tile.layout<(32,(32,3)):(32,(1,1024)), swizzle<2,3,3>>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host_flat(%a: !mat, %b: !mat, %n: index) {
  tile.launch @flat grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @flat(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1), a = <copy = tma>, b = <copy = tma>>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %c0] : !mat to !tile.view<64x128xbf16>
      sm.copy_async %at to %as : !tile.view<64x128xbf16>, !a
      %bt = tile.view %b[%c0, %n] : !mat to !tile.view<32x96xbf16>
      sm.copy_async %bt to %bs : !tile.view<32x96xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
func.func @host_three(%a: !mat, %b: !mat, %n: index) {
  tile.launch @three grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @three(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<
  mainloop = <roles = cooperative(1), a = <copy = tma.3d, cache = evict_first>, b = <copy = tma.3d>>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %c0] : !mat to !tile.view<64x128xbf16>
      sm.copy_async %at to %as : !tile.view<64x128xbf16>, !a
      %bt = tile.view %b[%c0, %n] : !mat to !tile.view<32x96xbf16>
      sm.copy_async %bt to %bs : !tile.view<32x96xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
func.func @host_five(%a: !known, %b: !mat, %n: index) {
  tile.launch @five grid(%n) threads(256) args(%a, %b, %n) : !known, !mat, index
  return
}
tile.kernel @five(%a: !known, %b: !mat, %n: index) attributes {schedule = #tile.schedule<
  mainloop = <roles = cooperative(1), a = <copy = tma.5d>, b = <copy = tma.5d, cache = evict_last>>,
  epilogue = <cache = streaming>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %c0] : !known to !tile.view<64x128xbf16>
      sm.copy_async %at to %as : !tile.view<64x128xbf16>, !a
      %bt = tile.view %b[%c0, %n] : !mat to !tile.view<32x96xbf16>
      sm.copy_async %bt to %bs : !tile.view<32x96xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
