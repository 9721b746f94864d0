// Products of a list: the walk over groups reads the columns of each matrix from the table, and carries its number of tiles
// along N. A product's own K is read once for an item. All are at most those of the list.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,canonicalize,cse | filecheck %s

// CHECK-LABEL: gpu.func @kernel
// CHECK-SAME:    %[[TABLE:[a-z0-9]+]]: !llvm.ptr<1>
// CHECK:         scf.while
// CHECK:           %[[FOUND:.+]]:5 = scf.while (%{{.+}}, %[[ACROSS:.+]] = %{{.+}}) : (i32, i32, i32, i32, i32)
// CHECK:             arith.muli %{{.+}}, %{{.+}} : i32
// CHECK:           } do {
// CHECK:             %[[ROW:.+]] = llvm.getelementptr %[[TABLE]][%{{.+}}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
// CHECK:             %[[AT:.+]] = llvm.getelementptr %[[ROW]][2]
// CHECK:             %[[LOADED:.+]] = llvm.load %[[AT]] {alignment = 8 : i64} : !llvm.ptr<1> -> i64
// CHECK:             %[[OWN:.+]] = arith.trunci %[[LOADED]] : i64 to i32
// CHECK:             %[[LEAST:.+]] = arith.minui %[[OWN]], %{{.+}} : i32
// CHECK:             nvvm.shfl.sync idx %{{.+}}, %[[LEAST]]
// CHECK:         do {
// CHECK:           scf.for
#copy = #sm.tiled_copy<cp.async.16, #tile.tv<threads (4,8):(0,1), values (8):(8)>>
!list = memref<?x?x?xf16, strided<[?, ?, 1]>, "list">
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %b: !list, %counts: memref<?xi32>) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(128) args(%b, %counts) : !list, memref<?xi32>
  return
}
tile.kernel @kernel(%b: !list, %counts: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %s = sm.alloc at 0 : !buffer
  %count = memref.dim %b, %c0 : !list
  %rows = memref.dim %b, %c1 : !list
  %columns = memref.dim %b, %c2 : !list
  tile.work_tiles (%m, %n) of (%rows, %columns) by [8, 8] batch(%batch of %count)
      groups(%group to %end of %counts : memref<?xi32>) columns_of(%b : !list) order(<row>) persistent {
    %k = tile.matrix_extent %b[%batch] dim 1 : !list
    scf.for %i = %c0 to %k step %c8 {
      %v = tile.view %b[%batch, %m, %i] : !list to !tile.view<8x8xf16>
      sm.cp_async %v to %s by #copy : !tile.view<8x8xf16>, !buffer
    }
  }
  tile.return
}
}
