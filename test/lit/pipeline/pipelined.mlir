// From a problem to level pipelined: a ring of three stages, filled in a prologue and in the main loop, drained after it.
// RUN: lowtide-opt %s --check-level -p 'choose-schedule,verify-schedule,tile-to-ctas,cse,promote-operands-to-smem,assign-smem-layouts, \
// RUN:   decide-timing,pipeline-mainloop,cse' | filecheck %s

// CHECK-LABEL: module attributes {tile.level = "pipelined", tile.target = "sm_80"}
// CHECK:       tile.kernel @gemm_kernel
// CHECK-COUNT-1: sm.ring :
// CHECK:       scf.for {{.*}} to %c2
// CHECK-COUNT-1: sm.producer_acquire
// CHECK-COUNT-2: sm.copy_async
// CHECK-COUNT-1: sm.producer_commit
// CHECK:       scf.for
// CHECK-COUNT-1: sm.consumer_wait
// CHECK-COUNT-1: sm.producer_acquire
// CHECK-COUNT-2: sm.copy_async
// CHECK-COUNT-1: sm.producer_commit
// CHECK-COUNT-1: tile.mma
// CHECK-COUNT-1: sm.consumer_release
// CHECK-COUNT-1: sm.producer_tail
// CHECK-NOT:   sm.
// CHECK-NOT:   sm.barrier

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
