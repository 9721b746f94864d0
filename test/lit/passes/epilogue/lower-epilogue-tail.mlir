// lower-epilogue: the stores of one kernel share their scratch buffers. By TMA a lower tile has fewer parts of the same
// shape, and each loop waits for its own stores; through shared memory a lower part takes a prefix of the buffer.
// RUN: lowtide-opt %s -p lower-epilogue | filecheck %s

// CHECK-LABEL: tile.kernel @by_tma
// CHECK:         %[[FIRST:.+]] = sm.alloc : memref<64x8xf32, {{.*}}>
// CHECK-NEXT:    %[[SECOND:.+]] = sm.alloc : memref<64x8xf32, {{.*}}>
// CHECK-NOT:     sm.alloc
// CHECK:         tile.work_tiles {{.*}} by [128, 8]
// CHECK:           sm.tma_store %[[FIRST]]
// CHECK:           sm.tma_store %[[SECOND]]
// CHECK:         sm.tma_store_wait read 0
// CHECK:         tile.work_tiles {{.*}} by [64, 8]
// CHECK:           sm.tma_store_wait read 0
// CHECK:           sm.store_shared %{{.+}} to %[[FIRST]]
// CHECK:           sm.tma_store %[[FIRST]]
// CHECK-NOT:       sm.tma_store %
// CHECK:         sm.tma_store_wait read 0

// CHECK-LABEL: tile.kernel @by_threads
// CHECK:         %[[SCRATCH:.+]] = sm.alloc : memref<128x8xf32, {{.*}}>
// CHECK-NOT:     sm.alloc
// CHECK:         tile.work_tiles {{.*}} by [128, 8]
// CHECK:           sm.store_shared %{{.+}} to %[[SCRATCH]]
// CHECK:         tile.work_tiles {{.*}} by [64, 8]
// CHECK:           %[[PART:.+]] = sm.prefix %[[SCRATCH]] : memref<128x8xf32, {{.*}}> to memref<64x8xf32, {{.*}}>
// CHECK:           sm.store_shared %{{.+}} to %[[PART]]
#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
#tv_half = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1], permutation [64, 8, 16]>
!d = memref<?x?xf32, strided<[?, 1]>>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!half = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!acc = !sm.fragment<128x8xf32, #tv>
!acc_half = !sm.fragment<64x8xf32, #tv_half>
module attributes {tile.level = "atoms", tile.target = "sm_90a"} {
func.func @host(%d: !d, %ctas: index) {
  tile.launch @by_tma grid(%ctas) threads(256) args(%d) : !d
  tile.launch @by_threads grid(%ctas) threads(256) args(%d) : !d
  return
}
tile.kernel @by_tma(%d: !d) attributes {schedule = #tile.schedule<
  grid = <tile = [128, 8], scheduler = persistent, tail = halves>, mainloop = <k = 64, roles = cooperative(1)>,
  multiply = <atoms = [1, 1, 1]>, epilogue = <path = tma, math = registers, tile = [64, 8], buffers = 2, swizzle = <0,3,3>>>} {
  %c0 = arith.constant 0 : index
  %c256 = arith.constant 256 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      tile.work_tiles (%m, %n) of (%c256, %c256) by [128, 8] order(<row>) persistent part(full_waves) {
        %as, %bs = sm.ring_slot %ring[%c0] : !ring
        %zero = sm.splat 0.0 : !acc
        %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          tile.yield %x : f32
        } : !acc, !d
      }
      tile.work_tiles (%m, %n) of (%c256, %c256) by [64, 8] order(<row>) persistent part(tail_halves) {
        %as, %bs = sm.ring_slot %ring[%c0] : !ring
        %hs = sm.prefix %as : !a to !half
        %zero = sm.splat 0.0 : !acc_half
        %p = sm.wgmma tn %hs, %bs, %zero by #mma : !half, !b, !acc_half -> !sm.pending<!acc_half>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc_half> -> !acc_half
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          tile.yield %x : f32
        } : !acc_half, !d
      }
    }
  }
  tile.return
}
tile.kernel @by_threads(%d: !d) attributes {schedule = #tile.schedule<
  grid = <tile = [128, 8], scheduler = persistent, tail = halves>, mainloop = <k = 64, roles = cooperative(1)>,
  multiply = <atoms = [1, 1, 1]>, epilogue = <path = smem, math = registers, tile = [128, 8], swizzle = <0,3,3>>>} {
  %c0 = arith.constant 0 : index
  %c256 = arith.constant 256 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      tile.work_tiles (%m, %n) of (%c256, %c256) by [128, 8] order(<row>) persistent part(full_waves) {
        %as, %bs = sm.ring_slot %ring[%c0] : !ring
        %zero = sm.splat 0.0 : !acc
        %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !sm.pending<!acc>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          tile.yield %x : f32
        } : !acc, !d
      }
      tile.work_tiles (%m, %n) of (%c256, %c256) by [64, 8] order(<row>) persistent part(tail_halves) {
        %as, %bs = sm.ring_slot %ring[%c0] : !ring
        %hs = sm.prefix %as : !a to !half
        %zero = sm.splat 0.0 : !acc_half
        %p = sm.wgmma tn %hs, %bs, %zero by #mma : !half, !b, !acc_half -> !sm.pending<!acc_half>
        %acc, %retired = sm.mma_wait 0, %p : !sm.pending<!acc_half> -> !acc_half
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          tile.yield %x : f32
        } : !acc_half, !d
      }
    }
  }
  tile.return
}
}
