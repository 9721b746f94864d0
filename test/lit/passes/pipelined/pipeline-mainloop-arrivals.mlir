// The agent that fills the ring waits for the shard that it copies; an agent that reads the ring does not.
// RUN: lowtide-opt %s -p pipeline-mainloop | filecheck %s

// CHECK-LABEL: tile.kernel @arrivals
// CHECK:         producer warps(4) {
// CHECK:           tile.work_tiles {{.*}} batch(%[[BATCH:[^ ]+]] of
// CHECK:             %[[SHARD:.+]] = tile.await_arrival %[[BATCH]] of
// CHECK:             sm.producer_acquire
// CHECK:             tile.view %A[%[[SHARD]],
// CHECK:         consumer warps(4) {
// CHECK-NOT:     tile.await_arrival
// CHECK:           tile.is_late
!mat = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!out = memref<?x?x?xf32, strided<[?, ?, 1]>>
!a = memref<64x32xbf16, #tile.layout<(64,32):(32,1)>, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #tile.layout<(8,32):(32,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @arrivals(%A: !mat, %b: !mat, %d: !out, %M: index, %K: index, %R: index, %arrived: memref<?xi32>,
    %turn: memref<3xi32>, %status: memref<4xi32>) attributes {
    schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] batch(%batch of %R) order(<row>) persistent {
    %from = tile.await_arrival %batch of %arrived, %turn, %status : memref<?xi32>, memref<3xi32>, memref<4xi32>
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %A[%from, %m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%batch, %n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<64x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    %late = tile.is_late %status : memref<4xi32>
    %row = arith.select %late, %M, %m : index
    tile.store %acc into %d[%batch, %row, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.return
}
}
