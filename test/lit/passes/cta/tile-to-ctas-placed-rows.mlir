// Rows of D at an index: the index has M elements, D has any number of rows, and tiles are stored to the rows that the
// index names. In groups of rows, a tile ends with its group.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @gemm
// CHECK:         %[[ROWS:.+]] = memref.dim %arg3, %c0 : memref<?xi32>
// CHECK:         memref.dim %arg2, %c1
// CHECK-NOT:     memref.dim %arg2
// CHECK:         arith.cmpi eq, %{{.+}}, %[[ROWS]]
// CHECK:         cf.assert %{{.+}}, "A and d_rows must have the same M"
// CHECK:         arith.ceildivsi %[[ROWS]], %c32
// CHECK-LABEL: tile.kernel @gemm_kernel(
// CHECK:         %[[PLACES:.+]] = memref.dim %[[TO:.+]], %{{.+}} : memref<?xi32>
// CHECK:         %[[PLACED:.+]] = tile.take_rows %D at %[[TO]] : memref<?x?xbf16, strided<[?, 1]>>, memref<?xi32> to memref<?x?xbf16
// CHECK:         tile.work_tiles (%m, %n) of (%[[PLACES]], %{{.+}}) by [32, 64]
// CHECK:           tile.store %{{.+}} into %[[PLACED]][%m, %n] {
// CHECK-LABEL: tile.kernel @grouped_kernel(
// CHECK:         %[[PLACED:.+]] = tile.take_rows
// CHECK:         groups(%{{.+}} to %[[END:.+]] of
// CHECK:           %[[OWN:.+]] = memref.subview %[[PLACED]][0, 0] [%[[END]], %{{.+}}] [1, 1]
// CHECK:           tile.store %{{.+}} into %[[OWN]][%m, %n] {
!a = memref<?x32xbf16, strided<[?, 1]>>
!b = memref<?x?x32xbf16, strided<[?, ?, 1]>>
!d = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<
    grid = <tile = [32, 64], order = row, scheduler = persistent>,
    mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
    multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
    epilogue = <path = smem, math = registers, tile = [32, 64], swizzle = <0,3,3>>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: !a, %b: !a, %d: !d, %to: memref<?xi32>) {
    tile.gemm tn %a, %b into %d acc(f32) operands(d_rows %to : memref<?xi32>) schedule(#schedule) {
    ^bb0(%acc: f32):
      %0 = arith.truncf %acc : f32 to bf16
      tile.yield %0 : bf16
    } : !a, !a, !d
    return
  }
  func.func @grouped(%a: !a, %b: !b, %d: !d, %ends: memref<?xi32>, %to: memref<?xi32>) {
    tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>, d_rows %to : memref<?xi32>) schedule(#schedule) {
    ^bb0(%acc: f32):
      %0 = arith.truncf %acc : f32 to bf16
      tile.yield %0 : bf16
    } : !a, !b, !d
    return
  }
}
