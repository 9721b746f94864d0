// Two loops over work tiles in sequence share one ring, whose slots have the size of the first loop's tiles. The cursor
// of each role continues from loop to loop, and the second uses a prefix of A's buffer.
// RUN: lowtide-opt %s -p pipeline-mainloop | filecheck %s

// CHECK-DAG: #[[FULL:.+]] = #tile.layout<(128,32):(32,1)>
// CHECK-DAG: #[[HALF:.+]] = #tile.layout<(64,32):(32,1)>
// CHECK-DAG: !ring = !sm.ring<2 x [memref<128x32xbf16, #[[FULL]], {{.*}}>, memref<8x32xbf16, #{{.+}}, {{.*}}>]>
// CHECK-LABEL: tile.kernel @tail
// CHECK-NOT:     sm.alloc
// CHECK:         %[[RING:.+]] = sm.ring : !ring
// CHECK-NOT:     sm.ring :
// CHECK:         producer warps(4) {
// CHECK:           %[[W:.+]]:2 = tile.work_tiles {{.*}} by [128, 8] order(<row>) persistent part(full_waves) iter_args(%{{.+}} = %c0, %{{.+}} = %c0) -> (index, index) {
// CHECK-NOT:         sm.prefix
// CHECK:             sm.producer_commit
// CHECK:           tile.work_tiles {{.*}} by [64, 8] order(<row>) persistent part(tail_halves) iter_args(%{{.+}} = %[[W]]#0, %{{.+}} = %[[W]]#1) -> (index, index) {
// CHECK:             %{{.+}}, %[[A:.+]], %[[B:.+]] = sm.producer_acquire %[[RING]]
// CHECK:             %[[PART:.+]] = sm.prefix %[[A]] : memref<128x32xbf16, #[[FULL]], {{.*}}> to memref<64x32xbf16, #[[HALF]], {{.*}}>
// CHECK:             sm.copy_async %{{.+}} to %[[PART]] :
// CHECK:             sm.copy_async %{{.+}} to %[[B]] :
// CHECK:         consumer warps(4) {
// CHECK:           %[[R:.+]]:2 = tile.work_tiles {{.*}} part(full_waves)
// CHECK:           tile.work_tiles {{.*}} part(tail_halves) iter_args(%{{.+}} = %[[R]]#0, %{{.+}} = %[[R]]#1) -> (index, index) {
// CHECK:             %{{.+}}, %[[A:.+]], %[[B:.+]] = sm.consumer_wait %[[RING]]
// CHECK:             %[[PART:.+]] = sm.prefix %[[A]] :
// CHECK:             tile.mma tn %[[PART]], %[[B]],
// CHECK:             tile.store {{.*}} into %D
#a = #tile.layout<(128,32):(32,1)>
#half = #tile.layout<(64,32):(32,1)>
#b = #tile.layout<(8,32):(32,1)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<128x32xbf16, #a, #gpu.address_space<workgroup>>
!half = memref<64x32xbf16, #half, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<128x8xf32>
!half_tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @tail(%a: !mat, %b: !mat, %d: !out, %M: index, %K: index) attributes {
    schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>>} {
  %hs = sm.alloc : !half
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  %cs = sm.alloc : !b
  tile.work_tiles (%m, %n) of (%M, %M) by [128, 8] order(<row>) persistent part(full_waves) {
    %zero = tile.splat 0.0 : !tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<128x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %as : !tile.view<128x32xbf16>, !a
      sm.copy %bt to %bs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      scf.yield %next : !tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile, !out
  }
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] order(<row>) persistent part(tail_halves) {
    %zero = tile.splat 0.0 : !half_tile
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %acc = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!half_tile) {
      %at = tile.view %a[%m, %k] : !mat to !tile.view<64x32xbf16>
      %bt = tile.view %b[%n, %k] : !mat to !tile.view<8x32xbf16>
      sm.copy %at to %hs : !tile.view<64x32xbf16>, !half
      sm.copy %bt to %cs : !tile.view<8x32xbf16>, !b
      %next = tile.mma tn %hs, %cs, %c : !half, !b, !half_tile
      scf.yield %next : !half_tile
    }
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !half_tile, !out
  }
  tile.return
}
}
