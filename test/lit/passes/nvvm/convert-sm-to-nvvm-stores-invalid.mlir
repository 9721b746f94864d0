// convert-sm-to-nvvm refuses stores that stmatrix, a TMA box, a cache operator or a barrier cannot be made of.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm --split-input-file --verify-diagnostics

// stmatrix stores elements of 16 bits,
!buffer = memref<64x16xf32, #tile.layout<(64,16):(16,1)>, #gpu.address_space<workgroup>>
!y = !sm.fragment<64x16xf32, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(4096) args()
  return
}
tile.kernel @kernel() {
  %buffer = sm.alloc at 0 : !buffer
  %y = sm.splat 1.0 : !y
  // expected-error @below {{convert-sm-to-nvvm: stores 16-bit elements by stmatrix, not f32; take st.shared.8 [stmatrix-bits]}}
  sm.store_shared %y to %buffer by "stmatrix.x4" : !y, !buffer
  tile.return
}
}
// -----

// as many as a thread has,
!buffer = memref<64x8xbf16, #tile.layout<(64,8):(8,1)>, #gpu.address_space<workgroup>>
!y = !sm.fragment<64x8xbf16, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(4096) args()
  return
}
tile.kernel @kernel() {
  %buffer = sm.alloc at 0 : !buffer
  %y = sm.splat 1.0 : !y
  // expected-error @below {{[matrix-elements]}}
  sm.store_shared %y to %buffer by "stmatrix.x4" : !y, !buffer
  tile.return
}
}
// -----

// held as the instruction holds them: here each thread has a row.
!buffer = memref<128x8xbf16, #tile.layout<(128,8):(8,1)>, #gpu.address_space<workgroup>>
!y = !sm.fragment<128x8xbf16, #tile.tv<threads (128):(1), values (8):(128)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(4096) args()
  return
}
tile.kernel @kernel() {
  %buffer = sm.alloc at 0 : !buffer
  %y = sm.splat 1.0 : !y
  // expected-error @below {{[ldmatrix-rows]}}
  sm.store_shared %y to %buffer by "stmatrix.x4" : !y, !buffer
  tile.return
}
}
// -----

// No such stmatrix.
!buffer = memref<64x16xbf16, #tile.layout<(64,16):(16,1)>, #gpu.address_space<workgroup>>
!y = !sm.fragment<64x16xbf16, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(4096) args()
  return
}
tile.kernel @kernel() {
  %buffer = sm.alloc at 0 : !buffer
  %y = sm.splat 1.0 : !y
  // expected-error @below {{[unknown-atom]}}
  sm.store_shared %y to %buffer by "stmatrix.x3" : !y, !buffer
  tile.return
}
}
// -----

// A buffer that does not lie in panels: TMA reads rows of 32 bytes without gaps.
!buffer = memref<64x32xbf16, #tile.layout<(64,32):(32,1), swizzle<1,3,3>>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: memref<?x?xbf16>, %ctas: index) {
  %map = sm.tensor_map %d : memref<?x?xbf16> to !map
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(4096) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %buffer = sm.alloc at 0 : !buffer
  // expected-error @below {{[panel-layout]}}
  sm.tma_store %buffer to %map[%c0, %c0] : !buffer, !map
  tile.return
}
}
// -----

// Boxes narrower than the panels,
!buffer = memref<64x32xbf16, #tile.layout<(64,32):(32,1)>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x16xbf16>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: memref<?x?xbf16>, %ctas: index) {
  %map = sm.tensor_map %d : memref<?x?xbf16> to !map
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(4096) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %buffer = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: stores boxes of 16 columns out of panels of 32; make them alike [tma-box-columns]}}
  sm.tma_store %buffer to %map[%c0, %c0] : !buffer, !map
  tile.return
}
}
// -----

