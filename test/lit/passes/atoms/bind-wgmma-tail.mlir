// bind-wgmma: a tile smaller than the slots of the ring is multiplied from a prefix of a slot's buffer, which the peeled
// first K step takes too.
// RUN: lowtide-opt %s -p bind-wgmma | filecheck %s

// CHECK-LABEL: tile.kernel @half
// CHECK:       %{{.+}}, %[[A0:.+]], %[[B0:.+]] = sm.consumer_wait
// CHECK:       %[[P0:.+]] = sm.prefix %[[A0]] : memref<128x64xbf16, {{.*}}> to memref<64x64xbf16, {{.*}}>
// CHECK-NEXT:  sm.wgmma tn %[[P0]], %[[B0]],
// CHECK:       scf.for
// CHECK:         %{{.+}}, %[[A:.+]], %[[B:.+]] = sm.consumer_wait
// CHECK:         %[[P:.+]] = sm.prefix %[[A]] :
// CHECK-NEXT:    sm.wgmma tn %[[P]], %[[B]],
// CHECK-NOT:   tile.mma
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!half = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @half(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %hs = sm.prefix %as : !a to !half
      %next = tile.mma tn %hs, %bs, %c : !half, !b, !tile
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
