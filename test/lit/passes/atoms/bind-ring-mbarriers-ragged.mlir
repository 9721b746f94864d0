// bind-ring: rows of a matrix up to the end of a group have a ragged map of the whole matrix, whose loads say where the
// rows end. The host checks that their coordinates can say it.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[A:[^:]+]]: memref<?x?xbf16
// CHECK:       %[[MAP:.+]] = sm.tensor_map %[[A]] {ragged} : memref<?x?xbf16, {{.*}}> to !sm.tensor_map<1x1x64x64xbf16>
// CHECK:       %[[FITS:.+]] = arith.cmpi sle, %{{.+}}, %c1073741824
// CHECK:       cf.assert %[[FITS]], "with groups of K, K must be at most 2^30: split the problem"
// CHECK-LABEL: tile.kernel @kernel(
// CHECK-SAME:    %[[N:[^:]+]]: index, %[[MAP_A:[^ ]+]]: !sm.tensor_map<1x1x64x64xbf16>, %[[MAP_B:[^ ]+]]: !sm.tensor_map<64x64xbf16>)
// CHECK:       sm.tma_load %[[MAP_A]][%[[N]], %[[N]], %c0] to %{{.+}} {ragged}
// CHECK:       sm.tma_load %[[MAP_B]][%[[N]], %c0] to
// CHECK-NOT:   ragged
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !a]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<
    mainloop = <roles = cooperative(1), a = <copy = tma>, b = <copy = tma>>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  %part = memref.subview %a[0, 0] [%n, %n] [1, 1] : !mat to !mat
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %part[%n, %c0] : !mat to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %b[%n, %c0] : !mat to !tile.view<64x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<64x64xbf16>, !a
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
