// Windows of halves: each run is copied from the matrix of its half, at the same row; if threads are in different halves,
// each selects its matrix.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,canonicalize,cse --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: gpu.func @whole
// CHECK:         %[[HALF:.+]] = llvm.getelementptr %{{.+}} : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f16
// CHECK-COUNT-2: nvvm.cp.async.shared.global
#copy = #sm.tiled_copy<cp.async.4, #tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>>
!pair = memref<2x?x8xf16, strided<[?, ?, 1]>>
!buffer = memref<16x8xf16, #tile.layout<(16,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %b: !pair) {
  tile.launch @whole grid(%ctas) threads(32) shared_memory(256) args(%b) : !pair
  return
}
tile.kernel @whole(%b: !pair) {
  %c0 = arith.constant 0 : index
  %s = sm.alloc at 0 : !buffer
  %v = tile.view %b[%c0, %c0, %c0] halves : !pair to !tile.view<16x8xf16>
  sm.cp_async %v to %s by #copy : !tile.view<16x8xf16>, !buffer
  tile.return
}
}
// -----

// CHECK-LABEL: gpu.func @selected
// CHECK:         %[[FIRST:.+]] = arith.cmpi ult, %{{.+}}, %c4
// CHECK:         arith.select %[[FIRST]], %{{.+}}, %{{.+}} : !llvm.ptr<1>
// CHECK-COUNT-1: nvvm.cp.async.shared.global
#copy = #sm.tiled_copy<cp.async.4, #tile.tv<threads (4,8):(16,1), values (2,1):(8,16)>>
!pair = memref<2x?x8xf16, strided<[?, ?, 1]>>
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %b: !pair) {
  tile.launch @selected grid(%ctas) threads(32) shared_memory(256) args(%b) : !pair
  return
}
tile.kernel @selected(%b: !pair) {
  %c0 = arith.constant 0 : index
  %s = sm.alloc at 0 : !buffer
  %v = tile.view %b[%c0, %c0, %c0] halves : !pair to !tile.view<8x8xf16>
  sm.cp_async %v to %s by #copy : !tile.view<8x8xf16>, !buffer
  tile.return
}
}
// -----

#copy = #sm.tiled_copy<cp.async.4, #tile.tv<threads (4,8):(48,1), values (2,3):(24,8)>>
!pair = memref<2x?x8xf16, strided<[?, ?, 1]>>
!buffer = memref<24x8xf16, #tile.layout<(24,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %b: !pair) {
  tile.launch @cut grid(%ctas) threads(32) shared_memory(512) args(%b) : !pair
  return
}
tile.kernel @cut(%b: !pair) {
  %c0 = arith.constant 0 : index
  %s = sm.alloc at 0 : !buffer
  %v = tile.view %b[%c0, %c0, %c0] halves : !pair to !tile.view<24x8xf16>
  // expected-error @below {{convert-sm-to-nvvm: copies 8 rows at a time, which must divide the 12 rows of each half; take another grid.tile, or another number of threads [halves-of-threads]}}
  sm.cp_async %v to %s by #copy : !tile.view<24x8xf16>, !buffer
  tile.return
}
}
