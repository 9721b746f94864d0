// lower-epilogue by TMA: scratch buffers in turn, stmatrix, a fence and a barrier, one map of D made on the host.
// RUN: lowtide-opt %s -p lower-epilogue,cse | filecheck %s

#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,16),1,1):((128,8,1024),128,16384)>
#mma = #sm.tiled_mma<wgmma.m64n128k16.f32.bf16, atoms [2, 1, 1]>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!wide = memref<?x?xf32, strided<[?, 1]>>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x128xf32, #tv>
#tv_rest = #tile.tv<threads (4,8,8):(512,1,16), values ((2,2,5),2,1):((256,8,2048),128,10240)>
#mma_rest = #sm.tiled_mma<wgmma.m64n40k16.f32.bf16, atoms [2, 1, 1]>
!a_rest = memref<256x64xbf16, #tile.layout<(256,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b_rest = memref<40x64xbf16, #tile.layout<(40,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc_rest = !sm.fragment<256x40xf32, #tv_rest>
#tv_turns = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,5),1,1):((128,8,1024),128,5120)>
!acc_turns = !sm.fragment<128x40xf32, #tv_turns>

// A row of a box is what the swizzle permutes: a part of 128 columns lies in two panels, one of 64 in one.
// CHECK-DAG: #[[ONE:.+]] = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
// CHECK-DAG: #[[TWO:.+]] = #tile.layout<(128,(64,2)):(64,(1,8192)), swizzle<3,3,3>>
// CHECK-DAG: #[[F32:.+]] = #tile.layout<(128,32):(32,1), swizzle<3,2,3>>
// CHECK-DAG: #[[WIDE:.+]] = #tile.layout<(128,16):(16,1), swizzle<1,3,3>>
// CHECK-DAG: #[[NARROW:.+]] = #tile.layout<(128,8):(8,1)>
// CHECK-DAG: #[[PART:.+]] = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,8),1,1):((128,8,1024),128,8192)>
// CHECK-LABEL: module attributes {tile.level = "epilogue", tile.target = "sm_90a"}
module attributes {tile.level = "atoms", tile.target = "sm_90a"} {

// The host makes the map and passes it behind the other arguments; a box is what one warpgroup has of a panel.
// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[HD:[^:]+]]: memref
// TMA stores whole 16 bytes: 8 elements of bf16.
// CHECK:       %[[COLUMNS:.+]] = memref.dim %[[HD]], %c1
// CHECK:       %[[OVER:.+]] = arith.remui %[[COLUMNS]], %c8
// CHECK:       %[[WHOLE:.+]] = arith.cmpi eq, %[[OVER]], %c0
// CHECK:       cf.assert %[[WHOLE]], "epilogue.path = tma: N must be a multiple of 8, since TMA stores whole 16 bytes and would overwrite what lies behind a row of D; pad N, or compile with epilogue.path = smem"
// CHECK-NEXT:  %[[HMAP:.+]] = sm.tensor_map %[[HD]] : {{.*}} to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK-NEXT:  tile.launch @two grid(%{{.+}}) threads(384) args(%[[HD]], %[[HMAP]])

// Parts of two widths take two maps of one matrix.
// CHECK-DAG:   %[[HWIDE:.+]] = sm.tensor_map %[[HD]] : {{.*}} to !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
// CHECK-DAG:   %[[HNARROW:.+]] = sm.tensor_map %[[HD]] : {{.*}} to !sm.tensor_map<64x8xbf16>
// CHECK:       tile.launch @rest grid(%{{.+}}) threads(384) args(%[[HD]], %[[HWIDE]], %[[HNARROW]])
func.func @host(%d: !mat, %e: !wide, %ctas: index) {
  tile.launch @two grid(%ctas) threads(384) args(%d) : !mat
  tile.launch @one grid(%ctas) threads(384) args(%d) : !mat
  tile.launch @f32 grid(%ctas) threads(384) args(%e) : !wide
  tile.launch @rest grid(%ctas) threads(384) args(%d) : !mat
  tile.launch @turns grid(%ctas) threads(384) args(%e) : !wide
  return
}

// Two buffers, two parts, each its own. Those of the operands stand before them.
// CHECK-LABEL: tile.kernel @two(
// CHECK-SAME:    %[[D:[^:]+]]: memref<?x?xbf16, strided<[?, 1]>>, %[[MAP:[^:]+]]: !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>)
// CHECK:       sm.alloc : memref<128x64xbf16, #[[ONE]], #gpu.address_space<workgroup>>
// CHECK:       sm.alloc : memref<128x64xbf16, #[[ONE]], #gpu.address_space<workgroup>>
// CHECK:       %[[FIRST:.+]] = sm.alloc : memref<128x64xbf16, #[[ONE]], #gpu.address_space<workgroup>>
// CHECK:       %[[SECOND:.+]] = sm.alloc : memref<128x64xbf16, #[[ONE]], #gpu.address_space<workgroup>>
// CHECK:       tile.work_tiles (%[[M:.+]], %[[N:.+]]) of
// CHECK:         %[[ACC:.+]], %{{.+}} = sm.mma_wait 0,

// The arithmetic comes before the wait: it needs no buffer.
// CHECK:         %[[LEFT:.+]] = sm.extract %[[ACC]][0, 0] : {{.*}} to !sm.fragment<128x64xf32, #[[PART]]>
// CHECK:         %[[Y:.+]] = sm.map %[[LEFT]]
// CHECK:         } : !sm.fragment<128x64xbf16, #[[PART]]>
// CHECK-NEXT:    sm.tma_store_wait read 1
// CHECK-NEXT:    sm.barrier warpgroup
// CHECK-NEXT:    sm.store_shared %[[Y]] to %[[FIRST]] by "stmatrix.x4"
// CHECK-NEXT:    sm.fence_proxy_async
// CHECK-NEXT:    sm.barrier warpgroup
// CHECK-NEXT:    sm.tma_store %[[FIRST]] to %[[MAP]][%[[M]], %[[N]]] cache(evict_first)

// CHECK:         %[[N64:.+]] = arith.addi %[[N]], %c64
// CHECK:         %[[Z:.+]] = sm.map
// CHECK:         sm.tma_store_wait read 1
// CHECK-NEXT:    sm.barrier warpgroup
// CHECK-NEXT:    sm.store_shared %[[Z]] to %[[SECOND]] by "stmatrix.x4"
// CHECK-NEXT:    sm.fence_proxy_async
// CHECK-NEXT:    sm.barrier warpgroup
// CHECK-NEXT:    sm.tma_store %[[SECOND]] to %[[MAP]][%[[M]], %[[N64]]] cache(evict_first)
// CHECK-NEXT:  }

// Shared memory lives until it has been read.
// CHECK-NEXT:  sm.tma_store_wait read 0
// CHECK-NOT:   tile.store
tile.kernel @two(%d: !mat) attributes {schedule = #tile.schedule<
  grid = <tile = [128, 128], scheduler = persistent>,
  mainloop = <k = 64, roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 64], buffers = 2, swizzle = <3,3,3>, cache = evict_first>>} {
  %c128 = arith.constant 128 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      tile.work_tiles (%m, %n) of (%c128, %c128) by [128, 128] order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc
        %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          %y = arith.truncf %x : f32 to bf16
          tile.yield %y : bf16
        } : !acc, !mat
      }
    }
  }
  tile.return
}

