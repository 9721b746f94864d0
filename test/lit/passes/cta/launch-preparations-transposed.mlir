// launch-preparations of transposes: a workspace in their place, filled by a launch before that of the kernel, wherever they lie.
// RUN: lowtide-opt %s -p launch-preparations,cse --split-input-file | filecheck %s

// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[A:.+]]: memref<?x100xf8E4M3FN, strided<[?, 1]>>, %[[G:.+]]: index)
// CHECK:       %[[ROWS:.+]] = memref.dim %[[A]], %c0
// CHECK:       %[[LINES:.+]] = arith.ceildivui %[[ROWS]], %c128
// CHECK:       %[[STRIDE:.+]] = arith.muli %[[LINES]], %c128
// CHECK:       %[[SIZE:.+]] = arith.muli %[[STRIDE]], %c100
// CHECK:       %[[S:.+]] = memref.cast %[[A]]
// CHECK:       %[[SPACE:.+]] = tile.workspace %[[SIZE]] : memref<?xf8E4M3FN>
// CHECK:       %[[P:.+]] = memref.reinterpret_cast %[[SPACE]] to offset: [0], sizes: [100, %[[ROWS]]], strides: [%[[STRIDE]], 1]
// CHECK:       %[[T:.+]] = memref.reinterpret_cast %[[SPACE]] to offset: [0], sizes: [%c100, %[[ROWS]]], strides: [%[[STRIDE]], 1]
// Tiles of 128 bytes by 128 bytes: one along the columns.
// CHECK:       tile.launch @host_transpose_e4m3 grid(%[[LINES]]) threads(128) args(%[[S]], %[[T]])
// CHECK:       tile.launch @kernel grid(%[[G]]) threads(32) args(%[[P]])
// CHECK:       tile.kernel @host_transpose_e4m3(%[[FROM:.+]]: memref<?x?xf8E4M3FN, strided<[?, 1]>>, %[[TO:.+]]: memref<?x?xf8E4M3FN, strided<[?, 1]>>) {
// CHECK-NEXT:    tile.prepare %[[TO]] from %[[FROM]] transposed
!mat = memref<?x100xf8E4M3FN, strided<[?, 1]>>
!turned = memref<100x?xf8E4M3FN, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @host(%a: !mat, %g: index) {
  %p = tile.pack %a transposed align(16) : !mat to !turned
  tile.launch @kernel grid(%g) threads(32) args(%p) : !turned
  return
}
tile.kernel @kernel(%a: !turned) {
  tile.return
}
}
// -----

// In a batch, what all products share is transposed once, and read with a step of 0.
// CHECK-LABEL: func.func @batch(
// CHECK:       %[[SHARED:.+]] = arith.cmpi eq, %{{.+}}, %c0
// CHECK:       %[[COUNT:.+]] = arith.select %[[SHARED]], %{{.+}}, %{{.+}} : index
// CHECK:       %[[FROM:.+]] = memref.reinterpret_cast %{{.+}} to offset: [0], sizes: [%[[COUNT]], %{{.+}}, %{{.+}}], strides: [%{{.+}}, %{{.+}}, 1]
// CHECK:       %[[STEP:.+]] = arith.select %[[SHARED]], %c0, %[[ONE:.+]] : index
// CHECK:       cf.assert %{{.+}}, "the batch has 2^31 or more tiles to transpose; split it"
// CHECK:       memref.reinterpret_cast %[[SPACE:.+]] to offset: [0], {{.*}} strides: [%[[STEP]], %{{.+}}, 1]
// CHECK:       %[[TO:.+]] = memref.reinterpret_cast %[[SPACE]] to offset: [0], sizes: [%[[COUNT]], %{{.+}}, %{{.+}}], strides: [%[[ONE]], %{{.+}}, 1]
// CHECK:       tile.launch @batch_transpose_bf16 grid(%{{.+}}) threads(128) args(%[[FROM]], %[[TO]])
!mat = memref<?x?x?xbf16, strided<[?, ?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @batch(%a: !mat, %g: index) {
  %p = tile.pack %a transposed align(16) : !mat to !mat
  tile.launch @kernel grid(%g) threads(32) args(%p) : !mat
  return
}
tile.kernel @kernel(%a: !mat) {
  tile.return
}
}
// -----

// A matrix of one column, whose elements are contiguous and whose base is aligned, is its own transpose: nothing is launched.
// CHECK-LABEL: func.func @column(
// CHECK-SAME:    %[[A:.+]]: memref<?x1xbf16, strided<[?, 1]>>, %[[G:.+]]: index)
// CHECK:       %{{.+}}, %{{.+}}, %{{.+}}:2, %[[STRIDES:.+]]:2 = memref.extract_strided_metadata %[[A]]
// CHECK:       %[[BASE:.+]] = memref.extract_aligned_pointer_as_index %[[A]]
// CHECK:       %[[REST:.+]] = arith.remui %[[BASE]], %c16
// CHECK:       %[[OTHER:.+]] = arith.xori %[[STRIDES]]#0, %c1
// CHECK:       %[[BITS:.+]] = arith.ori %[[REST]], %[[OTHER]]
// CHECK:       %[[APART:.+]] = arith.cmpi ne, %[[BITS]], %c0
// CHECK:       %[[GRID:.+]] = arith.select %[[APART]], %{{.+}}, %c0
// CHECK:       %[[SIZE:.+]] = arith.select %[[APART]], %[[STRIDE:.+]], %c0
// CHECK:       %[[SPACE:.+]] = tile.workspace %[[SIZE]]
// CHECK:       %[[MADE:.+]] = memref.reinterpret_cast %[[SPACE]] to offset: [0], sizes: [1, %[[K:.+]]], strides: [%[[STRIDE]], 1]
// CHECK:       %[[ROW:.+]] = memref.reinterpret_cast %[[A]] to offset: [0], sizes: [1, %[[K]]], strides: [%[[STRIDE]], 1]
// CHECK:       %[[P:.+]] = arith.select %[[APART]], %[[MADE]], %[[ROW]]
// CHECK:       tile.launch @column_transpose_bf16 grid(%[[GRID]])
// CHECK:       tile.launch @kernel grid(%[[G]]) threads(32) args(%[[P]])
!column = memref<?x1xbf16, strided<[?, 1]>>
!row = memref<1x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @column(%a: !column, %g: index) {
  %p = tile.pack %a transposed align(16) : !column to !row
  tile.launch @kernel grid(%g) threads(32) args(%p) : !row
  return
}
tile.kernel @kernel(%a: !row) {
  tile.return
}
}
