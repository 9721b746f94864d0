// launch-preparations takes workspaces with aligned rows, and launches copies before and behind the kernel, where needed.
// RUN: lowtide-opt %s -p launch-preparations,cse | filecheck %s

// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[A:.+]]: memref<{{.*}}>, %[[D:.+]]: memref<{{.*}}>, %[[G:.+]]: index)
// A's base and the bytes from row to row.
// CHECK:       %{{.+}}, %{{.+}}, %{{.+}}:2, %[[STRIDES:.+]]:2 = memref.extract_strided_metadata %[[A]]
// CHECK:       %[[BASE:.+]] = memref.extract_aligned_pointer_as_index %[[A]]
// CHECK:       %[[BASE_REST:.+]] = arith.remui %[[BASE]], %c16
// CHECK:       %[[BYTES:.+]] = arith.muli %[[STRIDES]]#0, %c2
// CHECK:       %[[REST:.+]] = arith.remui %[[BYTES]], %c16
// CHECK:       %[[EITHER:.+]] = arith.ori %[[BASE_REST]], %[[REST]]
// CHECK:       %[[APART:.+]] = arith.cmpi ne, %[[EITHER]], %c0
// CHECK:       %[[ROWS:.+]] = memref.dim %[[A]], %c0
// CHECK:       %[[COLUMNS:.+]] = memref.dim %[[A]], %c1
// Rows of the workspace at multiples of 128 bytes.
// CHECK:       %[[LINES:.+]] = arith.ceildivui %[[COLUMNS]], %c64
// CHECK:       %[[STRIDE:.+]] = arith.muli %[[LINES]], %c64
// CHECK:       %[[ALL:.+]] = arith.muli %[[ROWS]], %[[STRIDE]]
// 14 elements more than the columns are two units more at most; a CTA copies 256.
// CHECK:       %[[PLUS:.+]] = arith.addi %[[COLUMNS]], %c14
// CHECK:       %[[UNITS_OF_ROW:.+]] = arith.divui %[[PLUS]], %c8
// CHECK:       %[[UNITS:.+]] = arith.muli %[[ROWS]], %[[UNITS_OF_ROW]]
// CHECK:       %[[CTAS:.+]] = arith.ceildivui %[[UNITS]], %c256
// No CTAs and no workspace if nothing is copied.
// CHECK:       %[[GRID:.+]] = arith.select %[[APART]], %[[CTAS]], %c0
// CHECK:       %[[SIZE:.+]] = arith.select %[[APART]], %[[ALL]], %c0
// CHECK:       %[[SPACE:.+]] = tile.workspace %[[SIZE]] : memref<?xbf16>
// CHECK:       %[[MADE:.+]] = memref.reinterpret_cast %[[SPACE]] to offset: [0], sizes: [%[[ROWS]], %[[COLUMNS]]], strides: [%[[STRIDE]], 1]
// CHECK:       %[[CHOSEN:.+]] = arith.select %[[APART]], %[[MADE]], %[[A]] : memref
// D: also the bytes of a row; static extents.
// CHECK:       %[[D_REST:.+]] = arith.ori %{{.+}}, %{{.+}}
// CHECK:       %[[D_ALL:.+]] = arith.ori %[[D_REST]], %c8
// CHECK:       %[[D_APART:.+]] = arith.cmpi ne, %[[D_ALL]], %c0
// CHECK:       %[[TO:.+]] = memref.cast %[[D]]
// CHECK:       %[[D_MADE:.+]] = memref.reinterpret_cast %[[D_SPACE:[0-9]+]] to offset: [0], sizes: [100, 300], strides: [%[[D_STRIDE:[a-z0-9]+]], 1]
// CHECK:       %[[FROM:.+]] = memref.reinterpret_cast %[[D_SPACE]] to offset: [0], sizes: [%c100, %c300], strides: [%[[D_STRIDE]], 1]
// CHECK:       %[[D_CHOSEN:.+]] = arith.select %[[D_APART]], %[[D_MADE]], %[[D]] : memref<100x300xbf16
// What asks for an extent asks the matrix itself.
// CHECK:       arith.addi %[[ROWS]], %[[G]]
// CHECK:       tile.launch @host_copy_bf16 grid(%[[GRID]]) threads(256) args(%[[A]], %[[MADE]])
// CHECK:       tile.launch @kernel grid(%[[G]]) threads(32) args(%[[CHOSEN]], %[[D_CHOSEN]])
// CHECK:       tile.launch @host_copy_bf16 grid(%{{.+}}) threads(256) args(%[[FROM]], %[[TO]])
// CHECK-NEXT:  return

// CHECK:       tile.kernel @host_copy_bf16(%[[S:.+]]: memref<?x?xbf16, strided<[?, 1]>>, %[[T:.+]]: memref<?x?xbf16, strided<[?, 1]>>) {
// CHECK-NEXT:    tile.prepare %[[T]] from %[[S]]
// CHECK-NEXT:    tile.return
// CHECK-NOT:   tile.kernel
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<100x300xbf16, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @host(%a: !mat, %d: !out, %g: index) {
  %p = tile.pack %a align(16) : !mat to !mat
  %q = tile.pack %d align(16) whole_rows uninitialized : !out to !out
  %c0 = arith.constant 0 : index
  %m = memref.dim %p, %c0 : !mat
  %n = arith.addi %m, %g : index
  %same = arith.cmpi eq, %n, %n : index
  cf.assert %same, "n"
  tile.launch @kernel grid(%g) threads(32) args(%p, %q) : !mat, !out
  tile.unpack %q into %d : !out
  return
}
tile.kernel @kernel(%a: !mat, %d: !out) {
  tile.return
}
}
