// convert-sm-to-nvvm: super-tiles, shares, multicasts, remote arrivals and barriers of a cluster of 2 × 2 CTAs.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,canonicalize,cse | filecheck %s

// CHECK:       tile.launch @kernel grid(%{{.+}}) threads(256) cluster [2, 2] shared_memory(16400) programmatic cooperative args({{.*}}) {tag}
// CHECK:       gpu.func @kernel(
// CHECK-SAME:    nvvm.cluster_dim = array<i32: 4, 1, 1>
// CHECK:       %[[RANK:.+]] = nvvm.read.ptx.sreg.cluster.ctarank : i32
// CHECK:       %[[ROW:.+]] = arith.shrui %[[RANK]], %c1_i32 : i32
// CHECK:       %[[COLUMN:.+]] = arith.andi %[[RANK]], %c1_i32 : i32

// The barrier of the cluster orders the threads of the CTA too.
// CHECK:         nvvm.fence.mbarrier.init
// CHECK-NEXT:  }
// CHECK-NEXT:  nvvm.cluster.arrive
// CHECK-NEXT:  nvvm.cluster.wait

// A super-tile of 128 × 128 for each cluster; of it, the CTA's own tile.
// CHECK:       %[[INDEX:.+]] = nvvm.read.ptx.sreg.clusterid.x : i32
// CHECK:       %[[CLUSTERS:.+]] = nvvm.read.ptx.sreg.nclusterid.x : i32
// CHECK:       scf.for %[[I:.+]] = %[[INDEX]] to %{{.+}} step %[[CLUSTERS]]
// CHECK:         %[[M:.+]] = arith.divui %[[I]], %{{.+}} : i32
// CHECK:         %[[M2:.+]] = arith.shli %[[M]], %c1_i32 : i32
// CHECK:         %[[OWN:.+]] = arith.addi %[[M2]], %[[ROW]] : i32
// CHECK:         %[[M64:.+]] = arith.shli %[[OWN]], %c6_i32 : i32

// The CTA's share: 32 rows, 32·128 = 2¹² bytes, for each CTA of its row before it; sent to both of them, bits 0 and 1 of
// the mask for row 0.
// CHECK:         %[[BITS:.+]] = arith.shli %c3_i32, %{{.+}} : i32
// CHECK:         %[[MASK:.+]] = arith.trunci %[[BITS]] : i32 to i16
// CHECK:         %[[BYTES:.+]] = arith.shli %[[COLUMN]], %c12_i32 : i32
// CHECK:         %[[PLACE:.+]] = llvm.getelementptr %{{.+}}[%[[BYTES]]] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
// CHECK:         %[[ROWS:.+]] = arith.shli %[[COLUMN]], %c5_i32 : i32
// CHECK:         %[[FIRST:.+]] = arith.addi %[[M64]], %[[ROWS]] : i32
// CHECK:         %[[TO_NUMBER:.+]] = llvm.ptrtoint %[[PLACE]] : !llvm.ptr<3> to i64
// CHECK:         %[[TO:.+]] = llvm.inttoptr %[[TO_NUMBER]] : i64 to !llvm.ptr<7>
// CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %[[TO]], %{{.+}}, %{{.+}}, box[%{{.+}}, %[[FIRST]]] multicast_mask = %[[MASK]]

// Threads 0 to 3 of the warpgroup arrive, each at the CTA of its number, in the CTA's row or its column.
// CHECK:         %[[THREAD:.+]] = arith.andi %{{.+}}, %c127_i32 : i32
// CHECK-DAG:     arith.cmpi ult, %[[THREAD]], %c4_i32 : i32
// CHECK-DAG:     %[[SAME_ROW:.+]] = arith.cmpi eq, %{{.+}}, %[[ROW]] : i32
// CHECK-DAG:     %[[SAME_COLUMN:.+]] = arith.cmpi eq, %{{.+}}, %[[COLUMN]] : i32
// CHECK:         arith.ori %[[SAME_ROW]], %[[SAME_COLUMN]] : i1
// CHECK:         scf.if
// CHECK-NEXT:      %[[REMOTE:.+]] = nvvm.mapa %{{.+}}, %[[THREAD]] : !llvm.ptr<3> -> !llvm.ptr<7>
// CHECK-NEXT:      nvvm.mbarrier.arrive %[[REMOTE]] : !llvm.ptr<7>
// CHECK:       nvvm.cluster.arrive
// CHECK-NEXT:  nvvm.cluster.wait
// CHECK-NEXT:  gpu.return
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<32x64xbf16, swizzle<3,3,3>>
!d = memref<?x?xf32, strided<[?, 1]>>
!ring = !sm.ring<2 x [!a]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %d: !d, %map: !map) {
  tile.launch @kernel grid(%ctas) threads(256) cluster [2, 2] shared_memory(16400) programmatic cooperative args(%d, %map) {tag} : !d, !map
  return
}
tile.kernel @kernel(%d: !d, %map: !map) {
  %c0 = arith.constant 0 : index
  %size = memref.dim %d, %c0 : !d
  %ring = sm.ring at [0] : !ring
  %full = sm.mbarriers arrivals(1) at 16384 : !sm.mbarriers<2>
  sm.cluster_barrier
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %n) of (%size, %size) by [64, 64] cluster [2, 2] order(<row>) persistent {
        %as = sm.ring_slot %ring[%c0] : !ring
        sm.tma_load %map[%m, %c0] to %as signals %full[%c0] multicast(row) : !map, !a, !sm.mbarriers<2>
      }
    }
    consumer warps(4) {
      sm.mbarrier_arrive %full[%c0] to(cross) : !sm.mbarriers<2>
    }
  }
  sm.cluster_barrier
  tile.return
}
}
