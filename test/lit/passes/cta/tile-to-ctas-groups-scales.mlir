// Scales of groups of rows: those of columns are those of the item's group, a matrix of a batch.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,promote-operands-to-smem,canonicalize,cse | filecheck %s --check-prefix=STAGED

// CHECK-LABEL: func.func @scaled
// CHECK:         cf.assert %{{.+}}, "scales of M rows must have one for each 1 M and for each 128 of K, rounded up"
// CHECK:         cf.assert %{{.+}}, "scales of N columns must have one for each 128 N and for each 128 of K, rounded up"
// CHECK:         cf.assert %{{.+}}, "epilogue operand 2 must have a part for each matrix of B"

// CHECK-LABEL: tile.kernel @scaled_kernel(
// CHECK:         tile.work_tiles (%m, %n) of {{.*}} groups(%group to %rows_end of
// CHECK:           %[[OWN:.+]] = memref.subview %{{.+}}[%group, 0, 0] [1, %{{.+}}, %{{.+}}] [1, 1, 1] : memref<?x?x?xf32, strided<[?, ?, 1]>> to memref<?x?xf32, strided<[?, 1], offset: ?>>
// CHECK:           scf.for %[[K:[a-z0-9]+]] =
// CHECK:             %[[ROWS:.+]] = tile.view row_scale %{{.+}}[%m, %[[K]]]
// CHECK:             %[[COLUMNS:.+]] = tile.view column_block_scale %[[OWN]][%n, %[[K]]]
// CHECK:             tile.promote {{.+}} block_scaled(%[[ROWS]] : {{.+}}, %[[COLUMNS]] : {{.+}})

// TMA copies the scales of columns from the argument, a batch. A tile begins at any row, and its box of the scales of
// rows at the multiple of 16 bytes before, so that it has three more: 64 + 3 of them are 96 with rows of 128 bytes.
// STAGED-LABEL: tile.kernel @scaled_kernel(
// STAGED-DAG:     %[[RS:.+]] = sm.alloc : memref<1x96xf32, {{.+}}>
// STAGED-DAG:     %[[CS:.+]] = sm.alloc : memref<1x32xf32, {{.+}}>
// STAGED-NOT:     memref.subview %arg{{.+}}[%group
// STAGED:         tile.work_tiles (%[[M:.+]], %[[N:.+]]) of {{.*}} groups(%[[GROUP:.+]] to
// STAGED:         scf.for
// STAGED:           %[[FOUR:.+]] = arith.divui %[[M]], %c4
// STAGED-NEXT:      %[[FIRST:.+]] = arith.muli %[[FOUR]], %c4
// STAGED:           tile.view %{{.+}}[%{{.+}}, %[[FIRST]]] : {{.*}} to !tile.view<1x96xf32>
// STAGED:           tile.view %{{.+}}[%[[GROUP]], %{{.+}}, %{{.+}}] : memref<?x?x?xf32, strided<[?, ?, 1]>> to !tile.view<1x32xf32>
// STAGED:           tile.mma
// STAGED:           %[[REST:.+]] = arith.remui %[[M]], %c4
// STAGED-NEXT:      tile.view row_scale %[[RS]][%[[REST]], %c0] : memref<1x96xf32, {{.+}}> to !tile.view<64x32xf32>
!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!mats = memref<?x?x?xf8E4M3FN, strided<[?, ?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
!rows = memref<?x?xf32, strided<[?, 1]>>
!columns = memref<?x?x?xf32, strided<[?, ?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [64, 32], order = row, scheduler = persistent>,
  mainloop = <k = 128, stages = 2, roles = cooperative(1), registers = [0, 0], scales = staged,
    a = <copy = tma, swizzle = <3,4,3>>, b = <copy = tma, swizzle = <3,4,3>>>,
  multiply = <atom = wgmma.m64n32k32, atoms = [1, 1, 1], permutation = [64, 32, 32], fragment_buffers = 1, promote = per_step>,
  epilogue = <path = direct, math = registers, tile = [64, 32], swizzle = <0,3,3>>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @scaled(%a: !mat, %b: !mats, %d: !out, %ends: memref<?xi32>, %sa: !rows, %sb: !columns) {
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>, row_scale %sa : !rows, column_block_scale %sb : !columns) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !out
  return
}
}
