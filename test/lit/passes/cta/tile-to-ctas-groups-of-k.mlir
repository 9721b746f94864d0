// Groups of K: a batch with a matrix of D for each group. The K loop goes over the range of the group, with at least one
// step, and windows of A and B end with the group. The end before is clamped to [0, K], the end to [the end before, K].
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @gemm
// CHECK-SAME:    (%[[A:.+]]: memref<?x64xbf16, {{.*}}>, %[[B:.+]]: memref<?x64xbf16, {{.*}}>, %[[D:.+]]: memref<8x64x64xf32, {{.*}}>, %[[ENDS:.+]]: memref<?xi32>)
// CHECK:         cf.assert %{{.+}}, "A and B must have the same K"
// CHECK:         cf.assert %{{.+}}, "D must have a matrix for each of the ends of groups"
// CHECK-NOT:     batch

// CHECK-LABEL: tile.kernel @gemm_kernel(
// CHECK:         %[[DEPTH:.+]] = memref.dim %A, %c0
// CHECK:         tile.work_tiles (%m, %n) of (%{{.+}}, %{{.+}}) by [32, 64] batch(%batch of %{{.+}}) order(<row>) persistent {
// CHECK:           %[[FIRST:.+]] = arith.cmpi eq, %batch, %c0
// CHECK:           %[[BACK:.+]] = arith.select %[[FIRST]], %c0, %c1
// CHECK:           %[[BEFORE:.+]] = arith.subi %batch, %[[BACK]]
// CHECK:           %[[GIVEN:.+]] = memref.load %{{.+}}[%[[BEFORE]]] : memref<?xi32>
// CHECK:           %[[INDEX:.+]] = arith.index_cast %[[GIVEN]] : i32 to index
// CHECK:           %[[LEAST:.+]] = arith.maxsi %[[INDEX]], %c0
// CHECK:           %[[MOST:.+]] = arith.minsi %[[LEAST]], %[[DEPTH]]
// CHECK:           %[[BEGIN:.+]] = arith.select %[[FIRST]], %c0, %[[MOST]]
// CHECK:           %[[OWN:.+]] = memref.load %{{.+}}[%batch] : memref<?xi32>
// CHECK:           %[[CAST:.+]] = arith.index_cast %[[OWN]] : i32 to index
// CHECK:           %[[AFTER:.+]] = arith.maxsi %[[CAST]], %[[BEGIN]]
// CHECK:           %[[END:.+]] = arith.minsi %[[AFTER]], %[[DEPTH]]
// CHECK:           %[[ONE:.+]] = arith.addi %[[BEGIN]], %c1
// CHECK:           %[[LAST:.+]] = arith.maxsi %[[END]], %[[ONE]]
// CHECK:           %[[AS:.+]] = memref.subview %A[0, 0] [%[[END]], 64] [1, 1]
// CHECK:           %[[BS:.+]] = memref.subview %B[0, 0] [%[[END]], 64] [1, 1]
// CHECK:           scf.for %[[K:.+]] = %[[BEGIN]] to %[[LAST]] step %c16
// CHECK:             tile.view %[[AS]][%[[K]], %m] : {{.*}} to !tile.view<16x32xbf16>
// CHECK:             tile.view %[[BS]][%[[K]], %n] : {{.*}} to !tile.view<16x64xbf16>
// CHECK:           tile.store %{{.+}} into %D[%batch, %m, %n]
!mat = memref<?x64xbf16, strided<[?, 1]>>
!mats = memref<8x64x64xf32, strided<[?, ?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: !mat, %b: !mat, %d: !mats, %ends: memref<?xi32>) {
    tile.gemm nt %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>) schedule(#tile.schedule<
        grid = <tile = [32, 64], order = row, scheduler = persistent>,
        mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
        multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
        epilogue = <path = smem, math = rows, tile = [32, 64]>>) {
    ^bb0(%acc: f32):
      tile.yield %acc : f32
    } : !mat, !mat, !mats
    return
  }
}
