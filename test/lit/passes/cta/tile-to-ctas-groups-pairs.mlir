// Pairs of columns in groups of rows: the host passes a view of B with two matrices for each group, and a window of B has
// rows of both matrices of the item's group. An operand with a vector for each group is that of the item's group.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

// CHECK-LABEL: func.func @gemm
// CHECK-SAME:    (%[[A:.+]]: memref<?x32xbf16, {{.*}}>, %[[B:.+]]: memref<8x?x32xbf16, {{.*}}>, %[[D:.+]]: memref<?x?xbf16, {{.*}}>, %[[BIAS:.+]]: memref<?x?xf32, {{.*}}>, %[[ENDS:.+]]: memref<8xi32>)
// CHECK-DAG:     %{{.*}}, %{{.*}}, %{{.*}}:3, %[[STRIDES:.*]]:3 = memref.extract_strided_metadata %[[B]]
// CHECK-DAG:     %[[N:.+]] = memref.dim %[[D]], %c1
// CHECK:         %[[HALF:.+]] = arith.muli %[[N]], %[[STRIDES]]#1
// CHECK:         %[[PAIR:.+]] = memref.reinterpret_cast %[[B]] to offset: [0], sizes: [2, 8, %[[N]], 32], strides: [%[[HALF]], %[[STRIDES]]#0, %[[STRIDES]]#1, 1]
// CHECK:         cf.assert %{{.+}}, "B must have two rows for each of the N columns of D"
// CHECK:         cf.assert %{{.+}}, "epilogue operand 0 must have a part for each matrix of B"
// CHECK:         tile.launch @gemm_kernel grid(%{{.+}}) threads(128) args(%[[A]], %[[PAIR]], %[[D]], %[[BIAS]], %[[ENDS]])

// CHECK-LABEL: tile.kernel @gemm_kernel(
// CHECK-SAME:    %B: memref<2x8x?x32xbf16, strided<[?, ?, ?, 1]>>
// CHECK:         tile.work_tiles (%m, %n) of (%{{.+}}, %[[COLUMNS:.+]]) by [32, 32] groups(%group to %rows_end of %{{.+}} : memref<8xi32>)
// CHECK:           tile.view %B[%c0, %group, %n, %{{.+}}] halves : {{.*}} to !tile.view<64x16xbf16>
// CHECK:           %[[OWN:.+]] = memref.subview %{{.+}}[%group, 0] [1, %{{.+}}] [1, 1] : memref<?x?xf32, strided<[?, 1]>> to memref<?xf32, strided<[1], offset: ?>>
// CHECK:           tile.store %{{.+}} pairs into %{{.+}}[%m, %n] operands(per_column %[[OWN]] : {{.*}}) {
!a = memref<?x32xbf16, strided<[?, 1]>>
!b = memref<8x?x32xbf16, strided<[?, ?, 1]>>
!d = memref<?x?xbf16, strided<[?, 1]>>
!bias = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: !a, %b: !b, %d: !d, %bias: !bias, %ends: memref<8xi32>) {
    tile.gemm tn %a, %b into %d acc(f32) pairs operands(per_column %bias : !bias, ends %ends : memref<8xi32>)
        schedule(#tile.schedule<
        grid = <tile = [32, 64], order = row, scheduler = persistent>,
        mainloop = <k = 16, stages = 2, a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>,
        multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 1>,
        epilogue = <path = direct, math = registers, tile = [32, 64]>>) {
    ^bb0(%gate: f32, %up: f32, %x: f32):
      %0 = arith.mulf %gate, %up : f32
      %1 = arith.addf %0, %x : f32
      %2 = arith.truncf %1 : f32 to bf16
      tile.yield %2 : bf16
    } : !a, !b, !d
    return
  }
}
