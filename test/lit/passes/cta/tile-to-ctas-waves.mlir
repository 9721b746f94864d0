// With grid.waves = synchronized the host gives the kernel a counter, zero before and after each launch, and each work
// tile of the full waves begins with a wait for its wave. Nobody waits in a tail in halves: it is no full wave.
// RUN: lowtide-opt %s -p tile-to-ctas | filecheck %s

// CHECK:         %[[COUNTER:.+]] = tile.workspace %c1{{.*}} zeroed : memref<?xi32>
// CHECK:         tile.launch @gemm_kernel {{.*}}, %[[COUNTER]])
// CHECK:       tile.kernel @gemm_kernel({{.*}}, %[[ARGUMENT:[^ ]+]]: memref<?xi32>)
// CHECK:         tile.work_tiles {{.*}} part(full_waves) {
// CHECK-NEXT:      tile.await_wave %[[ARGUMENT]] : memref<?xi32>
// CHECK:         tile.work_tiles {{.*}} part(tail_halves) {
// CHECK-NOT:       tile.await_wave
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
  func.func @gemm(%a: !mat, %b: !mat, %d: !mat) {
    tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
        grid = <tile = [128, 8], order = row, scheduler = persistent, tail = halves, waves = synchronized>,
        mainloop = <k = 64, stages = 2, roles = cooperative(1)>, multiply = <atoms = [1, 1, 1]>,
        epilogue = <path = tma, math = registers, tile = [64, 8]>>) {
    ^bb0(%acc: f32):
      %y = arith.truncf %acc : f32 to bf16
      tile.yield %y : bf16
    } : !mat, !mat, !mat
    return
  }
}
