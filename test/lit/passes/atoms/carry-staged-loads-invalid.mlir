// carry-staged-loads refuses a load that it cannot place one round ahead.
// RUN: lowtide-opt %s -p carry-staged-loads --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer]>
!window = !tile.view<32x32xbf16>
!fragment = !sm.fragment<32x32xbf16, #tile.tv<threads (4,8):(256,1), values (8,4,1):(32,8,1024)>>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%a: !mat, %k: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %end = scf.for %i = %c0 to %k step %c1 iter_args(%place = %c0) -> (index) {
    %full, %ra = sm.consumer_wait %ring[%c0, %c0] : !ring
    %empty, %ea = sm.producer_acquire %ring[%c1, %c0] : !ring
    %at = tile.view %a[%c0, %place] : !mat to !window
    // expected-error @below {{carry-staged-loads: loads a window that depends on values carried by the loop, so it cannot be loaded ahead [load-ahead]}}
    %f = sm.load_global %at by "ld.global.16" aligned : !window to !fragment
    sm.store_shared %f to %ea by "st.shared.16" : !fragment, !buffer
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
    %next = arith.addi %place, %i : index
    scf.yield %next : index
  }
  tile.return
}
}
