// With grid.tail = halves a kernel has two loops over work tiles in sequence: the full waves, and the halves of the
// tiles that remain. Twice as many CTAs may be launched as there are tiles.
// RUN: lowtide-opt %s -p tile-to-ctas | filecheck %s

// CHECK:         %[[TILES:.+]] = arith.muli %{{.+}}, %{{.+}} : index
// CHECK:         %[[HALVES:.+]] = arith.muli %[[TILES]], %c2{{.*}} : index
// CHECK:         arith.minsi %[[HALVES]], %{{.+}} : index
// CHECK:       tile.kernel @gemm_kernel
// CHECK:         tile.work_tiles (%[[M:.+]], %{{.+}}) of (%[[ROWS:.+]], %[[COLUMNS:.+]]) by [128, 8] order(<grouped 4>) persistent part(full_waves) {
// CHECK:           tile.view %A[%[[M]], %{{.+}}] : {{.*}} to !tile.view<128x64xbf16>
// CHECK:           tile.mma
// CHECK:           tile.store {{.*}} {
// CHECK:             arith.truncf
// CHECK:           } : !tile.tile<128x8xf32>
// CHECK:         tile.work_tiles (%[[M:.+]], %{{.+}}) of (%[[ROWS]], %[[COLUMNS]]) by [64, 8] order(<grouped 4>) persistent part(tail_halves) {
// CHECK:           tile.view %A[%[[M]], %{{.+}}] : {{.*}} to !tile.view<64x64xbf16>
// CHECK:           tile.view %B{{.*}} to !tile.view<8x64xbf16>
// CHECK:           tile.store {{.*}} {
// CHECK:             arith.truncf
// CHECK:           } : !tile.tile<64x8xf32>
// CHECK-NOT:     tile.work_tiles
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
  func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
    tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
        grid = <tile = [128, 8], order = grouped(4), scheduler = persistent, tail = halves>,
        mainloop = <k = 64, stages = 2, roles = cooperative(1)>, multiply = <atoms = [1, 1, 1]>,
        epilogue = <path = tma, math = registers, tile = [64, 8]>>) {
    ^bb0(%acc: f32):
      %y = arith.truncf %acc : f32 to bf16
      tile.yield %y : bf16
    } : !mat, !mat, !mat
    return
  }
}
