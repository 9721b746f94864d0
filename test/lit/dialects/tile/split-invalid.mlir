// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

func.func @host(%a: memref<?xf32>) {
  // expected-error @below {{[pack-matrix]}}
  %0 = tile.pack %a pieces(left of tf32x3) align(16) : memref<?xf32> to memref<?x?xtf32, strided<[?, 1]>>
  return
}

// -----

func.func @host(%a: memref<32x64xf32, strided<[?, 1]>>) {
  // expected-error @below {{'tile.pack' op makes rows of pieces, of another type and as many, of 'memref<32x64xf32, strided<[?, 1]>>', not 'memref<64x192xtf32, strided<[?, 1]>>' [prepared-pieces]}}
  %0 = tile.pack %a pieces(left of tf32x3) align(16) : memref<32x64xf32, strided<[?, 1]>> to memref<64x192xtf32, strided<[?, 1]>>
  return
}

// -----

func.func @host(%a: memref<32x64xf32, strided<[?, 1]>>) {
  // expected-error @below {{[prepared-pieces]}}
  %0 = tile.pack %a transposed pieces(left of tf32x3) align(16) : memref<32x64xf32, strided<[?, 1]>> to memref<32x192xtf32, strided<[?, 1]>>
  return
}

// -----

tile.kernel @split(%a: memref<?x?xf32, strided<[?, 1]>>, %b: memref<?x?xf32, strided<[?, 1]>>) {
  // expected-error @below {{[prepared-pieces]}}
  tile.prepare %b from %a pieces(left of tf32x3) : memref<?x?xf32, strided<[?, 1]>> from memref<?x?xf32, strided<[?, 1]>>
  tile.return
}

// -----

// expected-error @below {{'f32x9' is not a sum of products; there are tf32x3 and bf16x6 [problem-clause-word]}}
#problem = #tile.problem<tn, a = tf32, b = tf32, acc = f32, results = [full f32], by = f32x9>
