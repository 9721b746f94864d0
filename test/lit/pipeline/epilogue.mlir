// From a problem to level epilogue: shared memory laid out, the store taken apart.
// RUN: lowtide-opt %s --check-level -p 'choose-schedule,verify-schedule,tile-to-ctas,cse,promote-operands-to-smem,assign-smem-layouts, \
// RUN:   decide-timing,pipeline-mainloop,cse,bind-mma-atoms,bind-copy-atoms,split-k-slices,double-buffer-fragments, \
// RUN:   bind-ring,cse,lower-epilogue,assign-smem-offsets,cse' | filecheck %s

// CHECK-LABEL: module attributes {tile.level = "epilogue", tile.target = "sm_80"}
// CHECK:       tile.launch @gemm_kernel grid(%{{.+}}) threads(32) shared_memory(12288)
// CHECK:       tile.kernel @gemm_kernel
// CHECK:       sm.ring at [0, 6144]
// CHECK:       sm.ring_reuse
// CHECK:       sm.load_global {{.*}} by "ld.global.8"
// CHECK:       sm.map
// CHECK:       math.exp
// CHECK:       sm.store_shared {{.*}} by "st.shared.4"
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  sm.load_shared {{.*}} by "ld.shared.16"
// CHECK:       sm.store_global {{.*}} by "st.global.16"
// CHECK-NEXT:  sm.barrier
// CHECK-NOT:   tile.store

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
