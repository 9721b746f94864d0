// choose-schedule refuses what does not go with groups of rows: the number of tiles is counted on the device, and a
// group begins at any row. Groups of K have as many K steps as their ends say.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @scheduler(%a: !mat, %b: !mats, %d: !mat, %ends: memref<?xi32>) {
  // expected-error @below {{choose-schedule: grid.scheduler = one_shot: rows are grouped, and only the device knows where groups end; take persistent or even_split [groups-field]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>) schedule(#tile.schedule<grid = <scheduler = one_shot>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !mat
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @division(%a: !mat, %b: !mats, %d: !mat, %ends: memref<?xi32>) {
  // expected-error @below {{grid.k_division = scatter(2): rows are grouped, and only the device knows where groups end; leave it out, or take split(2) [groups-division]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>) schedule(#tile.schedule<grid = <k_division = scatter(2)>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !mat
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @layout(%a: !mat, %b: !mats, %d: !mat, %ends: memref<?xi32>) {
  // expected-error @below {{choose-schedule: groups with layout nn: a group begins at any row, so A lies by rows; take layout tn or tt, or a.pack = transposed [groups-of-rows]}}
  tile.gemm nn %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>) schedule(#tile.schedule<mainloop = <a = <copy = tma>>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !mat
  return
}
}

// -----

!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!mats = memref<?x?x?xf8E4M3FN, strided<[?, ?, 1]>>
!scales = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @scales(%a: !mat, %b: !mats, %d: !scales, %ends: memref<?xi32>, %s: !scales) {
  // expected-error @below {{choose-schedule: groups with a scale for each 128 rows: a group may begin at any of them; take one for each row [groups-row-blocks]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>, row_block_scale %s : !scales, column_scale %s : !scales) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mats, !scales
  return
}
}

// -----

!mat = memref<?x?xf32, strided<[?, 1]>>
!mats = memref<?x?x?xf32, strided<[?, ?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @pieces(%a: !mat, %b: !mat, %d: !mats, %ends: memref<?xi32>) {
  // expected-error @below {{groups of K with sums by tf32x3 are not supported; launch the groups one by one [groups-and-sums]}}
  tile.gemm nt %a, %b into %d acc(f32 by tf32x3) operands(ends %ends : memref<?xi32>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !mats
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xf32, strided<[?, ?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @steps_of_groups(%a: !mat, %b: !mat, %d: !mats, %ends: memref<?xi32>) {
  // expected-error @below {{choose-schedule: mainloop.prologue = once: K is grouped, and only the device knows where groups end; take per_tile [groups-field]}}
  tile.gemm nt %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>) schedule(#tile.schedule<mainloop = <prologue = once>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !mats
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xf32, strided<[?, ?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @panels_of_groups(%a: !mat, %b: !mat, %d: !mats, %ends: memref<?xi32>) {
  // expected-error @below {{choose-schedule: mainloop.a.copy = tma.3d: K is grouped, and only the device knows where groups end; take tma, whose tensor maps can end with a group [k-groups-copy]}}
  tile.gemm nt %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>) schedule(#tile.schedule<mainloop = <roles = cooperative(2), a = <copy = tma.3d>>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !mats
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xf32, strided<[?, ?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @groups_in_turn(%a: !mat, %b: !mat, %d: !mats, %ends: memref<?xi32>) {
  // expected-error @below {{choose-schedule: consumers that take turns need the same number of K steps in each tile, but K is grouped; take roles = cooperative(2) [k-groups-turns]}}
  tile.gemm nt %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>) schedule(#tile.schedule<mainloop = <roles = pingpong(2)>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !mats
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!by_columns = memref<?x?xbf16, strided<[1, ?]>>
module attributes {tile.target = "sm_90a"} {
func.func @columns(%a: !mat, %b: !mats, %d: !by_columns, %ends: memref<?xi32>) {
  // expected-error @below {{choose-schedule: groups with D by columns: a group may begin and end at any element of a column; take epilogue.path = direct with epilogue.store = 2 [groups-columns]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<?xi32>) schedule(#tile.schedule<epilogue = <store = 4>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mats, !by_columns
  return
}
}

// -----

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!by_columns = memref<?x?x?xbf16, strided<[?, 1, ?]>>
module attributes {tile.target = "sm_90a"} {
func.func @padded(%a: !mats, %b: !mats, %d: !by_columns, %counts: memref<?xi32>) {
  // expected-error @below {{choose-schedule: groups with D by columns: a group may begin and end at any element of a column; take epilogue.path = direct with epilogue.store = 2 [groups-columns]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %counts : memref<?xi32>) schedule(#tile.schedule<epilogue = <path = smem>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mats, !mats, !by_columns
  return
}
}

// -----

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @padded_cluster(%a: !mats, %b: !mats, %d: !mats, %counts: memref<?xi32>) {
  // expected-error @below {{[groups-field]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %counts : memref<?xi32>) schedule(#tile.schedule<grid = <cluster = [2, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mats, !mats, !mats
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @columns(%a: !mat, %b: !mats, %d: !mat, %s: memref<?xf32>, %ends: memref<?xi32>) {
  // expected-error @below {{groups of rows support reductions of rows beside a full result, and other groups none; reduce D in another kernel [reductions-of-groups]}}
  tile.gemm tn %a, %b into (%d, column_sum %s) acc(f32) operands(ends %ends : memref<?xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !mat, !mats, !mat, memref<?xf32>
  return
}
}
