// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

func.func @host(%a: memref<?xbf16>) {
  // expected-error @below {{'tile.pack' op takes a matrix whose rows are contiguous, such as memref<?x?xbf16, strided<[?, 1]>>, or a batch of these, not 'memref<?xbf16>' [pack-matrix]}}
  %0 = tile.pack %a align(16) : memref<?xbf16> to memref<?xbf16>
  return
}

// -----

func.func @host(%a: memref<?x?xbf16, strided<[1, ?]>>) {
  // expected-error @below {{[pack-matrix]}}
  %0 = tile.pack %a align(16) : memref<?x?xbf16, strided<[1, ?]>> to memref<?x?xbf16, strided<[1, ?]>>
  return
}

// -----

func.func @host(%a: memref<?x?xbf16, strided<[?, 1]>>) {
  // expected-error @below {{'tile.pack' op aligns rows to a power of two of bytes, not to 12 [pack-alignment]}}
  %0 = tile.pack %a align(12) : memref<?x?xbf16, strided<[?, 1]>> to memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

func.func @host(%a: memref<?x?xbf16, strided<[?, 1]>>, %d: memref<?x?xbf16, strided<[?, 1]>>) {
  %0 = tile.pack %a align(16) uninitialized : memref<?x?xbf16, strided<[?, 1]>> to memref<?x?xbf16, strided<[?, 1]>>
  // expected-error @below {{'tile.unpack' op copies what tile.pack gave, uninitialized, for the matrix that it is copied into [unpack-of-pack]}}
  tile.unpack %0 into %d : memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

func.func @host(%d: memref<?x?xbf16, strided<[?, 1]>>) {
  %0 = tile.pack %d align(16) : memref<?x?xbf16, strided<[?, 1]>> to memref<?x?xbf16, strided<[?, 1]>>
  // expected-error @below {{[unpack-of-pack]}}
  tile.unpack %0 into %d : memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

// expected-error @+1 {{[field-word]}}
#schedule = #tile.schedule<mainloop = <a = <pack = columns>>>

// -----

func.func @host(%a: memref<?x64xbf16, strided<[?, 1]>>) {
  // expected-error @below {{'tile.pack' op gives a matrix of the same elements with its last two extents exchanged, not 'memref<?x64xbf16, strided<[?, 1]>>' for 'memref<?x64xbf16, strided<[?, 1]>>' [prepared-shape]}}
  %0 = tile.pack %a transposed align(16) : memref<?x64xbf16, strided<[?, 1]>> to memref<?x64xbf16, strided<[?, 1]>>
  return
}

// -----

func.func @host(%a: memref<?x64xbf16, strided<[?, 1]>>) {
  // expected-error @below {{'tile.pack' op is written in the source's place, so it is no transpose and has no pieces [pack-uninitialized]}}
  %0 = tile.pack %a transposed align(16) uninitialized : memref<?x64xbf16, strided<[?, 1]>> to memref<64x?xbf16, strided<[?, 1]>>
  return
}

// -----

tile.kernel @transpose(%s: memref<?x?xbf16, strided<[?, 1]>>, %t: memref<?x?xf16, strided<[?, 1]>>) {
  // expected-error @below {{[prepared-shape]}}
  tile.prepare %t from %s transposed : memref<?x?xf16, strided<[?, 1]>> from memref<?x?xbf16, strided<[?, 1]>>
  tile.return
}

// -----

tile.kernel @transpose(%s: memref<?x?xbf16, strided<[1, ?]>>, %t: memref<?x?xbf16, strided<[?, 1]>>) {
  // expected-error @below {{[pack-matrix]}}
  tile.prepare %t from %s transposed : memref<?x?xbf16, strided<[?, 1]>> from memref<?x?xbf16, strided<[1, ?]>>
  tile.return
}

// -----

tile.kernel @copy(%s: memref<?x?xbf16, strided<[?, 1]>>, %t: memref<?x?xf16, strided<[?, 1]>>) {
  // expected-error @below {{'tile.prepare' op gives a matrix of the same elements, not 'memref<?x?xf16, strided<[?, 1]>>' for 'memref<?x?xbf16, strided<[?, 1]>>' [prepared-shape]}}
  tile.prepare %t from %s : memref<?x?xf16, strided<[?, 1]>> from memref<?x?xbf16, strided<[?, 1]>>
  tile.return
}
