// bind-ring turns copies into TMA loads, the ring's verbs into mbarriers, and makes the tensor maps on the host.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s
// RUN: lowtide-opt %s -p bind-ring | filecheck %s --check-prefix GONE

// One map for each matrix and box, made where the kernel is launched, passed behind its other arguments.
// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[A:.+]]: memref<?x?xbf16, {{.*}}>, %[[B:.+]]: memref<?x?xbf16, {{.*}}>, %[[N:.+]]: index)
// CHECK:       %[[MA:.+]] = sm.tensor_map %[[A]] : memref<?x?xbf16, strided<[?, 1]>> to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK:       %[[MB:.+]] = sm.tensor_map %[[B]] : memref<?x?xbf16, strided<[?, 1]>> to !sm.tensor_map<8x64xbf16, swizzle<3,3,3>>
// CHECK:       tile.launch @kernel grid(%[[N]]) threads(384) programmatic args(%[[A]], %[[B]], %[[N]], %[[MA]], %[[MB]]) {tag}

// CHECK-LABEL: tile.kernel @kernel(
// CHECK-SAME:    %{{.+}}: memref<?x?xbf16, {{.*}}>, %{{.+}}: memref<?x?xbf16, {{.*}}>, %[[N:.+]]: index, %[[MA:.+]]: !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, %[[MB:.+]]: !sm.tensor_map<8x64xbf16, swizzle<3,3,3>>)

// A slot is full after the producer's one arrival (and its bytes), empty after one of each consumer warpgroup.
// CHECK:       %[[RING:.+]] = sm.ring : !ring
// CHECK:       %[[FULL:.+]] = sm.mbarriers arrivals(1) : !sm.mbarriers<4>
// CHECK:       %[[EMPTY:.+]] = sm.mbarriers arrivals(2) : !sm.mbarriers<4>

// The producer waits for the phase before the slot's, which at first passes at once; it expects the bytes of both full
// boxes, (64 + 8)·64·2, before it starts them.
// CHECK:       producer warps(4) {
// CHECK:         scf.for {{.*}} iter_args(%[[W:.+]] = %c0{{.*}}, %[[WP:.+]] = %c0{{.*}})
// CHECK:           %[[BEFORE:.+]] = arith.xori %[[WP]], %c1{{.*}} : index
// CHECK:           sm.mbarrier_wait %[[EMPTY]][%[[W]], %[[BEFORE]]] : !sm.mbarriers<4>
// CHECK-NEXT:      sm.mbarrier_arrive %[[FULL]][%[[W]]] expects 9216 : !sm.mbarriers<4>
// CHECK:           %[[AS:.+]], %[[BS:.+]] = sm.ring_slot %[[RING]][%[[W]]] : !ring
// CHECK:           sm.tma_load %[[MA]][%[[N]], %[[K:.+]]] to %[[AS]] signals %[[FULL]][%[[W]]] :
// CHECK:           sm.tma_load %[[MB]][%c8{{.*}}, %[[K]]] to %[[BS]] signals %[[FULL]][%[[W]]] :
// CHECK:           sm.ring_advance

// The consumers wait for the phase itself. Where they carry the slot that they hold, its index is carried; the arrival
// takes the place of the release.
// CHECK:       consumer warps(8) {
// CHECK:         sm.mbarrier_wait %[[FULL]][%c0{{.*}}, %c0{{.*}}] : !sm.mbarriers<4>
// CHECK:         sm.ring_slot %[[RING]][%c0{{.*}}]
// CHECK:         %[[LAST:.+]]:3 = scf.for {{.*}} iter_args(%[[HELD:.+]] = %c0{{.*}}, %[[R:.+]] = %c1{{.*}}, %[[RP:.+]] = %c0{{.*}}) -> (index, index, index)
// CHECK-NEXT:      sm.mbarrier_wait %[[FULL]][%[[R]], %[[RP]]] : !sm.mbarriers<4>
// CHECK:           %[[FA:.+]], %{{.+}} = sm.ring_slot %[[RING]][%[[R]]]
// CHECK:           memref.dim %[[FA]], %c0
// CHECK:           sm.mbarrier_arrive %[[EMPTY]][%[[HELD]]] after %[[PROOF:.+]] : !sm.mbarriers<4>
// CHECK:           %[[R2:.+]], %[[RP2:.+]] = sm.ring_advance %[[RING]][%[[R]], %[[RP]]]
// CHECK:           scf.yield %[[R]], %[[R2]], %[[RP2]] : index, index, index
// CHECK:         sm.mbarrier_arrive %[[EMPTY]][%[[LAST]]#0] after %[[PROOF]] : !sm.mbarriers<4>

// No copy and no verb is left, anywhere.
// GONE-LABEL:  tile.kernel @kernel(
// GONE-NOT:    sm.copy_async
// GONE-NOT:    sm.producer_
// GONE-NOT:    sm.consumer_
// GONE:        tile.return
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<4 x [!a, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %n: index) {
  tile.launch @kernel grid(%n) threads(384) programmatic args(%a, %b, %n) {tag} : !mat, !mat, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !mat, %n: index) attributes {
    schedule = #tile.schedule<mainloop = <roles = cooperative(2)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      %w:2 = scf.for %k = %c0 to %n step %c1 iter_args(%w = %c0, %wp = %c0) -> (index, index) {
        %slot, %as, %bs = sm.producer_acquire %ring[%w, %wp] : !ring
        %at = tile.view %a[%n, %k] : !mat to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%c8, %k] : !mat to !tile.view<8x64xbf16>
        sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
        sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
        %w2, %wp2 = sm.ring_advance %ring[%w, %wp] : !ring
        scf.yield %w2, %wp2 : index, index
      }
    }
    consumer warps(8) {
      %first, %as0, %bs0 = sm.consumer_wait %ring[%c0, %c0] : !ring
      %p = ub.poison : !sm.retired
      %last:3 = scf.for %k = %c1 to %n step %c1 iter_args(%held = %first, %r = %c1, %rp = %c0) -> (!sm.slot<read>, index, index) {
        %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
        %read = memref.dim %as, %c0 : !a
        sm.consumer_release %ring, %held after %p : !ring, !sm.slot<read>
        %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
        scf.yield %full, %r2, %rp2 : !sm.slot<read>, index, index
      }
      sm.consumer_release %ring, %last#0 after %p : !ring, !sm.slot<read>
    }
  }
  tile.return
}
}
