// The verifiers name what is wrong with an amax.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %amax: memref<2xf32>) {
  // expected-error @below {{an amax is one f32, a memref<1xf32>, not 'memref<2xf32>' [amax-memref]}}
  tile.gemm tn %a, %a into %a acc(f32) operands(amax %amax : memref<2xf32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !mat, !mat, !mat
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %amax: memref<1xf32>) {
  // expected-error @below {{epilogue must end in tile.yield of one 'bf16', and of the f32 that it is converted from [epilogue-yield]}}
  tile.gemm tn %a, %a into %a acc(f32) operands(amax %amax : memref<1xf32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %amax: memref<1xf32>) {
  // expected-error @below {{with an amax the epilogue must also yield the f32 that D's element is converted from [amax-yield]}}
  tile.gemm tn %a, %a into %a acc(f32) operands(amax %amax : memref<1xf32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %y : bf16, bf16
  } : !mat, !mat, !mat
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %m: memref<1xf32>) {
  // expected-error @below {{has 2 operands amax; D has one largest absolute value [one-amax]}}
  tile.gemm tn %a, %a into %a acc(f32) operands(amax %m : memref<1xf32>, amax %m : memref<1xf32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !mat, !mat, !mat
  return
}

// -----

tile.kernel @clear(%amax: memref<1xf16>) {
  // expected-error @below {{without a source sets one f32 to zero, a memref<1xf32>, not 'memref<1xf16>' [prepare-zero]}}
  tile.prepare %amax : memref<1xf16>
  tile.return
}
