// verify-smem-offsets refuses places that the hardware or another buffer forbids: what, and where to go.
// RUN: lowtide-opt %s -p verify-smem-offsets --split-input-file --verify-diagnostics

// A swizzle's period: 1024 bytes for rows of 128, 512 for 64, 256 for 32.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !map) {
  // expected-error @below {{verify-smem-offsets: buffer 1 lies at 16896; swizzle<3,3,3>, which TMA and wgmma apply to addresses, needs a multiple of 1024: take 16384 [offset-alignment]}}
  %ring = sm.ring at [0, 16896] : !ring
  %full = sm.mbarriers arrivals(1) at 40960 : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %x, %y = sm.ring_slot %ring[%c0] : !ring
  sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
  tile.return
}
}
// -----

#layout = #tile.layout<(64,32):(32,1), swizzle<2,3,3>>
!tile = memref<64x32xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x32xbf16, swizzle<2,3,3>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !map) {
  // expected-error @below {{verify-smem-offsets: buffer 1 lies at 16640; swizzle<2,3,3>, which TMA and wgmma apply to addresses, needs a multiple of 512: take 16384 [offset-alignment]}}
  %ring = sm.ring at [0, 16640] : !ring
  %full = sm.mbarriers arrivals(1) at 32768 : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %x, %y = sm.ring_slot %ring[%c0] : !ring
  sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
  tile.return
}
}
// -----

#layout = #tile.layout<(64,16):(16,1), swizzle<1,3,3>>
!tile = memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !map) {
  // expected-error @below {{verify-smem-offsets: buffer 0 lies at 128; swizzle<1,3,3>, which TMA and wgmma apply to addresses, needs a multiple of 256: take 0 [offset-alignment]}}
  %ring = sm.ring at [128, 8192] : !ring
  %full = sm.mbarriers arrivals(1) at 32768 : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %x, %y = sm.ring_slot %ring[%c0] : !ring
  sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
  tile.return
}
}
// -----

// So must what TMA stores from.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !map) {
  // expected-error @below {{verify-smem-offsets: the buffer lies at 512; swizzle<3,3,3>, which TMA and wgmma apply to addresses, needs a multiple of 1024: take 0 [offset-alignment]}}
  %buffer = sm.alloc at 512 : !tile
  %c0 = arith.constant 0 : index
  sm.tma_store %buffer to %a[%c0, %c0] : !tile, !map
  tile.return
}
}
// -----

// Others need what their instructions do.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !map) {
  // expected-error @below {{verify-smem-offsets: the buffer lies at 8; a vector access needs a multiple of 16: take 0 [offset-alignment]}}
  %buffer = sm.alloc at 8 : !tile
  tile.return
}
}
// -----

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !map) {
  // expected-error @below {{verify-smem-offsets: the first lies at 32772; an mbarrier needs a multiple of 8: take 32768 [offset-alignment]}}
  %full = sm.mbarriers arrivals(1) at 32772 : !sm.mbarriers<2>
  tile.return
}
}
// -----

// Places lie apart.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !map) {
  // expected-error @below {{verify-smem-offsets: buffer 1 lies at 8192, within 0 to 16384 of sm.ring; take 16384 or more [smem-overlap]}}
  %ring = sm.ring at [0, 8192] : !ring
  %full = sm.mbarriers arrivals(1) at 32768 : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %x, %y = sm.ring_slot %ring[%c0] : !ring
  sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
  tile.return
}
}
// -----

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring at [0, 16384] : !ring
  // expected-error @below {{verify-smem-offsets: the first lies at 32760, within 16384 to 32768 of sm.ring; take 32768 or more [smem-overlap]}}
  %full = sm.mbarriers arrivals(1) at 32760 : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %x, %y = sm.ring_slot %ring[%c0] : !ring
  sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
  tile.return
}
}
// -----

// A launch gives what its kernel uses, and no more than there is.
#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !map) {
  %c1 = arith.constant 1 : index
  // expected-error @below {{verify-smem-offsets: gives 32768 bytes of shared memory, its kernel uses 32784; write 32784 [smem-launched]}}
  tile.launch @kernel grid(%c1) threads(384) shared_memory(32768) args(%a) : !map
  return
}
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring at [0, 16384] : !ring
  %full = sm.mbarriers arrivals(1) at 32768 : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %x, %y = sm.ring_slot %ring[%c0] : !ring
  sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
  tile.return
}
}
// -----

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !map) {
  %c1 = arith.constant 1 : index
  // expected-error @below {{verify-smem-offsets: gives 232449 bytes of shared memory, sm_90a has 232448 per CTA; take at most that [smem-limit]}}
  tile.launch @kernel grid(%c1) threads(384) shared_memory(232449) args(%a) : !map
  return
}
tile.kernel @kernel(%a: !map) {
  %ring = sm.ring at [0, 16384] : !ring
  %full = sm.mbarriers arrivals(1) at 32768 : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %x, %y = sm.ring_slot %ring[%c0] : !ring
  sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
  tile.return
}
}

// -----

// The second instance's buffer counts too.
!scratch = memref<16x32xf32, #tile.layout<(16,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @instances() {
  sm.roles {
    consumer warps(4) instances(2) {
      %first = sm.alloc at 0 : !scratch
      // expected-error @below {{verify-smem-offsets: the buffer lies at 2048, within 0 to 4096 of sm.alloc; take 4096 or more [smem-overlap]}}
      %second = sm.alloc at 2048 : !scratch
    }
  }
  tile.return
}
}
