// bind-ring: a copy into a prefix of a slot's buffer has a box, and so a tensor map, of its own; the slot then expects the
// bytes of the copies at hand, 64·64 + 8·64 elements, and not those of whole buffers.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// CHECK-LABEL: tile.kernel @kernel(
// CHECK-SAME:    %[[WHOLE:[^ ]+]]: !sm.tensor_map<128x64xbf16>, %[[B:[^ ]+]]: !sm.tensor_map<8x64xbf16>, %[[HALF:[^ ]+]]: !sm.tensor_map<64x64xbf16>)
// CHECK:       expects 17408
// CHECK:       sm.tma_load %[[WHOLE]][
// CHECK:       sm.tma_load %[[B]][
// CHECK:       expects 9216
// CHECK:       %[[A:.+]], %{{.+}} = sm.ring_slot
// CHECK:       %[[PART:.+]] = sm.prefix %[[A]]
// CHECK:       sm.tma_load %[[HALF]][{{.*}}] to %[[PART]]
// CHECK:       sm.tma_load %[[B]][
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1)>, #gpu.address_space<workgroup>>
!half = memref<64x64xbf16, #tile.layout<(64,64):(64,1)>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%c0, %n] : !mat to !tile.view<128x64xbf16>
      sm.copy_async %at to %as : !tile.view<128x64xbf16>, !a
      %bt = tile.view %b[%n, %c0] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
      %next, %cs, %ds = sm.producer_acquire %ring[%c0, %c0] : !ring
      %ht = tile.view %a[%c0, %n] : !mat to !tile.view<64x64xbf16>
      %hs = sm.prefix %cs : !a to !half
      sm.copy_async %ht to %hs : !tile.view<64x64xbf16>, !half
      %dt = tile.view %b[%n, %c0] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %dt to %ds : !tile.view<8x64xbf16>, !b
      sm.producer_commit %ring, %next : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
