// bind-wgmma converts packed weights, which are A, in registers: each K step is summed from zero, waited for and scaled.
// RUN: lowtide-opt %s -p bind-wgmma | filecheck %s

// Thread-value layouts: accumulators, the bytes of rows of two weights, and A as the instruction takes it.
// CHECK-DAG: #[[TV:.+]] = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
// CHECK-DAG: #[[BYTES:.+]] = #tile.tv<threads (4,8,4):(256,1,8), values (8):(32)>
// CHECK-DAG: #[[A:.+]] = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,2):((64,8,512),64,1024)>
// CHECK-LABEL: tile.kernel @weights
// CHECK:       %[[ZERO:.+]] = sm.splat 0.0
// What the groups of the first two steps have is loaded before the loop, of later ones two steps ahead.
// CHECK:       %[[S0:.+]] = sm.load_global {{.*}} by "ld.global.4" : !tile.view<64x8xf32> to !sm.fragment<64x8xf32, #[[TV]]>
// CHECK:       %[[Z0:.+]] = sm.load_global {{.*}} by "ld.global.1" : !tile.view<64x16xsi8> to !sm.fragment<64x16xsi8
// CHECK:       %[[S1:.+]] = sm.load_global {{.*}} by "ld.global.4"
// CHECK:       %[[Z1:.+]] = sm.load_global {{.*}} by "ld.global.1"
// CHECK:       scf.for %[[I:.+]] = %{{.+}} iter_args(%[[C:.+]] = %[[ZERO]], %[[R:.+]] = %c0, %[[RP:.+]] = %c0, %[[S:.+]] = %[[S0]], %[[Z:.+]] = %[[Z0]], %[[S_1:.+]] = %[[S1]], %[[Z_1:.+]] = %[[Z1]])
// CHECK:         %[[AFTER:.+]] = arith.addi %[[I]], %c2
// CHECK:         %[[GROUP:.+]] = arith.minui %[[AFTER]], %{{.+}}
// CHECK:         tile.view per_row %{{.+}}[%[[GROUP]], %c0]
// CHECK:         %[[S2:.+]] = sm.load_global {{.*}} by "ld.global.4"
// CHECK:         %[[Z2:.+]] = sm.load_global {{.*}} by "ld.global.1"
// CHECK:         %[[SLOT:.+]], %[[AS:.+]], %[[BS:.+]] = sm.consumer_wait %{{.+}}[%[[R]], %[[RP]]]
// CHECK:         %[[W:.+]] = sm.load_shared %[[AS]] at [0, 0] by "ld.shared.8" : {{.*}} to !sm.fragment<32x32xui8, #[[BYTES]]>
// CHECK-NEXT:    %[[FA:.+]] = sm.unpack_weights %[[W]] at 0 of si4 less %[[Z]] : {{.*}} to !sm.fragment<64x32xbf16, #[[A]]>
// CHECK-NEXT:    %[[P:.+]] = sm.wgmma tn %[[FA]], %[[BS]], %[[ZERO]] by
// CHECK:         %[[DONE:.+]], %[[RETIRED:.+]] = sm.mma_wait 0, %[[P]]
// CHECK-NEXT:    sm.consumer_release %{{.+}}, %[[SLOT]] after %[[RETIRED]]
// CHECK-NEXT:    %[[SUM:.+]] = sm.map %[[DONE]], %[[C]], %[[S]]
// CHECK:           math.fma
// CHECK:         scf.yield %[[SUM]], %{{.+}}, %{{.+}}, %[[S_1]], %[[Z_1]], %[[S2]], %[[Z2]]
#a = #tile.layout<(32,32):(32,1), swizzle<1,4,3>>
#b = #tile.layout<(8,32):(32,1), swizzle<2,3,3>>
!a = memref<32x32xui8, #a, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
!groups = memref<?x?xf32, strided<[?, 1]>>
!points = memref<?x?xsi8, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @weights(%d: memref<?x?xf32, strided<[1, ?]>>, %s: !groups, %z: !points, %steps: index) attributes {
    problem = #tile.problem<tn, a = si4, b = bf16, acc = f32, results = [full f32], operands = [group_scale f32, group_zero si8],
      group = 32, swapped>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16], promote = per_step>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
    %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
    %sv = tile.view per_row %s[%i, %c0] : !groups to !tile.view<64x8xf32>
    %zv = tile.view per_row %z[%i, %c0] : !points to !tile.view<64x32xsi8>
    %p = tile.mma tn %as, %bs weights(si4 less %zv : !tile.view<64x32xsi8>), %zero : !a, !b, !tile
    %next = tile.promote %p into %c scaled(%sv : !tile.view<64x8xf32>) : !tile
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, memref<?x?xf32, strided<[1, ?]>>
  tile.return
}
}
