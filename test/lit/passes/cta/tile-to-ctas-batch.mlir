// In a batch, tile-to-ctas makes work tiles of all its matrices: the number of the matrix is the first coordinate of
// windows and of the store. The host multiplies the grid and compares the batches; the kernel counts in 32 bits.
// RUN: lowtide-opt %s -p tile-to-ctas,divide-k,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @gemm
// CHECK-SAME:    (%[[A:.+]]: memref<?x?x32xbf16, {{.*}}>, %[[B:.+]]: memref<?x32x?xbf16, {{.*}}>, %[[D:.+]]: memref<?x?x?xbf16, {{.*}}>, %[[BIAS:.+]]: memref<?x?xbf16, {{.*}}>, %[[ROW:.+]]: memref<?xbf16>)
// CHECK-DAG:     %[[M:.+]] = memref.dim %[[D]], %c1
// CHECK-DAG:     %[[N:.+]] = memref.dim %[[D]], %c2
// CHECK-DAG:     %[[BATCH:.+]] = memref.dim %[[D]], %c0
// CHECK:         memref.dim %[[A]], %c1
// CHECK:         cf.assert %{{.+}}, "A and D must have the same M"
// CHECK:         memref.dim %[[B]], %c2
// CHECK:         cf.assert %{{.+}}, "B and D must have the same N"
// CHECK:         cf.assert %{{.+}}, "A and D must have the same batch"
// CHECK:         cf.assert %{{.+}}, "B and D must have the same batch"
// CHECK:         cf.assert %{{.+}}, "epilogue operand 0 must have N columns"
// CHECK:         cf.assert %{{.+}}, "epilogue operand 0 must have the batch of D"
// CHECK:         cf.assert %{{.+}}, "epilogue operand 1 must have M rows"
// CHECK-NOT:     cf.assert %{{.+}}, "epilogue operand 1
// CHECK:         %[[ROWS:.+]] = arith.ceildivsi %[[M]], %c32
// CHECK:         %[[COLUMNS:.+]] = arith.ceildivsi %[[N]], %c64
// CHECK:         %[[TILES:.+]] = arith.muli %[[ROWS]], %[[COLUMNS]]
// CHECK:         %[[ALL:.+]] = arith.muli %[[BATCH]], %[[TILES]]
// CHECK:         %[[ITEMS:.+]] = arith.muli %[[ALL]], %c2
// CHECK:         %[[FEW:.+]] = arith.cmpi slt, %[[ITEMS]], %c2147483648
// CHECK:         cf.assert %[[FEW]], "the batch has 2^31 or more work tiles; split it, or compile with a larger grid.tile"
// CHECK:         tile.workspace
// CHECK:         tile.launch @gemm_kernel grid(%[[ITEMS]])

// CHECK-LABEL: tile.kernel @gemm_kernel(
// CHECK-SAME:    %D: memref<?x?x?xbf16, {{[^>]*}}>>, %[[BIAS:[^ ]+]]: memref<?x?xbf16, {{[^>]*}}>>, %[[ROW:[^ ]+]]: memref<?xbf16>
// CHECK-DAG:     %[[OF:.+]] = memref.dim %D, %c0
// CHECK:         tile.work_tiles (%m, %n) of (%{{.+}}, %{{.+}}) by [32, 64] batch(%batch of %[[OF]]) k(%k0 to %k1 of %{{.+}} by 16) split 2 (%part of %parts at %slot) order(<grouped 4>) one_shot {
// CHECK:           tile.view %A[%batch, %m, %[[K:.+]]] : {{.*}} to !tile.view<32x16xbf16>
// CHECK:           tile.view %B[%batch, %[[K]], %n] : {{.*}} to !tile.view<16x64xbf16>
// CHECK:           tile.store %{{.+}} into %D[%batch, %m, %n] operands(per_column %[[BIAS]] : {{.*}}, per_row %[[ROW]] : memref<?xbf16>) {
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!rows = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: memref<?x?x32xbf16, strided<[?, ?, 1]>>, %b: memref<?x32x?xbf16, strided<[?, ?, 1]>>, %d: !mats,
                  %bias: !rows, %row: memref<?xbf16>) {
    tile.gemm tt %a, %b into %d acc(f32) operands(per_column %bias : !rows, per_row %row : memref<?xbf16>)
        schedule(#tile.schedule<
          grid = <tile = [32, 64], order = grouped(4), scheduler = one_shot, k_division = split(2)>,
          mainloop = <k = 16>, multiply = <atoms = [1, 2, 1]>>) {
    ^bb0(%acc: f32, %x: bf16, %y: bf16):
      tile.yield %x : bf16
    } : memref<?x?x32xbf16, strided<[?, ?, 1]>>, memref<?x32x?xbf16, strided<[?, ?, 1]>>, !mats
    return
  }
}
