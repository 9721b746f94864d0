// What ops refuse of batches.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
func.func @ranks(%a: !mats, %b: !mat, %d: !mats) {
  // expected-error @below {{A, B and D are one matrix each, or a batch of them: A is of rank 3, B of rank 2 [gemm-ranks]}}
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mats, !mat, !mats
  return
}
// -----

!two = memref<2x8x8xbf16, strided<[?, ?, 1]>>
!three = memref<3x8x8xbf16, strided<[?, ?, 1]>>
func.func @extents(%a: !two, %b: !three, %d: !three) {
  // expected-error @below {{the batch is 2 in A but 3 in B [gemm-batches]}}
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !two, !three, !three
  return
}
// -----

!three = memref<3x8x8xbf16, strided<[?, ?, 1]>>
func.func @operand(%d: !three, %v: memref<2x8xbf16, strided<[?, 1]>>) {
  // expected-error @below {{epilogue operand 0 has a batch of 2 but D one of 3 [operand-batch]}}
  tile.gemm tn %d, %d into %d acc(f32) operands(per_row %v : memref<2x8xbf16, strided<[?, 1]>>) {
  ^bb0(%x: f32, %y: bf16):
    tile.yield %y : bf16
  } : !three, !three, !three
  return
}
// -----

!three = memref<3x8x8xbf16, strided<[?, ?, 1]>>
func.func @operand_rank(%d: !three) {
  // expected-error @below {{epilogue operand 0 is per_row and must be a memref of one dimension, or of one more, the batch [operand-dimensions]}}
  tile.gemm tn %d, %d into %d acc(f32) operands(per_row %d : !three) {
  ^bb0(%x: f32, %y: bf16):
    tile.yield %y : bf16
  } : !three, !three, !three
  return
}
// -----

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
tile.kernel @offsets(%a: !mats, %n: index) {
  // expected-error @below {{of kind full needs a source of 2 dimensions, or one more in a batch, and as many offsets, not 3 and 2 [view-rank]}}
  %w = tile.view %a[%n, %n] : !mats to !tile.view<8x16xbf16>
  tile.return
}
// -----

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
tile.kernel @store(%d: !mats, %n: index) {
  %zero = tile.splat 0.0 : !tile.tile<8x16xf32>
  // expected-error @below {{says which matrix of D it stores to where D is a batch, and only there [stored-batch]}}
  tile.store %zero into %d[%n, %n] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile.tile<8x16xf32>, !mats
  tile.return
}
// -----

tile.kernel @places(%n: index) {
  %zero = tile.splat 0.0 : !tile.tile<8x16xf32>
  // expected-error @below {{expected a row and a column, in a batch after the number of the matrix [store-coordinates]}}
  tile.store %zero into %n[%n] {
  } : !tile.tile<8x16xf32>, index
}
// -----

tile.kernel @next(%n: index) {
  tile.work_tiles (%row, %column) of (%n, %n) by [8, 16] batch(%batch of %n) order(<row>) persistent {
    // expected-error @below {{is batched where its work tiles are those of a batch, and only there [work-batch]}}
    %nm, %nn = tile.next_work_tile
  }
  tile.return
}
// -----

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
func.func @map(%a: !mats) {
  // expected-error @below {{maps boxes of one matrix of a batch, whose first side is 1, or of all matrices, not '!sm.tensor_map<8x64xbf16>' [map-batch-box]}}
  %map = sm.tensor_map %a : !mats to !sm.tensor_map<8x64xbf16>
  return
}
// -----

!buffer = memref<8x64xbf16, #tile.layout<(8,64):(64,1)>, #gpu.address_space<workgroup>>
tile.kernel @box(%map: !sm.tensor_map<8x64xbf16>, %n: index) {
  %scratch = sm.alloc : !buffer
  // expected-error @below {{moves boxes of one matrix of a batch; the first side of the map's must be 1, or 2 to load rows of two matrices [moved-batch-box]}}
  sm.tma_store %scratch to %map[%n, %n, %n] : !buffer, !sm.tensor_map<8x64xbf16>
  tile.return
}
