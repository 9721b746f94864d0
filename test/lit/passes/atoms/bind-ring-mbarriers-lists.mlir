// bind-ring: TMA loads matrices of a list by tensor maps that a launch before the product makes in a workspace. A work item
// acquires the map of its matrix once; loads then have the coordinates of one matrix.
// RUN: lowtide-opt %s -p bind-ring --split-input-file --verify-diagnostics | filecheck %s

// CHECK:       %[[COUNT:.+]] = memref.dim %[[B:.+]], %c0
// CHECK:       %[[WORDS:.+]] = arith.muli %[[COUNT]], %c32
// CHECK:       %[[SPACE:.+]] = tile.workspace %[[WORDS]] : memref<?xi32>
// CHECK:       tile.launch @kernel_maps1 grid(%[[COUNT]]) threads(32) args(%[[B]], %[[SPACE]])
// CHECK:       tile.launch @kernel grid(%{{.+}}) threads(256) args(%{{.+}}, %[[B]], %{{.+}}, %{{.+}}, %[[SPACE]])
// CHECK-LABEL: tile.kernel @kernel_maps1(
// CHECK:       sm.make_maps %{{.+}} of %{{.+}} as !sm.tensor_map<8x64xbf16> through
// CHECK-LABEL: tile.kernel @kernel(
// CHECK-SAME:    %[[MAPS:[^ ]+]]: memref<?xi32>)
// CHECK:       tile.work_tiles {{.*}} batch(%[[NUMBER:.+]] of
// CHECK:         %[[MAP:.+]] = sm.listed_map %[[MAPS]][%[[NUMBER]]] : memref<?xi32> to !sm.tensor_map<8x64xbf16>
// CHECK:         scf.for
// CHECK:           sm.tma_load %[[MAP]][%n, %{{.+}}] to
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1)>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mats, %b: !list, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mats, !list, index
  return
}
tile.kernel @kernel(%a: !mats, %b: !list, %x: index) attributes {schedule = #tile.schedule<
    mainloop = <roles = cooperative(1), a = <copy = tma>, b = <copy = tma>>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %n) of (%x, %x) by [64, 8] batch(%number of %x) order(<row>) persistent {
        scf.for %k = %c0 to %x step %c1 {
          %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
          %at = tile.view %a[%number, %m, %k] : !mats to !tile.view<64x64xbf16>
          sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
          %bt = tile.view %b[%number, %n, %k] : !list to !tile.view<8x64xbf16>
          sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
          sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
        }
      }
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}

// -----

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1)>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mats, %b: !list, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mats, !list, index
  return
}
tile.kernel @kernel(%a: !mats, %b: !list, %n: index) attributes {schedule = #tile.schedule<
    mainloop = <roles = cooperative(1), a = <copy = tma>, b = <copy = tma>>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %c0, %n] : !mats to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %b[%n, %n, %c0] : !list to !tile.view<8x64xbf16>
      // expected-error @below {{loads a matrix of a list whose number is no coordinate of its work tiles; take the group or the index in the batch [listed-map-number]}}
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
