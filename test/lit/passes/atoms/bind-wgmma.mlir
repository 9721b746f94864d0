// bind-wgmma binds each mma to wgmma: a group is issued while the one before it runs, which a wait then retires.
// RUN: lowtide-opt %s -p bind-wgmma | filecheck %s

// The accumulator's layout is the atom's: 64 rows by the lanes and warps of a warpgroup, pairs along N.
// CHECK-DAG: #[[TV:.+]] = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
// CHECK-DAG: #[[TWO:.+]] = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
// CHECK-DAG: #[[MMA:.+]] = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1], permutation [64, 8, 16]>
// CHECK-DAG: ![[PENDING:.+]] = !sm.pending<!sm.fragment<64x8xf32, #[[TV]]>>
// CHECK-LABEL: tile.kernel @one_in_flight(
// CHECK-SAME:    %[[D:.+]]: memref<?x?xf32, {{.*}}>, %[[STEPS:.+]]: index)
// CHECK:       %[[RING:.+]] = sm.ring : !ring

// The first K step is taken out of the loop: nothing runs yet that it could wait for.
// CHECK:       %[[ZERO:.+]] = sm.splat 0.000000e+00 : !sm.fragment<64x8xf32, #[[TV]]>
// CHECK:       %[[S0:.+]], %[[A0:.+]], %[[B0:.+]] = sm.consumer_wait %[[RING]][%c0, %c0] : !ring
// CHECK-NEXT:  %[[P0:.+]] = sm.wgmma tn %[[A0]], %[[B0]], %[[ZERO]] by #[[MMA]] : {{.*}}, !sm.fragment<64x8xf32, #[[TV]]> -> ![[PENDING]]
// CHECK:       %[[R1:.+]], %[[RP1:.+]] = sm.ring_advance %[[RING]][%c0, %c0] : !ring

// The loop carries the pending accumulator and the slot that it reads: that slot is released only once a wait has said
// that its group is done, and with the proof of it.
// CHECK:       %[[SUM:.+]]:4 = scf.for %{{.+}} = %c1{{.*}} to %[[STEPS]] step %c1{{.*}} iter_args(%[[P:.+]] = %[[P0]], %[[HELD:.+]] = %[[S0]], %[[R:.+]] = %[[R1]], %[[RP:.+]] = %[[RP1]])
// CHECK-NEXT:    %[[S:.+]], %[[A:.+]], %[[B:.+]] = sm.consumer_wait %[[RING]][%[[R]], %[[RP]]] : !ring
// CHECK:         %[[Q:.+]] = sm.wgmma tn %[[A]], %[[B]], %[[P]] by #[[MMA]]
// CHECK:         %[[Q2:.+]], %[[DONE:.+]] = sm.mma_wait 1, %[[Q]]
// CHECK:         sm.consumer_release %[[RING]], %[[HELD]] after %[[DONE]] : !ring, !sm.slot<read>
// CHECK:         %[[R2:.+]], %[[RP2:.+]] = sm.ring_advance %[[RING]][%[[R]], %[[RP]]] : !ring
// CHECK:         scf.yield %[[Q2]], %[[S]], %[[R2]], %[[RP2]]

// The last group is waited for, its slot released, and the accumulator readable.
// CHECK:       %[[C:.+]], %[[LAST:.+]] = sm.mma_wait 0, %[[SUM]]#0 : {{.*}} -> !sm.fragment<64x8xf32, #[[TV]]>
// CHECK-NEXT:  sm.consumer_release %[[RING]], %[[SUM]]#1 after %[[LAST]] : !ring, !sm.slot<read>
// CHECK-NEXT:  tile.store %[[C]] into %[[D]]
// CHECK:       } : !sm.fragment<64x8xf32, #[[TV]]>
// CHECK-NOT:   tile.mma
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
!a_m = memref<64x128xbf16, #tile.layout<(64,(64,2)):(64,(1,4096)), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b_n = memref<64x8xbf16, #tile.layout<(64,8):(8,1)>, #gpu.address_space<workgroup>>
!ring_mn = !sm.ring<2 x [!a_m, !b_n]>
!tile_two = !tile.tile<128x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @one_in_flight(%d: !out, %steps: index) attributes {
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
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
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

// Cursors begin where the loop's did and go on from where it left them. The accumulator's old start is gone.
// CHECK-LABEL: tile.kernel @cursor(
// CHECK-NOT:   tile.splat
// CHECK:       sm.consumer_wait %{{.+}}[%c1, %c0]
// CHECK:       sm.ring_advance %{{.+}}[%c1, %c0]
// CHECK:       %[[SUM:.+]]:4 = scf.for
// CHECK:       sm.ring_advance %{{.+}}[%[[SUM]]#2, %[[SUM]]#3]
// CHECK-NOT:   tile.splat
tile.kernel @cursor(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c1, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  %more, %phase = sm.ring_advance %ring[%sum#1, %sum#2] : !ring
  tile.return
}

// M and N contiguous, and two blocks of 64 rows for the one warpgroup: its accumulator holds one after the other.
// CHECK-LABEL: tile.kernel @two_blocks(
// CHECK:       sm.wgmma nt %{{.+}}, %{{.+}}, %{{.+}} by #[[MMA]] : memref<64x128xbf16, {{.+}}>, memref<64x8xbf16, {{.+}}>, !sm.fragment<128x8xf32, #[[TWO]]>
// CHECK:       sm.wgmma nt
tile.kernel @two_blocks(%d: !out, %steps: index) attributes {
    problem = #tile.problem<nt, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring_mn
  %zero = tile.splat 0.0 : !tile_two
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile_two, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring_mn
      %next = tile.mma nt %as, %bs, %c : !a_m, !b_n, !tile_two
      sm.consumer_release %ring, %full : !ring_mn, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring_mn
      scf.yield %next, %r2, %rp2 : !tile_two, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile_two, !out
  tile.return
}

// A kernel without roles is not touched.
// CHECK-LABEL: tile.kernel @single(
// CHECK:       tile.mma tn
// CHECK-NOT:   sm.wgmma
tile.kernel @single(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<mainloop = <roles = single>>} {
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
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
