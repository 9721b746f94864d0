// From a problem to level llvm: the device side in the LLVM dialect, the host side as it was.
// RUN: lowtide-opt %s -p 'choose-schedule,verify-schedule,tile-to-ctas,cse,promote-operands-to-smem,assign-smem-layouts, \
// RUN:   decide-timing,pipeline-mainloop,cse,bind-mma-atoms,bind-copy-atoms,split-k-slices,double-buffer-fragments, \
// RUN:   bind-ring,cse,lower-epilogue,assign-smem-offsets,cse,convert-sm-to-nvvm,expand-math, \
// RUN:   cse,canonicalize,cse,convert-math-to-intrinsics,gpu.module(convert-scf-to-cf, \
// RUN:   convert-gpu-to-nvvm,convert-nvvm-to-llvm,convert-to-llvm,reconcile-unrealized-casts, \
// RUN:   canonicalize,cse)' | filecheck %s

// CHECK:       func.func @gemm
// CHECK:       tile.launch @gemm_kernel
// CHECK:       gpu.module @kernels
// CHECK:       llvm.func @gemm_kernel
// CHECK-COUNT-16: nvvm.mma.sync
// CHECK:       llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// CHECK-NOT:   {{scf|gpu.func|math|unrealized}}

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat, %bias: memref<?xf32>) {
  tile.gemm tn %a, %b into %d acc(f32) operands(per_column %bias : memref<?xf32>)
      schedule(#tile.schedule<
  grid = <tile = [32, 32], order = grouped(4), scheduler = persistent>,
  mainloop = <k = 32, stages = 3>,
  multiply = <atoms = [1, 1, 1]>>) {
  ^bb0(%x: f32, %c: f32):
    %s = arith.addf %x, %c : f32
    %e = math.exp %s : f32
    %y = arith.truncf %e : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
