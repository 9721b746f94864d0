// bind-ring in a cluster of 2 × 4 CTAs: A is shared by the four of a row, B by the two of a column.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// A box is a CTA's share: 64 / 4 rows of A, 16 / 2 of B.
// CHECK:       sm.tensor_map %{{.+}} to !sm.tensor_map<16x64xbf16, swizzle<3,3,3>>
// CHECK:       sm.tensor_map %{{.+}} to !sm.tensor_map<8x64xbf16, swizzle<3,3,3>>
// CHECK:       tile.launch @kernel grid(%{{.+}}) threads(384) cluster [2, 4] args(

// A slot is empty after one arrival of each of two consumer warpgroups of each CTA that its loads write to: of four in
// the row and two in the column, the CTA itself in both.
// CHECK:       sm.mbarriers arrivals(1) : !sm.mbarriers<4>
// CHECK:       sm.mbarriers arrivals(10) : !sm.mbarriers<4>
// CHECK-NEXT:  sm.cluster_barrier
// CHECK-NEXT:  sm.roles {

// A CTA expects its whole tiles, (64 + 16)·64·2 bytes, whoever sends them.
// CHECK:         sm.mbarrier_arrive %[[FULL:.+]][%{{.+}}] expects 10240 : !sm.mbarriers<4>
// CHECK:         sm.tma_load %{{.+}} to %{{.+}} signals %[[FULL]][%{{.+}}] multicast(row) : !sm.tensor_map<16x64xbf16,
// CHECK:         sm.tma_load %{{.+}} to %{{.+}} signals %[[FULL]][%{{.+}}] multicast(column) : !sm.tensor_map<8x64xbf16,
// CHECK:         sm.mbarrier_arrive %empty[%{{.+}}#0] to(cross) after
// CHECK:       sm.cluster_barrier
// CHECK-NEXT:  tile.return
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(16,64):(64,1), swizzle<3,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<16x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<4 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(384) cluster [2, 4] args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {
    schedule = #tile.schedule<grid = <cluster = [2, 4]>, mainloop = <roles = cooperative(2)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %w:2 = scf.for %k = %c0 to %n step %c1 iter_args(%w = %c0, %wp = %c0) -> (index, index) {
        %slot, %as, %bs = sm.producer_acquire %ring[%w, %wp] : !ring
        %at = tile.view %a[%n, %k] : !mat to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%c8, %k] : !mat to !tile.view<16x64xbf16>
        sm.copy_async %bt to %bs : !tile.view<16x64xbf16>, !b
        sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
        %w2, %wp2 = sm.ring_advance %ring[%w, %wp] : !ring
        scf.yield %w2, %wp2 : index, index
      }
    }
    consumer warps(8) {
      %first, %as0, %bs0 = sm.consumer_wait %ring[%c0, %c0] : !ring
      %p = ub.poison : !sm.retired
      %last:3 = scf.for %k = %c1 to %n step %c1 iter_args(%held = %first, %r = %c1, %rp = %c0) -> (!sm.slot<read>, index, index) {
        %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
        %read = memref.dim %as, %c0 : !a
        sm.consumer_release %ring, %held after %p : !ring, !sm.slot<read>
        %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
        scf.yield %full, %r2, %rp2 : !sm.slot<read>, index, index
      }
      sm.consumer_release %ring, %last#0 after %p : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
