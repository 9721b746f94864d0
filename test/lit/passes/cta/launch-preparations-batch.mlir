// launch-preparations of a batch: the step from matrix to matrix must be aligned too; one that all products share is copied once.
// RUN: lowtide-opt %s -p launch-preparations,cse | filecheck %s

// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[A:.+]]: memref<{{.*}}>, %[[G:.+]]: index)
// CHECK:       %{{.+}}, %{{.+}}, %{{.+}}:3, %[[STRIDES:.+]]:3 = memref.extract_strided_metadata %[[A]]
// CHECK:       arith.muli %[[STRIDES]]#1, %c2
// CHECK:       arith.muli %[[STRIDES]]#0, %c2
// CHECK:       %[[APART:.+]] = arith.cmpi ne
// CHECK:       %[[BATCH:.+]] = memref.dim %[[A]], %c0
// CHECK:       %[[ROWS:.+]] = memref.dim %[[A]], %c1
// CHECK:       %[[COLUMNS:.+]] = memref.dim %[[A]], %c2
// CHECK:       %[[STRIDE:.+]] = arith.muli %{{.+}}, %c64
// CHECK:       %[[ONE:.+]] = arith.muli %[[ROWS]], %[[STRIDE]]
// CHECK:       %[[SHARED:.+]] = arith.cmpi eq, %[[STRIDES]]#0, %c0
// CHECK:       %[[FIRST:.+]] = arith.minui %[[BATCH]], %c1
// CHECK:       %[[COPIED:.+]] = arith.select %[[SHARED]], %[[FIRST]], %[[BATCH]]
// What is copied.
// CHECK:       %[[FROM:.+]] = memref.reinterpret_cast %[[A]] to offset: [0], sizes: [%[[COPIED]], %[[ROWS]], %[[COLUMNS]]], strides: [%[[STRIDES]]#0, %[[STRIDES]]#1, 1]
// CHECK:       %[[STEP:.+]] = arith.select %[[SHARED]], %c0, %[[ONE]]
// CHECK:       %[[LINES:.+]] = arith.muli %[[COPIED]], %[[ROWS]]
// CHECK:       %[[UNITS:.+]] = arith.muli %[[LINES]]
// CHECK:       %[[CTAS:.+]] = arith.ceildivui %[[UNITS]], %c256
// CHECK:       %[[GRID:.+]] = arith.select %[[APART]], %[[CTAS]], %c0
// CHECK:       %[[FEW:.+]] = arith.cmpi ult, %[[GRID]], %c16777216
// CHECK:       cf.assert %[[FEW]], "the batch has 2^32 or more units of 16 bytes; split it"
// CHECK:       %[[ALL:.+]] = arith.muli %[[ONE]], %[[COPIED]]
// CHECK:       %[[SIZE:.+]] = arith.select %[[APART]], %[[ALL]], %c0
// CHECK:       %[[SPACE:.+]] = tile.workspace %[[SIZE]] : memref<?xbf16>
// What the kernel reads: all matrices, a step of 0 apart where they are one.
// CHECK:       %[[MADE:.+]] = memref.reinterpret_cast %[[SPACE]] to offset: [0], sizes: [%[[BATCH]], %[[ROWS]], %[[COLUMNS]]], strides: [%[[STEP]], %[[STRIDE]], 1]
// CHECK:       %[[TO:.+]] = memref.reinterpret_cast %[[SPACE]] to offset: [0], sizes: [%[[COPIED]], %[[ROWS]], %[[COLUMNS]]], strides: [%[[ONE]], %[[STRIDE]], 1]
// CHECK:       %[[CHOSEN:.+]] = arith.select %[[APART]], %[[MADE]], %[[A]]
// CHECK:       tile.launch @host_copy_bf16 grid(%[[GRID]]) threads(256) args(%[[FROM]], %[[TO]])
// CHECK:       tile.launch @kernel grid(%[[G]]) threads(32) args(%[[CHOSEN]])
// CHECK:       tile.kernel @host_copy_bf16(%[[S:.+]]: memref<?x?x?xbf16, strided<[?, ?, 1]>>, %{{.+}}) {
!mat = memref<?x?x?xbf16, strided<[?, ?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @host(%a: !mat, %g: index) {
  %p = tile.pack %a align(16) : !mat to !mat
  tile.launch @kernel grid(%g) threads(32) args(%p) : !mat
  return
}
tile.kernel @kernel(%a: !mat) {
  tile.return
}
}
