// Scales of blocks: windows of them at each K step, by which the promoted sum is multiplied; so they stay down to the
// consumers' loop, before its wait. The host checks that there are as many scales as blocks.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s --check-prefix=CTA
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,promote-operands-to-smem,pipeline-mainloop | filecheck %s

// CTA-LABEL: func.func @scaled(
// CTA:         %[[BLOCKS:.+]] = arith.ceildivsi %{{.+}}, %c128
// CTA:         cf.assert %{{.+}}, "scales of M rows must have one for each 1 M and for each 128 of K, rounded up"
// CTA:         cf.assert %{{.+}}, "scales of N columns must have one for each 128 N and for each 128 of K, rounded up"
// CTA-LABEL: tile.kernel @scaled_kernel(
// CTA:         tile.work_tiles (%[[M:.+]], %[[N:.+]]) of
// CTA:         scf.for %[[K:[a-z0-9]+]] = %c0 {{.*}} iter_args(%[[ACC:.+]] = %{{.+}})
// CTA:           %[[PARTIAL:.+]] = tile.mma tn
// CTA-NEXT:      %[[ROWS:.+]] = tile.view row_scale %arg0[%[[M]], %[[K]]] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<64x8xf32>
// CTA-NEXT:      %[[COLUMNS:.+]] = tile.view column_block_scale %arg1[%[[N]], %[[K]]]
// CTA-NEXT:      tile.promote %[[PARTIAL]] into %[[ACC]] block_scaled(%[[ROWS]] : !tile.view<64x8xf32>, %[[COLUMNS]] : !tile.view<64x8xf32>)
// CTA:         tile.store %{{.+}} into %D[%[[M]], %[[N]]] {

// CHECK:         consumer warps(4)
// CHECK:           scf.for %[[STEP:[a-z0-9]+]] = %c0
// CHECK:             %[[K:[a-z0-9]+]] = arith.muli %[[STEP]], %c128
// CHECK-NEXT:        %[[ROWS:.+]] = tile.view row_scale %{{.+}}[%{{.+}}, %[[K]]]
// CHECK-NEXT:        %[[COLUMNS:.+]] = tile.view column_block_scale %{{.+}}[%{{.+}}, %[[K]]]
// CHECK-NEXT:        sm.consumer_wait
// CHECK:             tile.promote %{{.+}} into %{{.+}} block_scaled(%[[ROWS]] : {{.+}}, %[[COLUMNS]] : {{.+}})
!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
!scales = memref<?x?xf32, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [64, 8], order = row, scheduler = persistent>,
  mainloop = <k = 128, stages = 2, roles = cooperative(1), registers = [0, 0],
    a = <copy = tma, swizzle = <3,4,3>>, b = <copy = tma, swizzle = <3,4,3>>>,
  multiply = <atom = wgmma.m64n8k32, atoms = [1, 1, 1], permutation = [64, 8, 32], fragment_buffers = 1, promote = per_step>,
  epilogue = <path = direct, math = registers, tile = [64, 8], swizzle = <0,3,3>>>
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
