// Tensor maps of the matrices of a list: a kernel makes them, and another one acquires the map of one matrix.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s

!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
!map = !sm.tensor_map<32x64xbf16, swizzle<3,3,3>>
!scratch = memref<1x32xi32, #tile.layout<(1,32):(32,1)>, #gpu.address_space<workgroup>>
// CHECK: sm.make_maps %{{.+}} of %{{.+}} as !sm.tensor_map<32x64xbf16, swizzle<3,3,3>> through %{{.+}} : memref<?xi32>, memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">, memref<1x32xi32, {{.*}}>
tile.kernel @maps(%list: !list, %maps: memref<?xi32>) {
  %s = sm.alloc : !scratch
  sm.make_maps %maps of %list as !map through %s : memref<?xi32>, !list, !scratch
  tile.return
}
// CHECK: sm.listed_map %{{.+}}[%{{.+}}] : memref<?xi32> to !sm.tensor_map<32x64xbf16, swizzle<3,3,3>>
func.func @use(%maps: memref<?xi32>, %n: index) {
  %map = sm.listed_map %maps[%n] : memref<?xi32> to !map
  return
}
// CHECK: sm.ptx_replace_map %{{.+}} "global_dim" dim 0 value %{{.+}} : !llvm.ptr<3>, i32
// CHECK: sm.ptx_replace_map %{{.+}} "swizzle_mode" immediate 3 : !llvm.ptr<3>
// CHECK: sm.ptx_copy_map %{{.+}} to %{{.+}} : !llvm.ptr<3>, !llvm.ptr<1>
func.func @ptx(%p: !llvm.ptr<3>, %g: !llvm.ptr<1>, %x: i32) {
  sm.ptx_replace_map %p "global_dim" dim 0 value %x : !llvm.ptr<3>, i32
  sm.ptx_replace_map %p "swizzle_mode" immediate 3 : !llvm.ptr<3>
  sm.ptx_copy_map %p to %g : !llvm.ptr<3>, !llvm.ptr<1>
  return
}
