// bind-ring refuses a program in which how many groups a wait may leave in flight is not a constant.
// RUN: lowtide-opt %s -p bind-ring --split-input-file --verify-diagnostics

!ring = !sm.ring<3 x [memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>]>
module attributes {tile.target = "sm_80"} {
tile.kernel @prologue_of_unknown_length(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  // expected-error @below {{bind-ring: commits 1 and waits for 0 slots per round, so its waits have no constant depth; only a prologue of constant length may differ [constant-wait]}}
  scf.for %i = %c0 to %n step %c1 {
    %empty, %a = sm.producer_acquire %ring[%i, %c0] : !ring
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
  }
  tile.return
}
}
// -----

!ring = !sm.ring<3 x [memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>]>
module attributes {tile.target = "sm_80"} {
tile.kernel @two_commits_a_wait() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %ring = sm.ring : !ring
  // expected-error @below {{[constant-wait]}}
  scf.for %i = %c0 to %c4 step %c1 {
    %e0, %a0 = sm.producer_acquire %ring[%i, %c0] : !ring
    sm.producer_commit %ring, %e0 : !ring, !sm.slot<write>
    %e1, %a1 = sm.producer_acquire %ring[%i, %c0] : !ring
    sm.producer_commit %ring, %e1 : !ring, !sm.slot<write>
    %full, %a = sm.consumer_wait %ring[%i, %c0] : !ring
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
  }
  tile.return
}
}
// -----

!ring = !sm.ring<3 x [memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>]>
module attributes {tile.target = "sm_80"} {
tile.kernel @nothing_committed() {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  // expected-error @below {{bind-ring: waits for a slot before it is committed [wait-before-commit]}}
  %full, %a = sm.consumer_wait %ring[%c0, %c0] : !ring
  %empty, %b = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
  sm.consumer_release %ring, %full : !ring, !sm.slot<read>
  tile.return
}
}
// -----

// A thread's groups are one sequence, whatever ring they fill.
!ring = !sm.ring<3 x [memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>]>
module attributes {tile.target = "sm_80"} {
tile.kernel @two_rings() {
  %ring = sm.ring : !ring
  // expected-error @below {{bind-ring: is the second ring of its kernel; its slots are counted for one [second-ring]}}
  %more = sm.ring : !ring
  tile.return
}
}
