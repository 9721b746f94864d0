// The verifiers name what is wrong with reductions.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
func.func @gemm(%a: !mat, %b: !mat, %d: !mat, %s: memref<?xbf16>) {
  // expected-error @below {{a reduction has elements of f32, not 'bf16' [reduction-elements]}}
  tile.gemm tn %a, %b into (%d, row_sum %s) acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %y : bf16, bf16
  } : !mat, !mat, !mat, memref<?xbf16>
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
func.func @gemm(%a: !mat, %b: !mat, %d: !mat, %s: memref<?xf32>) {
  // expected-error @below {{has one target operand if a result is row_value or column_value, and no other [target-of-value]}}
  tile.gemm tn %a, %b into (%d, row_value %s) acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !mat, !mat, !mat, memref<?xf32>
  return
}

// -----

tile.kernel @finish(%s: memref<?xf32>) {
  // expected-error @below {{reduces by pairs of a logsumexp, not by row_sum [finish-kind]}}
  tile.finish row_sum %s from %s pairs : memref<?xf32> from memref<?xf32>
  tile.return
}

// -----

tile.kernel @finish(%s: memref<?xf32>, %p: memref<?x?xf32>) {
  // expected-error @below {{reduces a vector or a matrix of f32 to a vector, or a batch of vectors to another, not 'memref<?xf32>' to 'memref<?x?xf32>' [finish-vectors]}}
  tile.finish row_sum %p from %s : memref<?x?xf32> from memref<?xf32>
  tile.return
}
