// bind-ring: one matrix in boxes of one form takes one tensor map; a box without a swizzle is mapped without.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// CHECK-LABEL: func.func @host(
// CHECK-COUNT-1: sm.tensor_map
// CHECK-NOT:     sm.tensor_map %
// CHECK:         tile.launch {{.*}} !sm.tensor_map<8x64xbf16>
// CHECK-LABEL: tile.kernel @kernel(
// CHECK-SAME:    %[[MAP:[^ ]+]]: !sm.tensor_map<8x64xbf16>)
// CHECK:       expects 2048
// CHECK:       sm.tma_load %[[MAP]][
// CHECK:       sm.tma_load %[[MAP]][
!mat = memref<?x?xbf16, strided<[?, 1]>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!b, !b]>
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
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%c0, %n] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %at to %as : !tile.view<8x64xbf16>, !b
      %bt = tile.view %a[%n, %c0] : !mat to !tile.view<8x64xbf16>
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
