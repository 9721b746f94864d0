// Tensor maps of a list: a warp begins a map with zeros in shared memory, one lane sets its fields, and the warp copies it. The
// kernel that uses it acquires it before the load. Stride and extents of a matrix without elements are replaced.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,canonicalize,cse | filecheck %s

// CHECK:         features = "+ptx83"
// CHECK-LABEL: gpu.func @maps
// CHECK-SAME:    %[[TABLE:[a-z0-9]+]]: !llvm.ptr<1>
// CHECK:         llvm.store %c0_i32, %{{.+}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK:         nvvm.bar.warp.sync
// CHECK:         scf.if
// CHECK:           sm.ptx_replace_map %[[MAP:.+]] "rank" value %c1_i32
// CHECK:           sm.ptx_replace_map %[[MAP]] "box_dim" dim 0 value %c64_i32
// CHECK:           sm.ptx_replace_map %[[MAP]] "box_dim" dim 1 value %c32_i32
// CHECK:           sm.ptx_replace_map %[[MAP]] "elemtype" immediate 10
// CHECK:           sm.ptx_replace_map %[[MAP]] "swizzle_mode" immediate 3
// CHECK:           %[[STRIDE:.+]] = arith.select %{{.+}}, %c16_i64, %{{.+}} : i64
// CHECK:           %[[ADDRESS:.+]] = arith.select %{{.+}}, %{{.+}}, %{{.+}} : i64
// CHECK:           sm.ptx_replace_map %[[MAP]] "global_address" value %[[ADDRESS]]
// CHECK:           %[[COLUMNS:.+]] = arith.maxui %{{.+}}, %c1_i32
// CHECK:           sm.ptx_replace_map %[[MAP]] "global_dim" dim 0 value %[[COLUMNS]]
// CHECK:           sm.ptx_replace_map %[[MAP]] "global_stride" dim 0 value %[[STRIDE]]
// CHECK:         nvvm.bar.warp.sync
// CHECK:         sm.ptx_copy_map %[[MAP]] to %{{.+}} : !llvm.ptr<3>, !llvm.ptr<1>

// CHECK-LABEL: gpu.func @use
// CHECK:         %[[AT:.+]] = llvm.addrspacecast %{{.+}} : !llvm.ptr<1> to !llvm.ptr
// CHECK:         nvvm.fence.proxy.acquire <gpu> %[[AT]], %c128_i32
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[AT]],
!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
!map = !sm.tensor_map<32x64xbf16, swizzle<3,3,3>>
!scratch = memref<1x32xi32, #tile.layout<(1,32):(32,1)>, #gpu.address_space<workgroup>>
!buffer = memref<32x64xbf16, #tile.layout<(32,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%n: index, %list: !list, %maps: memref<?xi32>) {
  tile.launch @maps grid(%n) threads(32) shared_memory(128) args(%list, %maps) : !list, memref<?xi32>
  tile.launch @use grid(%n) threads(128) shared_memory(8192) args(%n, %maps) : index, memref<?xi32>
  return
}
tile.kernel @maps(%list: !list, %maps: memref<?xi32>) {
  %s = sm.alloc at 0 : !scratch
  sm.make_maps %maps of %list as !map through %s : memref<?xi32>, !list, !scratch
  tile.return
}
tile.kernel @use(%n: index, %maps: memref<?xi32>) {
  %a = sm.alloc at 0 : !buffer
  %full = sm.mbarriers arrivals(1) at 4096 : !sm.mbarriers<1>
  %c0 = arith.constant 0 : index
  %map = sm.listed_map %maps[%c0] : memref<?xi32> to !map
  sm.tma_load %map[%c0, %c0] to %a signals %full[%c0] : !map, !buffer, !sm.mbarriers<1>
  tile.return
}
}
