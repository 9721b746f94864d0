// convert-sm-to-nvvm: operands of the epilogue that warpgroups load by TMA, and read by ldmatrix.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,2),1,1):((128,8,1024),128,2048)>
!map = !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
!part = memref<128x16xbf16, #tile.layout<(128,16):(16,1), swizzle<1,3,3>>, #gpu.address_space<workgroup>>
!fragment = !sm.fragment<128x16xbf16, #tv>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %map: !map) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(8208) args(%map) : !map
  return
}

// The first thread of each warpgroup arrives with the bytes of its 64 rows, and loads them to their place.
// CHECK-LABEL: gpu.func @kernel(
// CHECK:       %[[SMEM:.+]] = llvm.mlir.addressof @shared_memory
// CHECK:       nvvm.mbarrier.init %{{.+}}, %c2_i32
// CHECK:       nvvm.mbarrier.arrive.expect_tx %{{.+}}, %c2048_i32
// CHECK:       %[[WARPGROUP:.+]] = arith.shrui %[[TID:.+]], %c7_i32
// CHECK:       %[[BYTES:.+]] = arith.shli %[[WARPGROUP]], %c11_i32
// CHECK:       %[[AT:.+]] = llvm.getelementptr %{{.+}}[%[[BYTES]]]
// CHECK:       %[[ROWS:.+]] = arith.shli %[[WARPGROUP]], %c6_i32
// CHECK:       scf.if
// CHECK:         %[[PLACE_NUMBER:.+]] = llvm.ptrtoint %[[AT]] : !llvm.ptr<3> to i64
// CHECK:         %[[PLACE:.+]] = llvm.inttoptr %[[PLACE_NUMBER]] : i64 to !llvm.ptr<7>
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %[[PLACE]], %{{.+}}, %{{.+}}, box[%c0_i32{{.*}}, %[[ROWS]]]

// A fragment is read by ldmatrix with the addresses by which stmatrix stores it. An sm.map takes its elements as vectors.
// CHECK:       nvvm.mbarrier.try_wait.parity
// CHECK:       %[[FROM:.+]] = llvm.getelementptr
// CHECK-NEXT:  %[[LOADED:.+]] = nvvm.ldmatrix %[[FROM]] {{.*}}num = 4
// CHECK:       %[[FIRST:.+]] = llvm.extractvalue %[[LOADED]][0]
// CHECK:       %[[PAIR:.+]] = llvm.bitcast %[[FIRST]] : i32 to vector<2xbf16>
// CHECK:       arith.negf %[[PAIR]] : vector<2xbf16>
// CHECK:       nvvm.stmatrix
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %part = sm.alloc at 0 : !part
  %full = sm.mbarriers arrivals(2) at 8192 : !sm.mbarriers<1>
  sm.roles {
    producer warps(4) registers(0) {
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_arrive %full[%c0] expects 2048 : !sm.mbarriers<1>
      sm.tma_load %map[%c0, %c0] to %part signals %full[%c0] : !map, !part, !sm.mbarriers<1>
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<1>
      %x = sm.load_shared %part by "ldmatrix.x4" : !part to !fragment
      %y = sm.map %x : !fragment {
      ^bb0(%e: bf16):
        %n = arith.negf %e : bf16
        tile.yield %n : bf16
      } : !fragment
      sm.store_shared %y to %part by "stmatrix.x4" : !fragment, !part
    }
  }
  tile.return
}
}
