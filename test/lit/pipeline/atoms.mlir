// From a problem to level atoms: groups of cp.async, two k-slices of ldmatrix and mma.sync, one of them loaded ahead.
// RUN: lowtide-opt %s --check-level -p 'choose-schedule,verify-schedule,tile-to-ctas,cse,promote-operands-to-smem,assign-smem-layouts, \
// RUN:   decide-timing,pipeline-mainloop,cse,bind-mma-atoms,bind-copy-atoms,split-k-slices,double-buffer-fragments, \
// RUN:   bind-ring,cse' | filecheck %s

// CHECK-LABEL: module attributes {tile.level = "atoms", tile.target = "sm_80"}
// CHECK:       tile.kernel @gemm_kernel
// CHECK:       scf.for {{.*}} to %c2
// CHECK-COUNT-2: sm.cp_async %
// CHECK-COUNT-1: sm.cp_async_commit
// CHECK:       sm.cp_async_wait 1
// CHECK-NEXT:  sm.barrier
// CHECK-COUNT-2: sm.ldmatrix
// CHECK:       scf.for
// CHECK-COUNT-2: sm.cp_async %
// CHECK-COUNT-1: sm.cp_async_commit
// CHECK-COUNT-2: sm.ldmatrix
// CHECK-COUNT-1: sm.mma_sync
// CHECK:       sm.cp_async_wait 1
// CHECK-NEXT:  sm.barrier
// CHECK-COUNT-2: sm.ldmatrix
// CHECK-COUNT-1: sm.mma_sync
// CHECK:       sm.cp_async_wait 0
// CHECK-NEXT:  sm.barrier
// CHECK:       tile.store
// CHECK-NOT:   sm.{{producer|consumer}}

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
