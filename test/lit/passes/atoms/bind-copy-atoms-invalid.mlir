// bind-copy-atoms refuses an atom that does not fill shared memory, and a tile that the threads cannot share evenly.
// RUN: lowtide-opt %s -p bind-copy-atoms --split-input-file --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @no_fill(%a: !mat, %as: !buffer) attributes {schedule = #tile.schedule<copy = st.global.16, warps = [1, 1, 1]>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  // expected-error @below {{bind-copy-atoms: copy = st.global.16 is not one of cp.async.16, cp.async.8, cp.async.4}}
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @threads(%a: !mat, %as: !buffer) attributes {schedule = #tile.schedule<copy = cp.async.16, warps = [8, 1, 1]>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  // expected-error @below {{bind-copy-atoms: 256 threads cannot share a tile 32x32 in vectors of 8 elements; take a larger tile, fewer warps, or extents that are powers of two}}
  sm.copy_async %at to %as : !tile.view<32x32xbf16>, !buffer
  tile.return
}
}
// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{bind-copy-atoms: schedule leaves copy open; run choose-schedule first, or write it}}
tile.kernel @open() attributes {schedule = #tile.schedule<warps = [1, 1, 1]>} {
  tile.return
}
}
// -----

!mat = memref<?x?xf64, strided<[?, 1]>>
!buffer = memref<32x32xf64, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @element(%a: !mat, %as: !buffer) attributes {schedule = #tile.schedule<copy = cp.async.16, warps = [1, 1, 1]>} {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xf64>
  // expected-error @below {{bind-copy-atoms: elements of f64: they are one of f16, bf16, f32}}
  sm.copy_async %at to %as : !tile.view<32x32xf64>, !buffer
  tile.return
}
}
