// Operands that must be swapped, or must not be.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
!columns = memref<?x?xbf16, strided<[1, ?]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @columns(%a: !mat, %b: !mat, %d: !columns) {
    // expected-error @below {{grid.operands = as_given leaves a D that the kernel would store column by column; take swapped [column-major-d]}}
    tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <operands = as_given>>) {
    ^bb0(%x: f32):
      %0 = arith.truncf %x : f32 to bf16
      tile.yield %0 : bf16
    } : !mat, !mat, !columns
    return
  }
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @rows(%a: !mat, %b: !mat, %d: !mat) {
    // expected-error @below {{no schedule fits: grid.operands = swapped: D lies by columns as the kernel sees it, and epilogue.path = smem transposes fragments of wgmma; take epilogue.path = direct, or grid.operands = as_given [transposed-fragments]}}
    tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <operands = swapped>, epilogue = <path = smem>>) {
    ^bb0(%x: f32):
      %0 = arith.truncf %x : f32 to bf16
      tile.yield %0 : bf16
    } : !mat, !mat, !mat
    return
  }
}

// -----

!mat = memref<?x?xsi8, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
  func.func @bytes(%a: !mat, %b: !mat, %d: !mat) {
    // expected-error @below {{grid.operands = swapped: D lies by columns as the kernel sees it, and epilogue.path = tma transposes elements of 16 bits or more, not s8; take epilogue.path = direct, or grid.operands = as_given [transposed-elements]}}
    tile.gemm tn %a, %b into %d acc(i32) schedule(#tile.schedule<grid = <operands = swapped>, epilogue = <path = tma>>) {
    ^bb0(%x: i32):
      %0 = arith.trunci %x : i32 to i8
      tile.yield %0 : i8
    } : !mat, !mat, !mat
    return
  }
}

// -----

!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @packed(%a: !mat, %b: !mat, %d: !mat) {
    // expected-error @below {{no schedule fits: epilogue.pack = rows copies rows, and D lies by columns as the kernel sees it; take pack = none [packed-columns]}}
    tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <operands = swapped>, epilogue = <pack = rows>>) {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !mat, !mat, !mat
    return
  }
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @edited(%a: !mat, %b: !mat, %d: !mat) {
    // expected-error @below {{grid.operands = as_given, but the product is swapped; lower again from the problem that was asked for [operands-order]}}
    tile.gemm tn %b, %a into %d swapped acc(f32) schedule(#tile.schedule<grid = <operands = as_given>>) {
    ^bb0(%x: f32):
      %0 = arith.truncf %x : f32 to bf16
      tile.yield %0 : bf16
    } : !mat, !mat, !mat
    return
  }
}
