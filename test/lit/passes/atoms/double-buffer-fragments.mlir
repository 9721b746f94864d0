// double-buffer-fragments rotates the main loop by one k-slice: each slice is loaded one mma ahead.
// RUN: lowtide-opt %s -p double-buffer-fragments | filecheck %s

#layout = #tile.layout<(32,32):(32,1)>
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
!buffer = memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
module attributes {tile.level = "atoms", tile.target = "sm_80"} {

// Before the loop: the first slot is waited for, its first slice loaded, and the read cursor moved on.
// CHECK-LABEL: tile.kernel @two_slices
// CHECK:       %[[RING:.+]] = sm.ring
// CHECK:       %[[SLOT0:.+]], %[[A0:.+]], %[[B0:.+]] = sm.consumer_wait %[[RING]][%c0, %c0]
// CHECK:       %[[FA0:.+]] = sm.ldmatrix %[[A0]][0, 0]
// CHECK:       %[[FB0:.+]] = sm.ldmatrix %[[B0]][0, 0]
// CHECK:       %[[R0:.+]], %[[RP0:.+]] = sm.ring_advance %[[RING]][%c0, %c0]

// The loop carries the slot, its buffers and the loaded slice beside what it carried.
// CHECK:       %[[SUM:.+]]:10 = scf.for {{.*}} iter_args(%[[ACC:.+]] = %{{.+}}, %[[R:.+]] = %[[R0]], %[[RP:.+]] = %[[RP0]], %[[W:.+]] = %{{.+}}, %[[WP:.+]] = %{{.+}}, %[[SLOT:.+]] = %[[SLOT0]], %[[A:.+]] = %[[A0]], %[[B:.+]] = %[[B0]], %[[FA:.+]] = %[[FA0]], %[[FB:.+]] = %[[FB0]])

// The copies of a later K step start first, as before.
// CHECK-NEXT:    %[[EMPTY:.+]], %{{.+}}, %{{.+}} = sm.producer_acquire %[[RING]][%[[W]], %[[WP]]]
// CHECK-NEXT:    sm.producer_commit %[[RING]], %[[EMPTY]]

// Slice 1 is loaded ahead of the mma of slice 0; then the slot is given back and the next one's slice 0 loaded, ahead
// of the mma of slice 1.
// CHECK:         %[[FA1:.+]] = sm.ldmatrix %[[A]][0, 16]
// CHECK:         %[[FB1:.+]] = sm.ldmatrix %[[B]][0, 16]
// CHECK:         %[[C1:.+]] = sm.mma_sync %[[FA]], %[[FB]], %[[ACC]]
// CHECK:         sm.consumer_release %[[RING]], %[[SLOT]]
// CHECK-NEXT:    %[[SLOT2:.+]], %[[A2:.+]], %[[B2:.+]] = sm.consumer_wait %[[RING]][%[[R]], %[[RP]]]
// CHECK:         %[[FA2:.+]] = sm.ldmatrix %[[A2]][0, 0]
// CHECK:         %[[FB2:.+]] = sm.ldmatrix %[[B2]][0, 0]
// CHECK:         %[[C2:.+]] = sm.mma_sync %[[FA1]], %[[FB1]], %[[C1]]
// CHECK:         %[[R2:.+]], %[[RP2:.+]] = sm.ring_advance %[[RING]][%[[R]], %[[RP]]]
// CHECK:         %[[W2:.+]], %[[WP2:.+]] = sm.ring_advance %[[RING]][%[[W]], %[[WP]]]
// CHECK:         scf.yield %[[C2]], %[[R2]], %[[RP2]], %[[W2]], %[[WP2]], %[[SLOT2]], %[[A2]], %[[B2]], %[[FA2]], %[[FB2]]

// The last slot that was waited for holds zeros past K; it is given back.
// CHECK:       sm.consumer_release %[[RING]], %[[SUM]]#5
// CHECK-NEXT:  sm.producer_tail
tile.kernel @two_slices(%k: index) attributes {schedule = #tile.schedule<multiply = <fragment_buffers = 2>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc:5 = scf.for %i = %c0 to %k step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0, %w = %c1, %wp = %c0) -> (!c, index, index, index, index) {
    %full, %a, %b = sm.consumer_wait %ring[%r, %rp] : !ring
    %empty, %ea, %eb = sm.producer_acquire %ring[%w, %wp] : !ring
    sm.producer_commit %ring, %empty : !ring, !sm.slot<write>
    %fa0 = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !a
    %fb0 = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : !buffer to !b
    %p0 = sm.mma_sync %fa0, %fb0, %c by #mma : !a, !b, !c
    %fa1 = sm.ldmatrix %a[0, 16] by "ldmatrix.x4" : !buffer to !a
    %fb1 = sm.ldmatrix %b[0, 16] by "ldmatrix.x4" : !buffer to !b
    %p1 = sm.mma_sync %fa1, %fb1, %p0 by #mma : !a, !b, !c
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    %w2, %wp2 = sm.ring_advance %ring[%w, %wp] : !ring
    scf.yield %p1, %r2, %rp2, %w2, %wp2 : !c, index, index, index, index
  }
  sm.producer_tail %ring : !ring
  tile.return
}

