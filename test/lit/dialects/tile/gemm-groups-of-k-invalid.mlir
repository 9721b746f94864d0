// A product of groups of K lies as nt, and D has a matrix by rows for each group.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xf32, strided<[?, ?, 1]>>
func.func @layout(%a: !mat, %b: !mat, %d: !mats, %ends: memref<4xi32>) {
  // expected-error @below {{'tile.gemm' op has groups of K: the layout is nt, or tn with scales of blocks, D lies by rows, and there are no packed weights and no swapped operands [gemm-groups-of-k]}}
  tile.gemm tt %a, %b into %d acc(f32) operands(ends %ends : memref<4xi32>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !mats
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!columns = memref<4x?x?xf32, strided<[?, 1, ?]>>
func.func @columns(%a: !mat, %b: !mat, %d: !columns, %ends: memref<4xi32>) {
  // expected-error @below {{[gemm-groups-of-k]}}
  tile.gemm nt %a, %b into %d acc(f32) operands(ends %ends : memref<4xi32>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !columns
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xf32, strided<[?, ?, 1]>>
func.func @count(%a: !mat, %b: !mat, %d: !mats, %ends: memref<5xi32>) {
  // expected-error @below {{'tile.gemm' op has 5 ends but D has 4 matrices [gemm-k-group-count]}}
  tile.gemm nt %a, %b into %d acc(f32) operands(ends %ends : memref<5xi32>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !mats
  return
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<4x?x?xf32, strided<[?, ?, 1]>>
func.func @operand(%a: !mat, %b: !mat, %d: !mats, %c: memref<3x?x?xf32, strided<[?, ?, 1]>>, %ends: memref<4xi32>) {
  // expected-error @below {{has a batch of 3 but D one of 4 [operand-batch]}}
  tile.gemm nt %a, %b into %d acc(f32)
      operands(full %c : memref<3x?x?xf32, strided<[?, ?, 1]>>, ends %ends : memref<4xi32>) {
  ^bb0(%x: f32, %y: f32):
    tile.yield %y : f32
  } : !mat, !mat, !mats
  return
}
