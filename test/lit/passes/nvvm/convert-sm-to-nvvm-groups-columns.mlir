// A group's rows of a D by columns: the part keeps D's stride between columns, and threads store the single elements that
// lie before the end of the group.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-LABEL: gpu.func @kernel
// CHECK-SAME:    (%[[D:[^:]+]]: !llvm.ptr<1>, %[[STRIDE:[^:]+]]: i64
// CHECK:         ^bb0(%{{[^:]+}}: i32, %{{[^:]+}}: i32, %{{[^:]+}}: i32, %[[END:[^:]+]]: i32, %{{[^:]+}}: i32):
// CHECK:           %[[COLUMN:.+]] = arith.muli %{{.+}}, %[[STRIDE]] : i64
// CHECK:           %[[ROW:.+]] = arith.extui %[[I:.+]] : i32 to i64
// CHECK:           %[[PLACE:.+]] = arith.addi %[[COLUMN]], %[[ROW]] : i64
// CHECK:           %[[FIRST:.+]] = llvm.getelementptr %[[D]][%[[PLACE]]]
// CHECK:           %[[INSIDE:.+]] = arith.cmpi ult, %[[I]], %[[END]] : i32
// CHECK-NEXT:      scf.if %[[INSIDE]] {
// CHECK-NEXT:        llvm.store %{{.+}}, %[[FIRST]] {alignment = 4 : i64} : vector<1xf32>, !llvm.ptr<1>
// CHECK:           %[[NEXT:.+]] = llvm.getelementptr %[[FIRST]][%[[STRIDE]]]
// CHECK-NOT:       vector<2xf32>, !llvm.ptr<1>
#tv = #tile.tv<threads (4,8):(32,1), values (2,2,1):(16,8,128)>
!out = memref<200x64xf32, strided<[1, 200]>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: !out, %ends: memref<5xi32>) {
  tile.launch @kernel grid(%ctas) threads(32) args(%d, %ends) : !out, memref<5xi32>
  return
}
tile.kernel @kernel(%d: !out, %ends: memref<5xi32>) {
  %rows = arith.constant 200 : index
  %columns = arith.constant 64 : index
  tile.work_tiles (%m, %n) of (%rows, %columns) by [16, 8] groups(%g to %end of %ends : memref<5xi32>) order(<row>)
      persistent {
    %zero = sm.splat 0.0 : !sm.fragment<16x8xf32, #tv>
    %own = memref.subview %d[0, 0] [%end, 64] [1, 1] : !out to memref<?x64xf32, strided<[1, 200]>>
    %w = tile.view %own[%m, %n] : memref<?x64xf32, strided<[1, 200]>> to !tile.view<16x8xf32>
    sm.store_global %zero to %w by "st.global.4" : !sm.fragment<16x8xf32, #tv>, !tile.view<16x8xf32>
  }
  tile.return
}
}
