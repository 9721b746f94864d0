// Every message of the tile dialect's verifiers and parsers.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{swizzle<-1,3,3>: B and M must not be negative, and B + M + S at most 30 [swizzle-bits]}}
module attributes {test.bad = #tile.swizzle<-1, 3, 3>} {}

// -----

// expected-error @below {{[swizzle-bits]}}
module attributes {test.bad = #tile.swizzle<10, 10, 11>} {}

// -----

// expected-error @below {{swizzle<3,3,2>: S must be at least B, or source and target bits overlap [swizzle-shift]}}
module attributes {test.bad = #tile.layout<(8,8):(8,1), swizzle<3,3,2>>} {}

// -----

// expected-error @below {{shape and stride must nest alike [nest-alike]}}
module attributes {test.bad = #tile.layout<(2,2):(1)>} {}

// -----

// expected-error @below {{every extent of a shape must be positive [positive-extents]}}
module attributes {test.bad = #tile.layout<(2,0):(1,2)>} {}

// -----

// expected-error @below {{every stride must be zero or positive [positive-strides]}}
module attributes {test.bad = #tile.layout<(2,2):(1,-2)>} {}

// -----

// expected-error @below {{[nest-alike]}}
module attributes {test.bad = #tile.tv<threads (4,8):(1), values 2:32>} {}

// -----

// expected-error @below {{[positive-strides]}}
module attributes {test.bad = #tile.tv<threads (4,8):(1,4), values 2:-32>} {}

// -----

// expected-error @below {{layout has 1 modes, the memref 2 dimensions [layout-modes]}}
func.func @f(%a: memref<8x8xf32, #tile.layout<8:1>>) { return }

// -----

// expected-error @below {{layout mode of size 8 does not fit dimension of size 4 [layout-mode-size]}}
func.func @f(%a: memref<4x8xf32, #tile.layout<((2,4),8):((1,2),8)>>) { return }

// -----

// expected-error @below {{grouped takes one number, at least 1, e.g. 8 [raster-numbers]}}
module attributes {test.bad = #tile.raster<grouped>} {}

// -----

// expected-error @below {{row takes no number [raster-numbers]}}
module attributes {test.bad = #tile.raster<row 8>} {}

// -----

// expected-error @below {{groups takes two numbers, at least 1 each, e.g. 16, 8 [raster-numbers]}}
module attributes {test.bad = #tile.raster<groups 16>} {}

// -----

// expected-error @below {{[raster-numbers]}}
module attributes {test.bad = #tile.raster<grouped 16, 8>} {}

// -----

// expected-error @below {{expected row, column, grouped, groups or hilbert, not 'spiral' [raster-word]}}
module attributes {test.bad = #tile.raster<spiral>} {}

// -----

// expected-error @below {{[field-word]}}
module attributes {test.bad = #tile.schedule<mainloop = <a = <cache = often>>>} {}

// -----

// expected-error @below {{buffers takes an integer [field-integer]}}
module attributes {test.bad = #tile.schedule<epilogue = <buffers = two>>} {}

// -----

// expected-error @below {{schedule has no field 'stages'; its fields are grid, mainloop, multiply, epilogue [field-of-part]}}
module attributes {test.bad = #tile.schedule<stages = 3>} {}

// -----

// expected-error @below {{[field-of-part]}}
module attributes {test.bad = #tile.schedule<mainloop = <stage = 3>>} {}

// -----

// expected-error @below {{[field-of-part]}}
module attributes {test.bad = #tile.operand<hint = normal>} {}

// -----

// expected-error @below {{field 'stages' of mainloop is given twice [field-twice]}}
module attributes {test.bad = #tile.schedule<mainloop = <stages = 3, stages = 4>>} {}

// -----

// expected-error @below {{[field-form-of]}}
module attributes {test.bad = #tile.schedule<grid = <tile = [128, 128, 32]>>} {}

// -----

// expected-error @below {{permutation takes [M, N, K], each an extent or a layout [field-extents]}}
module attributes {test.bad = #tile.schedule<multiply = <permutation = [16, #tile.layout<8:1>]>>} {}

// -----

// expected-error @below {{atom takes the name of an atom, e.g. mma.m16n8k16 [field-atom]}}
module attributes {test.bad = #tile.schedule<multiply = <atom = 16>>} {}

// -----

// expected-error @below {{expected '<'}}
module attributes {test.bad = #tile.schedule<mainloop = <a = <swizzle = some>>>} {}

// -----

// expected-error @below {{[field-word]}}
module attributes {test.bad = #tile.schedule<grid = <order = diagonal>>} {}

// -----

// expected-error @below {{an order takes at most two numbers, e.g. groups(16, 8) [order-numbers]}}
module attributes {test.bad = #tile.schedule<grid = <order = groups(1, 2, 3)>>} {}

// -----

// expected-error @below {{[raster-numbers]}}
module attributes {test.bad = #tile.schedule<grid = <order = row(8)>>} {}

// -----

// expected-error @below {{[field-word]}}
module attributes {test.bad = #tile.schedule<grid = <scheduler = lazy>>} {}

// -----

// expected-error @below {{a tile has two positive extents [tile-positive]}}
func.func @f(%a: !tile.tile<8xf32>) { return }

// -----

// expected-error @below {{a tile's elements are integers or floats, not 'index' [tile-elements]}}
func.func @f(%a: !tile.view<8x8xindex>) { return }

// -----

func.func @f(%a: memref<8x8x8xf16>, %b: memref<8x8xf16>, %d: memref<8x8xf16>) {
  // expected-error @below {{[gemm-ranks]}}
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<8x8x8xf16>, memref<8x8xf16>, memref<8x8xf16>
  return
}

// -----

func.func @f(%a: memref<8x4xf16>, %b: memref<8x8xf16>, %d: memref<8x8xf16>) {
  // expected-error @below {{'tile.gemm' op K is 4 in A but 8 in B [gemm-k]}}
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<8x4xf16>, memref<8x8xf16>, memref<8x8xf16>
  return
}

// -----

func.func @f(%a: memref<4x8xf16>, %b: memref<8x?xf16>, %d: memref<8x8xf16>) {
  // expected-error @below {{'tile.gemm' op M is 4 in A but 8 in D [gemm-m]}}
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<4x8xf16>, memref<8x?xf16>, memref<8x8xf16>
  return
}

// -----

func.func @f(%a: memref<?x8xf16>, %b: memref<8x4xf16>, %d: memref<8x8xf16>) {
  // expected-error @below {{'tile.gemm' op N is 4 in B but 8 in D [gemm-n]}}
  tile.gemm tt %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<?x8xf16>, memref<8x4xf16>, memref<8x8xf16>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %b: memref<8x8xf32>, %d: memref<8x8xf16>) {
  // expected-error @below {{'tile.gemm' op A is 'f16' but B is 'f32': their elements must have as many bits [gemm-elements]}}
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<8x8xf16>, memref<8x8xf32>, memref<8x8xf16>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %b: memref<8x8xf16>, %d: memref<8x8xf16>) {
  // expected-error @below {{'tile.gemm' op the accumulator must be a float or an integer, not 'index' [gemm-accumulator]}}
  tile.gemm tn %a, %b into %d acc(index) {
  ^bb0(%x: index):
    %y = arith.constant 0.0 : f16
    tile.yield %y : f16
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf16>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf16>, %s: f32) {
  // expected-error @below {{'tile.gemm' op has 1 operands but 0 kinds [operand-kinds]}}
  "tile.gemm"(%a, %a, %d, %s) <{layout = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1>, out_kinds = [0 : i32], acc = f32, kinds = []}> ({
  ^bb0(%x: f32, %f: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  }) : (memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf16>, f32) -> ()
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf16>, %s: f32) {
  // expected-error @below {{'tile.gemm' op operand 0 has the kind 19; the kinds are 0 to 18: full, per_row, per_column, scalar, group_scale, group_zero, row_scale, column_scale, row_block_scale, column_block_scale, ends, target, a_rows, d_rows, arrived, turn, status, peers and sent [operand-kind-number]}}
  "tile.gemm"(%a, %a, %d, %s) <{layout = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1>, out_kinds = [0 : i32], acc = f32, kinds = [19 : i32]}> ({
  ^bb0(%x: f32, %f: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  }) : (memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf16>, f32) -> ()
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf16>, %s: f32) {
  // expected-error @below {{[operand-kind-number]}}
  "tile.gemm"(%a, %a, %d, %s) <{layout = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 1>, out_kinds = [0 : i32], acc = f32, kinds = [-1 : i32]}> ({
  ^bb0(%x: f32, %f: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  }) : (memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf16>, f32) -> ()
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf16>, %s: f32) {
  // expected-error @below {{expected full, per_row, per_column, scalar, group_scale, group_zero, row_scale, column_scale, row_block_scale, column_block_scale, ends, target, a_rows, d_rows, arrived, turn, status, peers or sent, not 'each' [operand-kind-word]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(each %s : f32) {
  ^bb0(%x: f32, %f: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf16>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf16>, %s: f32) {
  // expected-error @below {{'tile.gemm' op epilogue takes the accumulator and one element for each of 1 operands, but its block has 1 arguments [epilogue-arguments]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(scalar %s : f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf16>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf16>) {
  // expected-error @below {{'tile.gemm' op epilogue's first argument is the accumulator, 'f32', not 'f16' [epilogue-first]}}
  tile.gemm tn %a, %a into %d acc(f32) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf16>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf32>) {
  // expected-error @below {{[operand-dimensions]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(scalar %d : memref<8x8xf32>) {
  ^bb0(%x: f32, %f: f32):
    tile.yield %x : f32
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf32>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf32>) {
  // expected-error @below {{[operand-dimensions]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(per_row %d : memref<8x8xf32>) {
  ^bb0(%x: f32, %f: f32):
    tile.yield %x : f32
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf32>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf32>, %v: memref<8xf32>) {
  // expected-error @below {{[operand-dimensions]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(full %v : memref<8xf32>) {
  ^bb0(%x: f32, %f: f32):
    tile.yield %x : f32
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf32>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf32>, %v: memref<8xbf16>) {
  // expected-error @below {{'tile.gemm' op epilogue argument 1 must be 'bf16', its operand's element [epilogue-element]}}
  tile.gemm tn %a, %a into %d acc(f32) operands(per_column %v : memref<8xbf16>) {
  ^bb0(%x: f32, %f: f32):
    tile.yield %x : f32
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf32>
  return
}

// -----

// A region that does not end in a terminator.
func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf32>) {
  // expected-error @below {{[epilogue-yield]}}
  tile.gemm tn %a, %a into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.negf %x : f32
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf32>
  return
}

// -----

func.func @f(%a: memref<8x8xf16>, %d: memref<8x8xf16>) {
  // expected-error @below {{[epilogue-yield]}}
  tile.gemm tn %a, %a into %d acc(f32) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : memref<8x8xf16>, memref<8x8xf16>, memref<8x8xf16>
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{'tile.launch' op launches @missing, which is not in the module [kernel-launched]}}
  tile.launch @missing grid(%n) threads(32) args()
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @below {{'tile.launch' op passes 1 arguments to @k, which takes 0 [launch-argument-count]}}
  tile.launch @k grid(%n) threads(32) args(%n) : index
  return
}
tile.kernel @k() { tile.return }

// -----

func.func @f(%n: index) {
  // expected-error @below {{'tile.launch' op argument 0 is 'index' but @k takes 'i32' [launch-argument-type]}}
  tile.launch @k grid(%n) threads(32) args(%n) : index
  return
}
tile.kernel @k(%i: i32) { tile.return }

// -----

// expected-error @below {{'tile.kernel' op must not return values [kernel-returns]}}
tile.kernel @k() -> i32 { tile.return }

// -----

// expected-error @below {{'tile.kernel' op must have a body [kernel-body]}}
"tile.kernel"() <{sym_name = "k", function_type = () -> ()}> ({}) : () -> ()

// -----

tile.kernel @k() {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected one_shot, persistent or even_split, not 'twice' [scheduler-word]}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [8, 8] order(<grouped 1>) twice {
  }
  tile.return
}

// -----

tile.kernel @k() {
  %c0 = arith.constant 0 : index
  // expected-error @below {{part(half) is not all, full_waves or tail_halves [part-word]}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [8, 8] order(<grouped 1>) persistent part(half) {
  }
  tile.return
}

// -----

tile.kernel @k() {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tile.work_tiles' op has part(tail_halves), which parts the waves of a persistent grid; it is even_split [part-scheduler]}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [8, 8] order(<grouped 1>) even_split part(tail_halves) {
  }
  tile.return
}

// -----

tile.kernel @k() {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[work-tile]}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [8, 0] order(<grouped 1>) persistent {
  }
  tile.return
}

// -----

tile.kernel @k() {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[work-arguments]}}
  "tile.work_tiles"(%c0, %c0) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0>, tile = array<i64: 8, 8>, order = #tile.raster<grouped 1>, scheduler = 0 : i32}> ({
  ^bb0(%m: index):
    tile.yield
  }) : (index, index) -> ()
  tile.return
}

// -----

tile.kernel @k(%v: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tile.view' op a scalar has no window [view-kind]}}
  %w = tile.view scalar %v[%c0] : memref<8xf32> to !tile.view<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%v: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[view-rank]}}
  %w = tile.view %v[%c0] : memref<8xf32> to !tile.view<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%v: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[view-rank]}}
  %w = tile.view per_row %v[%c0, %c0] : memref<8xf32> to !tile.view<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%v: memref<8x8xf32>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tile.view' op window of 'f16' on a matrix of 'f32' [view-elements]}}
  %w = tile.view %v[%c0, %c0] : memref<8x8xf32> to !tile.view<8x8xf16>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8xf16>, %b: memref<8x8xf16>) {
  %c = tile.splat 0.0 : !tile.tile<8x8xf32>
  // expected-error @below {{'tile.mma' op A and B must have two dimensions [tile-mma-dimensions]}}
  %r = tile.mma tn %a, %b, %c : memref<8xf16>, memref<8x8xf16>, !tile.tile<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x4xf16>, %b: memref<8x8xf16>) {
  %c = tile.splat 0.0 : !tile.tile<8x8xf32>
  // expected-error @below {{'tile.mma' op K is 4 in A but 8 in B [tile-mma-k]}}
  %r = tile.mma tn %a, %b, %c : memref<8x4xf16>, memref<8x8xf16>, !tile.tile<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x16xf16>, %b: memref<4x8xf16>) {
  %c = tile.splat 0.0 : !tile.tile<8x8xf32>
  // expected-error @below {{'tile.mma' op computes 16x4 but the accumulator is 8x8 [tile-mma-extents]}}
  %r = tile.mma nn %a, %b, %c : memref<8x16xf16>, memref<4x8xf16>, !tile.tile<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x8xf16>, %b: memref<8x8xf32>) {
  %c = tile.splat 0.0 : !tile.tile<8x8xf32>
  // expected-error @below {{'tile.mma' op elements of A and B must have as many bits [tile-mma-elements]}}
  %r = tile.mma tn %a, %b, %c : memref<8x8xf16>, memref<8x8xf32>, !tile.tile<8x8xf32>
  tile.return
}

// -----

tile.kernel @k(%d: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c = tile.splat 0.0 : !tile.tile<8x8xf32>
  // expected-error @below {{'tile.store' op D must have two dimensions, or three in a batch, not 1 [stored-dimensions]}}
  tile.store %c into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<8x8xf32>, memref<8xf32>
  tile.return
}

// -----

tile.kernel @k(%d: memref<8x8xf16>) {
  %c0 = arith.constant 0 : index
  %c = tile.splat 0.0 : !tile.tile<8x8xf32>
  // expected-error @below {{'tile.store' op epilogue's first argument must be 'f32', the accumulator's element [stored-accumulator]}}
  tile.store %c into %d[%c0, %c0] {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !tile.tile<8x8xf32>, memref<8x8xf16>
  tile.return
}

// -----

tile.kernel @k(%d: memref<8x8xf16>) {
  %c0 = arith.constant 0 : index
  %c = tile.splat 0.0 : !tile.tile<8x8xf32>
  // expected-error @below {{[epilogue-yield]}}
  tile.store %c into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<8x8xf32>, memref<8x8xf16>
  tile.return
}

// -----

func.func @host(%n: index) {
  // expected-error @below {{'tile.workspace' op is a vector whose length is known at launch, such as memref<?xf32>, not 'memref<?x4xf32>' [workspace-vector]}}
  %w = tile.workspace %n : memref<?x4xf32>
  return
}

// -----

func.func @host(%n: index) {
  // expected-error @below {{'tile.workspace' op holds numbers, not 'index' [workspace-numbers]}}
  %w = tile.workspace %n : memref<?xindex>
  return
}
