// assign-smem-offsets refuses more shared memory than a CTA of the target may have, whoever asked for it.
// RUN: lowtide-opt %s -p assign-smem-offsets --split-input-file --verify-diagnostics

!stage = memref<128x128xbf16, #tile.layout<(128,128):(128,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{assign-smem-offsets: needs 196608 bytes of shared memory, sm_80 has 166912 per CTA; take fewer stages or a smaller CTA tile [smem-too-large]}}
tile.kernel @six_stages() {
  %ring = sm.ring : !sm.ring<6 x [!stage]>
  tile.return
}
}
// -----

// What fits the larger target does not fit the smaller one.
!stage = memref<128x128xbf16, #tile.layout<(128,128):(128,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_86"} {
// expected-error @below {{[smem-too-large]}}
tile.kernel @four_stages() {
  %ring = sm.ring : !sm.ring<4 x [!stage]>
  tile.return
}
}
// -----

!stage = memref<128x128xbf16, #tile.layout<(128,128):(128,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @four_stages() {
  %ring = sm.ring : !sm.ring<4 x [!stage]>
  tile.return
}
}
// -----

module attributes {tile.target = "sm_80"} {
tile.kernel @element() {
  // expected-error @below {{[element-known]}}
  %buffer = sm.alloc : memref<32x32xf8E4M3, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
  tile.return
}
}
