// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mat = memref<8x?x?xbf16, strided<[?, ?, 1]>>
func.func @one_is_missing(%a: !mat, %b: !mat, %d: !mat, %arrived: memref<8xi32>, %turn: memref<3xi32>) {
  // expected-error @below {{'tile.gemm' op has three vectors of i32 for shards that arrive: arrived, turn of 3 and status of 4 [gemm-arrivals]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(arrived %arrived : memref<8xi32>, turn %turn : memref<3xi32>) {
  ^bb0(%acc: f32):
    %y = arith.truncf %acc : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}

// -----

!mat = memref<8x?x?xbf16, strided<[?, ?, 1]>>
func.func @a_by_columns(%a: !mat, %b: !mat, %d: !mat, %arrived: memref<8xi32>, %turn: memref<3xi32>, %status: memref<4xi32>) {
  // expected-error @below {{'tile.gemm' op has shards of A that arrive: A and D are batches that lie by rows, and there are no pieces and no swapped operands [gemm-shards]}}
  tile.gemm nn %a, %b into %d acc(f32)
      operands(arrived %arrived : memref<8xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>) {
  ^bb0(%acc: f32):
    %y = arith.truncf %acc : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}

// -----

!mat = memref<8x?x?xbf16, strided<[?, ?, 1]>>
func.func @counts(%a: !mat, %b: !mat, %d: !mat, %arrived: memref<4xi32>, %turn: memref<3xi32>, %status: memref<4xi32>) {
  // expected-error @below {{'tile.gemm' op has 4 numbers in arrived but 8 shards in A [gemm-shard-count]}}
  tile.gemm tn %a, %b into %d acc(f32)
      operands(arrived %arrived : memref<4xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>) {
  ^bb0(%acc: f32):
    %y = arith.truncf %acc : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}

// -----

tile.kernel @k(%M: index, %arrived: memref<8xi32>, %turn: memref<2xi32>, %status: memref<4xi32>) {
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8] batch(%b of %M) order(<row>) persistent {
    // expected-error @below {{'tile.await_arrival' op has a turn of 3 numbers, rank, epoch and limit, not 'memref<2xi32>' [arrival-turn]}}
    %from = tile.await_arrival %b of %arrived, %turn, %status : memref<8xi32>, memref<2xi32>, memref<4xi32>
  }
  tile.return
}

// -----

tile.kernel @k(%M: index, %arrived: memref<8xi32>, %turn: memref<3xi32>, %status: memref<4xi32>) {
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8] order(<row>) persistent {
    // expected-error @below {{'tile.await_arrival' op waits for a matrix of a batch, but its work tiles have no batch [arrival-batch]}}
    %from = tile.await_arrival %m of %arrived, %turn, %status : memref<8xi32>, memref<3xi32>, memref<4xi32>
  }
  tile.return
}

// -----

tile.kernel @k(%M: index, %status: memref<3xi32>) {
  tile.work_tiles (%m, %n) of (%M, %M) by [8, 8] batch(%b of %M) order(<row>) persistent {
    // expected-error @below {{'tile.is_late' op has a status of 4 numbers, not 'memref<3xi32>' [arrival-status]}}
    %late = tile.is_late %status : memref<3xi32>
  }
  tile.return
}

// -----

tile.kernel @k(%M: index) {
  // expected-error @below {{'tile.work_tiles' op begins with a matrix of a batch, but has no batch [work-first]}}
  "tile.work_tiles"(%M, %M, %M) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 0, 0>, order = #tile.raster<row>,
      scheduler = 1 : i32, tile = array<i64: 8, 8>}> ({
  ^bb0(%m: index, %n: index):
    "tile.yield"() : () -> ()
  }) : (index, index, index) -> ()
  tile.return
}

// -----

