// Rows at an index: a thread reads the row of D from the index, where its own row exists, and stores only if D has it.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,canonicalize,cse | filecheck %s

// CHECK-LABEL: gpu.func @kernel
// CHECK:         %[[EXISTS:.+]] = arith.cmpi ult, %[[ROW:.+]], %{{.+}} : i32
// CHECK:         arith.select %[[EXISTS]], %[[ROW]], %c0_i32
// CHECK:         %[[TAKEN:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         %[[INSIDE:.+]] = arith.cmpi ult, %[[TAKEN]], %{{.+}} : i32
// CHECK:         %[[BOTH:.+]] = arith.andi %[[EXISTS]], %[[INSIDE]]
// CHECK:         %[[PLACE:.+]] = arith.select %[[BOTH]], %[[TAKEN]], %c0_i32
// CHECK:         %[[WIDE:.+]] = arith.extui %[[PLACE]] : i32 to i64
// CHECK:         arith.muli %[[WIDE]], %{{.+}} : i64
// CHECK:         scf.if %[[BOTH]] {
// CHECK-NEXT:      llvm.store %{{.+}}, %{{.+}} {alignment = 16 : i64}
// CHECK-NOT:     llvm.store
!mat = memref<?x64xf16, strided<[?, 1]>>
!rows = !sm.fragment<32x8xf16, #tile.tv<threads (32):(1), values (8):(32)>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: !mat, %index: memref<?xi32>) {
  tile.launch @kernel grid(%ctas) threads(32) args(%d, %index) : !mat, memref<?xi32>
  return
}
tile.kernel @kernel(%d: !mat, %index: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %placed = tile.take_rows %d at %index : !mat, memref<?xi32> to !mat
  %zero = sm.splat 0.000000e+00 : !rows
  %v = tile.view %placed[%c0, %c0] : !mat to !tile.view<32x8xf16>
  sm.store_global %zero to %v by "st.global.16" : !rows, !tile.view<32x8xf16>
  tile.return
}
}
