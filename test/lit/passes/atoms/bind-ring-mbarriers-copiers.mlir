// bind-ring, where threads copy an operand: each arrives when its copies have landed; one more arrival expects what TMA
// brings. Readers by wgmma fence.
// RUN: lowtide-opt %s -p bind-copy-atoms,bind-ring | filecheck %s

// CHECK-LABEL: tile.kernel @kernel(
// CHECK:       %[[FULL:.+]] = sm.mbarriers arrivals(129) : !sm.mbarriers<4>
// CHECK:       %[[EMPTY:.+]] = sm.mbarriers arrivals(1) : !sm.mbarriers<4>
// CHECK:       copiers warps(4) {
// CHECK:           sm.mbarrier_wait %[[EMPTY]][%[[W:.+]], %{{.+}}]
// CHECK-NEXT:      sm.mbarrier_arrive %[[FULL]][%[[W]]] expects 1024
// CHECK-NEXT:      %[[AS:.+]], %[[BS:.+]] = sm.ring_slot %{{.+}}[%[[W]]]
// CHECK-NEXT:      %[[AT:.+]] = tile.view
// CHECK-NEXT:      sm.cp_async %[[AT]] to %[[AS]] by
// CHECK:           sm.tma_load %{{.+}} to %[[BS]] signals %[[FULL]][%[[W]]]
// CHECK-NEXT:      sm.cp_async_arrive %[[FULL]][%[[W]]]
// CHECK:       consumer warps(4) {
// CHECK:         sm.mbarrier_wait %[[FULL]]
// CHECK-NEXT:    sm.fence_proxy_async
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<4 x [!a, !b]>
#fa = #tile.tv<threads (4,8):(32,1), values ((2,2,2)):((16,8,128))>
#fb = #tile.tv<threads (4,8):(16,1), values ((2,2)):((8,64))>
#fc = #tile.tv<threads (4,8):(32,1), values ((2,2)):((16,8))>
!fa = !sm.fragment<16x16xbf16, #fa>
!fb = !sm.fragment<8x16xbf16, #fb>
!fc = !sm.fragment<16x8xf32, #fc>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {
    schedule = #tile.schedule<mainloop = <roles = cooperative(1), a = <copy = cp.async.4>, b = <copy = tma>>, multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  sm.roles {
    copiers warps(4) {
      %w:2 = scf.for %k = %c0 to %n step %c1 iter_args(%w = %c0, %wp = %c0) -> (index, index) {
        %slot, %as, %bs = sm.producer_acquire %ring[%w, %wp] : !ring
        %at = tile.view %a[%n, %k] : !mat to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%c0, %k] : !mat to !tile.view<8x64xbf16>
        sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
        sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
        %w2, %wp2 = sm.ring_advance %ring[%w, %wp] : !ring
        scf.yield %w2, %wp2 : index, index
      }
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}

// Both operands by threads, before mma.sync: no tensor maps and no fence, since warps read as they write. Each of the
// four warps releases the slot.
// CHECK-LABEL: tile.kernel @by_threads(
// CHECK-SAME:    %{{[^:]+}}: memref<?x?xbf16, {{[^:]*}}>, %{{[^:]+}}: index)
// CHECK:       %[[FULL:.+]] = sm.mbarriers arrivals(1) : !sm.mbarriers<4>
// CHECK:       %[[EMPTY:.+]] = sm.mbarriers arrivals(4) : !sm.mbarriers<4>
// CHECK:       copiers warps(4) {
// CHECK:         sm.mbarrier_wait %[[EMPTY]][%c0, %{{.+}}]
// CHECK-NEXT:    %[[AS:.+]], %[[BS:.+]] = sm.ring_slot
// CHECK:         sm.cp_async %{{.+}} to %[[AS]] by
// CHECK:         sm.store_shared %{{.+}} to %[[BS]] by "st.shared.4"
// CHECK-NEXT:    sm.cp_async_commit
// CHECK-NEXT:    sm.cp_async_wait 0
// CHECK-NEXT:    sm.barrier
// CHECK-NEXT:    sm.mbarrier_arrive %[[FULL]][%c0] :
// CHECK:       consumer warps(4) {
// CHECK:         sm.mbarrier_wait %[[FULL]][%c0, %c0]
// CHECK-NEXT:    sm.ring_slot
// CHECK-NEXT:    sm.ldmatrix
// CHECK-NEXT:    sm.mma_sync
// CHECK-NEXT:    sm.mbarrier_arrive %[[EMPTY]][%c0] each_warp
tile.kernel @by_threads(%a: !mat, %n: index) attributes {
    schedule = #tile.schedule<mainloop = <roles = cooperative(1), a = <copy = cp.async.16>, b = <copy = staged.4>>,
      multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    copiers warps(4) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
      %at = tile.view %a[%n, %c0] : !mat to !tile.view<64x64xbf16>
      sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
      %bt = tile.view %a[%c0, %n] : !mat to !tile.view<8x64xbf16>
      sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
    }
    consumer warps(4) {
      %fb = sm.splat 0.0 : !fb
      %fc = sm.splat 0.0 : !fc
      %full, %as, %bs = sm.consumer_wait %ring[%c0, %c0] : !ring
      %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" : !a to !fa
      %sum = sm.mma_sync %fa, %fb, %fc by <mma.m16n8k16.f32.bf16, atoms [1, 1, 1]> : !fa, !fb, !fc
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
