// tile-to-ctas in clusters: the grid is whole clusters, of which no more are launched than are resident at once.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// Super-tiles of 2·64 × 4·64; a cluster has 8 CTAs.
// CHECK:       %[[ROWS:.+]] = arith.ceildivsi %{{.+}}, %c128
// CHECK:       %[[COLUMNS:.+]] = arith.ceildivsi %{{.+}}, %c256
// CHECK:       %[[TILES:.+]] = arith.muli %[[ROWS]], %[[COLUMNS]]
// CHECK:       %[[MOST:.+]] = tile.cluster_count @gemm_kernel cluster [2, 4] : index
// CHECK:       %[[CLUSTERS:.+]] = arith.minsi %[[TILES]], %[[MOST]]
// CHECK:       %[[GRID:.+]] = arith.muli %[[CLUSTERS]], %c8
// CHECK:       tile.launch @gemm_kernel grid(%[[GRID]]) threads(256) cluster [2, 4] args(
// CHECK:       tile.work_tiles (%{{.+}}, %{{.+}}) of (%{{.+}}, %{{.+}}) by [64, 64] cluster [2, 4] order(<row>) persistent {
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
      grid = <tile = [64, 64], cluster = [2, 4], order = row, scheduler = persistent>,
      mainloop = <k = 64, stages = 2, roles = cooperative(1)>, multiply = <atoms = [1, 1, 1]>,
      epilogue = <path = direct, math = registers, tile = [64, 64]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
