// What the tile dialect refuses of a loop over work tiles that carries values, and of a schedule's roles.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected valid keyword}}
module attributes {test.bad = #tile.schedule<mainloop = <roles = 2>>} {}

// -----

// expected-error @below {{[roles-word]}}
module attributes {test.bad = #tile.schedule<mainloop = <roles = pair>>} {}

// -----

// expected-error @below {{roles = single takes no number; take single, or cooperative(2) [roles-single-number]}}
module attributes {test.bad = #tile.schedule<mainloop = <roles = single(2)>>} {}

// -----

// expected-error @below {{roles = cooperative needs the number of consumer warpgroups, at least 1, e.g. cooperative(2) [roles-number]}}
module attributes {test.bad = #tile.schedule<mainloop = <roles = cooperative>>} {}

// -----

// expected-error @below {{roles = pingpong needs the number of consumer warpgroups, at least 2, e.g. pingpong(2) [roles-number]}}
module attributes {test.bad = #tile.schedule<mainloop = <roles = pingpong(1)>>} {}

// -----

// expected-error @below {{roles take at most one number, e.g. cooperative(2) [roles-numbers]}}
module attributes {test.bad = #tile.schedule<mainloop = <roles = cooperative(1, 2)>>} {}

// -----

// expected-error @below {{registers takes [producer, consumer] [field-form-of]}}
module attributes {test.bad = #tile.schedule<mainloop = <registers = [40, 232, 232]>>} {}

// -----

// expected-error @below {{'xy' is not a layout; the layouts are tn, tt, nn and nt [layout-word]}}
module attributes {test.bad = #tile.problem<xy, a = bf16, b = bf16, acc = f32, results = [full bf16]>} {}

// -----

// expected-error @below {{the types of a problem are element types: integers or floats [problem-types]}}
module attributes {test.bad = #tile.problem<tn, a = index, b = bf16, acc = f32, results = [full bf16]>} {}

// -----

// expected-error @below {{'per_tile' is not a kind of operand; the kinds are full, per_row, per_column, scalar, group_scale, group_zero, row_scale, column_scale, row_block_scale, column_block_scale, ends, target, a_rows, d_rows, arrived, turn, status, peers and sent [problem-kind-word]}}
module attributes {test.bad = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], operands = [per_tile f32]>} {}

// -----

tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{1 values are carried but 2 types are given [carried-types]}}
  %s = tile.work_tiles (%m, %n) of (%M, %N) by [8, 8] order(<row>) persistent iter_args(%t = %c0) -> (index, index) {
    tile.yield %t : index
  }
  tile.return
}

// -----

// The body's arguments are the tile's origin and what is carried.
tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[work-arguments]}}
  %s = "tile.work_tiles"(%M, %N, %c0) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 1>, order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index):
    "tile.yield"(%m) : (index) -> ()
  }) : (index, index, index) -> index
  tile.return
}

// -----

// Nothing is yielded.
tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tile.work_tiles' op must yield what it carries: initial values, body arguments, yielded values and results have one list of types [work-yield]}}
  %s = tile.work_tiles (%m, %n) of (%M, %N) by [8, 8] order(<row>) persistent iter_args(%t = %c0) -> (index) {
  }
  tile.return
}

// -----

// Something is yielded that nothing carries.
tile.kernel @k(%M: index, %N: index) {
  // expected-error @below {{[work-yield]}}
  tile.work_tiles (%m, %n) of (%M, %N) by [8, 8] order(<row>) persistent {
    tile.yield %m : index
  }
  tile.return
}

// -----

// A body's argument of another type.
tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[work-yield]}}
  %s = "tile.work_tiles"(%M, %N, %c0) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 1>, order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index, %t: i32):
    "tile.yield"(%m) : (index) -> ()
  }) : (index, index, index) -> index
  tile.return
}

// -----

// A body that does not end in a terminator.
tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[work-yield]}}
  %s = "tile.work_tiles"(%M, %N, %c0) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 1>, order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index, %t: index):
    %u = arith.addi %t, %m : index
  }) : (index, index, index) -> index
  tile.return
}

// -----

// A result of another type.
tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[work-yield]}}
  %s = "tile.work_tiles"(%M, %N, %c0) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 1>, order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index, %t: index):
    "tile.yield"(%t) : (index) -> ()
  }) : (index, index, index) -> i32
  tile.return
}

// -----

tile.kernel @k(%M: index) {
  // expected-error @below {{'tile.work_tiles' op a CTA has one tile, which cannot be taken in turn; use persistent or even_split [one-shot-turns]}}
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8] order(<row>) one_shot in_turn {
  }
  tile.return
}

// -----

tile.kernel @k(%counter: memref<?xf32>, %M: index) {
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8] order(<row>) persistent {
    // expected-error @below {{'tile.await_wave' op counts in a vector of i32, not 'memref<?xf32>' [wave-counter-type]}}
    tile.await_wave %counter : memref<?xf32>
  }
  tile.return
}

// -----

tile.kernel @k(%counter: memref<?xi32>, %M: index) {
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8] order(<row>) one_shot {
    // expected-error @below {{'tile.await_wave' op waits for CTAs that run at the same time; those of one_shot do not [wave-one-shot]}}
    tile.await_wave %counter : memref<?xi32>
  }
  tile.return
}

// -----

tile.kernel @k(%counter: memref<?xi32>) {
  // expected-error @below {{'tile.await_wave' op expects parent op 'tile.work_tiles'}}
  tile.await_wave %counter : memref<?xi32>
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'tile.next_work_tile' op expects parent op 'tile.work_tiles'}}
  %m, %n = tile.next_work_tile
  tile.return
}

// -----

tile.kernel @k(%M: index, %N: index) {
  tile.work_tiles (%m, %n) of (%M, %N) by [64, 8] order(<row>) persistent {
    // expected-error @below {{is 0 tiles ahead; it needs at least 1 [tiles-ahead]}}
    %next_m, %next_n = tile.next_work_tile ahead 0
  }
  tile.return
}

// -----

// expected-error @below {{empty names m, n and k, each at most once, not 'x' [empty-letters]}}
module attributes {test.bad = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], empty = [k, x]>} {}

// -----

// expected-error @below {{[empty-letters]}}
module attributes {test.bad = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], empty = [m, m]>} {}

// -----

// expected-error @below {{expected 'operands', 'empty', 'swapped', 'fast', 'by_columns', 'group', 'by', 'pairs' or 'interleaved' [problem-clause]}}
module attributes {test.bad = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], full = [m]>} {}

// -----

// expected-error @below {{`roles` and `registers` are short for `agents`, give these or that [agents-twice]}}
module attributes {test.bad = #tile.schedule<mainloop = <agents = <single = <instances = 1>>, roles = single>>} {}
