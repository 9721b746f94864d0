// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

func.func @host(%a: memref<?xbf16>) {
  // expected-error @below {{'tile.pack' op takes a matrix whose rows are contiguous, such as memref<?x?xbf16, strided<[?, 1]>>, or a batch of these, not 'memref<?xbf16>'}}
  %0 = tile.pack %a align(16) : memref<?xbf16>
  return
}

// -----

func.func @host(%a: memref<?x?xbf16, strided<[1, ?]>>) {
  // expected-error @below {{'tile.pack' op takes a matrix whose rows are contiguous}}
  %0 = tile.pack %a align(16) : memref<?x?xbf16, strided<[1, ?]>>
  return
}

// -----

func.func @host(%a: memref<?x?xbf16, strided<[?, 1]>>) {
  // expected-error @below {{'tile.pack' op aligns rows to a power of two of bytes, not to 12}}
  %0 = tile.pack %a align(12) : memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

func.func @host(%a: memref<?x?xbf16, strided<[?, 1]>>, %d: memref<?x?xbf16, strided<[?, 1]>>) {
  %0 = tile.pack %a align(16) uninitialized : memref<?x?xbf16, strided<[?, 1]>>
  // expected-error @below {{'tile.unpack' op copies what tile.pack gave, uninitialized, for the matrix that it is copied into}}
  tile.unpack %0 into %d : memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

func.func @host(%d: memref<?x?xbf16, strided<[?, 1]>>) {
  %0 = tile.pack %d align(16) : memref<?x?xbf16, strided<[?, 1]>>
  // expected-error @below {{'tile.unpack' op copies what tile.pack gave, uninitialized, for the matrix that it is copied into}}
  tile.unpack %0 into %d : memref<?x?xbf16, strided<[?, 1]>>
  return
}

// -----

// expected-error @+1 {{pack = columns is not none or rows}}
#schedule = #tile.schedule<mainloop = <a = <pack = columns>>>
