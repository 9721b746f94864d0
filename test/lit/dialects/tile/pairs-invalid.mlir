// The verifiers name what is wrong with pairs of columns.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!a = memref<64x32xbf16>
!b = memref<97x32xbf16>
func.func @odd(%a: !a, %b: !b, %d: memref<64x48xbf16>) {
  // expected-error @below {{has pairs of columns, but B has 97; their number is even [gemm-pairs]}}
  tile.gemm tn %a, %b into %d acc(f32) pairs {
  ^bb0(%gate: f32, %up: f32):
    %0 = arith.truncf %up : f32 to bf16
    tile.yield %0 : bf16
  } : !a, !b, memref<64x48xbf16>
  return
}

// -----

!a = memref<64x32xbf16>
!b = memref<96x32xbf16>
func.func @one(%a: !a, %b: !b, %d: memref<64x48xbf16>) {
  // expected-error @below {{epilogue takes two accumulators and one element for each of 0 operands, but its block has 1 arguments [epilogue-arguments]}}
  tile.gemm tn %a, %b into %d acc(f32) pairs {
  ^bb0(%gate: f32):
    %0 = arith.truncf %gate : f32 to bf16
    tile.yield %0 : bf16
  } : !a, !b, memref<64x48xbf16>
  return
}

// -----

!a = memref<64x32xbf16>
!b = memref<96x32xbf16>
func.func @types(%a: !a, %b: !b, %d: memref<64x48xbf16>) {
  // expected-error @below {{epilogue's first arguments are accumulators, 'f32', not 'bf16' [epilogue-first]}}
  tile.gemm tn %a, %b into %d acc(f32) pairs {
  ^bb0(%gate: f32, %up: bf16):
    tile.yield %up : bf16
  } : !a, !b, memref<64x48xbf16>
  return
}

// -----

!a = memref<64x32xbf16>
!b = memref<96x32xbf16>
func.func @extents(%a: !a, %b: !b, %d: memref<64x96xbf16>) {
  // expected-error @below {{N is 48 in B but 96 in D [gemm-n]}}
  tile.gemm tn %a, %b into %d acc(f32) pairs {
  ^bb0(%gate: f32, %up: f32):
    %0 = arith.truncf %up : f32 to bf16
    tile.yield %0 : bf16
  } : !a, !b, memref<64x96xbf16>
  return
}

// -----

!a = memref<64x32xbf16>
!b = memref<2x40x32xbf16>
func.func @apart_extents(%a: !a, %b: !b, %d: memref<64x48xbf16>) {
  // expected-error @below {{N is 40 in B but 48 in D [gemm-n]}}
  tile.gemm tn %a, %b into %d acc(f32) pairs {
  ^bb0(%gate: f32, %up: f32):
    %0 = arith.truncf %up : f32 to bf16
    tile.yield %0 : bf16
  } : !a, !b, memref<64x48xbf16>
  return
}

// -----

!a = memref<64x32xbf16>
!b = memref<3x48x32xbf16>
func.func @three(%a: !a, %b: !b, %d: memref<64x48xbf16>) {
  // expected-error @below {{A is of rank 2, B of rank 3 [gemm-ranks]}}
  tile.gemm tn %a, %b into %d acc(f32) pairs {
  ^bb0(%gate: f32, %up: f32):
    %0 = arith.truncf %up : f32 to bf16
    tile.yield %0 : bf16
  } : !a, !b, memref<64x48xbf16>
  return
}

// -----

!a = memref<64x32xbf16>
!b = memref<2x48x32xbf16>
func.func @apart_and_interleaved(%a: !a, %b: !b, %d: memref<64x48xbf16>) {
  // expected-error @below {{A is of rank 2, B of rank 3 [gemm-ranks]}}
  tile.gemm tn %a, %b into %d acc(f32) pairs interleaved {
  ^bb0(%gate: f32, %up: f32):
    %0 = arith.truncf %up : f32 to bf16
    tile.yield %0 : bf16
  } : !a, !b, memref<64x48xbf16>
  return
}

// -----

// expected-error @+2 {{interleaved says how columns of pairs lie, and there are no pairs [problem-pairs]}}
func.func @alone() attributes {tile.problem =
    #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], interleaved>} {
  return
}

// -----

tile.kernel @view(%b: memref<3x48x32xbf16, strided<[?, ?, 1]>>, %m: index) {
  // expected-error @below {{takes halves of an even number of rows from the two matrices, or two batches, of a memref<2x…>, not '!tile.view<32x16xbf16>' from 'memref<3x48x32xbf16, strided<[?, ?, 1]>>' [view-halves]}}
  %view = tile.view %b[%m, %m, %m] halves : memref<3x48x32xbf16, strided<[?, ?, 1]>> to !tile.view<32x16xbf16>
  tile.return
}

// -----

!d = memref<64x48xbf16, strided<[?, 1]>>
tile.kernel @store(%d: !d, %acc: !tile.tile<16x33xf32>, %m: index) {
  // expected-error @below {{takes pairs from halves of 33 columns; their number is even [stored-halves]}}
  tile.store %acc pairs into %d[%m, %m] {
  ^bb0(%gate: f32, %up: f32):
    %0 = arith.truncf %up : f32 to bf16
    tile.yield %0 : bf16
  } : !tile.tile<16x33xf32>, !d
  tile.return
}

// -----

tile.kernel @five(%b: memref<2x5x3x48x32xbf16, strided<[?, ?, ?, ?, 1]>>, %m: index) {
  // expected-error @below {{[view-rank]}}
  %view = tile.view %b[%m, %m, %m, %m, %m] halves : memref<2x5x3x48x32xbf16, strided<[?, ?, ?, ?, 1]>> to !tile.view<32x16xbf16>
  tile.return
}

// -----

func.func @map(%b: memref<2x5x48x32xbf16, strided<[?, ?, ?, 1]>>) {
  // expected-error @below {{maps boxes of two matrices, one of each of two batches, whose first sides are 2 and 1, not '!sm.tensor_map<1x1x16x16xbf16>' [map-pair-box]}}
  %map = sm.tensor_map %b : memref<2x5x48x32xbf16, strided<[?, ?, ?, 1]>> to !sm.tensor_map<1x1x16x16xbf16>
  return
}
