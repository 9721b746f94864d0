// bind-ring refuses CTAs of a cluster that would share a window of halves.
// RUN: lowtide-opt %s --target sm_90a -p bind-ring --verify-diagnostics

!pair = memref<2x?x?xbf16, strided<[?, ?, 1]>>
!b = memref<32x64xbf16, #tile.layout<(32,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!b, !b]>
func.func @host(%b: !pair, %n: index) {
  tile.launch @kernel grid(%n) threads(256) cluster [2, 1] args(%b, %n) : !pair, index
  return
}
tile.kernel @kernel(%b: !pair, %n: index) attributes {
    schedule = #tile.schedule<grid = <cluster = [2, 1]>, mainloop = <roles = cooperative(1), b = <copy = tma>>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %bt = tile.view %b[%c0, %n, %n] halves : !pair to !tile.view<32x64xbf16>
      // expected-error @below {{bind-ring: loads a window of halves by tma for 2 CTAs; such a window is loaded by tma for one CTA: take tma, and a grid.cluster that does not share B [halves-shared]}}
      sm.copy_async %bt to %bs : !tile.view<32x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
    }
  }
  tile.return
}
