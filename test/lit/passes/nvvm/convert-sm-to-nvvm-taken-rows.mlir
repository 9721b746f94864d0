// Rows at an index: a thread reads the index before the loop over K, where its row exists, and copies no bytes of rows
// that the matrix does not have.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,canonicalize,cse | filecheck %s

// CHECK-LABEL: gpu.func @kernel
// CHECK:         %[[EXISTS:.+]] = arith.cmpi ult, %[[ROW:.+]], %{{.+}} : i32
// CHECK:         %[[PLACE:.+]] = arith.select %[[EXISTS]], %[[ROW]], %c0_i32
// CHECK:         %[[TAKEN:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         %[[INSIDE:.+]] = arith.cmpi ult, %[[TAKEN]], %{{.+}} : i32
// CHECK:         %[[BOTH:.+]] = arith.andi %[[EXISTS]], %[[INSIDE]]
// CHECK:         arith.select %[[BOTH]], %[[TAKEN]], %c0_i32
// CHECK:         scf.for
// CHECK-NOT:       llvm.load
// CHECK:           %[[WHOLE:.+]] = arith.andi %[[BOTH]], %{{.+}} : i1
// CHECK:           arith.select %[[WHOLE]], %c16_i32, %c0_i32
// CHECK:           nvvm.cp.async.shared.global
#copy = #sm.tiled_copy<cp.async.16, #tile.tv<threads (4,8):(0,1), values (8):(8)>>
!mat = memref<?x64xf16, strided<[?, 1]>>
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %a: !mat, %index: memref<?xi32>) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(128) args(%a, %index) : !mat, memref<?xi32>
  return
}
tile.kernel @kernel(%a: !mat, %index: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %s = sm.alloc at 0 : !buffer
  %taken = tile.take_rows %a at %index : !mat, memref<?xi32> to !mat
  scf.for %k = %c0 to %c64 step %c8 {
    %v = tile.view %taken[%c8, %k] : !mat to !tile.view<8x8xf16>
    sm.cp_async %v to %s by #copy : !tile.view<8x8xf16>, !buffer
  }
  tile.return
}
}
