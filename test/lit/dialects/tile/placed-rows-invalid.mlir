// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<?x64xbf16, strided<[?, 1]>>
func.func @type(%a: !mat, %b: !mat, %d: memref<?x?xbf16, strided<[?, 1]>>, %index: memref<?xi64>) {
  // expected-error @below {{'tile.gemm' op has one vector of i32 that says into which rows of D rows are stored [gemm-d-rows]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(d_rows %index : memref<?xi64>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

!mat = memref<100x64xbf16, strided<[?, 1]>>
func.func @rows(%a: !mat, %b: !mat, %d: memref<7x?xbf16, strided<[?, 1]>>, %index: memref<99xi32>) {
  // expected-error @below {{M is 100 but d_rows has 99 elements [gemm-d-rows-count]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(d_rows %index : memref<99xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, memref<7x?xbf16, strided<[?, 1]>>
  return
}

// -----

!mat = memref<?x64xbf16, strided<[?, 1]>>
func.func @amax(%a: !mat, %b: !mat, %d: memref<?x?xbf16, strided<[?, 1]>>, %amax: memref<1xf32>, %index: memref<?xi32>) {
  // expected-error @below {{stores rows of D at an index: D is one matrix that lies by rows, other results are full ones or reductions of rows, and there are no batch, no groups of K, no pieces and no swapped operands [gemm-placed-rows]}}
  tile.gemm tn %a, %b into (%d, amax %amax) acc(f32) operands(d_rows %index : memref<?xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !mat, !mat, memref<?x?xbf16, strided<[?, 1]>>, memref<1xf32>
  return
}
