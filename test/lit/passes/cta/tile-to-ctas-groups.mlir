// Groups of rows: work tiles of each group, which the device counts. The group is the first coordinate of windows of B,
// and the store sees D and what lies as D does as if they ended with the rows of the group. The host starts at most a
// CTA for each tile: those of all rows, and one more row of tiles for each group.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @gemm
// CHECK-SAME:    (%[[A:.+]]: memref<?x32xbf16, {{.*}}>, %[[B:.+]]: memref<8x64x32xbf16, {{.*}}>, %[[D:.+]]: memref<?x64xbf16, {{.*}}>, %[[C:.+]]: memref<?x64xbf16, {{.*}}>, %[[ROW:.+]]: memref<?xbf16>, %[[ENDS:.+]]: memref<?xi32>)
// CHECK:         %[[M:.+]] = memref.dim %[[D]], %c0
// CHECK:         cf.assert %{{.+}}, "A and D must have the same M"
// CHECK:         cf.assert %{{.+}}, "B must have a matrix for each of the ends of groups"
// CHECK:         %[[HIGH:.+]] = arith.ceildivsi %[[M]], %c32
// CHECK:         %[[MORE:.+]] = arith.minsi %[[M]], %c8
// CHECK:         %[[TILES:.+]] = arith.addi %[[HIGH]], %[[MORE]]
// CHECK:         %[[SMS:.+]] = tile.sm_count
// CHECK:         %[[CTAS:.+]] = arith.muli %[[SMS]], %c4
// CHECK:         %[[GRID:.+]] = arith.minsi %[[TILES]], %[[CTAS]]
// CHECK:         tile.launch @gemm_kernel grid(%[[GRID]])

// CHECK-LABEL: tile.kernel @gemm_kernel(
// CHECK:         tile.work_tiles (%m, %n) of (%{{.+}}, %{{.+}}) by [32, 64] groups(%group to %rows_end of %{{.+}} : memref<?xi32>) order(<row>) persistent {
// CHECK:           tile.view %A[%m, %[[K:.+]]] : {{.*}} to !tile.view<32x16xbf16>
// CHECK:           tile.view %B[%group, %n, %[[K]]] : {{.*}} to !tile.view<64x16xbf16>
// CHECK-DAG:       %[[OF_C:.+]] = memref.subview %{{.+}}[0, 0] [%rows_end, 64] [1, 1]
// CHECK-DAG:       %[[OF_ROW:.+]] = memref.subview %{{.+}}[0] [%rows_end] [1] : memref<?xbf16> to memref<?xbf16>
// CHECK-DAG:       %[[OF_D:.+]] = memref.subview %D[0, 0] [%rows_end, 64] [1, 1]
// CHECK:           tile.store %{{.+}} into %[[OF_D]][%m, %n] operands(full %[[OF_C]] : {{.*}}, per_row %[[OF_ROW]] : {{.*}}) {
!mat = memref<?x64xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: memref<?x32xbf16, strided<[?, 1]>>, %b: memref<8x64x32xbf16, strided<[?, ?, 1]>>, %d: !mat,
                  %c: !mat, %row: memref<?xbf16>, %ends: memref<?xi32>) {
    tile.gemm tn %a, %b into %d acc(f32)
        operands(full %c : !mat, per_row %row : memref<?xbf16>, ends %ends : memref<?xi32>) schedule(#tile.schedule<
        grid = <tile = [32, 64], order = row, scheduler = persistent>,
        mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
        multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
        epilogue = <path = smem, math = rows, tile = [32, 64]>>) {
    ^bb0(%acc: f32, %x: bf16, %y: bf16):
      tile.yield %x : bf16
    } : memref<?x32xbf16, strided<[?, 1]>>, memref<8x64x32xbf16, strided<[?, ?, 1]>>, !mat
    return
  }
}
