// pipeline-mainloop splits the K loop into a producer and consumers, each with its own work tiles, joined by a ring.
// RUN: lowtide-opt %s -p pipeline-mainloop | filecheck %s

// CHECK-DAG: !ring = !sm.ring<4 x [memref<64x32xbf16, #layout, #gpu.address_space<workgroup>>, memref<8x32xbf16, #layout1, #gpu.address_space<workgroup>>]>
// CHECK-LABEL: tile.kernel @cooperative(
// CHECK-SAME:    %[[A:.+]]: memref<?x?xbf16, {{.*}}>, %[[B:.+]]: memref<?x?xbf16, {{.*}}>, %[[D:.+]]: memref<?x?xbf16, {{.*}}>, %[[BIAS:.+]]: memref<?xf32>, %[[M:.+]]: index, %[[N:.+]]: index, %[[K:.+]]: index)

// The buffers are gone; one ring outlives the tiles and is all that the roles share.
// CHECK-NOT:   sm.alloc
// CHECK:       %[[RING:.+]] = sm.ring : !ring

// One warpgroup fills a slot for each of the ⌈K/32⌉ steps, as fast as slots come free, and goes on with the next tile.
// CHECK:       sm.roles {
// CHECK:         producer warps(4) registers(40) {
// CHECK:           %[[C0:.+]] = arith.constant 0 : index
// CHECK:           tile.work_tiles (%[[ROW:.+]], %[[COLUMN:.+]]) of (%[[M]], %[[N]]) by [64, 8] order(<grouped 4>) persistent iter_args(%[[W0:.+]] = %[[C0]], %[[WP0:.+]] = %[[C0]]) -> (index, index) {
// CHECK:             %[[STEPS:.+]] = arith.ceildivsi %[[K]], %c32{{.*}} : index
// CHECK:             %[[WRITE:.+]]:2 = scf.for %[[I:.+]] = %c0{{.*}} to %[[STEPS]] step %c1{{.*}} iter_args(%[[W:.+]] = %[[W0]], %[[WP:.+]] = %[[WP0]])
// CHECK-NEXT:          %[[SLOT:.+]], %[[AS:.+]], %[[BS:.+]] = sm.producer_acquire %[[RING]][%[[W]], %[[WP]]] : !ring
// CHECK:               %[[AT:.+]] = arith.muli %[[I]], %c32
// CHECK:               %[[AV:.+]] = tile.view %[[A]][%[[ROW]], %[[AT]]]
// CHECK:               sm.copy_async %[[AV]] to %[[AS]] :
// CHECK:               %[[BV:.+]] = tile.view %[[B]][%[[COLUMN]], %[[AT]]]
// CHECK:               sm.copy_async %[[BV]] to %[[BS]] :
// CHECK-NEXT:          sm.producer_commit %[[RING]], %[[SLOT]]
// CHECK:               %[[W2:.+]], %[[WP2:.+]] = sm.ring_advance %[[RING]][%[[W]], %[[WP]]]
// CHECK:               scf.yield %[[W2]], %[[WP2]] : index, index
// CHECK:             tile.yield %[[WRITE]]#0, %[[WRITE]]#1 : index, index

