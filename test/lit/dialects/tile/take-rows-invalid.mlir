// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<?x64xbf16, strided<[?, 1]>>
func.func @type(%a: !mat, %b: !mat, %d: memref<?x?xbf16, strided<[?, 1]>>, %index: memref<?xi64>) {
  // expected-error @below {{'tile.gemm' op has one vector of i32 that says which rows of A are taken [gemm-a-rows]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(a_rows %index : memref<?xi64>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

!mat = memref<64x?xbf16, strided<[?, 1]>>
func.func @layout(%a: !mat, %b: !mat, %d: memref<?x?xbf16, strided<[?, 1]>>, %index: memref<?xi32>) {
  // expected-error @below {{takes rows of A at an index: A is one matrix with rows of K, and there are no batch, no groups of K, no pieces and no swapped operands [gemm-taken-rows]}}
  tile.gemm nt %a, %b into %d acc(f32) operands(a_rows %index : memref<?xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

!mat = memref<?x64xbf16, strided<[?, 1]>>
func.func @rows(%a: !mat, %b: !mat, %d: memref<100x?xbf16, strided<[?, 1]>>, %index: memref<99xi32>) {
  // expected-error @below {{M is 99 in A but 100 in D [gemm-m]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(a_rows %index : memref<99xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, memref<100x?xbf16, strided<[?, 1]>>
  return
}

// -----

tile.kernel @kernel(%a: memref<?x64xbf16, strided<[?, 1]>>, %index: memref<8xi32>) {
  // expected-error @below {{takes rows of a matrix that lies by rows: the result has as many as the index has elements, and is else of the same type; 'memref<?x64xbf16, strided<[?, 1]>>' from 'memref<?x64xbf16, strided<[?, 1]>>' and 'memref<8xi32>' is not [taken-rows-type]}}
  %taken = tile.take_rows %a at %index : memref<?x64xbf16, strided<[?, 1]>>, memref<8xi32> to memref<?x64xbf16, strided<[?, 1]>>
  tile.return
}