// One buffer of two panels: nothing may be in flight when it is written.
// CHECK-LABEL: tile.kernel @one(
// CHECK:       %[[BUFFER:.+]] = sm.alloc : memref<128x128xbf16, #[[TWO]], #gpu.address_space<workgroup>>
// CHECK-NOT:   sm.extract
// CHECK:       sm.tma_store_wait read 0
// CHECK-NEXT:  sm.barrier warpgroup
// CHECK-NEXT:  sm.store_shared %{{.+}} to %[[BUFFER]] by "stmatrix.x4"
// CHECK-NEXT:  sm.fence_proxy_async
// CHECK-NEXT:  sm.barrier warpgroup
// CHECK-NEXT:  sm.tma_store %[[BUFFER]] to %{{.+}} : memref<128x128xbf16, #[[TWO]], #gpu.address_space<workgroup>>, !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK:       sm.tma_store_wait read 0
tile.kernel @one(%d: !mat) attributes {schedule = #tile.schedule<
  grid = <tile = [128, 128], scheduler = persistent>,
  mainloop = <k = 64, roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 128], swizzle = <3,3,3>>>} {
  %c128 = arith.constant 128 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      tile.work_tiles (%m, %n) of (%c128, %c128) by [128, 128] order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc
        %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          %y = arith.truncf %x : f32 to bf16
          tile.yield %y : bf16
        } : !acc, !mat
      }
    }
  }
  tile.return
}

