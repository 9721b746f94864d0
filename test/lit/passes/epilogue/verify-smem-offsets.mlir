// verify-smem-offsets takes places that are aligned, apart, and within what the launch gives; it changes nothing.
// RUN: lowtide-opt %s -p verify-smem-offsets | filecheck %s

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!tile, !tile]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK-LABEL: func.func @host
// CHECK:       tile.launch @kernel grid(%c1) threads(384) shared_memory(32784)
// CHECK-LABEL: tile.kernel @kernel
// CHECK:       sm.ring at [0, 16384]
// CHECK:       sm.mbarriers arrivals(1) at 32768
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !map) {
  %c1 = arith.constant 1 : index
  tile.launch @kernel grid(%c1) threads(384) shared_memory(32784) args(%a) : !map
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
// What TMA and wgmma do not touch is swizzled from where it begins: 16 bytes will do. No place yet is no wrong place.
tile.kernel @threads_alone() {
  %ring = sm.ring at [16, 16416] : !ring
  %none = sm.ring : !ring
  %buffer = sm.alloc : !tile
  tile.return
}
}
