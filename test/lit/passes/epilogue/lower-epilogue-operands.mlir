// lower-epilogue by TMA with full operands: consumers load parts of them to shared memory, ahead, and wait for them.
// RUN: lowtide-opt %s -p lower-epilogue,cse | filecheck %s

#mma = #sm.tiled_mma<wgmma.m64n40k16.f32.bf16, atoms [2, 1, 1]>
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,5),1,1):((128,8,1024),128,5120)>
#mma_of_one = #sm.tiled_mma<wgmma.m64n128k16.f32.bf16, atoms [1, 1, 1]>
#tv_of_one = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,16),1,1):((64,8,512),64,8192)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!wide = memref<?x?xf32, strided<[?, 1]>>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<40x64xbf16, #tile.layout<(40,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x40xf32, #tv>
!a_of_one = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b_of_one = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc_of_one = !sm.fragment<64x128xf32, #tv_of_one>

module attributes {tile.level = "atoms", tile.target = "sm_90a"} {
func.func @host(%d: !mat, %x: !mat, %y: !wide, %ctas: index) {
  tile.launch @shared grid(%ctas) threads(384) args(%d, %x, %y) : !mat, !mat, !wide
  tile.launch @in_turn grid(%ctas) threads(384) args(%d, %x) : !mat, !mat
  return
}

// Each operand has a buffer for whole parts and one for the narrow last part, with a map of 64 rows: those of a
// warpgroup. Both warpgroups arrive, each with the bytes of its rows.
// CHECK-LABEL: tile.kernel @shared(%
// CHECK-SAME:    xf32, strided<[?, 1]>>, %[[D16:[^:]+]]: !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>, %[[D8:[^:]+]]: !sm.tensor_map<64x8xbf16>, %[[X16:[^:]+]]: !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>, %[[X8:[^:]+]]: !sm.tensor_map<64x8xbf16>, %[[Y16:[^:]+]]: !sm.tensor_map<64x8xf32, swizzle<1,2,3>>, %[[Y8:[^:]+]]: !sm.tensor_map<64x8xf32>)
// CHECK:       %[[FIRST:.+]] = sm.alloc : memref<128x16xbf16,
// CHECK-NEXT:  %[[SECOND:.+]] = sm.alloc : memref<128x16xbf16,
// CHECK-NEXT:  %[[LAST:.+]] = sm.alloc : memref<128x8xbf16,
// CHECK-NEXT:  %[[XS:.+]] = sm.alloc : memref<128x16xbf16,
// CHECK-NEXT:  %[[XL:.+]] = sm.alloc : memref<128x8xbf16,
// CHECK-NEXT:  %[[YS:.+]] = sm.alloc : memref<128x16xf32,
// CHECK-NEXT:  %[[YL:.+]] = sm.alloc : memref<128x8xf32,
// CHECK-NEXT:  %[[FULL:.+]] = sm.mbarriers arrivals(2) : !sm.mbarriers<2>

// The first parts are on their way while the tile is multiplied. The slot of the narrow part is used once for each tile,
// so that its parity alternates.
// CHECK:       tile.work_tiles (%[[M:.+]], %[[N:.+]]) of {{.*}} iter_args(%[[PARITY:.+]] = %c0)
// CHECK-NEXT:    sm.mbarrier_arrive %[[FULL]][%c0] expects 6144
// CHECK-NEXT:    sm.tma_load %[[X16]][%[[M]], %[[N]]] to %[[XS]] signals %[[FULL]][%c0]
// CHECK-NEXT:    sm.tma_load %[[Y16]][%[[M]], %[[N]]] to %[[YS]] signals %[[FULL]][%c0]
// CHECK:         sm.mbarrier_arrive %[[FULL]][%c1] expects 3072
// CHECK:         %[[N32:.+]] = arith.addi %[[N]], %c32
// CHECK-NEXT:    sm.tma_load %[[X8]][%[[M]], %[[N32]]] to %[[XL]] signals %[[FULL]][%c1]
// CHECK-NEXT:    sm.tma_load %[[Y8]][%[[M]], %[[N32]]] to %[[YL]] signals %[[FULL]][%c1]
// CHECK:         sm.wgmma

// The buffer of D is free before the operands are read. The next part is loaded once all threads have read this one.
// CHECK:         sm.extract
// CHECK-NEXT:    sm.tma_store_wait read 2
// CHECK-NEXT:    sm.barrier warpgroup
// CHECK-NEXT:    sm.mbarrier_wait %[[FULL]][%c0, %c0]
// CHECK-NEXT:    %[[X:.+]] = sm.load_shared %[[XS]] by "ldmatrix.x4"
// CHECK-NEXT:    %[[Y:.+]] = sm.load_shared %[[YS]] by "ld.shared.8"
// CHECK-NEXT:    %[[MAPPED:.+]] = sm.map %{{.+}}, %[[X]], %[[Y]]
// CHECK:         sm.store_shared %[[MAPPED]] to %[[FIRST]] by "stmatrix.x4"
// CHECK-NEXT:    sm.fence_proxy_async
// CHECK-NEXT:    sm.barrier warpgroup
// CHECK-NEXT:    sm.tma_store %[[FIRST]] to %[[D16]][%[[M]], %[[N]]]
// CHECK-NEXT:    sm.mbarrier_arrive %[[FULL]][%c0] expects 6144
// CHECK:         %[[N16:.+]] = arith.addi %[[N]], %c16
// CHECK-NEXT:    sm.tma_load %[[X16]][%[[M]], %[[N16]]] to %[[XS]] signals %[[FULL]][%c0]
// CHECK-NEXT:    sm.tma_load %[[Y16]][%[[M]], %[[N16]]] to %[[YS]] signals %[[FULL]][%c0]
// CHECK:         sm.mbarrier_wait %[[FULL]][%c0, %c1]
// CHECK:         sm.tma_store %[[SECOND]] to %[[D16]][%[[M]], %[[N16]]]
// CHECK-NOT:     sm.tma_load
// CHECK:         sm.mbarrier_wait %[[FULL]][%c1, %[[PARITY]]]
// CHECK-NEXT:    sm.load_shared %[[XL]] by "ldmatrix.x2"
// CHECK-NEXT:    sm.load_shared %[[YL]] by "ld.shared.8"
// CHECK:         sm.tma_store %[[LAST]] to %[[D8]][%[[M]], %[[N32]]]
// CHECK-NEXT:    %[[NEXT:.+]] = arith.xori %[[PARITY]], %c1
// CHECK-NEXT:    tile.yield %[[NEXT]]
tile.kernel @shared(%d: !mat, %x: !mat, %y: !wide) attributes {schedule = #tile.schedule<
  grid = <tile = [128, 40], scheduler = persistent>,
  mainloop = <k = 64, roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 16], buffers = 2, swizzle = <1,3,3>>>} {
  %c128 = arith.constant 128 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(8) {
      tile.work_tiles (%m, %n) of (%c128, %c128) by [128, 40] order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc
        %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
        tile.store %acc into %d[%m, %n] operands(full %x : !mat, full %y : !wide) {
        ^bb0(%s: f32, %e: bf16, %f: f32):
          %g = arith.extf %e : bf16 to f32
          %h = arith.addf %s, %g : f32
          %i = arith.mulf %h, %f : f32
          %j = arith.truncf %i : f32 to bf16
          tile.yield %j : bf16
        } : !acc, !mat
      }
    }
  }
  tile.return
}

