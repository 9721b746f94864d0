// A schedule that promotes: each K step is summed from zero, and its sum added; so it stays down to the consumers' loop.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s --check-prefix=CTA
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,promote-operands-to-smem,pipeline-mainloop | filecheck %s

// CTA-LABEL: tile.kernel @promoted_kernel(
// CTA:         %[[ZERO:.+]] = tile.splat 0.000000e+00 : !tile.tile<64x8xf32>
// CTA:         %[[SUM:.+]] = scf.for {{.*}} iter_args(%[[ACC:.+]] = %[[ZERO]])
// CTA:           %[[PARTIAL:.+]] = tile.mma tn %{{.+}}, %{{.+}}, %[[ZERO]]
// CTA-NEXT:      %[[NEXT:.+]] = tile.promote %[[PARTIAL]] into %[[ACC]] : !tile.tile<64x8xf32>
// CTA-NEXT:      scf.yield %[[NEXT]]
// CTA:         tile.store %[[SUM]]

// CHECK-LABEL: tile.kernel @promoted_kernel(
// CHECK:         consumer warps(4)
// CHECK:           %[[ZERO:.+]] = tile.splat 0.000000e+00 : !tile.tile<64x8xf32>
// CHECK:           scf.for {{.*}} iter_args(%[[ACC:.+]] = %[[ZERO]],
// CHECK:             sm.consumer_wait
// CHECK-NEXT:        %[[PARTIAL:.+]] = tile.mma tn %{{.+}}, %{{.+}}, %[[ZERO]]
// CHECK-NEXT:        tile.promote %[[PARTIAL]] into %[[ACC]]
// CHECK-NEXT:        sm.consumer_release
!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [64, 8], order = row, scheduler = persistent>,
  mainloop = <k = 128, stages = 2, roles = cooperative(1), registers = [0, 0],
    a = <copy = tma, swizzle = <3,4,3>>, b = <copy = tma, swizzle = <3,4,3>>>,
  multiply = <atom = wgmma.m64n8k32, atoms = [1, 1, 1], permutation = [64, 8, 32], fragment_buffers = 1, promote = per_step>,
  epilogue = <path = direct, math = registers, tile = [64, 8], swizzle = <0,3,3>>>
module attributes {tile.target = "sm_90a"} {
func.func @promoted(%a: !mat, %b: !mat, %d: !out) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}
