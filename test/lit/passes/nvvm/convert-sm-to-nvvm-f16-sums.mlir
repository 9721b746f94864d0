// convert-sm-to-nvvm: wgmma with sums in f16, of which a register holds two.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-LABEL: gpu.func @kernel(

// Four sums of a thread are two registers, in every op that takes or gives them.
// CHECK:         %[[ZERO:.+]] = llvm.mlir.zero : !llvm.struct<(i32, i32)>
// CHECK:         nvvm.wgmma.mma_async %{{.+}}, %{{.+}}, %[[ZERO]], <m = 64, n = 8, k = 16>, D[<f16>, <zero>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : !llvm.struct<(i32, i32)> -> !llvm.struct<(i32, i32)>
// CHECK:         %[[P:.+]] = nvvm.wgmma.mma_async %{{.+}}, %{{.+}}, %{{.+}}, <m = 64, n = 8, k = 16>, D[<f16>, <one>],
// CHECK-NEXT:    nvvm.wgmma.commit.group.sync.aligned

// The last wait threads them through. Neighbours along N share a register, the first of them in its lower half.
// CHECK:         %[[C:.+]] = sm.ptx_wgmma_wait 0, %[[P]] : !llvm.struct<(i32, i32)>
// CHECK:         %[[C0:.+]] = llvm.extractvalue %[[C]][0]
// CHECK:         %[[C1:.+]] = llvm.extractvalue %[[C]][1]
// CHECK:         %[[LOW:.+]] = llvm.bitcast %[[C0]] : i32 to vector<2xf16>
// CHECK:         %[[HIGH:.+]] = llvm.bitcast %[[C1]] : i32 to vector<2xf16>
// CHECK:         vector.shuffle %[[LOW]], %[[HIGH]] [0, 1, 2, 3] : vector<2xf16>, vector<2xf16>
// CHECK-NOT:     llvm.extractvalue %[[P]]
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f16.f16, atoms [2, 1, 1], permutation [128, 8, 16]>
!out = memref<?x?xf16, strided<[?, 1]>>
!a = memref<128x32xf16, #tile.layout<(128,32):(32,1), swizzle<2,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x32xf16, #tile.layout<(8,32):(32,1), swizzle<2,3,3>>, #gpu.address_space<workgroup>>
!ring = !sm.ring<1 x [!a, !b]>
!acc = !sm.fragment<128x8xf16, #tv>
!pending = !sm.pending<!acc>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %d: !out) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(8704) args(%d) : !out
  return
}
tile.kernel @kernel(%d: !out) {
  %c0 = arith.constant 0 : index
  %ring = sm.ring at [0, 8192] : !ring
  sm.roles {
    producer warps(4) registers(40) {
    }
    consumer warps(8) registers(232) {
      %zero = sm.splat 0.0 : !acc
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !pending
      %c, %last = sm.mma_wait 0, %p : !pending -> !acc
      %w = tile.view %d[%c0, %c0] : !out to !tile.view<128x8xf16>
      sm.store_global %c to %w by "st.global.4" : !acc, !tile.view<128x8xf16>
    }
  }
  tile.return
}
}
