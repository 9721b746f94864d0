// assign-smem-layouts only applies swizzles that have been chosen, to buffers that it can change.
// RUN: lowtide-opt %s -p assign-smem-layouts --split-input-file --verify-diagnostics

!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{[no-schedule]}}
tile.kernel @no_schedule() {
  tile.return
}
}
// -----

// `auto` is for choose-schedule to resolve: it counts the conflicts.
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{[schedule-open]}}
tile.kernel @auto() attributes {schedule = #tile.schedule<mainloop = <a = <swizzle = <2,3,3>>>>} {
  tile.return
}
}
// -----

!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @argument(%bs: !buffer) attributes {schedule = #tile.schedule<mainloop = <a = <swizzle = <2,3,3>>, b = <swizzle = <2,3,3>>>>} {
  %as = sm.alloc : !buffer
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  // expected-error @below {{assign-smem-layouts: operand B does not come from sm.alloc; run promote-operands-to-smem [layout-of-alloc]}}
  %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf32>
  tile.return
}
}
// -----

// Rows that the swizzle's do not divide.
!buffer = memref<32x96xbf16, #tile.layout<(32,96):(96,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @panels() attributes {schedule = #tile.schedule<
  mainloop = <roles = cooperative(1), a = <swizzle = <3,3,3>>, b = <swizzle = <2,3,3>>>>} {
  // expected-error @below {{assign-smem-layouts: rows of 96 elements are no whole panels of 64, the row of swizzle<3,3,3>; take a narrower swizzle, or a multiple of 64 [panel-width]}}
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf32>
  tile.return
}
}
