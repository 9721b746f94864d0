// From a problem to level smem: both operands through swizzled buffers, two barriers a K step.
// RUN: lowtide-opt %s --check-level -p 'choose-schedule,verify-schedule,tile-to-ctas,cse,promote-operands-to-smem,assign-smem-layouts' | filecheck %s

// CHECK:       swizzle<
// CHECK-LABEL: module attributes {tile.level = "smem", tile.target = "sm_80"}
// CHECK:       tile.kernel @gemm_kernel
// CHECK-COUNT-2: sm.alloc
// CHECK:       scf.for
// CHECK-COUNT-2: sm.copy
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  tile.mma
// CHECK-NEXT:  sm.barrier
// CHECK-NOT:   sm.

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
