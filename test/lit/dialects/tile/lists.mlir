// Lists of matrices: the extent of one of them, and work tiles whose number along N is that of each matrix.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s

!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
// CHECK-LABEL: tile.kernel @kernel
// CHECK: tile.work_tiles (%m, %n) of (%{{.+}}, %{{.+}}) by [32, 16] batch(%batch of %{{.+}}) groups(%group to %rows_end of %{{.+}} : memref<?xi32>) columns_of(%{{.+}} : memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">) order(<row>) persistent {
// CHECK:   tile.matrix_extent %{{.+}}[%batch] dim 1 : memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
tile.kernel @kernel(%a: !list, %d: !list, %counts: memref<?xi32>, %x: index) {
  tile.work_tiles (%m, %n) of (%x, %x) by [32, 16] batch(%b of %x) groups(%g to %end of %counts : memref<?xi32>)
      columns_of(%d : !list) order(<row>) persistent {
    %k = tile.matrix_extent %a[%b] dim 1 : !list
    %v = tile.view %a[%b, %m, %k] : !list to !tile.view<32x16xbf16>
  }
  tile.return
}