!mat = memref<8x?x?xbf16, strided<[?, ?, 1]>>
func.func @no_counter(%a: !mat, %b: !mat, %d: !mat, %arrived: memref<8xi32>, %turn: memref<3xi32>, %status: memref<4xi32>,
    %peers: memref<8x4xi32, strided<[?, 1]>>, %sent: memref<8xi32>) {
  // expected-error @below {{'tile.gemm' op sends a shard of A, one of those that arrive: it has a matrix peers of 4 numbers of i32 for each shard, and a vector sent of one [gemm-sends]}}
  tile.gemm tn %a, %b into %d acc(f32)
      operands(arrived %arrived : memref<8xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>,
               peers %peers : memref<8x4xi32, strided<[?, 1]>>) {
  ^bb0(%acc: f32):
    %y = arith.truncf %acc : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}

// -----

!mat = memref<8x?x?xbf16, strided<[?, ?, 1]>>
func.func @few_counters(%a: !mat, %b: !mat, %d: !mat, %arrived: memref<8xi32>, %turn: memref<3xi32>, %status: memref<4xi32>,
    %peers: memref<8x4xi32, strided<[?, 1]>>, %sent: memref<4xi32>) {
  // expected-error @below {{'tile.gemm' op sends a shard of A, one of those that arrive: it has a matrix peers of 4 numbers of i32 for each shard, and a vector sent of one [gemm-sends]}}
  tile.gemm tn %a, %b into %d acc(f32)
      operands(arrived %arrived : memref<8xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>,
               peers %peers : memref<8x4xi32, strided<[?, 1]>>, sent %sent : memref<4xi32>) {
  ^bb0(%acc: f32):
    %y = arith.truncf %acc : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}

// -----

!mat = memref<8x?x?xbf16, strided<[?, ?, 1]>>
func.func @to_a_list(%a: !mat, %b: !mat, %d: memref<8x?x?xbf16, strided<[?, ?, 1]>, "list">, %arrived: memref<8xi32>, %turn: memref<3xi32>, %status: memref<4xi32>,
    %peers: memref<8x4xi32, strided<[?, 1]>>, %sent: memref<8xi32>) {
  // expected-error @below {{'tile.gemm' op sends a shard of A: A and D are no lists [gemm-sends-lists]}}
  tile.gemm tn %a, %b into %d acc(f32)
      operands(arrived %arrived : memref<8xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>,
               peers %peers : memref<8x4xi32, strided<[?, 1]>>, sent %sent : memref<8xi32>) {
  ^bb0(%acc: f32):
    %y = arith.truncf %acc : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, memref<8x?x?xbf16, strided<[?, ?, 1]>, "list">
  return
}

// -----

tile.kernel @k(%a: memref<8x?x20xbf16, strided<[?, ?, 1]>>, %turn: memref<2xi32>, %peers: memref<8x4xi32, strided<[?, 1]>>, %sent: memref<8xi32>) {
  // expected-error @below {{'tile.send_shard' op has a turn of 3 numbers, rank, epoch and limit, not 'memref<2xi32>' [arrival-turn]}}
  tile.send_shard %a to %peers in_turn %turn counting %sent by 2 : memref<8x?x20xbf16, strided<[?, ?, 1]>>, memref<8x4xi32, strided<[?, 1]>>,
      memref<2xi32>, memref<8xi32>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x?x20xbf16, strided<[?, ?, 1]>, "list">, %turn: memref<3xi32>, %peers: memref<8x4xi32, strided<[?, 1]>>, %sent: memref<8xi32>) {
  // expected-error @below {{'tile.send_shard' op sends a shard that lies by rows in one array with the others, not 'memref<8x?x20xbf16, strided<[?, ?, 1]>, "list">' [send-shard]}}
  tile.send_shard %a to %peers in_turn %turn counting %sent by 2 : memref<8x?x20xbf16, strided<[?, ?, 1]>, "list">, memref<8x4xi32, strided<[?, 1]>>,
      memref<3xi32>, memref<8xi32>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x?x20xbf16, strided<[?, ?, 1]>>, %turn: memref<3xi32>, %peers: memref<8x3xi32, strided<[?, 1]>>, %sent: memref<8xi32>) {
  // expected-error @below {{'tile.send_shard' op has 4 numbers in peers and one in sent for each shard, not 'memref<8x3xi32, strided<[?, 1]>>' and 'memref<8xi32>' for 'memref<8x?x20xbf16, strided<[?, ?, 1]>>' [send-peers]}}
  tile.send_shard %a to %peers in_turn %turn counting %sent by 2 : memref<8x?x20xbf16, strided<[?, ?, 1]>>, memref<8x3xi32, strided<[?, 1]>>,
      memref<3xi32>, memref<8xi32>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x?x20xbf16, strided<[?, ?, 1]>>, %turn: memref<3xi32>, %peers: memref<8x4xi32, strided<[?, 1]>>, %sent: memref<8xi32>) {
  // expected-error @below {{'tile.send_shard' op moves 12 bytes by an access; take a power of two from 2, an element, to 16 [send-unit]}}
  tile.send_shard %a to %peers in_turn %turn counting %sent by 12 : memref<8x?x20xbf16, strided<[?, ?, 1]>>, memref<8x4xi32, strided<[?, 1]>>,
      memref<3xi32>, memref<8xi32>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x?x20xbf16, strided<[?, ?, 1]>>, %turn: memref<3xi32>, %peers: memref<8x4xi32, strided<[?, 1]>>, %sent: memref<8xi32>) {
  // expected-error @below {{'tile.send_shard' op moves 16 bytes by an access, but rows are not known to be multiples of it; take 2 [send-row-unit]}}
  tile.send_shard %a to %peers in_turn %turn counting %sent by 16 : memref<8x?x20xbf16, strided<[?, ?, 1]>>, memref<8x4xi32, strided<[?, 1]>>,
      memref<3xi32>, memref<8xi32>
  tile.return
}
