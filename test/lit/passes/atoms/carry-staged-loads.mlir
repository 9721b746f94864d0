// carry-staged-loads moves the loads of copies through registers one round of the main loop ahead; the fragments are
// carried. The stores, and the loads of epilogues and of fragments for the mma, stay.
// RUN: lowtide-opt %s -p carry-staged-loads | filecheck %s

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer]>
!window = !tile.view<32x32xbf16>
!fragment = !sm.fragment<32x32xbf16, #tile.tv<threads (4,8):(256,1), values (8,4,1):(32,8,1024)>>
module attributes {tile.level = "atoms", tile.target = "sm_80"} {

// The prologue is left alone. Before the loop: the load of its first round, at K step 2.
// CHECK-LABEL: tile.kernel @kernel
// CHECK:       scf.for
// CHECK:         %[[P:.+]] = sm.load_global
// CHECK-NEXT:    sm.store_shared %[[P]]
// CHECK:       %[[AT0:.+]] = arith.addi %c0, %c2
// CHECK:       %[[K0:.+]] = arith.muli %[[AT0]], %c32
// CHECK:       %[[V0:.+]] = tile.view %{{.+}}[%c0, %[[K0]]]
// CHECK:       %[[F0:.+]] = sm.load_global %[[V0]] by "ld.global.16" aligned
// CHECK:       scf.for %[[I:.+]] = %c0 to %{{.+}} step %c1 iter_args(%{{.+}} = %c0, %[[F:.+]] = %[[F0]])
// CHECK:         sm.consumer_wait
// CHECK:         %{{.+}}, %[[EA:.+]] = sm.producer_acquire
// CHECK-NOT:     sm.load_global
// CHECK:         sm.store_shared %[[F]] to %[[EA]]
// CHECK-NEXT:    sm.producer_commit

// After the commit the load of the next round, which has the time of the multiply.
// CHECK:         %[[NEXT:.+]] = arith.addi %[[I]], %c1
// CHECK:         %[[AT:.+]] = arith.addi %[[NEXT]], %c2
// CHECK:         %[[K:.+]] = arith.muli %[[AT]], %c32
// CHECK:         %[[V:.+]] = tile.view %{{.+}}[%c0, %[[K]]]
// CHECK:         %[[G:.+]] = sm.load_global %[[V]]
// CHECK:         sm.ldmatrix
// CHECK:         scf.yield %{{.+}}, %[[G]]
tile.kernel @kernel(%a: !mat, %k: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %ring = sm.ring : !ring
  scf.for %i = %c0 to %c2 step %c1 {
    %empty, %as = sm.producer_acquire %ring[%i, %c0] : !ring
    %k0 = arith.muli %i, %c32 : index
    %at = tile.view %a[%c0, %k0] : !mat to !window
    %f = sm.load_global %at by "ld.global.16" aligned : !window to !fragment
    sm.store_shared %f to %as by "st.shared.16" : !fragment, !buffer
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
  }
  %end = scf.for %i = %c0 to %k step %c1 iter_args(%r = %c0) -> (index) {
    %full, %ra = sm.consumer_wait %ring[%r, %c0] : !ring
    %empty, %ea = sm.producer_acquire %ring[%c2, %c0] : !ring
    %ahead = arith.addi %i, %c2 : index
    %k0 = arith.muli %ahead, %c32 : index
    %at = tile.view %a[%c0, %k0] : !mat to !window
    %f = sm.load_global %at by "ld.global.16" aligned : !window to !fragment
    sm.store_shared %f to %ea by "st.shared.16" : !fragment, !buffer
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
    %x = sm.ldmatrix %ra[0, 0] by "ldmatrix.x4" : !buffer to !fragment
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %c0] : !ring
    scf.yield %r2 : index
  }
  tile.return
}
}
