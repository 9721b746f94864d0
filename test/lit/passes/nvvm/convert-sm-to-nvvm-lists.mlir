// A list of matrices: a thread loads the row of the table for its matrix before the loop over K. Columns that the type
// knows are not loaded.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,canonicalize,cse | filecheck %s

// CHECK-LABEL: gpu.func @kernel
// CHECK-SAME:    %[[TABLE:[a-z0-9]+]]: !llvm.ptr<1>
// CHECK:         %[[ROW:.+]] = llvm.getelementptr %[[TABLE]][%{{.+}}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
// CHECK:         %[[ADDRESS:.+]] = llvm.load %[[ROW]] {alignment = 8 : i64} : !llvm.ptr<1> -> i64
// CHECK:         %[[MATRIX:.+]] = llvm.inttoptr %[[ADDRESS]] : i64 to !llvm.ptr<1>
// CHECK:         %[[AT:.+]] = llvm.getelementptr %[[ROW]][1]
// CHECK:         %[[ROWS:.+]] = llvm.load %[[AT]]
// CHECK:         arith.trunci %[[ROWS]] : i64 to i32
// CHECK-NOT:     llvm.getelementptr %[[ROW]][2]
// CHECK:         %[[AT2:.+]] = llvm.getelementptr %[[ROW]][3]
// CHECK:         %[[STRIDE:.+]] = llvm.load %[[AT2]]
// CHECK:         scf.for
// CHECK-NOT:       llvm.load
// CHECK:           nvvm.cp.async.shared.global
#copy = #sm.tiled_copy<cp.async.16, #tile.tv<threads (4,8):(0,1), values (8):(8)>>
!list = memref<?x?x64xf16, strided<[?, ?, 1]>, "list">
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %b: !list, %ends: memref<?xi32>) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(128) args(%b, %ends) : !list, memref<?xi32>
  return
}
tile.kernel @kernel(%b: !list, %ends: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %end = memref.load %ends[%c0] : memref<?xi32>
  %group = arith.index_cast %end : i32 to index
  %s = sm.alloc at 0 : !buffer
  scf.for %k = %c0 to %c64 step %c8 {
    %v = tile.view %b[%group, %c8, %k] : !list to !tile.view<8x8xf16>
    sm.cp_async %v to %s by #copy : !tile.view<8x8xf16>, !buffer
  }
  tile.return
}
}
