// What the verifiers of stores refuse.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!map = !sm.tensor_map<64x64xbf16>
!buffer = memref<96x64xbf16, #gpu.address_space<workgroup>>
tile.kernel @rows(%map: !map, %i: index) {
  %buffer = sm.alloc : !buffer
  // expected-error @below {{[moved-boxes]}}
  sm.tma_store %buffer to %map[%i, %i] : !buffer, !map
  tile.return
}

// -----

// A box of panels covers their columns together.
!map = !sm.tensor_map<2x64x64xbf16>
!buffer = memref<64x64xbf16, #gpu.address_space<workgroup>>
tile.kernel @panels(%map: !map, %i: index) {
  %buffer = sm.alloc : !buffer
  // expected-error @below {{[moved-boxes]}}
  sm.tma_store %buffer to %map[%i, %i] : !buffer, !map
  tile.return
}

// -----

// Boxes of a buffer by columns have its columns first.
!map = !sm.tensor_map<64x24xbf16>
!buffer = memref<64x24xbf16, #tile.layout<(64,24):(1,64)>, #gpu.address_space<workgroup>>
tile.kernel @columns(%map: !map, %i: index) {
  %buffer = sm.alloc : !buffer
  // expected-error @below {{[moved-boxes]}}
  sm.tma_store %buffer to %map[%i, %i] : !buffer, !map
  tile.return
}

// -----

!map = !sm.tensor_map<64x64xbf16>
!buffer = memref<64x64xf16, #gpu.address_space<workgroup>>
tile.kernel @elements(%map: !map, %i: index) {
  %buffer = sm.alloc : !buffer
  // expected-error @below {{[moved-elements]}}
  sm.tma_store %buffer to %map[%i, %i] : !buffer, !map
  tile.return
}

// -----

!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
!buffer = memref<64x64xbf16, #gpu.address_space<workgroup>>
tile.kernel @swizzle(%map: !map, %i: index) {
  %buffer = sm.alloc : !buffer
  // expected-error @below {{[moved-swizzle]}}
  sm.tma_store %buffer to %map[%i, %i] : !buffer, !map
  tile.return
}

// -----

!map = !sm.tensor_map<64x64xbf16>
tile.kernel @space(%map: !map, %i: index, %d: memref<64x64xbf16>) {
  // expected-error @below {{'sm.tma_store' op operand #0 must be memref in shared memory, but got 'memref<64x64xbf16>'}}
  sm.tma_store %d to %map[%i, %i] : memref<64x64xbf16>, !map
  tile.return
}

// -----

tile.kernel @pending() {
  // expected-error @below {{attribute 'pending' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  sm.tma_store_wait read -1
  tile.return
}

// -----

!map = !sm.tensor_map<64x64xbf16>
!buffer = memref<64x64xbf16, #gpu.address_space<workgroup>>
tile.kernel @hint(%map: !map, %i: index) {
  %buffer = sm.alloc : !buffer
  // expected-error @below {{one of the following enum values for attribute 'cache' [normal, evict_first, evict_last, streaming, write_through]}}
  sm.tma_store %buffer to %map[%i, %i] cache(often) : !buffer, !map
  tile.return
}

// -----

!y = !sm.fragment<64x16xbf16, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>>
tile.kernel @matrices(%y: !y) {
  %buffer = sm.alloc : memref<64x32xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{[copy-shapes]}}
  sm.store_shared %y to %buffer by "stmatrix.x4" : !y, memref<64x32xbf16, #gpu.address_space<workgroup>>
  tile.return
}
