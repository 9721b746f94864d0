// From a problem to level nvvm: one thread's program. Of a 32×32×32 step a warp fills 4 + 4 copies of 16 bytes a thread, loads two
// slices of 2 + 2 ldmatrix.x4, and multiplies 2·4·2 atoms.
// RUN: lowtide-opt %s --check-level -p 'choose-schedule,verify-schedule,tile-to-ctas,cse,promote-operands-to-smem,assign-smem-layouts, \
// RUN:   decide-timing,pipeline-mainloop,cse,bind-mma-atoms,bind-copy-atoms,split-k-slices,double-buffer-fragments, \
// RUN:   bind-ring,cse,lower-epilogue,assign-smem-offsets,cse,convert-sm-to-nvvm,expand-math, \
// RUN:   cse,canonicalize,cse' | filecheck %s

// CHECK-LABEL: module attributes {tile.level = "nvvm", tile.target = "sm_80"}
// CHECK:       gpu.func @gemm_kernel
// CHECK:       scf.for %{{.+}} = %{{.+}} to
// CHECK:       scf.for
// CHECK-COUNT-8: nvvm.cp.async.shared.global
// CHECK-NEXT:  nvvm.cp.async.commit.group
// CHECK:       nvvm.cp.async.wait.group 1
// CHECK-NEXT:  nvvm.barrier0
// CHECK-COUNT-4: nvvm.ldmatrix
// CHECK:       scf.for
// CHECK-COUNT-8: nvvm.cp.async.shared.global
// CHECK-NEXT:  nvvm.cp.async.commit.group
// CHECK-COUNT-4: nvvm.ldmatrix
// CHECK-COUNT-8: nvvm.mma.sync
// CHECK:       nvvm.cp.async.wait.group 1
// CHECK-NEXT:  nvvm.barrier0
// CHECK-COUNT-4: nvvm.ldmatrix
// CHECK-COUNT-8: nvvm.mma.sync
// CHECK:       nvvm.cp.async.wait.group 0
// CHECK-NEXT:  nvvm.barrier0
// CHECK-NOT:   nvvm.mma.sync
// CHECK:       math.exp2 %{{.+}} fastmath<afn>
// CHECK:       nvvm.barrier0
// CHECK:       llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<8xbf16>
// CHECK:       llvm.store %{{.+}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
// CHECK:       nvvm.barrier0
// CHECK-NOT:   {{sm|tile}}.

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
