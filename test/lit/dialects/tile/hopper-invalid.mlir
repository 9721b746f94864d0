// What the tile dialect refuses of a loop over work tiles that carries values, and of a schedule's roles.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{schedule field 'roles' takes single or cooperative(n)}}
module attributes {test.bad = #tile.schedule<roles = 2>} {}

// -----

// expected-error @below {{schedule field 'registers' takes [producer, consumer]}}
module attributes {test.bad = #tile.schedule<registers = 168>} {}

// -----

// expected-error @below {{schedule field 'registers' takes [producer, consumer]}}
module attributes {test.bad = #tile.schedule<registers = [40, 232, 232]>} {}

// -----

tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{1 values are carried but 2 types are given}}
  %s = tile.work_tiles (%m, %n) of (%M, %N) by [8, 8] order(<row>) persistent iter_args(%t = %c0) -> (index, index) {
    tile.yield %t : index
  }
  tile.return
}

// -----

// The body's arguments are the tile's origin and what is carried.
tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tile.work_tiles' op body takes the tile's first row and first column, both index, and what is carried}}
  %s = "tile.work_tiles"(%M, %N, %c0) <{order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index):
    "tile.yield"(%m) : (index) -> ()
  }) : (index, index, index) -> index
  tile.return
}

// -----

// Nothing is yielded.
tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tile.work_tiles' op must yield what it carries: initial values, body arguments, yielded values and results have one list of types}}
  %s = tile.work_tiles (%m, %n) of (%M, %N) by [8, 8] order(<row>) persistent iter_args(%t = %c0) -> (index) {
  }
  tile.return
}

// -----

// Something is yielded that nothing carries.
tile.kernel @k(%M: index, %N: index) {
  // expected-error @below {{'tile.work_tiles' op must yield what it carries}}
  tile.work_tiles (%m, %n) of (%M, %N) by [8, 8] order(<row>) persistent {
    tile.yield %m : index
  }
  tile.return
}

// -----

// A body's argument of another type.
tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tile.work_tiles' op must yield what it carries}}
  %s = "tile.work_tiles"(%M, %N, %c0) <{order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index, %t: i32):
    "tile.yield"(%m) : (index) -> ()
  }) : (index, index, index) -> index
  tile.return
}

// -----

// A result of another type.
tile.kernel @k(%M: index, %N: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tile.work_tiles' op must yield what it carries}}
  %s = "tile.work_tiles"(%M, %N, %c0) <{order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index, %t: index):
    "tile.yield"(%t) : (index) -> ()
  }) : (index, index, index) -> i32
  tile.return
}
