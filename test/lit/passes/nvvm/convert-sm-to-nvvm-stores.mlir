// convert-sm-to-nvvm: stmatrix, TMA stores of each warpgroup, their barriers and waits; stores with a cache operator.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,cse,canonicalize,cse | filecheck %s

#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,4),1,1):((128,8,1024),128,4096)>
#panels = #tile.layout<(128,(16,2)):(16,(1,2048)), swizzle<1,3,3>>
!scratch = memref<128x32xbf16, #panels, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
!y = !sm.fragment<128x32xbf16, #tv>
!edge = memref<?x?xf32, strided<[?, 1]>>
!z = !sm.fragment<128x4xf32, #tile.tv<threads (128):(1), values (4):(128)>>

module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%d: memref<?x?xbf16, strided<[?, 1]>>, %e: !edge, %ctas: index) {
  %map = sm.tensor_map %d : memref<?x?xbf16, strided<[?, 1]>> to !map
  tile.launch @stores grid(%ctas) threads(384) shared_memory(16384) args(%map) : !map
  tile.launch @cached grid(%ctas) threads(128) shared_memory(0) args(%e) : !edge
  return
}

// CHECK-LABEL: gpu.func @stores(
// CHECK-SAME:    %[[MAP:[^:]+]]: !llvm.ptr)
// CHECK-DAG:   %[[C0:.+]] = arith.constant 0 : i32
// CHECK-DAG:   %[[C4:.+]] = arith.constant 4 : i32
// CHECK-DAG:   %[[C6:.+]] = arith.constant 6 : i32
// CHECK-DAG:   %[[C7:.+]] = arith.constant 7 : i32
// CHECK-DAG:   %[[C11:.+]] = arith.constant 11 : i32
// CHECK-DAG:   %[[C127:.+]] = arith.constant 127 : i32
// CHECK-DAG:   %[[C128:.+]] = arith.constant 128 : i32
// CHECK-DAG:   %[[N:.+]] = arith.constant 96 : i32
// CHECK-DAG:   %[[N16:.+]] = arith.constant 112 : i32
// CHECK-DAG:   %[[M:.+]] = arith.constant 640 : i32
// CHECK-DAG:   %[[POLICY:.+]] = arith.constant 1364590687093260288 : i64
// CHECK:       %[[SMEM:.+]] = llvm.mlir.addressof @shared_memory
// CHECK:       } else {
// CHECK:         %[[TID:.+]] = arith.subi %{{.+}}, %[[C128]]

// A thread waits for its own groups. Barriers 1 and 2 are the roles'; a producer's warpgroup would have 3, those of the
// consumers have 4 and 5.
// CHECK:         nvvm.cp.async.bulk.wait_group 1 {read}
// CHECK:         %[[GROUP:.+]] = arith.shrui %[[TID]], %[[C7]]
// CHECK:         %[[ID:.+]] = arith.addi %[[GROUP]], %[[C4]]
// CHECK:         nvvm.barrier id = %[[ID]] number_of_threads = %[[C128]]

// 16 columns at a time, four registers of two elements. Lane l addresses row l % 16, lanes from 16 on 8 columns further;
// a thread computes that once. The second panel lies 4096 bytes on.
// CHECK:         %[[P:.+]] = llvm.getelementptr %[[SMEM]][%{{.+}}]
// CHECK:         nvvm.stmatrix %[[P]], %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>}
// CHECK:         %[[NEXT:.+]] = llvm.getelementptr %[[P]][4096]
// CHECK:         nvvm.stmatrix %[[NEXT]],
// CHECK-NOT:     nvvm.stmatrix
// CHECK:         nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK-NEXT:    nvvm.barrier id = %[[ID]] number_of_threads = %[[C128]]

// The first thread of each warpgroup stores its 64 rows, 2048 bytes of each panel, and commits.
// CHECK-DAG:     %[[OWN:.+]] = arith.shli %[[GROUP]], %[[C11]]
// CHECK-DAG:     %[[START:.+]] = llvm.getelementptr %[[SMEM]][%[[OWN]]]
// CHECK-DAG:     %[[ROWS:.+]] = arith.shli %[[GROUP]], %[[C6]]
// CHECK-DAG:     %[[ROW:.+]] = arith.addi %[[ROWS]], %[[M]]
// CHECK-DAG:     %[[LANE:.+]] = arith.andi %[[TID]], %[[C127]]
// CHECK-DAG:     %[[FIRST:.+]] = arith.cmpi eq, %[[LANE]], %[[C0]]
// CHECK:         scf.if %[[FIRST]] {
// CHECK-NEXT:      nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %[[START]], box[%[[N]], %[[ROW]]] l2_cache_hint = %[[POLICY]]
// CHECK:           %[[PANEL:.+]] = llvm.getelementptr %[[START]][4096]
// CHECK:           nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %[[PANEL]], box[%[[N16]], %[[ROW]]] l2_cache_hint = %[[POLICY]]
// CHECK-NEXT:      nvvm.cp.async.bulk.commit.group
// CHECK-NEXT:    }
// CHECK-NEXT:    nvvm.cp.async.bulk.wait_group 0
// CHECK-NOT:     read
tile.kernel @stores(%map: !map) {
  %m = arith.constant 640 : index
  %n = arith.constant 96 : index
  %scratch = sm.alloc at 0 : !scratch
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %y = sm.splat 1.0 : !y
      sm.tma_store_wait read 1
      sm.barrier warpgroup
      sm.store_shared %y to %scratch by "stmatrix.x4" : !y, !scratch
      sm.fence_proxy_async
      sm.barrier warpgroup
      sm.tma_store %scratch to %map[%m, %n] cache(evict_first) : !scratch, !map
      sm.tma_store_wait 0
    }
  }
  tile.return
}

// A cache operator goes onto whole runs and onto the elements at the edge alike.
// CHECK-LABEL: gpu.func @cached(
// CHECK-NOT:   llvm.store
// CHECK:       sm.ptx_store streaming %{{.+}} to %{{.+}} : vector<2xf32>, !llvm.ptr<1>
// CHECK:       sm.ptx_store streaming %{{.+}} to %{{.+}} : f32, !llvm.ptr<1>
// CHECK:       sm.ptx_store streaming %{{.+}} to %{{.+}} : f32, !llvm.ptr<1>
// CHECK-NOT:   llvm.store
tile.kernel @cached(%e: !edge) {
  %m = arith.constant 0 : index
  %y = sm.splat 1.0 : !z
  %view = tile.view %e[%m, %m] : !edge to !tile.view<128x4xf32>
  sm.store_global %y to %view by "st.global.8" cache(streaming) : !z, !tile.view<128x4xf32>
  tile.return
}
}
