// bind-wgmma loads an A of tf32 that is contiguous along M to registers, which transposes it. The first K step is peeled.
// RUN: lowtide-opt %s -p bind-wgmma | filecheck %s

// Thread-value layouts: accumulators, and A as the instruction takes it, of two k-slices.
// CHECK-DAG: #[[TV:.+]] = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
// CHECK-DAG: #[[A:.+]] = #tile.tv<threads (4,8,4):(64,1,16), values ((2,2),1,2):((8,256),64,512)>
// CHECK-LABEL: tile.kernel @held
// CHECK:       %[[ZERO:.+]] = sm.splat 0.0
// CHECK:       %[[SLOT0:.+]], %[[A0:.+]], %[[B0:.+]] = sm.consumer_wait %{{.+}}[%c0, %c0]
// CHECK-NEXT:  %[[FA0:.+]] = sm.load_shared %[[A0]] at [0, 0] by "ld.shared.4" trans : memref<16x64xtf32, {{.+}}> to !sm.fragment<64x16xtf32, #[[A]]>
// CHECK-NEXT:  %[[P0:.+]] = sm.wgmma tn %[[FA0]], %[[B0]], %[[ZERO]] by
// CHECK-NEXT:  %[[C0:.+]], %[[DONE0:.+]] = sm.mma_wait 0, %[[P0]]
// CHECK-NEXT:  sm.consumer_release %{{.+}}, %[[SLOT0]] after %[[DONE0]]
// CHECK-NEXT:  %[[R0:.+]], %[[RP0:.+]] = sm.ring_advance
// CHECK:       scf.for %{{.+}} = %c1{{.*}} to %{{.+}} iter_args(%[[C:.+]] = %[[C0]], %[[R:.+]] = %[[R0]], %[[RP:.+]] = %[[RP0]])
// CHECK-NEXT:    %[[SLOT:.+]], %[[AS:.+]], %[[BS:.+]] = sm.consumer_wait %{{.+}}[%[[R]], %[[RP]]]
// CHECK-NEXT:    %[[FA:.+]] = sm.load_shared %[[AS]] at [0, 0] by "ld.shared.4" trans
// The wgmma goes on with sums that the wait has made readable: no group is in flight while A is loaded.
// CHECK-NEXT:    %[[P:.+]] = sm.wgmma tn %[[FA]], %[[BS]], %[[C]] by
// CHECK-NEXT:    %[[SUM:.+]], %[[DONE:.+]] = sm.mma_wait 0, %[[P]]
// CHECK-NEXT:    sm.consumer_release %{{.+}}, %[[SLOT]] after %[[DONE]]
// CHECK:         scf.yield %[[SUM]]
#a = #tile.layout<(16,(32,2)):(32,(1,512)), swizzle<3,2,3>>
#b = #tile.layout<(8,16):(16,1), swizzle<2,2,3>>
!a = memref<16x64xtf32, #a, #gpu.address_space<workgroup>>
!b = memref<8x16xtf32, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
!out = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @held(%d: !out, %steps: index) attributes {
    problem = #tile.problem<nn, a = tf32, b = tf32, acc = f32, results = [full f32]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k8, atoms = [1, 1, 1], permutation = [64, 8, 8]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
    %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
    %next = tile.mma nn %as, %bs, %c : !a, !b, !tile
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
