// What kernels in clusters add to the ops of both dialects prints as written here and reads back to itself.
// RUN: lowtide-opt %s > %t.once && lowtide-opt %t.once > %t.twice && diff %t.once %t.twice
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt > %t.generic && diff %t.once %t.generic
// RUN: lowtide-opt %s | filecheck %s

!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!share = !sm.tensor_map<32x64xbf16, swizzle<3,3,3>>

// CHECK: #[[S:.+]] = #tile.schedule<
// CHECK-NEXT: grid = <tile = [128, 256], cluster = [2, 1], order = row>>
module attributes {test.schedule = #tile.schedule<grid = <order = row, cluster = [2, 1], tile = [128, 256]>>} {
// CHECK-LABEL: func.func @host
func.func @host(%grid: index, %map: !share) {
  // CHECK: tile.cluster_count @kernel cluster [2, 1] : index
  %count = tile.cluster_count @kernel cluster [2, 1] : index
  // CHECK: tile.launch @kernel grid(%{{.+}}) threads(384) cluster [2, 1] shared_memory(1024) args(
  tile.launch @kernel grid(%grid) threads(384) cluster [2, 1] shared_memory(1024) args(%map) : !share
  return
}
// CHECK-LABEL: tile.kernel @kernel
tile.kernel @kernel(%map: !share) {
  %c0 = arith.constant 0 : index
  %s = sm.alloc : !a
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  // CHECK: sm.cluster_barrier
  sm.cluster_barrier
  // CHECK: tile.work_tiles (%{{.+}}, %{{.+}}) of (%{{.+}}, %{{.+}}) by [128, 256] cluster [2, 1] order(<row>) persistent {
  tile.work_tiles (%m, %n) of (%c0, %c0) by [128, 256] cluster [2, 1] order(<row>) persistent {
    // CHECK: sm.mbarrier_arrive %{{.+}}[%{{.+}}] to(row) : !sm.mbarriers<2>
    sm.mbarrier_arrive %full[%c0] to(row) : !sm.mbarriers<2>
    // CHECK: sm.mbarrier_arrive %{{.+}}[%{{.+}}] to(column) : !sm.mbarriers<2>
    sm.mbarrier_arrive %full[%c0] to(column) : !sm.mbarriers<2>
    // CHECK: sm.mbarrier_arrive %{{.+}}[%{{.+}}] to(cross) : !sm.mbarriers<2>
    sm.mbarrier_arrive %full[%c0] to(cross) : !sm.mbarriers<2>
    // CHECK: sm.tma_load %{{.+}}[%{{.+}}, %{{.+}}] to %{{.+}} signals %{{.+}}[%{{.+}}] multicast(column) cache(evict_last) : !sm.tensor_map<32x64xbf16,
    sm.tma_load %map[%m, %c0] to %s signals %full[%c0] multicast(column) cache(evict_last) : !share, !a, !sm.mbarriers<2>
  }
  tile.return
}
}
