// bind-ring, of scales in the slots of a ring: boxes of their matrices, whose bytes the slot expects with those of A and B.
// Threads read them, so that each warp releases a slot.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// CHECK-LABEL: func.func @host(
// CHECK:         sm.tensor_map %{{.+}} to !sm.tensor_map<1x64xf32>
// CHECK:         sm.tensor_map %{{.+}} to !sm.tensor_map<2x16xf32>
// CHECK-LABEL: tile.kernel @kernel(
// CHECK:         %[[FULL:.+]] = sm.mbarriers arrivals(1)
// CHECK:         %[[EMPTY:.+]] = sm.mbarriers arrivals(4)
// 64·128 + 8·128 + 64·4 + 32·4
// CHECK:         sm.mbarrier_arrive %[[FULL]][%c0] expects 9600
// CHECK-NEXT:    %[[A:.+]], %[[B:.+]], %[[RS:.+]], %[[CS:.+]] = sm.ring_slot
// CHECK:         sm.tma_load %{{.+}}[%c0, %c0] to %[[RS]] signals %[[FULL]][%c0] : !sm.tensor_map<1x64xf32>
// CHECK:         sm.tma_load %{{.+}}[%c0, %c0] to %[[CS]] signals %[[FULL]][%c0] : !sm.tensor_map<2x16xf32>
// CHECK:         sm.mbarrier_arrive %[[EMPTY]][%c0] each_warp after
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!scales = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x128xf8E4M3FN, #tile.layout<(64,128):(128,1), swizzle<3,4,3>>, #gpu.address_space<workgroup>>
!b = memref<8x128xf8E4M3FN, #tile.layout<(8,128):(128,1), swizzle<3,4,3>>, #gpu.address_space<workgroup>>
!rs = memref<1x64xf32, #tile.layout<(1,64):(64,1)>, #gpu.address_space<workgroup>>
!cs = memref<2x16xf32, #tile.layout<(2,16):(16,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b, !rs, !cs]>
!acc = !sm.fragment<64x8xf32, #tv>
#schedule = #tile.schedule<mainloop = <roles = cooperative(1), scales = staged,
    a = <copy = tma, swizzle = <3,4,3>>, b = <copy = tma, swizzle = <3,4,3>>>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %sa: !scales, %sb: !scales, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %sa, %sb) : !mat, !mat, !scales, !scales
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %sa: !scales, %sb: !scales) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs, %rs, %cs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%c0, %c0] : !mat to !tile.view<64x128xf8E4M3FN>
      sm.copy_async %at to %as : !tile.view<64x128xf8E4M3FN>, !a
      %bt = tile.view %b[%c0, %c0] : !mat to !tile.view<8x128xf8E4M3FN>
      sm.copy_async %bt to %bs : !tile.view<8x128xf8E4M3FN>, !b
      %rt = tile.view %sa[%c0, %c0] : !scales to !tile.view<1x64xf32>
      sm.copy_async %rt to %rs : !tile.view<1x64xf32>, !rs
      %ct = tile.view %sb[%c0, %c0] : !scales to !tile.view<2x16xf32>
      sm.copy_async %ct to %cs : !tile.view<2x16xf32>, !cs
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %zero = sm.splat 0.0 : !acc
      %full, %as, %bs, %rs, %cs = sm.consumer_wait %ring[%c0, %c0] : !ring
      %rows = sm.load_scales row_scale %rs[%c0, %c0] : !rs to !acc
      %columns = sm.load_scales column_block_scale %cs[%c0, %c0] : !cs to !acc
      %sum, %done = sm.wgmma_promote tn %as, %bs into %zero scaled(%rows : !acc, %columns : !acc) by <wgmma.m64n8k32.f32.e4m3, atoms [1, 1, 1]> : !a, !b, !acc
      sm.consumer_release %ring, %full after %done : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
