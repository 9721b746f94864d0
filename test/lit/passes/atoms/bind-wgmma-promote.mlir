// bind-wgmma, of sums that are promoted: each K step is summed from zero, waited for, and added.
// RUN: lowtide-opt %s -p bind-wgmma --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: tile.kernel @promoted(
// CHECK:       %[[ZERO:.+]] = sm.splat 0.000000e+00 : !sm.fragment<64x8xf32, #[[TV:.+]]>
// CHECK:       %[[SUM:.+]]:3 = scf.for %{{.+}} = %c0 to %{{.+}} step %c1 iter_args(%[[C:.+]] = %[[ZERO]], %[[R:.+]] = %c0, %[[RP:.+]] = %c0)
// CHECK-NEXT:    %[[S:.+]], %[[A:.+]], %[[B:.+]] = sm.consumer_wait %[[RING:.+]][%[[R]], %[[RP]]] : !ring
// CHECK-NEXT:    %[[NEXT:.+]], %[[DONE:.+]] = sm.wgmma_promote tn %[[A]], %[[B]] into %[[C]] by
// CHECK-NEXT:    sm.consumer_release %[[RING]], %[[S]] after %[[DONE]]
// CHECK:         %[[R2:.+]], %[[RP2:.+]] = sm.ring_advance
// CHECK-NEXT:    scf.yield %[[NEXT]], %[[R2]], %[[RP2]]
// CHECK:       tile.store %[[SUM]]#0
// CHECK-NOT:   tile.promote
#a = #tile.layout<(64,128):(128,1), swizzle<3,4,3>>
#b = #tile.layout<(8,128):(128,1), swizzle<3,4,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x128xf8E4M3FN, #a, #gpu.address_space<workgroup>>
!b = memref<8x128xf8E5M2, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @promoted(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = f8E4M3FN, b = f8E5M2, acc = f32, results = [full f32]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k32, atoms = [1, 1, 1], permutation = [64, 8, 32], promote = per_step>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %partial = tile.mma tn %as, %bs, %zero : !a, !b, !tile
      %next = tile.promote %partial into %c : !tile
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

// -----

// With scales: their windows are loaded into fragments like the accumulators, before the wait for the slot.
// CHECK-LABEL: tile.kernel @scaled(
// CHECK:       scf.for %[[STEP:[a-z0-9]+]] = %c0
// CHECK-NEXT:    %[[K:.+]] = arith.muli %[[STEP]], %c128
// CHECK-NEXT:    %[[SA:.+]] = sm.load_scales row_scale %{{.+}}[%c0, %[[K]]] : memref<?x?xf32, strided<[?, 1]>> to !sm.fragment<64x8xf32, #[[TV:.+]]>
// CHECK-NEXT:    %[[SB:.+]] = sm.load_scales column_block_scale %{{.+}}[%c0, %[[K]]]
// CHECK-NEXT:    sm.consumer_wait
// CHECK-NEXT:    sm.wgmma_promote tn %{{.+}}, %{{.+}} into %{{.+}} scaled(%[[SA]] : !sm.fragment<64x8xf32, #[[TV]]>, %[[SB]] : {{.+}}) by
#a = #tile.layout<(64,128):(128,1), swizzle<3,4,3>>
#b = #tile.layout<(8,128):(128,1), swizzle<3,4,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x128xf8E4M3FN, #a, #gpu.address_space<workgroup>>
!b = memref<8x128xf8E5M2, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
!window = !tile.view<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @scaled(%d: !out, %scale_a: !out, %scale_b: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = f8E4M3FN, b = f8E5M2, acc = f32, results = [full f32], operands = [row_scale f32, column_block_scale f32]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k32, atoms = [1, 1, 1], permutation = [64, 8, 32], promote = per_step>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %k = arith.muli %i, %c128 : index
      %rows = tile.view row_scale %scale_a[%c0, %k] : !out to !window
      %columns = tile.view column_block_scale %scale_b[%c0, %k] : !out to !window
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %partial = tile.mma tn %as, %bs, %zero : !a, !b, !tile
      %next = tile.promote %partial into %c block_scaled(%rows : !window, %columns : !window) : !tile
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

// -----

// Scales in the slot are loaded from there, after the wait for it.
// CHECK-LABEL: tile.kernel @staged(
// CHECK:       scf.for
// CHECK-NEXT:    %[[S:.+]], %[[A:.+]], %[[B:.+]], %[[RS:.+]], %[[CS:.+]] = sm.consumer_wait
// CHECK-NEXT:    %[[FIRST:.+]] = arith.remui %{{.+}}, %c128
// CHECK-NEXT:    %[[ROWS:.+]] = sm.load_scales row_scale %[[RS]][%c0, %c0]
// CHECK-NEXT:    %[[COLUMNS:.+]] = sm.load_scales column_block_scale %[[CS]][%[[FIRST]], %c0]
// CHECK-NEXT:    sm.wgmma_promote tn %[[A]], %[[B]] into %{{.+}} scaled(%[[ROWS]] : {{.+}}, %[[COLUMNS]] : {{.+}})
// CHECK-NEXT:    sm.consumer_release
#a = #tile.layout<(64,128):(128,1), swizzle<3,4,3>>
#b = #tile.layout<(8,128):(128,1), swizzle<3,4,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x128xf8E4M3FN, #a, #gpu.address_space<workgroup>>
!b = memref<8x128xf8E5M2, #b, #gpu.address_space<workgroup>>
!rs = memref<1x64xf32, #tile.layout<(1,64):(64,1)>, #gpu.address_space<workgroup>>
!cs = memref<1x32xf32, #tile.layout<(1,32):(32,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b, !rs, !cs]>
!tile = !tile.tile<64x8xf32>
!window = !tile.view<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @staged(%d: !out, %n: index, %steps: index) attributes {
    problem = #tile.problem<tn, a = f8E4M3FN, b = f8E5M2, acc = f32, results = [full f32], operands = [row_scale f32, column_block_scale f32]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k32, atoms = [1, 1, 1], permutation = [64, 8, 32], promote = per_step>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs, %sas, %sbs = sm.consumer_wait %ring[%r, %rp] : !ring
      %first = arith.remui %n, %c128 : index
      %rows = tile.view row_scale %sas[%c0, %c0] : !rs to !window
      %columns = tile.view column_block_scale %sbs[%first, %c0] : !cs to !window
      %partial = tile.mma tn %as, %bs, %zero : !a, !b, !tile
      %next = tile.promote %partial into %c block_scaled(%rows : !window, %columns : !window) : !tile
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

// -----

// A sum that goes on with the one before would be added twice.
#a = #tile.layout<(64,128):(128,1), swizzle<3,4,3>>
#b = #tile.layout<(8,128):(128,1), swizzle<3,4,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x128xf8E4M3FN, #a, #gpu.address_space<workgroup>>
!b = memref<8x128xf8E4M3FN, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @twice(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = f8E4M3FN, b = f8E4M3FN, acc = f32, results = [full f32]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k32, atoms = [1, 1, 1], permutation = [64, 8, 32], promote = per_step>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %partial = tile.mma tn %as, %bs, %c : !a, !b, !tile
      // expected-error @below {{bind-wgmma: must add a sum that starts from zero, the loop's [wgmma-sum]}}
      %next = tile.promote %partial into %c : !tile
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
