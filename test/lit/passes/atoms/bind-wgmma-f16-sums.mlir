// bind-wgmma on sums in f16: the atom has them, and a thread holds the same elements as of f32.
// RUN: lowtide-opt %s -p bind-wgmma | filecheck %s

// CHECK-DAG: #[[TV:.+]] = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
// CHECK-DAG: #[[MMA:.+]] = #sm.tiled_mma<wgmma.m64n8k16.f16.f16, atoms [1, 1, 1], permutation [64, 8, 16]>
// CHECK-LABEL: tile.kernel @half_sums(
// CHECK:       %[[ZERO:.+]] = sm.splat 0.000000e+00 : !sm.fragment<64x8xf16, #[[TV]]>
// CHECK:       sm.wgmma tn %{{.+}}, %{{.+}}, %[[ZERO]] by #[[MMA]] : {{.*}}, !sm.fragment<64x8xf16, #[[TV]]> -> !
// CHECK:       scf.for
// CHECK:         sm.wgmma tn %{{.+}}, %{{.+}}, %{{.+}} by #[[MMA]]
// CHECK:         sm.mma_wait 1,
// CHECK:       %[[C:.+]], %{{.+}} = sm.mma_wait 0, %{{.+}} -> !sm.fragment<64x8xf16, #[[TV]]>
// CHECK:       tile.store %[[C]] into
// CHECK-NOT:   tile.mma
!out = memref<?x?xf16, strided<[?, 1]>>
!a = memref<64x64xf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf16>
module attributes {tile.target = "sm_90a"} {
tile.kernel @half_sums(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = f16, b = f16, acc = f16, results = [full f16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !tile, !out
  tile.return
}
}