// Elements of 32 bits have no stmatrix, and half as many to a row of a box.
// CHECK-LABEL: tile.kernel @f32(
// CHECK:       %[[BUFFER:.+]] = sm.alloc : memref<128x32xf32, #[[F32]], #gpu.address_space<workgroup>>
// CHECK:       sm.store_shared %{{.+}} to %[[BUFFER]] by "st.shared.8"
// CHECK:       sm.tma_store %[[BUFFER]] to %{{.+}} : memref<128x32xf32, #[[F32]], #gpu.address_space<workgroup>>, !sm.tensor_map<64x32xf32, swizzle<3,2,3>>
tile.kernel @f32(%d: !wide) attributes {schedule = #tile.schedule<
  grid = <tile = [128, 128], scheduler = persistent>,
  mainloop = <k = 64, roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 32], swizzle = <3,2,3>>>} {
  %c128 = arith.constant 128 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      tile.work_tiles (%m, %n) of (%c128, %c128) by [128, 128] order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc
        %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          tile.yield %x : f32
        } : !acc, !wide
      }
    }
  }
  tile.return
}

// 40 columns in parts of 16: what is left, 8, is a part with a buffer and a map of its own, without a swizzle. A wait
// leaves in flight what was started since its buffer was read: in the order wide, wide, narrow always the last two.
// CHECK-LABEL: tile.kernel @rest(
// CHECK-SAME:    %[[RWIDE:[^:]+]]: !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>, %[[RNARROW:[^:]+]]: !sm.tensor_map<64x8xbf16>)
// CHECK:       %[[FIRST:.+]] = sm.alloc : memref<128x16xbf16, #[[WIDE]], #gpu.address_space<workgroup>>
// CHECK:       %[[SECOND:.+]] = sm.alloc : memref<128x16xbf16, #[[WIDE]], #gpu.address_space<workgroup>>
// CHECK:       %[[REST:.+]] = sm.alloc : memref<128x8xbf16, #[[NARROW]], #gpu.address_space<workgroup>>
// CHECK-NOT:   sm.alloc : memref<128x8
// CHECK:       tile.work_tiles (%[[M:.+]], %[[N:.+]]) of
// CHECK:         sm.extract %{{.+}}[0, 0] : {{.*}} to !sm.fragment<128x16xf32,
// CHECK:         sm.tma_store_wait read 2
// CHECK:         sm.store_shared %{{.+}} to %[[FIRST]] by "stmatrix.x4"
// CHECK:         sm.tma_store %[[FIRST]] to %[[RWIDE]][%[[M]], %[[N]]]
// CHECK:         sm.extract %{{.+}}[0, 16] : {{.*}} to !sm.fragment<128x16xf32,
// CHECK:         %[[N16:.+]] = arith.addi %[[N]], %c16
// CHECK:         sm.tma_store_wait read 2
// CHECK:         sm.store_shared %{{.+}} to %[[SECOND]] by "stmatrix.x4"
// CHECK:         sm.tma_store %[[SECOND]] to %[[RWIDE]][%[[M]], %[[N16]]]
// CHECK:         sm.extract %{{.+}}[0, 32] : {{.*}} to !sm.fragment<128x8xf32,
// CHECK:         %[[N32:.+]] = arith.addi %[[N]], %c32
// CHECK:         sm.tma_store_wait read 2
// CHECK:         sm.store_shared %{{.+}} to %[[REST]] by "stmatrix.x2"
// CHECK:         sm.tma_store %[[REST]] to %[[RNARROW]][%[[M]], %[[N32]]]
// CHECK:         sm.extract %{{.+}}[128, 0] : {{.*}} to !sm.fragment<128x16xf32,
// CHECK:         %[[M128:.+]] = arith.addi %[[M]], %c128
// CHECK:         sm.tma_store_wait read 2
// CHECK:         sm.store_shared %{{.+}} to %[[FIRST]] by "stmatrix.x4"
// CHECK:         sm.tma_store %[[FIRST]] to %[[RWIDE]][%[[M128]], %[[N]]]
// CHECK:         sm.extract %{{.+}}[128, 16] : {{.*}} to !sm.fragment<128x16xf32,
// CHECK:         sm.tma_store_wait read 2
// CHECK:         sm.store_shared %{{.+}} to %[[SECOND]] by "stmatrix.x4"
// CHECK:         sm.tma_store %[[SECOND]] to %[[RWIDE]][%[[M128]], %[[N16]]]
// CHECK:         sm.extract %{{.+}}[128, 32] : {{.*}} to !sm.fragment<128x8xf32,
// CHECK:         sm.tma_store_wait read 2
// CHECK:         sm.store_shared %{{.+}} to %[[REST]] by "stmatrix.x2"
// CHECK:         sm.tma_store %[[REST]] to %[[RNARROW]][%[[M128]], %[[N32]]]
// CHECK-NEXT:  }
// CHECK-NEXT:  sm.tma_store_wait read 0
tile.kernel @rest(%d: !mat) attributes {schedule = #tile.schedule<
  grid = <tile = [256, 40], scheduler = persistent>,
  mainloop = <k = 64, roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 16], buffers = 2, swizzle = <1,3,3>>>} {
  %c256 = arith.constant 256 : index
  %as = sm.alloc : !a_rest
  %bs = sm.alloc : !b_rest
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      tile.work_tiles (%m, %n) of (%c256, %c256) by [256, 40] order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc_rest
        %p = sm.wgmma tn %as, %bs, %zero by #mma_rest : !a_rest, !b_rest, !acc_rest -> !sm.pending<!acc_rest>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc_rest> -> !acc_rest
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          %y = arith.truncf %x : f32 to bf16
          tile.yield %y : bf16
        } : !acc_rest, !mat
      }
    }
  }
  tile.return
}

