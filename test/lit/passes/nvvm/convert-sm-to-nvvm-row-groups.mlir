// A product in row groups: all k-slices of a block of 64 rows, a commit, then those of the next block. The wait for the
// first rows threads the registers of the first block through; the last wait those of the others alone.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-LABEL: gpu.func @kernel
// CHECK:         nvvm.wgmma.fence.aligned
// CHECK:         %[[A0:.+]] = nvvm.wgmma.mma_async
// CHECK:         %[[B0:.+]] = nvvm.wgmma.mma_async
// CHECK-NEXT:    nvvm.wgmma.commit.group.sync.aligned
// CHECK:         nvvm.wgmma.fence.aligned
// CHECK:         %[[A1:.+]] = nvvm.wgmma.mma_async %{{.+}}, %{{.+}}, %[[A0]], <m = 64, n = 8, k = 16>
// CHECK-NEXT:    nvvm.wgmma.commit.group.sync.aligned
// CHECK:         %[[B1:.+]] = nvvm.wgmma.mma_async %{{.+}}, %{{.+}}, %[[B0]], <m = 64, n = 8, k = 16>
// CHECK-NEXT:    nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:    nvvm.wgmma.wait.group.sync.aligned 2
// CHECK-NEXT:    %[[TOP:.+]] = sm.ptx_wgmma_wait 1, %[[A1]] :
// CHECK:         llvm.extractvalue %[[TOP]][0]
// CHECK:         llvm.store
// CHECK:         %[[REST:.+]] = sm.ptx_wgmma_wait 0, %[[B1]] :
// CHECK-NOT:     sm.ptx_wgmma_wait
// CHECK:         llvm.extractvalue %[[REST]][0]
// CHECK:         llvm.store
#a = #tile.layout<(128,16):(16,1), swizzle<1,3,3>>
#b = #tile.layout<(8,16):(16,1), swizzle<1,3,3>>
#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1], permutation [64, 8, 16]>
!out = memref<?x?xf32, strided<[?, 1]>>
!map = !sm.tensor_map<128x16xbf16, swizzle<1,3,3>>
!a = memref<128x16xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x16xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!acc = !sm.fragment<128x8xf32, #tv>
!top = !sm.fragment<64x8xf32, #tv1>
!pending = !sm.pending<!acc>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %d: !out, %map: !map) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(8736) args(%d, %map) : !out, !map
  return
}
tile.kernel @kernel(%d: !out, %map: !map) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %ring = sm.ring at [0, 8192] : !ring
  %full = sm.mbarriers arrivals(1) at 8704 : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) at 8720 : !sm.mbarriers<2>
  sm.roles {
    producer warps(4) {
      sm.mbarrier_arrive %full[%c0] expects 4096 : !sm.mbarriers<2>
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      sm.tma_load %map[%c0, %c0] to %as signals %full[%c0] : !map, !a, !sm.mbarriers<2>
    }
    consumer warps(4) {
      %zero = sm.splat 0.0 : !acc
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !pending
      %q = sm.wgmma tn %as, %bs, %p by #mma row_groups : !a, !b, !pending -> !pending
      %q2, %r = sm.mma_wait 2, %q : !pending -> !pending
      %rows, %rest = sm.mma_wait_rows 1, %q2 : !pending -> !top
      %w = tile.view %d[%c0, %c0] : !out to !tile.view<64x8xf32>
      sm.store_global %rows to %w by "st.global.8" : !top, !tile.view<64x8xf32>
      %c, %last = sm.mma_wait 0, %rest : !pending -> !acc
      sm.mbarrier_arrive %empty[%c0] after %last : !sm.mbarriers<2>
      %below = sm.extract %c[64, 0] : !acc to !top
      %v = tile.view %d[%c64, %c0] : !out to !tile.view<64x8xf32>
      sm.store_global %below to %v by "st.global.8" : !top, !tile.view<64x8xf32>
    }
  }
  tile.return
}
}
