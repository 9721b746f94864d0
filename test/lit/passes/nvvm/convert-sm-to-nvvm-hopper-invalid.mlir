// convert-sm-to-nvvm refuses mbarriers without a place and what wgmma's descriptors and registers cannot say.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm --split-input-file --verify-diagnostics

// mbarriers without a place.
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  // expected-error @below {{convert-sm-to-nvvm: has no place in shared memory; run assign-smem-offsets first [mbarriers-place]}}
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
    }
  }
  tile.return
}
}
// -----

// Operands lie in panels, each a row of the swizzle wide. A row of A that is two,
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<2,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{[panel-layout]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// no swizzle,
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1)>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{convert-sm-to-nvvm: operand A lies in rows of 128 bytes with swizzle<0,3,3>; wgmma reads rows of 128, 64 or 32 bytes with swizzle<3,3,3>, <2,3,3> or <1,3,3> [descriptor-swizzle]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// rows that are padded,
!a = memref<128x64xbf16, #tile.layout<(128,64):(128,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{[panel-layout]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// columns that are not contiguous,
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(1,8), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{[panel-layout]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// or a row that is only half of one.
!a = memref<128x32xbf16, #tile.layout<(128,32):(32,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x32xbf16, #tile.layout<(8,32):(32,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{[descriptor-swizzle]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// An accumulator of two blocks of rows a warpgroup, held as one.
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{convert-sm-to-nvvm: the accumulator does not have the thread-value layout of the tiled mma [wgmma-layout]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// An accumulator of fewer rows than the warpgroups multiply at once, and one of other columns.
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{convert-sm-to-nvvm: an accumulator of 128×8: the warpgroups multiply 192×8 per step, along M [wgmma-accumulator]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [3, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{[wgmma-accumulator]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n16k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// One held otherwise.
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((8,128,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{[wgmma-layout]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// An atom that nobody knows.
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      // expected-error @below {{[unknown-atom]}}
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n12k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// A load whose boxes are not panels of the buffer.
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<128x32xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %map: !map) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(32768) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %full = sm.mbarriers arrivals(1) at 16384 : !sm.mbarriers<2>
  %as = sm.alloc at 0 : !a
  sm.roles {
    producer warps(4) {
      // expected-error @below {{convert-sm-to-nvvm: boxes have rows of 32 elements, the buffer panels of 64; both must be the row of the swizzle [tma-load-rows]}}
      sm.tma_load %map[%c0, %c0] to %as signals %full[%c0] : !map, !a, !sm.mbarriers<2>
    }
    consumer warps(4) {
    }
  }
  tile.return
}
}
// -----

// A hint of st.global's has no L2 policy.
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %map: !map) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(9216) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %full = sm.mbarriers arrivals(1) at 0 : !sm.mbarriers<1>
  %as = sm.alloc at 1024 : !a
  sm.roles {
    producer warps(4) {
      // expected-error @below {{convert-sm-to-nvvm: has cache(streaming), which is for st.global; TMA takes evict_first or evict_last [tma-hint]}}
      sm.tma_load %map[%c0, %c0] to %as signals %full[%c0] cache(streaming) : !map, !a, !sm.mbarriers<1>
    }
    consumer warps(4) {
    }
  }
  tile.return
}
}
// -----

// One thread does a producer's work: a barrier of all its threads would never open.
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  sm.roles {
    producer warps(4) {
      // expected-error @below {{convert-sm-to-nvvm: is run by a producer's one thread, which would wait for the others forever; leave it out [barrier-of-producer]}}
      sm.barrier
    }
    consumer warps(4) {
    }
  }
  tile.return
}
}

// -----

// Only a producer waits for a wave: it has one thread, and those who multiply go on.
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%ctas: index, %counter: memref<?xi32>) {
  tile.launch @waves grid(%ctas) threads(256) shared_memory(0) args(%counter, %ctas) : memref<?xi32>, index
  return
}
tile.kernel @waves(%counter: memref<?xi32>, %M: index) {
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      tile.work_tiles (%i, %j) of (%M, %M) by [64, 8] order(<row>) persistent {
        // expected-error @below {{convert-sm-to-nvvm: is run by the one thread of a producer, in its work tiles; take roles = cooperative(2) [await-wave-place]}}
        tile.await_wave %counter : memref<?xi32>
      }
    }
  }
  tile.return
}
}

// -----

// Rows that are no whole wgmmas.
#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x8xf32, #tv>
!rows = !sm.fragment<32x8xf32, #tile.tv<threads (4,8,4):(64,1,8), values ((2)):((32))>>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1], permutation [64, 8, 16]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(32768) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma tn %as, %bs, %zero by #mma row_groups : !a, !b, !acc -> !sm.pending<!acc>
      // expected-error @below {{convert-sm-to-nvvm: makes 32 of 128 rows readable, which are no whole wgmmas in flight [wgmma-rows-wait]}}
      %top, %rest = sm.mma_wait_rows 1, %p : !sm.pending<!acc> -> !rows
    }
  }
  tile.return
}
}