// With one slice the load for the next round stands ahead of the only mma.
// CHECK-LABEL: tile.kernel @one_slice
// CHECK:       scf.for {{.*}}, %[[FA:.+]] = %{{.+}}, %[[FB:.+]] = %{{.+}}) ->
// CHECK-NEXT:    sm.consumer_release
// CHECK-NEXT:    sm.consumer_wait
// CHECK:         %[[FA2:.+]] = sm.ldmatrix
// CHECK:         %[[FB2:.+]] = sm.ldmatrix
// CHECK:         sm.mma_sync %[[FA]], %[[FB]],
// CHECK:         scf.yield {{.*}}, %[[FA2]], %[[FB2]] :
tile.kernel @one_slice(%k: index) attributes {schedule = #tile.schedule<multiply = <fragment_buffers = 2>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc:3 = scf.for %i = %c0 to %k step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!c, index, index) {
    %full, %a, %b = sm.consumer_wait %ring[%r, %rp] : !ring
    %fa0 = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !a
    %fb0 = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : !buffer to !b
    %p0 = sm.mma_sync %fa0, %fb0, %c by #mma : !a, !b, !c
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    scf.yield %p0, %r2, %rp2 : !c, index, index
  }
  sm.producer_tail %ring : !ring
  tile.return
}

// fragment_buffers = 1 leaves the loop as it is.
// CHECK-LABEL: tile.kernel @single
// CHECK-NOT:   sm.ldmatrix
// CHECK:       scf.for
// CHECK-NEXT:    sm.consumer_wait
tile.kernel @single(%k: index) attributes {schedule = #tile.schedule<multiply = <fragment_buffers = 1>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc:3 = scf.for %i = %c0 to %k step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!c, index, index) {
    %full, %a, %b = sm.consumer_wait %ring[%r, %rp] : !ring
    %fa0 = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !a
    %fb0 = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : !buffer to !b
    %p0 = sm.mma_sync %fa0, %fb0, %c by #mma : !a, !b, !c
    sm.consumer_release %ring, %full : !ring, !sm.slot<read>
    %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
    scf.yield %p0, %r2, %rp2 : !c, index, index
  }
  sm.producer_tail %ring : !ring
  tile.return
}
// A role reads slots that another one fills, none past K: no slot is waited for ahead. The last slice is loaded, and the
// slot released, ahead of the last mma.
// CHECK-LABEL: tile.kernel @role
// CHECK:       consumer
// CHECK-NOT:   sm.ldmatrix
// CHECK:       scf.for
// CHECK-NEXT:    %[[SLOT:.+]], %[[A:.+]], %[[B:.+]] = sm.consumer_wait
// CHECK-NEXT:    %[[FA0:.+]] = sm.ldmatrix %[[A]][0, 0]
// CHECK-NEXT:    %[[FB0:.+]] = sm.ldmatrix %[[B]][0, 0]
// CHECK-NEXT:    %[[FA1:.+]] = sm.ldmatrix %[[A]][0, 16]
// CHECK-NEXT:    %[[FB1:.+]] = sm.ldmatrix %[[B]][0, 16]
// CHECK-NEXT:    sm.mma_sync %[[FA0]], %[[FB0]]
// CHECK-NEXT:    sm.consumer_release %{{.+}}, %[[SLOT]]
// CHECK-NEXT:    sm.mma_sync %[[FA1]], %[[FB1]]
tile.kernel @role(%k: index) attributes {schedule = #tile.schedule<multiply = <fragment_buffers = 2>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      %zero = sm.splat 0.0 : !c
      %acc:3 = scf.for %i = %c0 to %k step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!c, index, index) {
        %full, %a, %b = sm.consumer_wait %ring[%r, %rp] : !ring
        %fa0 = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : !buffer to !a
        %fb0 = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : !buffer to !b
        %p0 = sm.mma_sync %fa0, %fb0, %c by #mma : !a, !b, !c
        %fa1 = sm.ldmatrix %a[0, 16] by "ldmatrix.x4" : !buffer to !a
        %fb1 = sm.ldmatrix %b[0, 16] by "ldmatrix.x4" : !buffer to !b
        %p1 = sm.mma_sync %fa1, %fb1, %p0 by #mma : !a, !b, !c
        sm.consumer_release %ring, %full : !ring, !sm.slot<read>
        %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
        scf.yield %p1, %r2, %rp2 : !c, index, index
      }
    }
  }
  tile.return
}
}
