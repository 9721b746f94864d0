// From a problem to level cta: a launch for each kernel; a kernel is work tiles, a K loop, one mma on windows, one store.
// RUN: lowtide-opt %s --check-level -p 'choose-schedule,verify-schedule,tile-to-ctas,cse' | filecheck %s

// CHECK-LABEL: module attributes {tile.level = "cta", tile.target = "sm_80"}
// CHECK:       func.func @gemm
// CHECK-COUNT-4: cf.assert
// CHECK:       tile.launch @gemm_kernel
// CHECK:       tile.kernel @gemm_kernel
// CHECK-COUNT-1: tile.work_tiles
// CHECK-COUNT-1: tile.splat
// CHECK-COUNT-1: scf.for
// CHECK-COUNT-2: tile.view
// CHECK-COUNT-1: tile.mma
// CHECK-COUNT-1: tile.store
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