// Two warpgroups take the slots in the same order, multiply, and store each tile; no value comes from the producer.
// CHECK:         consumer warps(8) registers(232) {
// CHECK:           %[[C0:.+]] = arith.constant 0 : index
// CHECK:           tile.work_tiles (%[[ROW:.+]], %[[COLUMN:.+]]) of (%[[M]], %[[N]]) by [64, 8] order(<grouped 4>) persistent iter_args(%[[R0:.+]] = %[[C0]], %[[RP0:.+]] = %[[C0]]) -> (index, index) {
// CHECK:             %[[ZERO:.+]] = tile.splat 0.000000e+00
// CHECK:             %[[STEPS:.+]] = arith.ceildivsi %[[K]], %c32{{.*}} : index
// CHECK:             %[[SUM:.+]]:3 = scf.for %{{.+}} = %c0{{.*}} to %[[STEPS]] step %c1{{.*}} iter_args(%[[ACC:.+]] = %[[ZERO]], %[[R:.+]] = %[[R0]], %[[RP:.+]] = %[[RP0]])
// CHECK-NEXT:          %[[FULL:.+]], %[[FA:.+]], %[[FB:.+]] = sm.consumer_wait %[[RING]][%[[R]], %[[RP]]] : !ring
// CHECK:               %[[NEXT:.+]] = tile.mma tn %[[FA]], %[[FB]], %[[ACC]]
// CHECK:               sm.consumer_release %[[RING]], %[[FULL]]
// CHECK:               %[[R2:.+]], %[[RP2:.+]] = sm.ring_advance %[[RING]][%[[R]], %[[RP]]]
// CHECK:               scf.yield %[[NEXT]], %[[R2]], %[[RP2]]

// The epilogue moves with the store.
// CHECK:             tile.store %[[SUM]]#0 into %[[D]][%[[ROW]], %[[COLUMN]]] operands(per_column %[[BIAS]] : memref<?xf32>) {
// CHECK-NEXT:        ^bb0(%[[X:.+]]: f32, %[[E:.+]]: f32):
// CHECK:               %[[Y:.+]] = arith.addf %[[X]], %[[E]] : f32
// CHECK:               %[[Z:.+]] = arith.truncf %[[Y]] : f32 to bf16
// CHECK:               tile.yield %[[Z]] : bf16
// CHECK:             tile.yield %[[SUM]]#1, %[[SUM]]#2 : index, index
// CHECK-NOT:   sm.copy %
// CHECK-NOT:   sm.barrier
#a = #tile.layout<(64,32):(32,1), swizzle<2,3,3>>
#b = #tile.layout<(8,32):(32,1), swizzle<2,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x32xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @cooperative(%a: !mat, %b: !mat, %d: !mat, %bias: memref<?xf32>, %M: index, %N: index, %K: index) attributes {
    schedule = #tile.schedule<mainloop = <stages = 4, roles = cooperative(2), registers = [40, 232]>>} {
  %bs = sm.alloc : !b
  %as = sm.alloc : !a
  tile.work_tiles (%m, %n) of (%M, %N) by [64, 8] order(<grouped 4>) persistent {
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
    tile.store %acc into %d[%m, %n] operands(per_column %bias : memref<?xf32>) {
    ^bb0(%x: f32, %e: f32):
      %y = arith.addf %x, %e : f32
      %z = arith.truncf %y : f32 to bf16
      tile.yield %z : bf16
    } : !tile, !mat
  }
  tile.return
}

// Extents known here make a constant number of steps; without registers none are asked for; one consumer is one
// warpgroup.
// CHECK-LABEL: tile.kernel @static
// CHECK:         producer warps(4) {
// CHECK:           %[[STEPS:.+]] = arith.constant 4 : index
// CHECK:           scf.for %{{.+}} = %c0{{.*}} to %[[STEPS]] step
// CHECK:         consumer warps(4) {
// CHECK:           %[[STEPS:.+]] = arith.constant 4 : index
// CHECK:           scf.for %{{.+}} = %c0{{.*}} to %[[STEPS]] step
tile.kernel @static(%a: !mat, %b: !mat, %d: memref<?x?xf32, strided<[?, 1]>>, %M: index) attributes {
    schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %c100 = arith.constant 100 : index
  %bs = sm.alloc : !b
  %as = sm.alloc : !a
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %c100 step %c32 iter_args(%c = %zero) -> (!tile) {
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
    } : !tile, memref<?x?xf32, strided<[?, 1]>>
  }
  tile.return
}

// A kernel whose warps all do the same is left to pipeline-mainloop; one without a schedule too.
// CHECK-LABEL: tile.kernel @single
// CHECK-NEXT:    sm.barrier
// CHECK-NOT:     sm.roles
tile.kernel @single() attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = single>>} {
  sm.barrier
  tile.return
}
}
