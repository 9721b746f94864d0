// decide-timing writes on each loop that multiplies when it works, as the schedule has it; a schedule that says nothing
// leaves loops without the attribute.
// RUN: lowtide-opt %s -p decide-timing | filecheck %s

!buffer = memref<64x16xbf16, #tile.layout<(64,16):(16,1)>, #gpu.address_space<workgroup>>
!tall = memref<128x16xbf16, #tile.layout<(128,16):(16,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<64x64xf32>
!tall_tile = !tile.tile<128x64xf32>
// CHECK-LABEL: module
// CHECK-SAME:  tile.level = "pipelined"
module attributes {tile.level = "smem", tile.target = "sm_90a"} {
// CHECK-LABEL: tile.kernel @next_tile
// CHECK:       tile.mma
// CHECK:       } {sm.timing = #sm.timing<stores = next_tile, copies = spread, steps = unrolled>}
tile.kernel @next_tile(%as: !buffer, %bs: !buffer, %k: index) attributes {
    schedule = #tile.schedule<mainloop = <unroll = full>, epilogue = <path = direct, start = next_tile>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}

// CHECK-LABEL: tile.kernel @overlapped
// CHECK:       } {sm.timing = #sm.timing<slot = step_before>}
tile.kernel @overlapped(%as: !buffer, %bs: !buffer, %k: index) attributes {
    schedule = #tile.schedule<multiply = <promote = overlapped>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}

// The second loop has one block of 64 rows, for one consumer: it has no first rows.
// CHECK-LABEL: tile.kernel @first_rows
// CHECK:       } {sm.timing = #sm.timing<stores = first_rows>}
// CHECK:       tile.mma
// CHECK-NOT:   sm.timing
// CHECK-LABEL: tile.kernel @nothing
// CHECK-NOT:   sm.timing
tile.kernel @first_rows(%at: !tall, %as: !buffer, %bs: !buffer, %k: index) attributes {
    schedule = #tile.schedule<mainloop = <roles = cooperative(1)>, epilogue = <path = tma, start = first_rows>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zeros = tile.splat 0.0 : !tall_tile
  %zero = tile.splat 0.0 : !tile
  %tall = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zeros) -> (!tall_tile) {
    %next = tile.mma tn %at, %bs, %c : !tall, !buffer, !tall_tile
    scf.yield %next : !tall_tile
  }
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}

tile.kernel @nothing(%as: !buffer, %bs: !buffer, %k: index) attributes {schedule = #tile.schedule<mainloop = <k = 16>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    %next = tile.mma tn %as, %bs, %c : !buffer, !buffer, !tile
    scf.yield %next : !tile
  }
  tile.return
}
}
