// bind-ring turns the ring's verbs into cp.async groups and barriers, and derives each wait's depth.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer]>
!window = !tile.view<32x32xbf16>
!fragment = !sm.fragment<32x32xbf16, #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,2):((32,8,256),16,512)>>
module attributes {tile.level = "atoms", tile.target = "sm_80"} {

// Two slots are committed ahead, and one more in each round before the next wait: with three stages each wait leaves one
// group in flight. Its barrier makes every thread's copies visible, and lets the slot released before it be refilled.
// CHECK-LABEL: tile.kernel @three_stages
// CHECK:       %[[RING:.+]] = sm.ring : !ring
// CHECK:       %[[WRITE:.+]]:2 = scf.for {{.*}} iter_args(%[[W:.+]] = %c0, %[[WP:.+]] = %c0)
// CHECK:         %[[A:.+]] = sm.ring_slot %[[RING]][%[[W]]] : !ring
// CHECK:         sm.copy_async %{{.+}} to %[[A]] :
// CHECK-NEXT:    sm.cp_async_commit
// CHECK:         sm.ring_advance
// CHECK:       scf.for {{.*}} iter_args(%[[R:.+]] = %c0, %[[RP:.+]] = %c0, %[[W:.+]] = %[[WRITE]]#0, %[[WP:.+]] = %[[WRITE]]#1)
// CHECK-NEXT:    sm.cp_async_wait 1
// CHECK-NEXT:    sm.barrier
// CHECK:         %[[A:.+]] = sm.ring_slot %[[RING]][%[[R]]] : !ring
// CHECK:         %[[EA:.+]] = sm.ring_slot %[[RING]][%[[W]]] : !ring
// CHECK:         sm.copy_async %{{.+}} to %[[EA]] :
// CHECK-NEXT:    sm.cp_async_commit
// CHECK:         sm.ldmatrix %[[A]][0, 0]
// CHECK:         sm.ring_advance

// The tail drains: no group in flight, all threads there.
// CHECK:       }
// CHECK-NEXT:  sm.cp_async_wait 0
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  tile.return
tile.kernel @three_stages(%v: !window, %k: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %ring = sm.ring : !ring
  %w0:2 = scf.for %i = %c0 to %c2 step %c1 iter_args(%w = %c0, %wp = %c0) -> (index, index) {
    %empty, %a = sm.producer_acquire %ring[%w, %wp] : !ring
    sm.copy_async %v to %a : !window, !buffer
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
    %w2, %wp2 = sm.ring_advance %ring[%w, %wp] : !ring
    scf.yield %w2, %wp2 : index, index
  }
  %end:4 = scf.for %i = %c0 to %k step %c1 iter_args(%r = %c0, %rp = %c0, %w = %w0#0, %wp = %w0#1) -> (index, index, index, index) {
    %full, %a = sm.consumer_wait %ring[%r, %rp] : !ring
    %empty, %ea = sm.producer_acquire %ring[%w, %wp] : !ring
    sm.copy_async %v to %ea : !window, !buffer
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
    %x = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !fragment
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    %w2, %wp2 = sm.ring_advance %ring[%w, %wp] : !ring
    scf.yield %r2, %rp2, %w2, %wp2 : index, index, index, index
  }
  sm.producer_tail %ring : !ring
  tile.return
}

// Where the loop waits one slot ahead of what it multiplies, slots go round with it. They are rights, not data: the
// bound loop carries the buffers alone. In front of the loop one more slot has been waited for, so both depths are 1.
// CHECK-LABEL: tile.kernel @one_ahead
// CHECK:       scf.for
// CHECK:       sm.cp_async_commit
// CHECK:       }
// CHECK-NEXT:  sm.cp_async_wait 1
// CHECK-NEXT:  sm.barrier
// CHECK:       %[[A0:.+]] = sm.ring_slot %{{.+}}[%c0] : !ring
// CHECK:       scf.for {{.*}} iter_args(%{{[^,]+}} = %{{[^,]+}}, %{{[^,]+}} = %c0, %[[A:.+]] = %[[A0]])
// CHECK:         sm.ring_slot
// CHECK:         sm.copy_async
// CHECK-NEXT:    sm.cp_async_commit
// CHECK:         sm.ldmatrix %[[A]][0, 0]
// CHECK:         sm.cp_async_wait 1
// CHECK-NEXT:    sm.barrier
// CHECK:         %[[A2:.+]] = sm.ring_slot
// CHECK:         scf.yield %{{.+}}, %{{.+}}, %[[A2]] :
// CHECK-NOT:   sm.consumer_release
tile.kernel @one_ahead(%v: !window, %k: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %ring = sm.ring : !ring
  scf.for %i = %c0 to %c2 step %c1 {
    %empty, %a = sm.producer_acquire %ring[%i, %c0] : !ring
    sm.copy_async %v to %a : !window, !buffer
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
  }
  %full0, %a0 = sm.consumer_wait %ring[%c0, %c0] : !ring
  %r0, %rp0 = sm.ring_advance %ring[%c0, %c0] : !ring
  %end:4 = scf.for %i = %c0 to %k step %c1 iter_args(%r = %r0, %full = %full0, %rp = %c0, %a = %a0)
      -> (index, !sm.slot<read>, index, !buffer) {
    %empty, %ea = sm.producer_acquire %ring[%r, %rp] : !ring
    sm.copy_async %v to %ea : !window, !buffer
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
    %x = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !fragment
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %full2, %a2 = sm.consumer_wait %ring[%r, %rp] : !ring
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    scf.yield %r2, %full2, %rp2, %a2 : index, !sm.slot<read>, index, !buffer
  }
  sm.consumer_release %ring, %end#1 : !ring, !sm.slot<read>
  sm.producer_tail %ring : !ring
  tile.return
}

// A loop that refills before it waits has no barrier between the release of one round and the acquire of the next: one
// is put there. It commits before it waits, so one more group may be in flight.
// CHECK-LABEL: tile.kernel @acquire_first
// CHECK:       scf.for
// CHECK:       sm.cp_async_commit
// CHECK:       scf.for
// CHECK-NEXT:    sm.barrier
// CHECK:         sm.ring_slot
// CHECK:         sm.cp_async_commit
// CHECK-NEXT:    sm.cp_async_wait 2
// CHECK-NEXT:    sm.barrier
// CHECK:         %[[A:.+]] = sm.ring_slot
// CHECK:         sm.ldmatrix %[[A]][0, 0]
// CHECK:       }
tile.kernel @acquire_first(%v: !window, %k: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %ring = sm.ring : !ring
  scf.for %i = %c0 to %c2 step %c1 {
    %empty, %a = sm.producer_acquire %ring[%i, %c0] : !ring
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
  }
  scf.for %i = %c0 to %k step %c1 {
    %empty, %ea = sm.producer_acquire %ring[%c2, %c0] : !ring
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
    %full, %a = sm.consumer_wait %ring[%c0, %c0] : !ring
    %x = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !fragment
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
  }
  sm.producer_tail %ring : !ring
  tile.return
}

// Work tiles start with a drained ring: a prologue without a loop needs no barrier, for the tail of the tile before has
// one; and the count starts anew after it.
// CHECK-LABEL: tile.kernel @work_tiles
// CHECK:       tile.work_tiles
// CHECK:         sm.ring_slot
// CHECK:         sm.cp_async_commit
// CHECK-NEXT:    sm.cp_async_wait 0
// CHECK-NEXT:    sm.barrier
// CHECK:         sm.ring_slot
// CHECK:         sm.cp_async_wait 0
// CHECK-NEXT:    sm.barrier
// CHECK:         sm.ring_slot
// CHECK:         sm.cp_async_commit
// CHECK-NEXT:    sm.cp_async_wait 0
tile.kernel @work_tiles(%v: !window, %k: index) {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  tile.work_tiles (%m, %n) of (%k, %k) by [32, 32] order(<row>) persistent {
    %e0, %a = sm.producer_acquire %ring[%c0, %c0] : !ring
    sm.producer_commit %ring, %e0 : !ring, !sm.slot<write>
    %f0, %fa = sm.consumer_wait %ring[%c0, %c0] : !ring
    sm.consumer_release %ring, %f0 : !ring, !sm.slot<read>
    sm.producer_tail %ring : !ring
    %e1, %a1 = sm.producer_acquire %ring[%c0, %c0] : !ring
    sm.producer_commit %ring, %e1 : !ring, !sm.slot<write>
    %f1, %fa1 = sm.consumer_wait %ring[%c0, %c0] : !ring
    sm.consumer_release %ring, %f1 : !ring, !sm.slot<read>
    sm.producer_tail %ring : !ring
  }
  tile.return
}

// Copies that end in stores of registers have no groups: a barrier is all that a wait and the tail need.
// CHECK-LABEL: tile.kernel @staged
// CHECK:       sm.ring_slot
// CHECK:       sm.store_shared
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  sm.ring_slot
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  tile.return
// CHECK-LABEL: tile.kernel @mixed
// CHECK:       sm.cp_async_commit
// CHECK-NEXT:  sm.cp_async_wait 0
// CHECK-NEXT:  sm.barrier
tile.kernel @staged(%f: !fragment) {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  %e0, %a = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.store_shared %f to %a by "st.shared.4" : !fragment, !buffer
  sm.producer_commit %ring, %e0 : !ring, !sm.slot<write>
  %f0, %fa = sm.consumer_wait %ring[%c0, %c0] : !ring
  sm.consumer_release %ring, %f0 : !ring, !sm.slot<read>
  sm.producer_tail %ring : !ring
  tile.return
}
tile.kernel @mixed(%f: !fragment, %v: !window) {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  %e0, %a = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.store_shared %f to %a by "st.shared.4" : !fragment, !buffer
  sm.cp_async %v to %a by <cp.async.16, #tile.tv<threads (4,8):(256,1), values (8,4,1):(32,8,1024)>> : !window, !buffer
  sm.producer_commit %ring, %e0 : !ring, !sm.slot<write>
  %f0, %fa = sm.consumer_wait %ring[%c0, %c0] : !ring
  sm.consumer_release %ring, %f0 : !ring, !sm.slot<read>
  sm.producer_tail %ring : !ring
  tile.return
}
}
