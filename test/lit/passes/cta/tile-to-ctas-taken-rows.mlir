// Rows of A at an index: windows of A are those of the rows that are taken. A may have any number of rows.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @gemm
// CHECK-NOT:     "A and D must have the same M
// CHECK:         cf.assert %{{.+}}, "a_rows must have M rows"
// CHECK-LABEL: tile.kernel @gemm_kernel(
// CHECK:         %[[TAKEN:.+]] = tile.take_rows %A at %{{.+}} : memref<?x32xbf16, {{.*}}>, memref<?xi32> to memref<?x32xbf16, {{.*}}>
// CHECK:         tile.work_tiles (%m, %n)
// CHECK:           tile.view %[[TAKEN]][%m, %{{.+}}] : {{.*}} to !tile.view<32x16xbf16>
// CHECK:           tile.store %{{.+}} into %D[%m, %n] {
!a = memref<?x32xbf16, strided<[?, 1]>>
!d = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: !a, %b: !a, %d: !d, %index: memref<?xi32>) {
    tile.gemm tn %a, %b into %d acc(f32) operands(a_rows %index : memref<?xi32>) schedule(#tile.schedule<
        grid = <tile = [32, 64], order = row, scheduler = one_shot>,
        mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
        multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
        epilogue = <path = direct, math = registers>>) {
    ^bb0(%acc: f32):
      %0 = arith.truncf %acc : f32 to bf16
      tile.yield %0 : bf16
    } : !a, !a, !d
    return
  }
}
