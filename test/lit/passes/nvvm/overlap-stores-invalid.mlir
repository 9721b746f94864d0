// overlap-stores refuses kernels without a loop of products in a loop over tiles, open numbers of K steps, stores under a
// condition, and addresses that it cannot repeat.
// RUN: lowtide-opt %s -p overlap-stores --split-input-file --verify-diagnostics

module attributes {tile.target = "sm_80"} {
gpu.module @kernels {
// expected-error @below {{overlap-stores: has no loop over K left whose products take the stores; take epilogue.start = all_sums, and lower again from level problem}}
gpu.func @no_products(%d: !llvm.ptr<1>, %value: f32) kernel attributes {sm.timing = #sm.timing<stores = next_tile>} {
  llvm.store %value, %d : f32, !llvm.ptr<1>
  gpu.return
}
}
}

// -----

module attributes {tile.target = "sm_80"} {
gpu.module @kernels {
gpu.func @open_k(%d: !llvm.ptr<1>, %first: i32, %tiles: i32, %ctas: i32, %steps: i32, %pair: vector<2xf16>, %inside: i1) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %zero = arith.constant 0.0 : f32
  %end = scf.for %tile = %first to %tiles step %ctas iter_args(%slot = %c0) -> (i32) : i32 {
    // expected-error @below {{overlap-stores: has an open number of K steps; take epilogue.start = all_sums, and lower again from level problem}}
    %sum = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (f32) : i32 {
      %product = nvvm.mma.sync A[%pair, %pair] B[%pair] C[%acc, %acc, %acc, %acc] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %next = llvm.extractvalue %product[0] : !llvm.struct<(f32, f32, f32, f32)>
      scf.yield %next : f32
    } {sm.timing = #sm.timing<stores = next_tile>}
    %p = llvm.getelementptr %d[%tile] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    llvm.store %sum, %p : f32, !llvm.ptr<1>
    scf.yield %slot : i32
  }
  gpu.return
}
}
}

// -----

module attributes {tile.target = "sm_80"} {
gpu.module @kernels {
gpu.func @condition(%d: !llvm.ptr<1>, %first: i32, %tiles: i32, %ctas: i32, %steps: i32, %pair: vector<2xf16>, %inside: i1) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %zero = arith.constant 0.0 : f32
  %end = scf.for %tile = %first to %tiles step %ctas iter_args(%slot = %c0) -> (i32) : i32 {
    %sum = scf.for %i = %c0 to %c2 step %c1 iter_args(%acc = %zero) -> (f32) : i32 {
      %product = nvvm.mma.sync A[%pair, %pair] B[%pair] C[%acc, %acc, %acc, %acc] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %next = llvm.extractvalue %product[0] : !llvm.struct<(f32, f32, f32, f32)>
      scf.yield %next : f32
    } {sm.timing = #sm.timing<stores = next_tile>}
    %p = llvm.getelementptr %d[%tile] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    scf.if %inside {
      // expected-error @below {{overlap-stores: must store the whole tile without conditions; take epilogue.start = all_sums, and lower again from level problem}}
      llvm.store %sum, %p : f32, !llvm.ptr<1>
    }
    scf.yield %slot : i32
  }
  gpu.return
}
}
}

// -----

module attributes {tile.target = "sm_80"} {
gpu.module @kernels {
gpu.func @loaded_address(%d: !llvm.ptr<1>, %first: i32, %tiles: i32, %ctas: i32, %steps: i32, %pair: vector<2xf16>, %inside: i1) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %zero = arith.constant 0.0 : f32
  %end = scf.for %tile = %first to %tiles step %ctas iter_args(%slot = %c0) -> (i32) : i32 {
    %sum = scf.for %i = %c0 to %c2 step %c1 iter_args(%acc = %zero) -> (f32) : i32 {
      %product = nvvm.mma.sync A[%pair, %pair] B[%pair] C[%acc, %acc, %acc, %acc] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %next = llvm.extractvalue %product[0] : !llvm.struct<(f32, f32, f32, f32)>
      scf.yield %next : f32
    } {sm.timing = #sm.timing<stores = next_tile>}
    %own = llvm.load %d : !llvm.ptr<1> -> i32
    %p = llvm.getelementptr %d[%own] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    // expected-error @below {{overlap-stores: has an address that follows from llvm.load, which is not repeated; take epilogue.start = all_sums, and lower again from level problem}}
    llvm.store %sum, %p : f32, !llvm.ptr<1>
    scf.yield %slot : i32
  }
  gpu.return
}
}
}

// -----

module attributes {tile.target = "sm_80"} {
gpu.module @kernels {
gpu.func @carried_address(%d: !llvm.ptr<1>, %first: i32, %tiles: i32, %ctas: i32, %steps: i32, %pair: vector<2xf16>, %inside: i1) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %zero = arith.constant 0.0 : f32
  %end = scf.for %tile = %first to %tiles step %ctas iter_args(%slot = %c0) -> (i32) : i32 {
    %sum = scf.for %i = %c0 to %c2 step %c1 iter_args(%acc = %zero) -> (f32) : i32 {
      %product = nvvm.mma.sync A[%pair, %pair] B[%pair] C[%acc, %acc, %acc, %acc] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %next = llvm.extractvalue %product[0] : !llvm.struct<(f32, f32, f32, f32)>
      scf.yield %next : f32
    } {sm.timing = #sm.timing<stores = next_tile>}
    %p = llvm.getelementptr %d[%slot] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    // expected-error @below {{overlap-stores: has an address that follows from what the tiles carry; take epilogue.start = all_sums, and lower again from level problem}}
    llvm.store %sum, %p : f32, !llvm.ptr<1>
    scf.yield %slot : i32
  }
  gpu.return
}
}
}
