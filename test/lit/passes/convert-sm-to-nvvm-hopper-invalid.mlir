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
  // expected-error @below {{convert-sm-to-nvvm: has no place in shared memory; run assign-smem-offsets first}}
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

// The descriptors say: 128-byte swizzle. Another swizzle of A,
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
      // expected-error @below {{convert-sm-to-nvvm: operand A must lie in rows of 128 bytes with swizzle<3,3,3>, K contiguous}}
      %p = sm.wgmma %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// none,
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
      // expected-error @below {{convert-sm-to-nvvm: operand A must lie in rows of 128 bytes with swizzle<3,3,3>, K contiguous}}
      %p = sm.wgmma %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
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
      // expected-error @below {{convert-sm-to-nvvm: operand A must lie in rows of 128 bytes with swizzle<3,3,3>, K contiguous}}
      %p = sm.wgmma %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// K that is not contiguous,
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
      // expected-error @below {{convert-sm-to-nvvm: operand B must lie in rows of 128 bytes with swizzle<3,3,3>, K contiguous}}
      %p = sm.wgmma %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// or rows of another length.
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
      // expected-error @below {{convert-sm-to-nvvm: operand A must lie in rows of 128 bytes with swizzle<3,3,3>, K contiguous}}
      %p = sm.wgmma %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// An accumulator of more rows than the warpgroups multiply.
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
      // expected-error @below {{convert-sm-to-nvvm: the accumulator is not held as the tiled mma holds it}}
      %p = sm.wgmma %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
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
      // expected-error @below {{convert-sm-to-nvvm: the accumulator is not held as the tiled mma holds it}}
      %p = sm.wgmma %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// wgmma starts from zeros or goes on.
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
      %zero = sm.splat 1.0 : !acc
      // expected-error @below {{convert-sm-to-nvvm: starts from an accumulator that is neither pending nor sm.splat 0.0}}
      %p = sm.wgmma %as, %bs, %zero by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
// -----

// An accumulator that was computed.
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
      %x = sm.splat 0.0 : !acc
      %y = sm.map %x : !acc {
      ^bb0(%e: f32):
        tile.yield %e : f32
      } : !acc
      // expected-error @below {{convert-sm-to-nvvm: starts from an accumulator that is neither pending nor sm.splat 0.0}}
      %p = sm.wgmma %as, %bs, %y by <wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
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
      // expected-error @below {{convert-sm-to-nvvm: unknown mma atom 'wgmma.m64n12k16.f32.bf16'}}
      %p = sm.wgmma %as, %bs, %zero by <wgmma.m64n12k16.f32.bf16, atoms [2, 1, 1]> : !a, !b, !acc -> !sm.pending<!acc>
    }
  }
  tile.return
}
}
