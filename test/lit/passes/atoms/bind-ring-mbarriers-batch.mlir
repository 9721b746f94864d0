// bind-ring: a batch has tensor maps of one more dimension, of which a box has one matrix; panels come behind it.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// CHECK:       sm.tensor_map %{{.+}} : memref<?x?x?xbf16, {{.*}}> to !sm.tensor_map<1x64x64xbf16>
// CHECK:       sm.tensor_map %{{.+}} : memref<?x?x?xbf16, {{.*}}> to !sm.tensor_map<1x1x8x64xbf16>
// CHECK-LABEL: tile.kernel @kernel(
// CHECK-SAME:    %[[MAP_A:[^ ]+]]: !sm.tensor_map<1x64x64xbf16>, %[[MAP_B:[^ ]+]]: !sm.tensor_map<1x1x8x64xbf16>)
// CHECK:       sm.tma_load %[[MAP_A]][%[[N:.+]], %c0, %[[N]]] to
// CHECK:       sm.tma_load %[[MAP_B]][%[[N]], %[[N]], %c0] to
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1)>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mats, %b: !mats, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mats, !mats, index
  return
}
tile.kernel @kernel(%a: !mats, %b: !mats, %n: index) attributes {schedule = #tile.schedule<
    mainloop = <roles = cooperative(1), a = <copy = tma>, b = <copy = tma.3d>>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %c0, %n] : !mats to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %b[%n, %n, %c0] : !mats to !tile.view<8x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