// One buffer for the wide parts: the second has nothing in flight that it may leave, the narrow one has both.
// CHECK-LABEL: tile.kernel @turns(
// CHECK:       %[[BUFFER:.+]] = sm.alloc : memref<128x16xf32, {{.*}}, #gpu.address_space<workgroup>>
// CHECK-NEXT:  %[[REST:.+]] = sm.alloc : memref<128x8xf32, {{.*}}, #gpu.address_space<workgroup>>
// CHECK:       sm.tma_store_wait read 1
// CHECK:       sm.store_shared %{{.+}} to %[[BUFFER]] by "st.shared.8"
// CHECK:       sm.tma_store_wait read 0
// CHECK:       sm.store_shared %{{.+}} to %[[BUFFER]] by "st.shared.8"
// CHECK:       sm.tma_store_wait read 2
// CHECK:       sm.store_shared %{{.+}} to %[[REST]] by "st.shared.8"
// CHECK:       sm.tma_store %[[REST]] to %{{.+}} : {{.*}}, !sm.tensor_map<64x8xf32>
// CHECK-NEXT:  }
// CHECK-NEXT:  sm.tma_store_wait read 0
tile.kernel @turns(%d: !wide) attributes {schedule = #tile.schedule<
  grid = <tile = [128, 40], scheduler = persistent>,
  mainloop = <k = 64, roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 16], swizzle = <2,2,3>>>} {
  %c256 = arith.constant 256 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !b_rest
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      tile.work_tiles (%m, %n) of (%c256, %c256) by [128, 40] order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc_turns
        %p = sm.wgmma tn %as, %bs, %zero by #mma_rest : !a, !b_rest, !acc_turns -> !sm.pending<!acc_turns>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc_turns> -> !acc_turns
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          tile.yield %x : f32
        } : !acc_turns, !wide
      }
    }
  }
  tile.return
}
}
