// A product of groups of rows has one vector of i32 for their ends, and a matrix of B for each.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xbf16, strided<[?, ?, 1]>>
func.func @ends(%a: !mat, %b: !mats, %d: !mat, %ends: memref<4xi64>) {
  // expected-error @below {{'tile.gemm' op has one vector of i32 that says where groups of rows end [gemm-ends]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<4xi64>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !mat
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xbf16, strided<[?, ?, 1]>>
func.func @twice(%a: !mat, %b: !mats, %d: !mat, %ends: memref<4xi32>) {
  // expected-error @below {{[gemm-ends]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<4xi32>, ends %ends : memref<4xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !mat
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
func.func @matrices(%a: !mat, %b: !mat, %d: !mat, %ends: memref<4xi32>) {
  // expected-error @below {{'tile.gemm' op has groups of rows: B has three dimensions, the group first, and operands are not swapped [gemm-groups-of-rows]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<4xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xbf16, strided<[?, ?, 1]>>
func.func @count(%a: !mat, %b: !mats, %d: !mat, %ends: memref<5xi32>) {
  // expected-error @below {{'tile.gemm' op has 5 ends but B has 4 matrices [gemm-group-count]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<5xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !mat
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
func.func @store(%acc: !tile.tile<8x8xf32>, %d: !mat, %ends: memref<5xi32>, %m: index) {
  // expected-error @below {{ends is not for the epilogue: tile.promote, tile.mma or tile.work_tiles takes it [sum-operand]}}
  tile.store %acc into %d[%m, %m] operands(ends %ends : memref<5xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile.tile<8x8xf32>, !mat
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xbf16, strided<[?, ?, 1]>>
func.func @vectors(%a: !mat, %b: !mats, %d: !mat, %bias: memref<3x?xf32, strided<[?, 1]>>, %ends: memref<4xi32>) {
  // expected-error @below {{epilogue operand 0 has a part for each of 3 groups but B 4 matrices [operand-batch]}}
  tile.gemm tn %a, %b into %d acc(f32)
      operands(per_column %bias : memref<3x?xf32, strided<[?, 1]>>, ends %ends : memref<4xi32>) {
  ^bb0(%x: f32, %z: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !mat
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xbf16, strided<[?, ?, 1]>>
func.func @rows(%a: !mat, %b: !mats, %d: !mat, %scale: memref<4x?xf32, strided<[?, 1]>>, %ends: memref<4xi32>) {
  // expected-error @below {{epilogue operand 0 is per_row and must be a memref of one dimension [operand-dimensions]}}
  tile.gemm tn %a, %b into %d acc(f32)
      operands(per_row %scale : memref<4x?xf32, strided<[?, 1]>>, ends %ends : memref<4xi32>) {
  ^bb0(%x: f32, %z: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !mat
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xbf16, strided<[?, ?, 1]>>
func.func @columns(%a: !mat, %b: !mats, %d: !mat, %bias: memref<4x?x?xf32, strided<[?, ?, 1]>>, %ends: memref<4xi32>) {
  // expected-error @below {{is per_column and must be a memref of one dimension, or of one more, the group [operand-dimensions]}}
  tile.gemm tn %a, %b into %d acc(f32)
      operands(per_column %bias : memref<4x?x?xf32, strided<[?, ?, 1]>>, ends %ends : memref<4xi32>) {
  ^bb0(%x: f32, %z: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !mat
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xbf16, strided<[?, ?, 1]>>
func.func @padded_d(%a: !mats, %b: !mats, %d: !mat, %counts: memref<4xi32>) {
  // expected-error @below {{A is of rank 3, D of rank 2 [gemm-ranks]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %counts : memref<4xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mats, !mats, !mat
  return
}

// -----

!mats = memref<4x?x?xbf16, strided<[?, ?, 1]>>
func.func @padded_count(%a: !mats, %b: !mats, %d: !mats, %counts: memref<5xi32>) {
  // expected-error @below {{[gemm-group-count]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %counts : memref<5xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mats, !mats, !mats
  return
}
