// assign-smem-offsets lays out shared memory, each buffer at a multiple of 1024 bytes, and tells the launch its size.
// RUN: lowtide-opt %s -p assign-smem-offsets | filecheck %s

!a = memref<32x24xbf16, #tile.layout<(32,24):(24,1)>, #gpu.address_space<workgroup>>
!b = memref<64x16xbf16, #tile.layout<(64,16):(16,1)>, #gpu.address_space<workgroup>>
!scratch = memref<16x32xf32, #tile.layout<(16,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {

// All stages of A lie together, three times 1536 bytes; B starts at the next multiple of 1024, and takes three times
// 2048; then what else is there. The size ends with the last buffer.
// CHECK-LABEL: func.func @launches
// CHECK:       tile.launch @one_ring grid(%{{.+}}) threads(32) shared_memory(13312) args()
// CHECK:       tile.launch @one_ring grid(%{{.+}}) threads(64) shared_memory(13312) args()
// CHECK:       tile.launch @nothing grid(%{{.+}}) threads(32) shared_memory(0) args()
func.func @launches(%ctas: index) {
  tile.launch @one_ring grid(%ctas) threads(32) args()
  tile.launch @one_ring grid(%ctas) threads(64) args()
  tile.launch @nothing grid(%ctas) threads(32) args()
  return
}

// CHECK-LABEL: tile.kernel @one_ring
// CHECK:       sm.alloc at 11264 : memref<16x32xf32,
// CHECK:       sm.ring at [0, 5120] :
// CHECK:       sm.ring_reuse
tile.kernel @one_ring() {
  %scratch = sm.alloc : !scratch
  %ring = sm.ring : !sm.ring<3 x [!a, !b]>
  %reused = sm.ring_reuse %ring : !sm.ring<3 x [!a, !b]> to !scratch
  tile.return
}

// CHECK-LABEL: tile.kernel @nothing
tile.kernel @nothing() {
  tile.return
}

// In a role with two instances each has its own buffer: 4096 bytes from the first of 2048 on, which fill whole units, and
// what follows lies behind both.
// CHECK-LABEL: tile.kernel @instances
// CHECK:       sm.alloc at 0 : memref<16x32xf32,
// CHECK:       sm.alloc at 4096 : memref<16x32xf32,
tile.kernel @instances() {
  sm.roles {
    consumer warps(4) instances(2) {
      %first = sm.alloc : !scratch
      %second = sm.alloc : !scratch
    }
  }
  tile.return
}
}
