// Lists of products: windows of A and B have the item's matrix as their first coordinate, as in a batch. The view of D up
// to the end of the item's rows is a list as well. Each product has its own tiles along N, and its own K steps, unless the
// type knows the extent. For a K of 0, the one step lies past it.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// CHECK-LABEL: tile.kernel @gemm_kernel(
// CHECK-SAME:    %A: memref<?x?x32xbf16, strided<[?, ?, 1]>, "list">
// CHECK:         tile.work_tiles (%m, %n) of (%{{.+}}, %{{.+}}) by [32, 64] batch(%batch of %{{.+}}) groups(%group to %rows_end of %{{.+}} : memref<?xi32>) columns_of(%D : memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">) order(<row>) persistent {
// CHECK-NOT:       tile.matrix_extent
// CHECK:           tile.view %A[%batch, %m, %[[K:.+]]] : memref<?x?x32xbf16, strided<[?, ?, 1]>, "list"> to !tile.view<32x16xbf16>
// CHECK:           tile.view %B[%group, %n, %[[K]]] : memref<?x?x32xbf16, strided<[?, ?, 1]>, "list"> to !tile.view<64x16xbf16>
// CHECK:           %[[OF_D:.+]] = memref.subview %D[0, 0, 0] [%{{.+}}, %rows_end, %{{.+}}] [1, 1, 1] : {{.*}} to memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
// CHECK:           tile.store %{{.+}} into %[[OF_D]][%batch, %m, %n]

// Matrices of D alone have one shape, so all products have the same tiles.
// CHECK-LABEL: tile.kernel @of_d_kernel(
// CHECK-NOT:     columns_of
// CHECK:         tile.work_tiles {{.*}} batch(%batch of %{{.+}})
// CHECK:           tile.store %{{.+}} into %D[%batch, %m, %n]

// CHECK-LABEL: tile.kernel @of_any_k_kernel(
// CHECK:         tile.work_tiles {{.*}} batch(%batch of %{{.+}}) groups(%group to %rows_end of %{{.+}} : memref<?xi32>) order(<row>)
// CHECK:           %[[OWN:.+]] = tile.matrix_extent %A[%batch] dim 0
// CHECK:           %[[EMPTY:.+]] = arith.cmpi eq, %[[OWN]], %c0
// CHECK:           %[[PAST:.+]] = arith.select %[[EMPTY]], %c1, %c0
// CHECK:           %[[FIRST:.+]] = arith.muli %[[PAST]], %c16
// CHECK:           %[[ONE:.+]] = arith.addi %[[FIRST]], %c1
// CHECK:           %[[LAST:.+]] = arith.maxsi %[[OWN]], %[[ONE]]
// CHECK:           scf.for %{{.+}} = %[[FIRST]] to %[[LAST]] step %c16
!of_k = memref<?x?x32xbf16, strided<[?, ?, 1]>, "list">
!of_d = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: !of_k, %b: !of_k, %d: !of_d, %counts: memref<?xi32>) {
    tile.gemm tn %a, %b into %d acc(f32) operands(ends %counts : memref<?xi32>) schedule(#tile.schedule<
        grid = <tile = [32, 64], order = row, scheduler = persistent>,
        mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
        multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
        epilogue = <path = smem, math = rows, tile = [32, 64]>>) {
    ^bb0(%acc: f32):
      %x = arith.truncf %acc : f32 to bf16
      tile.yield %x : bf16
    } : !of_k, !of_k, !of_d
    return
  }
  func.func @of_d(%a: memref<?x?x32xbf16, strided<[?, ?, 1]>>, %b: memref<?x?x32xbf16, strided<[?, ?, 1]>>, %d: !of_d) {
    tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
        grid = <tile = [32, 64], order = row, scheduler = persistent>,
        mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
        multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
        epilogue = <path = smem, math = rows, tile = [32, 64]>>) {
    ^bb0(%acc: f32):
      %x = arith.truncf %acc : f32 to bf16
      tile.yield %x : bf16
    } : memref<?x?x32xbf16, strided<[?, ?, 1]>>, memref<?x?x32xbf16, strided<[?, ?, 1]>>, !of_d
    return
  }
  func.func @of_any_k(%a: memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">, %b: memref<?x?x64xbf16, strided<[?, ?, 1]>, "list">,
                      %d: memref<?x?x64xbf16, strided<[?, ?, 1]>, "list">, %counts: memref<?xi32>) {
    tile.gemm nt %a, %b into %d acc(f32) operands(ends %counts : memref<?xi32>) schedule(#tile.schedule<
        grid = <tile = [32, 64], order = row, scheduler = persistent>,
        mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
        multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
        epilogue = <path = smem, math = rows, tile = [32, 64]>>) {
    ^bb0(%acc: f32):
      %x = arith.truncf %acc : f32 to bf16
      tile.yield %x : bf16
    } : memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">, memref<?x?x64xbf16, strided<[?, ?, 1]>, "list">,
        memref<?x?x64xbf16, strided<[?, ?, 1]>, "list">
    return
  }
}