// Instances have buffers and mbarriers of their own. A slot that is used twice for each tile begins with the same parity.
// CHECK-LABEL: tile.kernel @in_turn(
// CHECK:       %[[FULL:.+]] = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
// CHECK:       consumer
// CHECK:       %[[INSTANCE:.+]] = sm.role_instance
// CHECK:       tile.work_tiles (%{{.+}}, %{{.+}}) of {{.*}} in_turn {
// CHECK-NEXT:    sm.mbarrier_arrive %[[FULL]][%[[INSTANCE]]] expects 8192
// CHECK-NEXT:    sm.tma_load
// CHECK:         sm.mbarrier_wait %[[FULL]][%[[INSTANCE]], %c0]
// CHECK:         sm.mbarrier_arrive %[[FULL]][%[[INSTANCE]]] expects 8192
// CHECK:         sm.tma_load
// CHECK:         sm.mbarrier_wait %[[FULL]][%[[INSTANCE]], %c1]
// CHECK-NOT:     sm.tma_load
tile.kernel @in_turn(%d: !mat, %x: !mat) attributes {schedule = #tile.schedule<
  grid = <tile = [64, 128], scheduler = persistent>,
  mainloop = <k = 64, roles = pingpong(2)>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [64, 64], buffers = 2, swizzle = <3,3,3>>>} {
  %c128 = arith.constant 128 : index
  %as = sm.alloc : !a_of_one
  %bs = sm.alloc : !b_of_one
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) instances(2) {
      tile.work_tiles (%m, %n) of (%c128, %c128) by [64, 128] order(<row>) persistent in_turn {
        %zero = sm.splat 0.0 : !acc_of_one
        %p = sm.wgmma tn %as, %bs, %zero by #mma_of_one : !a_of_one, !b_of_one, !acc_of_one -> !sm.pending<!acc_of_one>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc_of_one> -> !acc_of_one
        tile.store %acc into %d[%m, %n] operands(full %x : !mat) {
        ^bb0(%s: f32, %e: bf16):
          %g = arith.extf %e : bf16 to f32
          %h = arith.addf %s, %g : f32
          %j = arith.truncf %h : f32 to bf16
          tile.yield %j : bf16
        } : !acc_of_one, !mat
      }
    }
  }
  tile.return
}
}