// higher than what a warpgroup has,
!buffer = memref<128x32xbf16, #tile.layout<(128,32):(32,1)>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<128x32xbf16>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: memref<?x?xbf16>, %ctas: index) {
  %map = sm.tensor_map %d : memref<?x?xbf16> to !map
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(8192) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %buffer = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: stores boxes of 128 rows, but a warpgroup has 64 rows of the buffer [tma-box-rows]}}
  sm.tma_store %buffer to %map[%c0, %c0] : !buffer, !map
  tile.return
}
}
// -----

// that end inside the swizzle's pattern of eight rows,
!buffer = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<4x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: memref<?x?xbf16>, %ctas: index) {
  %map = sm.tensor_map %d : memref<?x?xbf16> to !map
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(8192) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %buffer = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: stores boxes of 4 rows, which do not begin where the swizzle's pattern does [tma-box-pattern]}}
  sm.tma_store %buffer to %map[%c0, %c0] : !buffer, !map
  tile.return
}
}
// -----

// or of panels.
!buffer = memref<64x32xbf16, #tile.layout<(64,(16,2)):(16,(1,1024)), swizzle<1,3,3>>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<2x64x16xbf16, swizzle<1,3,3>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: memref<?x?xbf16>, %ctas: index) {
  %map = sm.tensor_map %d : memref<?x?xbf16> to !map
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(4096) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %buffer = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: stores boxes of rows and columns; the map has boxes of 3 sides [tma-store-rank]}}
  sm.tma_store %buffer to %map[%c0, %c0] : !buffer, !map
  tile.return
}
}
// -----

// A producer's one thread has no warpgroup, to store rows or to wait for.
!buffer = memref<64x32xbf16, #tile.layout<(64,32):(32,1)>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x32xbf16>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: memref<?x?xbf16>, %ctas: index) {
  %map = sm.tensor_map %d : memref<?x?xbf16> to !map
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(4096) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %buffer = sm.alloc at 0 : !buffer
  sm.roles {
    producer warps(4) {
      // expected-error @below {{convert-sm-to-nvvm: splits 64 rows among the warpgroups of 1 threads [tma-store-split]}}
      sm.tma_store %buffer to %map[%c0, %c0] : !buffer, !map
    }
    consumer warps(4) {
    }
  }
  tile.return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(64) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  // expected-error @below {{convert-sm-to-nvvm: is run by 64 threads, not by whole warpgroups [barrier-warpgroups]}}
  sm.barrier warpgroup
  tile.return
}
}
// -----

// Hints of the one kind of store on the other.
!buffer = memref<64x32xbf16, #tile.layout<(64,32):(32,1)>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x32xbf16>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: memref<?x?xbf16>, %ctas: index) {
  %map = sm.tensor_map %d : memref<?x?xbf16> to !map
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(4096) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %buffer = sm.alloc at 0 : !buffer
  // expected-error @below {{[tma-hint]}}
  sm.tma_store %buffer to %map[%c0, %c0] cache(streaming) : !buffer, !map
  tile.return
}
}
// -----

!z = !sm.fragment<128x4xf32, #tile.tv<threads (128):(1), values (4):(128)>>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%e: !mat, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(0) args(%e) : !mat
  return
}
tile.kernel @kernel(%e: !mat) {
  %c0 = arith.constant 0 : index
  %z = sm.splat 1.0 : !z
  %view = tile.view %e[%c0, %c0] : !mat to !tile.view<128x4xf32>
  // expected-error @below {{convert-sm-to-nvvm: has cache(evict_last), which is for TMA; st.global takes streaming, write_through [st-global-hint]}}
  sm.store_global %z to %view by "st.global.8" cache(evict_last) : !z, !tile.view<128x4xf32>
  tile.return
}
}
// -----

// Barriers 1 and 2 are the roles', 3 would be a producer warpgroup's: those of 13 consumer warpgroups end at 16.
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(1792) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  sm.roles {
    producer warps(4) {
    }
    consumer warps(52) {
      // expected-error @below {{convert-sm-to-nvvm: needs barriers up to 16, but a CTA has 15; take fewer warpgroups [barrier-count]}}
      sm.barrier warpgroup
    }
  }
  tile.return
}
}
