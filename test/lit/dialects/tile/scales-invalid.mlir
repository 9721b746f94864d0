// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<8x8xf8E4M3FN>
!out = memref<8x8xf32>
func.func @f(%a: !mat, %d: !out, %s: memref<1x8xf32>) {
  // expected-error @below {{'tile.gemm' op has two scales, one of rows and one of columns, behind all other operands [two-scales]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(row_scale %s : memref<1x8xf32>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}

// -----

!mat = memref<8x8xf8E4M3FN>
!out = memref<8x8xf32>
func.func @f(%a: !mat, %d: !out, %s: memref<1x8xf32>) {
  // expected-error @below {{'tile.gemm' op has two scales of rows; give one of rows and one of columns [scales-both-ways]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(row_scale %s : memref<1x8xf32>, row_block_scale %s : memref<1x8xf32>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}

// -----

!mat = memref<8x8xf8E4M3FN>
!out = memref<8x8xf32>
func.func @f(%a: !mat, %d: !out, %s: memref<1x8xf16>) {
  // expected-error @below {{'tile.gemm' op scales are of the accumulators' type, 'f32', not 'f16' [scales-of-sums]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(row_scale %s : memref<1x8xf16>, column_scale %s : memref<1x8xf16>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}

// -----

!mat = memref<8x8xf8E4M3FN>
!out = memref<8x8xf32>
func.func @f(%a: !mat, %d: !out, %s: memref<8xf32>) {
  // expected-error @below {{[operand-dimensions]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(row_scale %s : memref<8xf32>, column_scale %s : memref<8xf32>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}

// -----

tile.kernel @k(%d: memref<8x8xf32>, %s: memref<1x8xf32>) {
  %c0 = arith.constant 0 : index
  %sum = tile.splat 0.0 : !tile.tile<8x8xf32>
  // expected-error @below {{'tile.store' op row_scale is not for the epilogue: tile.promote, tile.mma or tile.work_tiles takes it [sum-operand]}}
  tile.store %sum into %d[%c0, %c0] operands(row_scale %s : memref<1x8xf32>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<8x8xf32>, memref<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%s: memref<1x8xf32>) {
  %c0 = arith.constant 0 : index
  %sum = tile.splat 0.0 : !tile.tile<8x8xf32>
  %rows = tile.view row_scale %s[%c0, %c0] : memref<1x8xf32> to !tile.view<16x8xf32>
  // expected-error @below {{'tile.promote' op adds '!tile.tile<8x8xf32>', but its scales are '!tile.view<16x8xf32>' [promoted-scale-views]}}
  %next = tile.promote %sum into %sum block_scaled(%rows : !tile.view<16x8xf32>, %rows : !tile.view<16x8xf32>) : !tile.tile<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%s: memref<1x8xf32>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[view-rank]}}
  %rows = tile.view row_scale %s[%c0] : memref<1x8xf32> to !tile.view<8x8xf32>
  tile.return
}
