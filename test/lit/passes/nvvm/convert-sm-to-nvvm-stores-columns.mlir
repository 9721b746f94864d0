// convert-sm-to-nvvm: stores of a D by columns: stmatrix transposes, and each warpgroup stores its own panel.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,cse,canonicalize,cse | filecheck %s

#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,4),1,1):((128,8,1024),128,4096)>
!scratch = memref<128x32xbf16, #tile.layout<((64,2),32):((1,2048),64), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<16x64xbf16, swizzle<3,3,3>>
!y = !sm.fragment<128x32xbf16, #tv>

module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%d: memref<?x?xbf16, strided<[1, ?]>>, %ctas: index) {
  %map = sm.tensor_map %d : memref<?x?xbf16, strided<[1, ?]>> to !map
  tile.launch @stores grid(%ctas) threads(384) shared_memory(8192) args(%map) : !map
  return
}

// CHECK-LABEL: gpu.func @stores(
// CHECK-SAME:    %[[MAP:[^:]+]]: !llvm.ptr
// CHECK-DAG:   %[[M:.+]] = arith.constant 640 : i32
// CHECK-DAG:   %[[N:.+]] = arith.constant 96 : i32
// CHECK-DAG:   %[[N16:.+]] = arith.constant 112 : i32
// CHECK-DAG:   %[[C6:.+]] = arith.constant 6 : i32
// CHECK-DAG:   %[[C12:.+]] = arith.constant 12 : i32

// 16 columns at a time; 16 columns lie 2048 bytes apart.
// CHECK:         nvvm.stmatrix %[[P:.+]], %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<col>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>}
// CHECK:         %[[NEXT:.+]] = llvm.getelementptr %[[P]][2048]
// CHECK:         nvvm.stmatrix %[[NEXT]], {{.+}}layout = #nvvm.mma_layout<col>
// CHECK-NOT:     nvvm.stmatrix

// The panel of a warpgroup is 4096 bytes long. Coordinates are innermost first: row, column.
// CHECK-DAG:     %[[OWN:.+]] = arith.shli %[[GROUP:.+]], %[[C12]]
// CHECK-DAG:     %[[START:.+]] = llvm.getelementptr %{{.+}}[%[[OWN]]]
// CHECK-DAG:     %[[ROWS:.+]] = arith.shli %[[GROUP]], %[[C6]]
// CHECK-DAG:     %[[ROW:.+]] = arith.addi %[[ROWS]], %[[M]]
// CHECK:         scf.if
// CHECK-NEXT:      nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %[[START]], box[%[[ROW]], %[[N]]]
// CHECK:           %[[BOX:.+]] = llvm.getelementptr %[[START]][2048]
// CHECK:           nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %[[BOX]], box[%[[ROW]], %[[N16]]]
// CHECK-NEXT:      nvvm.cp.async.bulk.commit.group
tile.kernel @stores(%map: !map) {
  %m = arith.constant 640 : index
  %n = arith.constant 96 : index
  %scratch = sm.alloc at 0 : !scratch
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %y = sm.splat 1.0 : !y
      sm.store_shared %y to %scratch by "stmatrix.x4" : !y, !scratch
      sm.fence_proxy_async
      sm.barrier warpgroup
      sm.tma_store %scratch to %map[%m, %n] : !scratch, !map
      sm.tma_store_wait 0
    }
  }
  tile.return
}
}
