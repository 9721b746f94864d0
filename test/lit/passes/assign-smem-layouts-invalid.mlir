// assign-smem-layouts only applies swizzles that have been chosen, to buffers that it can change.
// RUN: lowtide-opt %s -p assign-smem-layouts --split-input-file --verify-diagnostics

!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{assign-smem-layouts: has no schedule; run choose-schedule first, or write one}}
tile.kernel @no_schedule() {
  tile.return
}
}
// -----

// `auto` is for choose-schedule to resolve: it counts the conflicts.
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{assign-smem-layouts: schedule leaves swizzle_b open; run choose-schedule first, or write it}}
tile.kernel @auto() attributes {schedule = #tile.schedule<swizzle_a = <2,3,3>, swizzle_b = auto>} {
  tile.return
}
}
// -----

!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @argument(%bs: !buffer) attributes {schedule = #tile.schedule<swizzle_a = <2,3,3>, swizzle_b = <2,3,3>>} {
  %as = sm.alloc : !buffer
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  // expected-error @below {{assign-smem-layouts: operand B does not come from sm.alloc; run promote-operands-to-smem}}
  %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf32>
  tile.return
}
}
