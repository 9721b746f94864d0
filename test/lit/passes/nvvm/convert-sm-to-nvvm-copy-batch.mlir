// A thread of the copy of a batch finds its unit's row among those of all matrices, and that row's matrix.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,cse,canonicalize,cse | filecheck %s

// CHECK-LABEL: gpu.func @copy(
// CHECK-SAME:    %[[S:.+]]: !llvm.ptr<1>, %[[STEP:.+]]: i64, %[[LDS:.+]]: i64, %[[BATCH:.+]]: i32, %[[ROWS:.+]]: i32, %[[COLUMNS:.+]]: i32, %{{.+}}: !llvm.ptr<1>
// CHECK:       %[[LINE:.+]] = arith.divui
// CHECK:       %[[MATRIX:.+]] = arith.divui %[[LINE]], %[[ROWS]]
// CHECK:       %[[OTHERS:.+]] = arith.muli %[[MATRIX]], %[[ROWS]]
// CHECK:       %[[ROW:.+]] = arith.subi %[[LINE]], %[[OTHERS]]
// CHECK-DAG:   %[[MATRIX64:.+]] = arith.extui %[[MATRIX]] : i32 to i64
// CHECK-DAG:   %[[ROW64:.+]] = arith.extui %[[ROW]] : i32 to i64
// CHECK:       %[[X:.+]] = arith.muli %[[MATRIX64]], %[[STEP]]
// CHECK:       %[[Y:.+]] = arith.muli %[[ROW64]], %[[LDS]]
// CHECK:       %[[FIRST:.+]] = arith.addi %[[X]], %[[Y]]
// CHECK:       llvm.getelementptr %[[S]][%[[FIRST]]]
// CHECK:       %[[EXISTS:.+]] = arith.cmpi ult, %[[MATRIX]], %[[BATCH]]
// CHECK:       scf.if %[[EXISTS]] {
!mat = memref<?x?x?xf32, strided<[?, ?, 1]>>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {
func.func @host(%s: !mat, %t: !mat, %g: index) {
  tile.launch @copy grid(%g) threads(256) shared_memory(0) args(%s, %t) : !mat, !mat
  return
}
tile.kernel @copy(%s: !mat, %t: !mat) {
  tile.prepare %t from %s : !mat from !mat
  tile.return
}
}
