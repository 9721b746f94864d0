// Shards of A that arrive: work begins with the shard of this GPU, each work item waits for its shard before it reads it,
// and behind the K loop it stores past the last row if a shard was late.
// RUN: lowtide-opt %s -p tile-to-ctas | filecheck %s

// CHECK:       cf.assert %{{.+}}, "arrived must have a number for each shard of A"
// CHECK:       tile.kernel @gemm_kernel({{.*}}, %[[ARRIVED:[^ ]+]]: memref<?xi32>, %[[TURN:[^ ]+]]: memref<3xi32>, %[[STATUS:[^ ]+]]: memref<4xi32>)
// CHECK:         %[[M:.+]] = memref.dim %D, %c1{{.*}}
// CHECK:         %[[FIRST:.+]] = memref.load %[[TURN]][%c0{{.*}}] : memref<3xi32>
// CHECK:         %[[RANK:.+]] = arith.index_cast %[[FIRST]] : i32 to index
// CHECK:         tile.work_tiles (%m, %n) of {{.*}} batch(%batch of %{{.+}} from %[[RANK]]) order(<row>) persistent {
// CHECK-NEXT:      %[[SHARD:.+]] = tile.await_arrival %batch of %[[ARRIVED]], %[[TURN]], %[[STATUS]] : memref<?xi32>, memref<3xi32>, memref<4xi32>
// CHECK:           scf.for %[[K:[^ ]+]] =
// CHECK:             tile.view %A[%[[SHARD]], %m, %[[K]]]
// CHECK:             tile.view %B[%batch, %n, %[[K]]]
// CHECK:           %[[LATE:.+]] = tile.is_late %[[STATUS]] : memref<4xi32>
// CHECK-NEXT:      %[[ROW:.+]] = arith.select %[[LATE]], %[[M]], %m : index
// CHECK-NEXT:      tile.store %{{.+}} into %D[%batch, %[[ROW]], %n]
!mat = memref<?x?x?xbf16, strided<[?, ?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
  func.func @gemm(%a: !mat, %b: !mat, %d: !mat, %arrived: memref<?xi32>, %turn: memref<3xi32>, %status: memref<4xi32>) {
    tile.gemm tn %a, %b into %d acc(f32)
        operands(arrived %arrived : memref<?xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>)
        schedule(#tile.schedule<
          grid = <tile = [128, 8], order = row, scheduler = persistent>,
          mainloop = <k = 64, stages = 2, roles = cooperative(1)>, multiply = <atoms = [1, 1, 1]>,
          epilogue = <path = tma, math = registers, tile = [64, 8]>>) {
    ^bb0(%acc: f32):
      %y = arith.truncf %acc : f32 to bf16
      tile.yield %y : bf16
    } : !mat, !mat, !mat
    return
  }
}
