// Scales of blocks are copied to shared memory beside A and B, between the barriers of a K step, and promotion takes
// windows of the copies. With a producer they are further buffers of a slot of the ring.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,promote-operands-to-smem,canonicalize,cse | filecheck %s
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,promote-operands-to-smem,assign-smem-layouts,pipeline-mainloop,canonicalize,cse | filecheck %s --check-prefix=ROLES

// A row with a scale for each row of the tile; and of 128×128 blocks the three that 176 columns may reach into, with
// those of 32 · 128 of K, since a row of a box has 16 bytes, and a stage is a multiple of 128.
// CHECK-LABEL: tile.kernel @scaled_kernel(
// CHECK-DAG:     %[[RS:.+]] = sm.alloc : memref<1x64xf32, {{.+}}>
// CHECK-DAG:     %[[CS:.+]] = sm.alloc : memref<3x32xf32, {{.+}}>
// CHECK:         tile.work_tiles (%[[M:.+]], %[[N:.+]]) of
// CHECK:         scf.for %[[K:[a-z0-9]+]] =
// CHECK:           %[[KB:.+]] = arith.divui %[[K]], %c128
// CHECK-NEXT:      %[[ROWS:.+]] = tile.view %arg0[%[[KB]], %[[M]]] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<1x64xf32>
// CHECK-NEXT:      sm.copy %[[ROWS]] to %[[RS]]
// CHECK-NEXT:      %[[NB:.+]] = arith.divui %[[N]], %c128
// CHECK-NEXT:      %[[KG:.+]] = arith.divui %[[K]], %c4096
// CHECK-NEXT:      %[[KF:.+]] = arith.muli %[[KG]], %c32
// CHECK-NEXT:      %[[COLUMNS:.+]] = tile.view %arg1[%[[NB]], %[[KF]]] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<3x32xf32>
// CHECK-NEXT:      sm.copy %[[COLUMNS]] to %[[CS]]
// CHECK-NEXT:      sm.barrier
// CHECK-NEXT:      tile.mma
// CHECK-NEXT:      %[[R:.+]] = tile.view row_scale %[[RS]][%c0, %c0] : memref<1x64xf32, {{.+}}> to !tile.view<64x176xf32>
// CHECK-NEXT:      %[[FIRST:.+]] = arith.remui %[[N]], %c128
// CHECK-NEXT:      %[[WITHIN:.+]] = arith.remui %[[K]], %c4096
// CHECK-NEXT:      %[[C:.+]] = tile.view column_block_scale %[[CS]][%[[FIRST]], %[[WITHIN]]] : memref<3x32xf32, {{.+}}> to !tile.view<64x176xf32>
// CHECK-NEXT:      tile.promote {{.+}} block_scaled(%[[R]] : {{.+}}, %[[C]] : {{.+}})
// CHECK-NEXT:      sm.barrier

// ROLES:         !ring = !sm.ring<2 x [{{.+}}, memref<1x64xf32, {{.+}}, memref<3x32xf32, {{.+}}]>
// ROLES:         %[[RING:.+]] = sm.ring : !ring
// ROLES:         producer
// ROLES:           scf.for %[[STEP:[a-z0-9]+]] =
// ROLES:             %{{.+}}, %a, %b, %[[RS:.+]], %[[CS:.+]] = sm.producer_acquire %[[RING]]
// ROLES:             %[[K:.+]] = arith.muli %[[STEP]], %c128
// ROLES:             %[[KB:.+]] = arith.divui %[[K]], %c128
// ROLES:             sm.copy_async %{{.+}} to %[[RS]]
// ROLES:             sm.copy_async %{{.+}} to %[[CS]]
// ROLES-NEXT:        sm.producer_commit
// ROLES:         consumer
// ROLES:             %{{.+}}, %a, %b, %[[RS:.+]], %[[CS:.+]] = sm.consumer_wait %[[RING]]
// ROLES:             tile.view row_scale %[[RS]][%c0, %c0]
// ROLES:             tile.view column_block_scale %[[CS]][%{{.+}}, %{{.+}}]
// ROLES:             tile.mma tn %a, %b
// ROLES:             tile.promote
!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
!scales = memref<?x?xf32, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [64, 176], order = row, scheduler = persistent>,
  mainloop = <k = 128, stages = 2, roles = cooperative(1), registers = [0, 0], scales = staged,
    a = <copy = tma, swizzle = <3,4,3>>, b = <copy = tma, swizzle = <3,4,3>>>,
  multiply = <atom = wgmma.m64n176k32, atoms = [1, 1, 1], permutation = [64, 176, 32], fragment_buffers = 1, promote = per_step>,
  epilogue = <path = direct, math = registers, tile = [64, 176], swizzle = <0,3,3>>>
module attributes {tile.target = "sm_90a"} {
func.func @scaled(%a: !mat, %b: !mat, %d: !out, %sa: !scales, %sb: !scales) {
  tile.gemm tn %a, %b into %d acc(f32) operands(row_scale %sa : !scales, column_block_scale %sb : !scales) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}
