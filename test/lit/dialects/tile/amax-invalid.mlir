// The verifiers name what is wrong with an amax.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %amax: memref<2xf32>) {
  // expected-error @below {{an amax is one f32, a memref<1xf32>, not 'memref<2xf32>' [amax-memref]}}
  tile.gemm tn %a, %a into (%a, amax %amax) acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !mat, !mat, !mat, memref<2xf32>
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %amax: memref<1xf32>) {
  // expected-error @below {{epilogue must end in tile.yield of one value for each result, of 'bf16', 'f32' [epilogue-yield]}}
  tile.gemm tn %a, %a into (%a, amax %amax) acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat, memref<1xf32>
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %amax: memref<1xf32>) {
  // expected-error @below {{[epilogue-yield]}}
  tile.gemm tn %a, %a into (%a, amax %amax) acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %y : bf16, bf16
  } : !mat, !mat, !mat, memref<1xf32>
  return
}

// -----

!mat = memref<8x8xbf16>
func.func @f(%a: !mat, %m: memref<1xf32>) {
  // expected-error @below {{has 2 results amax; there is one largest absolute value [one-amax]}}
  tile.gemm tn %a, %a into (%a, amax %m, amax %m) acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !mat, !mat, !mat, memref<1xf32>, memref<1xf32>
  return
}

// -----

tile.kernel @clear(%amax: memref<1xf16>) {
  // expected-error @below {{without a source sets one f32 to zero, a memref<1xf32>, not 'memref<1xf16>' [prepare-zero]}}
  tile.prepare %amax : memref<1xf16>
  tile.return
}
