// A thread copies a unit of 16 bytes that is aligned in the target; its elements lie in two aligned units of the source.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,cse,canonicalize,cse | filecheck %s

// CHECK-LABEL: gpu.func @copy(
// CHECK-SAME:    %[[S:.+]]: !llvm.ptr<1>, %[[LDS:.+]]: i64, %[[ROWS:.+]]: i32, %[[COLUMNS:.+]]: i32, %[[T:.+]]: !llvm.ptr<1>, %[[LDT:.+]]: i64, %{{.+}}: i32, %{{.+}}: i32) kernel
// CHECK:       %[[PLUS:.+]] = arith.addi %[[COLUMNS]], %c6_i32
// CHECK:       %[[IN_ROW:.+]] = arith.shrui %[[PLUS]], %c2_i32
// CHECK:       %[[UNIT:.+]] = arith.addi
// CHECK:       %[[ROW:.+]] = arith.divui %[[UNIT]], %[[IN_ROW]]
// How far a row of the target begins within a unit, and so the thread's first column.
// CHECK:       %[[TO_ROW:.+]] = llvm.getelementptr %[[T]]
// CHECK:       llvm.ptrtoint %[[TO_ROW]]
// CHECK:       %[[COLUMN:.+]] = arith.subi
// CHECK:       llvm.ptrtoint
// CHECK:       %[[SKIPPED:.+]] = arith.andi %{{.+}}, %c3_i32
// CHECK:       %[[EXISTS:.+]] = arith.cmpi ult, %[[ROW]], %[[ROWS]]
// CHECK:       scf.if %[[EXISTS]] {
// CHECK:         scf.if %{{.+}} {
// CHECK:           %[[LOW:.+]] = llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:           %[[HIGH:.+]] = scf.if %{{.+}} -> (vector<4xf32>) {
// CHECK:             llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:           } else {
// CHECK:             scf.yield %[[LOW]]
// Two elements on, or none; then one, or none.
// CHECK:           %[[BOTH:.+]] = vector.shuffle %[[LOW]], %[[HIGH]] [0, 1, 2, 3, 4, 5, 6, 7]
// CHECK:           %[[BY_TWO:.+]] = vector.shuffle %[[BOTH]], %[[BOTH]] [2, 3, 4, 5, 6, 7]
// CHECK:           %[[TWO:.+]] = arith.select %{{.+}}, %[[BY_TWO]], %{{.+}} : vector<6xf32>
// CHECK:           %[[BY_ONE:.+]] = vector.shuffle %[[TWO]], %[[TWO]] [1, 2, 3, 4]
// CHECK:           %[[ONE:.+]] = arith.select %{{.+}}, %[[BY_ONE]], %{{.+}} : vector<4xf32>
// CHECK:           llvm.store %[[ONE]], %{{.+}} {alignment = 16 : i64}
// CHECK:         } else {
// Elements of the row alone: all loads stand before the stores.
// CHECK-COUNT-4:   llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK-NOT:       llvm.load
// CHECK-COUNT-4:   llvm.store %{{.+}}, %{{.+}} {alignment = 4 : i64} : f32, !llvm.ptr<1>
!mat = memref<?x?xf32, strided<[?, 1]>>
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
