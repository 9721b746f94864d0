// Padded groups of rows: the matrices of a batch, each with its own number of rows. Work tiles have both coordinates, and
// the store sees D and what lies as D does as if the rows of all matrices ended with those of the item's group. The host
// starts at most a CTA for each tile of all rows.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @gemm
// CHECK:         cf.assert %{{.+}}, "A and D must have the same M"
// CHECK:         cf.assert %{{.+}}, "D must have a matrix for each of the ends of groups"
// CHECK:         %[[HIGH:.+]] = arith.ceildivsi %{{.+}}, %c32
// CHECK:         %[[TILES:.+]] = arith.muli %[[HIGH]], %c8
// CHECK-NOT:     arith.addi
// CHECK:         tile.launch @gemm_kernel grid(

// CHECK-LABEL: tile.kernel @gemm_kernel(
// CHECK:         tile.work_tiles (%m, %n) of (%{{.+}}, %{{.+}}) by [32, 64] batch(%batch of %c8) groups(%group to %rows_end of %{{.+}} : memref<?xi32>) order(<row>) persistent {
// CHECK:           tile.view %A[%batch, %m, %[[K:.+]]] : {{.*}} to !tile.view<32x16xbf16>
// CHECK:           tile.view %B[%group, %n, %[[K]]] : {{.*}} to !tile.view<64x16xbf16>
// CHECK-DAG:       %[[OF_ROW:.+]] = memref.subview %{{.+}}[0, 0] [8, %rows_end] [1, 1] : memref<8x?xbf16, strided<[?, 1]>> to memref<8x?xbf16, strided<[?, 1]>>
// CHECK-DAG:       %[[OF_C:.+]] = memref.subview %{{.+}}[0, 0] [%rows_end, 64] [1, 1]
// CHECK-DAG:       %[[OF_D:.+]] = memref.subview %D[0, 0, 0] [8, %rows_end, 64] [1, 1, 1]
// CHECK:           tile.store %{{.+}} into %[[OF_D]][%batch, %m, %n] operands(full %[[OF_C]] : {{.*}}, per_row %[[OF_ROW]] : {{.*}}, per_column %{{.+}} : memref<8x64xbf16, {{.*}}>) {
!mats = memref<8x?x64xbf16, strided<[?, ?, 1]>>
!mat = memref<?x64xbf16, strided<[?, 1]>>
!rows = memref<8x?xbf16, strided<[?, 1]>>
!columns = memref<8x64xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: memref<8x?x32xbf16, strided<[?, ?, 1]>>, %b: memref<8x64x32xbf16, strided<[?, ?, 1]>>, %d: !mats,
                  %c: !mat, %row: !rows, %column: !columns, %counts: memref<?xi32>) {
    tile.gemm tn %a, %b into %d acc(f32)
        operands(full %c : !mat, per_row %row : !rows, per_column %column : !columns, ends %counts : memref<?xi32>)
        schedule(#tile.schedule<
        grid = <tile = [32, 64], order = row, scheduler = persistent>,
        mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
        multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
        epilogue = <path = smem, math = rows, tile = [32, 64]>>) {
    ^bb0(%acc: f32, %x: bf16, %y: bf16, %z: bf16):
      tile.yield %x : bf16
    } : memref<8x?x32xbf16, strided<[?, ?, 1]>>, memref<8x64x32xbf16, strided<[?, ?, 1]>>, !mats
    return
  }
}
