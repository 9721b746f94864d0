// The verifiers name what is wrong with a list of results.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<8x8xbf16>
func.func @f(%a: !mat) {
  // expected-error @below {{expected full, amax, row_sum, row_max, row_min, row_logsumexp, row_value, column_sum, column_max, column_min, column_logsumexp, column_value, all_sum, all_max, all_min, all_logsumexp or absent, not 'row' [result-kind-word]}}
  tile.gemm tn %a, %a into row %a acc(f32) {
  ^bb0(%x: f32):
  } : !mat, !mat, !mat
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat) {
  // expected-error @below {{has 1 results but 0 kinds of them; it has as many, and at least one [result-kinds]}}
  "tile.gemm"(%a, %a, %a) <{layout = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0>, out_kinds = [], acc = f32}> ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  }) : (!mat, !mat, !mat) -> ()
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat) {
  // expected-error @below {{result 0 has the kind 17; the kinds are 0 to 16: full, amax, row_sum, row_max, row_min, row_logsumexp, row_value, column_sum, column_max, column_min, column_logsumexp, column_value, all_sum, all_max, all_min, all_logsumexp and absent [result-kind-number]}}
  "tile.gemm"(%a, %a, %a) <{layout = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0>, out_kinds = [17 : i32], acc = f32}> ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  }) : (!mat, !mat, !mat) -> ()
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %pre: memref<8x16xf32>) {
  // expected-error @below {{full results have the same extents and lie in the same way: 'memref<8x8xbf16>' and 'memref<8x16xf32>' do not [full-results-alike]}}
  tile.gemm tn %a, %a into (%a, %pre) acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !mat, !mat, !mat, memref<8x16xf32>
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %pre: memref<8x8xbf16, strided<[1, ?]>>) {
  // expected-error @below {{[full-results-alike]}}
  tile.gemm tn %a, %a into (%a, %pre) acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %y : bf16, bf16
  } : !mat, !mat, !mat, memref<8x8xbf16, strided<[1, ?]>>
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %pre: !mat) {
  // expected-error @below {{epilogue must end in tile.yield of one value for each result, of 'bf16', 'bf16' [epilogue-yield]}}
  tile.gemm tn %a, %a into (%a, %pre) acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat, !mat
  return
}

// -----

tile.kernel @k(%amax: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %sum = tile.splat 0.0 : !tile.tile<64x64xf32>
  // expected-error @below {{has no full result, whose edges say which elements there are [stored-results]}}
  tile.store %sum into amax %amax[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<64x64xf32>, memref<1xf32>
  tile.return
}
