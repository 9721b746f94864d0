// The producer takes the K steps of every second work tile from the last to the first; consumers take what comes.
// RUN: lowtide-opt %s -p pipeline-mainloop | filecheck %s

// CHECK-LABEL: tile.kernel @serpentine
// CHECK:         producer warps(4) {
// CHECK:           tile.work_tiles (%[[M:[^,]+]], %{{.*}} iter_args(%{{.*}} = %c0, %{{.*}} = %c0, %[[BACK:[^ ]+]] = %c0{{.*}})
// CHECK:             scf.for %[[STEP:[^ ]+]] = %c0{{.*}} to %[[STEPS:[^ ]+]] step
// CHECK:               %[[LAST:.*]] = arith.subi %[[STEPS]], %c1
// CHECK:               %[[FROM_LAST:.*]] = arith.subi %[[LAST]], %[[STEP]]
// CHECK:               %[[FORWARD:.*]] = arith.cmpi eq, %[[BACK]], %c0
// CHECK:               %[[OWN:.*]] = arith.select %[[FORWARD]], %[[STEP]], %[[FROM_LAST]]
// CHECK:               %[[K:.*]] = arith.muli %[[OWN]], %c32
// CHECK:               tile.view %{{[^[]*}}[%[[M]], %[[K]]]
// CHECK:             %[[NEXT:.*]] = arith.xori %[[BACK]], %c1
// CHECK-NEXT:        tile.yield %{{.*}}, %{{.*}}, %[[NEXT]]
// CHECK:         consumer warps(4) {
// CHECK-NOT:     arith.select
// CHECK:           tile.store
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x32xbf16, #tile.layout<(64,32):(32,1)>, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #tile.layout<(8,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @serpentine(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {
    schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1), k_order = serpentine>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
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
