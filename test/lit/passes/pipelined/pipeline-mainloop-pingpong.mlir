// pipeline-mainloop with roles = pingpong(2): two instances of the consumer take the work tiles in turn.
// RUN: lowtide-opt %s -p pipeline-mainloop,canonicalize,cse | filecheck %s

// CHECK-LABEL: tile.kernel @pingpong(
// CHECK-SAME:    {{.*}}%[[D:.+]]: memref<?x?xf32, {{.*}}>, %[[M:.+]]: index, %[[N:.+]]: index, %[[K:.+]]: index)
// CHECK:       %[[RING:.+]] = sm.ring : !ring
// CHECK:       %turn = sm.mbarriers arrivals(1) : !sm.mbarriers<2>

// The producer fills the ring for all tiles.
// CHECK:       producer warps(4) registers(24) {
// CHECK:         tile.work_tiles ({{.*}}) of (%[[M]], %[[N]]) by [64, 8] order(<row>) persistent iter_args({{.*}} = %c0, {{.*}} = %c0) -> (index, index) {

// An instance begins with the slots of its first tile, and skips those of the other's after each of its own.
// CHECK:       consumer warps(4) instances(2) registers(240) {
// CHECK:         %instance = sm.role_instance : index
// CHECK:         %[[STEPS:.+]] = arith.ceildivsi %[[K]], %c32
// CHECK:         %[[BEFORE:.+]] = arith.muli %instance, %[[STEPS]]
// CHECK:         %[[R0:.+]], %[[RP0:.+]] = sm.ring_advance %[[RING]][%c0, %c0] by %[[BEFORE]] : !ring
// CHECK:         %[[IS_FIRST:.+]] = arith.cmpi eq, %instance, %c0
// CHECK:         %[[PARITY:.+]] = arith.select %[[IS_FIRST]], %c1, %c0
// CHECK:         %[[ONE_ON:.+]] = arith.addi %instance, %c1
// CHECK:         %[[NEXT:.+]] = arith.remui %[[ONE_ON]], %c2
// CHECK:         tile.work_tiles ({{.*}}) of (%[[M]], %[[N]]) by [64, 8] order(<row>) persistent in_turn iter_args(%[[R:.+]] = %[[R0]], %[[RP:.+]] = %[[RP0]], %[[P:.+]] = %[[PARITY]])

// The turn is from before the first read of the ring to after the last; the tile is stored after it.
// CHECK:           sm.mbarrier_wait %turn[%instance, %[[P]]] : !sm.mbarriers<2>
// CHECK-NEXT:      sm.barrier
// CHECK:           %[[SUM:.+]]:3 = scf.for %{{.+}} = %c0 to %[[STEPS]] step %c1 iter_args(%{{.+}} = %{{.+}}, %{{.+}} = %[[R]], %{{.+}} = %[[RP]])
// CHECK:           sm.mbarrier_arrive %turn[%[[NEXT]]] : !sm.mbarriers<2>
// CHECK-NEXT:      tile.store %[[SUM]]#0 into %[[D]]
// CHECK:           %[[R2:.+]], %[[RP2:.+]] = sm.ring_advance %[[RING]][%[[SUM]]#1, %[[SUM]]#2] by %[[STEPS]] : !ring
// CHECK:           %[[P2:.+]] = arith.xori %[[P]], %c1
// CHECK:           tile.yield %[[R2]], %[[RP2]], %[[P2]] : index, index, index
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #tile.layout<(64,32):(32,1)>, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #tile.layout<(8,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @pingpong(%a: !mat, %b: !mat, %d: !out, %M: index, %N: index, %K: index) attributes {
    schedule = #tile.schedule<mainloop = <stages = 4, roles = pingpong(2), registers = [24, 240]>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %N) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      sm.barrier
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.barrier
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}
