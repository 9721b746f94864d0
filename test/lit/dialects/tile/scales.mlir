// Scales of blocks: operands of a product, windows, and sums that they scale; printed as they are read.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s

// CHECK: #problem = #tile.problem<tn, a = f8E4M3FN, b = f8E4M3FN, acc = f32, results = [full f32], operands = [row_block_scale f32, column_scale f32]>

!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
!scales = memref<?x?xf32, strided<[?, 1]>>

// They reach no argument of the region, and come behind those that do.
// CHECK-LABEL: func.func @gemm
// CHECK:         tile.gemm tn {{.*}} acc(f32) operands(per_column %{{.+}} : memref<?xf32>, row_scale %{{.+}} : memref<?x?xf32, strided<[?, 1]>>, column_block_scale %{{.+}} : memref<?x?xf32, strided<[?, 1]>>) {
// CHECK-NEXT:    ^bb0(%{{.+}}: f32, %{{.+}}: f32):
func.func @gemm(%a: !mat, %b: !mat, %d: !out, %bias: memref<?xf32>, %sa: !scales, %sb: !scales) {
  tile.gemm tn %a, %b into %d acc(f32) operands(per_column %bias : memref<?xf32>, row_scale %sa : !scales, column_block_scale %sb : !scales) {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}

// CHECK-LABEL: tile.kernel @promoted
tile.kernel @promoted(%sa: !scales, %sb: !scales, %m: index, %n: index, %k: index) attributes {
    problem = #tile.problem<tn, a = f8E4M3FN, b = f8E4M3FN, acc = f32, results = [full f32], operands = [row_block_scale f32, column_scale f32]>} {
  %sum = tile.splat 0.0 : !tile.tile<64x8xf32>
  // CHECK: %[[ROWS:.+]] = tile.view row_block_scale %{{.+}}[%{{.+}}, %{{.+}}] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<64x8xf32>
  %rows = tile.view row_block_scale %sa[%m, %k] : !scales to !tile.view<64x8xf32>
  // CHECK: %[[COLUMNS:.+]] = tile.view column_scale
  %columns = tile.view column_scale %sb[%n, %k] : !scales to !tile.view<64x8xf32>
  // CHECK: tile.promote %[[SUM:.+]] into %[[SUM]] block_scaled(%[[ROWS]] : !tile.view<64x8xf32>, %[[COLUMNS]] : !tile.view<64x8xf32>) : !tile.tile<64x8xf32>
  %next = tile.promote %sum into %sum block_scaled(%rows : !tile.view<64x8xf32>, %columns : !tile.view<64x8xf32>) : !tile.tile<64x8xf32>
  tile.return
}
