// bind-ring: a box has rows of both matrices of a pair, and one load fills both halves of a buffer.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// CHECK:       sm.tensor_map %{{.+}} : memref<2x?x?xbf16, {{.*}}> to !sm.tensor_map<2x8x64xbf16>
// CHECK-LABEL: tile.kernel @kernel(
// CHECK-SAME:    %[[MAP_B:[^ ]+]]: !sm.tensor_map<2x8x64xbf16>)
// CHECK:       sm.mbarrier_arrive %{{.+}} expects 10240
// CHECK:       sm.tma_load %[[MAP_B]][%c0, %[[N:.+]], %c0] to
!mat = memref<?x?xbf16, strided<[?, 1]>>
!pair = memref<2x?x?xbf16, strided<[?, ?, 1]>>
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1)>, #gpu.address_space<workgroup>>
!b = memref<16x64xbf16, #tile.layout<(16,64):(64,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !pair, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !pair, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !pair, %n: index) attributes {schedule = #tile.schedule<
    mainloop = <roles = cooperative(1), a = <copy = tma>, b = <copy = tma>>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %c0] : !mat to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %b[%c0, %n, %c0] halves : !pair to !tile.view<16x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<16x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
