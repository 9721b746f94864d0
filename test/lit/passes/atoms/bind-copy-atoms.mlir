// bind-copy-atoms binds sm.copy_async to the schedule's copy atom, spread over the threads of its warps.
// RUN: lowtide-opt %s -p bind-copy-atoms | filecheck %s

// 32 threads of 8 elements each: four side by side in a row of 32, eight rows down; four times for 32 rows. Of 64
// threads each copies half as much. The thread-value layouts are indices of the tile in column-major order.
// CHECK-DAG: #[[ONE:.+]] = #tile.tv<threads (4,8):(256,1), values (8,4,1):(32,8,1024)>
// CHECK-DAG: #[[TWO:.+]] = #tile.tv<threads (4,16):(256,1), values (8,2,1):(32,16,1024)>
// CHECK-DAG: #[[NARROW:.+]] = #tile.tv<threads (8,4):(128,1), values (4,8,1):(32,4,1024)>
// CHECK-DAG: #[[ACROSS:.+]] = #tile.tv<threads (2,16):(128,1), values (4,2,1):(32,16,256)>
// CHECK-DAG: #[[COPY:.+]] = #sm.tiled_copy<cp.async.16, #[[ONE]]>
// CHECK-DAG: #[[COPY2:.+]] = #sm.tiled_copy<cp.async.16, #[[TWO]]>
// CHECK-DAG: #[[COPY3:.+]] = #sm.tiled_copy<cp.async.8, #[[NARROW]]>

// CHECK-LABEL: tile.kernel @one_warp
// CHECK:       %[[WINDOW:.+]] = tile.view
// CHECK:       sm.cp_async %[[WINDOW]] to %{{.+}} by #[[COPY]] : !tile.view<32x32xbf16>, memref<32x32xbf16,
// CHECK-NOT:   sm.copy_async
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
!turned = memref<32x8xf32, #tile.layout<(32,8):(1,36)>, #gpu.address_space<workgroup>>
!turned_ring = !sm.ring<3 x [!turned, !turned]>
module attributes {tile.level = "atoms", tile.target = "sm_80"} {
tile.kernel @one_warp(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = cp.async.16>, b = <copy = cp.async.16>>,
  multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}

// Each operand has an atom of its own.
// CHECK-LABEL: tile.kernel @both
// CHECK:       sm.cp_async %{{.+}} to %{{.+}} by #[[COPY]]
// CHECK:       sm.cp_async %{{.+}} to %{{.+}} by #[[COPY3]]
tile.kernel @both(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = cp.async.16>, b = <copy = cp.async.8>>,
  multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  sm.copy_async %at to %bs : !tile.view<32x32xbf16>, !buffer
  tile.return
}

// CHECK-LABEL: tile.kernel @two_warps
// CHECK:       sm.cp_async %{{.+}} to %{{.+}} by #[[COPY2]]
tile.kernel @two_warps(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = cp.async.16>, b = <copy = cp.async.16>>,
  multiply = <atoms = [1, 2, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}

// A narrower atom: eight threads for a row.
// CHECK-LABEL: tile.kernel @narrow
// CHECK:       sm.cp_async %{{.+}} to %{{.+}} by #[[COPY3]]
tile.kernel @narrow(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = cp.async.8>, b = <copy = cp.async.8>>,
  multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}

// Through registers: a load of what a thread holds side by side, and a store as wide.
// CHECK-LABEL: tile.kernel @staged
// CHECK:       %[[AT:.+]] = tile.view
// CHECK:       %[[F:.+]] = sm.load_global %[[AT]] by "ld.global.16" aligned : !tile.view<32x32xbf16> to !sm.fragment<32x32xbf16, #[[ONE]]>
// CHECK-NEXT:  sm.store_shared %[[F]] to %{{.+}} by "st.shared.16" : !sm.fragment<32x32xbf16, #[[ONE]]>
// CHECK:       sm.load_global %[[AT]] by "ld.global.8" aligned : {{.*}} to !sm.fragment<32x32xbf16, #[[NARROW]]>
// CHECK-NEXT:  sm.store_shared %{{.+}} by "st.shared.8"
tile.kernel @staged(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = staged.16>, b = <copy = staged.8>>,
  multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  sm.copy_async %at to %bs : !tile.view<32x32xbf16>, !buffer
  tile.return
}

// Runs that lie anywhere are loaded with what is around them, and stored as those that are aligned.
// CHECK-LABEL: tile.kernel @realigned
// CHECK:       %[[F:.+]] = sm.load_global %{{.+}} by "ld.global.16" realigned : {{.*}} to !sm.fragment<32x32xbf16, #[[ONE]]>
// CHECK-NEXT:  sm.store_shared %[[F]] to %{{.+}} by "st.shared.16"
tile.kernel @realigned(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = realigned.16>, b = <copy = realigned.16>>,
  multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}

// Where the stage is contiguous along its rows, stores are of one element. Two threads, a sector, share a row.
// CHECK-LABEL: tile.kernel @staged_transposed
// CHECK:       sm.load_global %{{.+}} by "ld.global.16" aligned : !tile.view<32x8xf32> to !sm.fragment<32x8xf32, #[[ACROSS]]>
// CHECK-NEXT:  sm.store_shared %{{.+}} to %{{.+}} by "st.shared.4" : !sm.fragment<32x8xf32, #[[ACROSS]]>
tile.kernel @staged_transposed(%a: memref<?x?xf32, strided<[?, 1]>>, %ring: !turned_ring) attributes {
  schedule = #tile.schedule<mainloop = <a = <copy = staged.16>, b = <copy = staged.16>>,
  multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<32x8xf32>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !turned_ring
  sm.copy_async %at to %as : !tile.view<32x8xf32>, !turned
  tile.return
}
}
