// The verifiers and parsers of the division of K name what is wrong.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{k_division = split needs the number of parts, e.g. split(8) [division-needs-number]}}
#division = #tile.k_division<split>

// -----

// expected-error @below {{[division-needs-number]}}
#division = #tile.k_division<tail>

// -----

// expected-error @below {{k_division = stream_k takes no number [division-takes-number]}}
module attributes {test.s = #tile.schedule<grid = <k_division = stream_k(2)>>} {}

// -----

// expected-error @below {{k_division = halves is not none, split, stream_k, hybrid, scatter, tail or scatter_tail [field-word]}}
module attributes {test.s = #tile.schedule<grid = <k_division = halves>>} {}

// -----

// expected-error @below {{k_division takes at most one number, e.g. split(8) [division-numbers]}}
module attributes {test.s = #tile.schedule<grid = <k_division = split(2, 3)>>} {}

// -----

func.func @one(%M: index) {
  // expected-error @below {{expected ','}}
  tile.work_tiles (%m) of (%M) by [8, 8] order(<row>) one_shot {
  }
  return
}

// -----

func.func @none(%M: index) {
  // expected-error @below {{expected split, scatter, stream_k, hybrid, tail or scatter_tail, not 'none' [division-word]}}
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8] k(%k0 to %k1 of %M by 8) none (%p of %q at %s) order(<row>) one_shot {
  }
  return
}

// -----

func.func @scheduler(%M: index) {
  // expected-error @below {{'tile.work_tiles' op divides the tail of a persistent grid; it is even_split [tail-and-scheduler]}}
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8] k(%k0 to %k1 of %M by 8) tail 2 (%p of %q at %s) order(<row>) even_split {
  }
  return
}

// -----

func.func @tile(%M: index) {
  // expected-error @below {{'tile.work_tiles' op needs a tile of two positive extents [work-tile]}}
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8, 8] k(%k0 to %k1 of %M by 8) split 2 (%p of %q at %s) order(<row>) one_shot {
  }
  return
}

// -----

func.func @undivided(%M: index) {
  // expected-error @below {{'tile.work_tiles' op has an extent of K, a positive step and a division of K together, or none of them [work-k-extent]}}
  "tile.work_tiles"(%M, %M, %M) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 1, 0>, order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index):
    "tile.yield"() : () -> ()
  }) : (index, index, index) -> ()
  return
}

// -----

func.func @no_parts(%M: index) {
  // expected-error @below {{'tile.work_tiles' op has a number of parts where K is split, at least 1, and only there [work-parts]}}
  "tile.work_tiles"(%M, %M, %M) <{k_step = 8 : i64, k_division = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 1, 0>, order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index):
    "tile.yield"() : () -> ()
  }) : (index, index, index) -> ()
  return
}

// -----

func.func @body(%M: index) {
  // expected-error @below {{'tile.work_tiles' op body takes m, n, k0, k1, part, parts, slot, all index, and what is carried [work-arguments]}}
  "tile.work_tiles"(%M, %M, %M) <{k_step = 8 : i64, k_division = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 1, 0>, order = #tile.raster<row>, scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index):
    "tile.yield"() : () -> ()
  }) : (index, index, index) -> ()
  return
}

// -----

func.func @semaphores(%w: memref<?xf32>, %i: index) {
  // expected-error @below {{'tile.semaphore_arrive' op needs semaphores in a vector of i32, not 'memref<?xf32>' [semaphores-type]}}
  tile.semaphore_arrive %w[%i] : memref<?xf32>
  return
}

// -----

func.func @semaphores(%w: memref<?x?xi32>, %i: index) {
  // expected-error @below {{[semaphores-type]}}
  tile.semaphore_wait %w[%i] until %i : memref<?x?xi32>
  return
}

// -----

func.func @semaphores(%w: memref<?xf32>, %i: index) {
  // expected-error @below {{[semaphores-type]}}
  tile.semaphore_leave %w[%i] of %i : memref<?xf32>
  return
}

// -----

func.func @cluster(%M: index) {
  // expected-error @below {{'tile.work_tiles' op divides the K of all tiles evenly among CTAs, but the CTAs of a cluster compute the same K [division-and-cluster]}}
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8] k(%k0 to %k1 of %M by 8) stream_k (%part of %parts at %slot) cluster [2, 1]
      order(<row>) persistent {
  }
  return
}
