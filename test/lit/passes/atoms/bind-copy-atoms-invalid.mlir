// bind-copy-atoms refuses an atom that does not fill shared memory, and a tile that the threads cannot share evenly.
// RUN: lowtide-opt %s -p bind-copy-atoms --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
module attributes {tile.target = "sm_80"} {
tile.kernel @no_fill(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = st.global.16>, b = <copy = st.global.16>>,
  multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  // expected-error @below {{bind-copy-atoms: a.copy = st.global.16 is not one of cp.async.16, cp.async.8, cp.async.4, staged.16, staged.8, staged.4, staged.2, realigned.16, realigned.8, realigned.4 [ring-copy]}}
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
module attributes {tile.target = "sm_80"} {
tile.kernel @threads(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = cp.async.16>, b = <copy = cp.async.16>>,
  multiply = <atoms = [8, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  // expected-error @below {{bind-copy-atoms: 256 threads cannot share a tile 32x32 in vectors of 8 elements; take a larger tile, fewer warps, or extents that are powers of two [copy-threads]}}
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{bind-copy-atoms: schedule leaves mainloop.a.copy open; run choose-schedule first, or write it [schedule-open]}}
tile.kernel @open(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}
}
// -----

!mat = memref<?x?xf8E4M3, strided<[?, 1]>>
!buffer = memref<32x32xf8E4M3, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
module attributes {tile.target = "sm_80"} {
tile.kernel @element(%a: !mat, %ring: !ring) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = cp.async.16>, b = <copy = cp.async.16>>,
  multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xf8E4M3>
  %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
  // expected-error @below {{bind-copy-atoms: elements of f8E4M3: they are one of f16, bf16, tf32, f32, f64, e4m3, e5m2, s8, u8, s32 [element-known]}}
  sm.copy_async %at to %as : !tile.view<32x32xf8E4M3>, !buffer
  tile.return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @no_slot(%a: !mat, %as: !buffer) attributes {schedule = #tile.schedule<
  mainloop = <a = <copy = cp.async.16>, b = <copy = cp.async.16>>,
  multiply = <atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  // expected-error @below {{bind-copy-atoms: must fill a buffer of the slot that its sm.producer_acquire gives [copy-fills-slot]}}
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}
}
