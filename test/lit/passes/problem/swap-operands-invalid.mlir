// What swap-operands and the rules on it refuse.
// RUN: lowtide-opt %s -p swap-operands --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @twice(%a: !mat, %b: !mat, %d: !mat) {
    // expected-error @below {{exchanges the dimensions of D and of full operands, which must be arguments that it alone reads [swapped-arguments]}}
    tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <operands = swapped>>) {
    ^bb0(%x: f32):
      %0 = arith.truncf %x : f32 to bf16
      tile.yield %0 : bf16
    } : !mat, !mat, !mat
    %c0 = arith.constant 0 : index
    %0 = memref.dim %d, %c0 : !mat
    return
  }
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!columns = memref<?x?xbf16, strided<[1, ?]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @mixed(%a: !mat, %b: !mat, %d: !columns, %c: !mat) {
    // expected-error @below {{'tile.gemm' op epilogue operand 0 is full and must lie as D does, column by column [gemm-full-operand]}}
    tile.gemm tn %a, %b into %d acc(f32) operands(full %c : !mat) {
    ^bb0(%x: f32, %y: bf16):
      tile.yield %y : bf16
    } : !mat, !mat, !columns
    return
  }
}
