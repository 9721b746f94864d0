// Reductions of rows in groups of rows: a tile stores partial results of the rows of its group, and the launch that
// finishes leaves out the rows after the last end, which have none.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @gemm(
// CHECK:         tile.launch @gemm_finish_sum_groups grid(%{{.+}}) threads(64) args(%{{.+}}, %{{.+}}, %{{.+}}) : memref<?xf32>, memref<?x?xf32, strided<[?, 1]>>, memref<?xi32>

// CHECK-LABEL: tile.kernel @gemm_finish_sum_groups(
// CHECK-SAME:    %[[TO:.+]]: memref<?xf32>, %[[FROM:.+]]: memref<?x?xf32, strided<[?, 1]>>, %[[ENDS:.+]]: memref<?xi32>
// CHECK:         %[[MOST:.+]] = scf.for %[[G:[a-z0-9]+]] = %c0 to %{{.+}} step %c1 iter_args(%[[L:.+]] = %c0) -> (index) {
// CHECK-NEXT:      %[[LOADED:.+]] = memref.load %[[ENDS]][%[[G]]]
// CHECK-NEXT:      %[[END:.+]] = arith.index_cast %[[LOADED]]
// CHECK-NEXT:      %[[LARGER:.+]] = arith.maxsi %[[END]], %[[L]]
// CHECK-NEXT:      scf.yield %[[LARGER]]
// CHECK:         %[[LAST:.+]] = arith.minsi %[[MOST]], %{{.+}}
// CHECK-NEXT:    %[[ROWS:.+]] = memref.subview %[[TO]][0] [%[[LAST]]] [1]
// CHECK-NEXT:    tile.finish row_sum %[[ROWS]] from %[[FROM]] : memref<?xf32> from memref<?x?xf32, strided<[?, 1]>>

// CHECK-LABEL: tile.kernel @gemm_kernel(
// CHECK:         tile.work_tiles (%m, %n) of {{.*}} groups(%group to %rows_end of
// CHECK:           %[[PART:.+]] = memref.subview %{{.+}}[0, 0] [%{{.+}}, %rows_end] [1, 1] : memref<?x?xf32, strided<[?, 1]>>
// CHECK:           tile.store %{{.+}} into (%{{.+}}, row_sum %[[PART]])[%m, %n] {
!a = memref<?x32xbf16, strided<[?, 1]>>
!b = memref<?x?x32xbf16, strided<[?, ?, 1]>>
!d = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: !a, %b: !b, %d: !d, %s: memref<?xf32>, %ends: memref<?xi32>) {
    tile.gemm tn %a, %b into (%d, row_sum %s) acc(f32) operands(ends %ends : memref<?xi32>)
        schedule(#tile.schedule<
        grid = <tile = [32, 64], order = row, scheduler = persistent>,
        mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
        multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
        epilogue = <path = direct, math = registers, tile = [32, 64]>>) {
    ^bb0(%x: f32):
      %0 = arith.truncf %x : f32 to bf16
      tile.yield %0, %x : bf16, f32
    } : !a, !b, !d, memref<?xf32>
    return
  }
}
