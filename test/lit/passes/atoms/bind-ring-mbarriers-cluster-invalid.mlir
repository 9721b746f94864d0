// bind-ring refuses rows that the CTAs of a cluster cannot share.
// RUN: lowtide-opt %s --target sm_90a -p bind-ring --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<2x64xbf16, #tile.layout<(2,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !a]>
func.func @host(%a: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) cluster [1, 4] args(%a, %n) : !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %n: index) attributes {
    schedule = #tile.schedule<grid = <cluster = [1, 4]>, mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %n] : !mat to !tile.view<2x64xbf16>
      // expected-error @below {{bind-ring: fills 2 rows, which 4 CTAs cannot share; take another grid.cluster [multicast-rows]}}
      sm.copy_async %at to %as : !tile.view<2x64xbf16>, !a
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
    }
  }
  tile.return
}
