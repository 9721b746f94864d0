// Windows of a matrix by columns are those of its transpose: the stride is that of columns, neighbours are rows. Values
// that are stored one at a time are converted in pairs.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,cse,canonicalize,cse | filecheck %s

#tv = #tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>
!y = !sm.fragment<16x8xbf16, #tv>
!columns = memref<?x?xbf16, strided<[1, ?]>>
// The host passes the stride from column to column.
// CHECK-LABEL: func.func @host(
// CHECK:       %{{.+}}, %{{.+}}, %{{.+}}:2, %[[STRIDES:.+]]:2 = memref.extract_strided_metadata
// CHECK:       arith.index_cast %[[STRIDES]]#1 : index to i64

// CHECK-LABEL: gpu.func @copy(
// CHECK-SAME:    %[[D:[^ :,]+]]: !llvm.ptr<1>, %[[LD:[^ :,]+]]: i64, %[[ROWS:[^ :,]+]]: i32, %[[COLUMNS:[^ :,]+]]: i32)
// CHECK:       %[[COLUMN:.+]] = arith.shli %{{.+}}, %c1_i32
// CHECK:       %[[ROW:.+]] = arith.shrui
// CHECK:       %[[IN_COLUMNS:.+]] = arith.cmpi ult, %[[COLUMN]], %[[COLUMNS]]
// CHECK:       %[[IN_ROWS:.+]] = arith.cmpi ult, %[[ROW]], %[[ROWS]]
// Elements are aligned wherever they lie: a load asks for the edges alone.
// CHECK:       %[[INSIDE:.+]] = arith.andi %[[IN_COLUMNS]], %[[IN_ROWS]]
// CHECK-NEXT:  %[[LOADED:.+]] = scf.if %[[INSIDE]] -> (vector<1xbf16>) {
// CHECK:       %[[COLUMN64:.+]] = arith.extui %[[COLUMN]] : i32 to i64
// CHECK:       %[[BEFORE:.+]] = arith.muli %[[COLUMN64]], %[[LD]]
// CHECK:       %[[ROW64:.+]] = arith.extui %[[ROW]] : i32 to i64
// CHECK:       %[[PLACE:.+]] = arith.addi %[[BEFORE]], %[[ROW64]]
// CHECK:       llvm.getelementptr %[[D]][%[[PLACE]]]
// The next column, and eight rows further on.
// CHECK:       } else {
// CHECK:       llvm.getelementptr %[[D]][
// CHECK:       llvm.store %[[LOADED]], %[[START:.+]] {alignment = 2 : i64}
// CHECK:       llvm.getelementptr %[[START]][%[[LD]]]
// CHECK:       llvm.getelementptr %[[START]][8]
// CHECK:       %[[PAIR:.+]] = sm.ptx_keep_pair
// CHECK:       %[[BOTH:.+]] = llvm.bitcast %[[PAIR]] : i32 to vector<2xbf16>
// CHECK:       vector.shuffle %[[BOTH]], %[[BOTH]] [0]
// CHECK:       vector.shuffle %[[BOTH]], %[[BOTH]] [1]
// CHECK-COUNT-4: llvm.store %{{.+}}, %{{.+}} {alignment = 2 : i64} : vector<1xbf16>, !llvm.ptr<1>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {
func.func @host(%d: !columns, %g: index) {
  tile.launch @copy grid(%g) threads(32) shared_memory(0) args(%d) : !columns
  return
}
tile.kernel @copy(%d: !columns) {
  %zero = arith.constant 0 : index
  %view = tile.view %d[%zero, %zero] : !columns to !tile.view<16x8xbf16>
  %y = sm.load_global %view by "ld.global.2" : !tile.view<16x8xbf16> to !y
  %z = sm.splat 1.0 : !y
  sm.store_global %y to %view by "st.global.2" : !y, !tile.view<16x8xbf16>
  sm.store_global %z to %view by "st.global.2" : !y, !tile.view<16x8xbf16>
  tile.return
}
}
