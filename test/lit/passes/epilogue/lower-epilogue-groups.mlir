// lower-epilogue by TMA in groups of rows: the host maps the whole matrix. A part whose last rows belong to the next
// group is stored by threads, once no earlier store reads a buffer: later waits count groups of stores.
// RUN: lowtide-opt %s -p lower-epilogue,cse | filecheck %s

// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[HD:[^:]+]]: memref<?x64xbf16
// CHECK:         %[[HMAP:.+]] = sm.tensor_map %[[HD]] : {{.*}} to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK-LABEL: tile.kernel @kernel(
// CHECK-SAME:    %[[MAP:[^:]+]]: !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>)
// CHECK:         tile.work_tiles (%[[M:.+]], %[[N:.+]]) of {{.*}} groups(%{{.+}} to %[[END:.+]] of
// CHECK:           %[[OWN:.+]] = memref.subview
// CHECK:           %[[VALUE:.+]] = sm.map
// CHECK:           %[[LAST:.+]] = arith.addi %[[M]], %c64
// CHECK:           %[[WHOLE:.+]] = arith.cmpi sle, %[[LAST]], %[[END]]
// CHECK:           scf.if %[[WHOLE]] {
// CHECK-NEXT:        sm.tma_store_wait read 0
// CHECK-NEXT:        sm.barrier warpgroup
// CHECK-NEXT:        sm.store_shared %[[VALUE]] to %[[SCRATCH:.+]] by "stmatrix.x4"
// CHECK-NEXT:        sm.fence_proxy_async
// CHECK-NEXT:        sm.barrier warpgroup
// CHECK-NEXT:        sm.tma_store %[[SCRATCH]] to %[[MAP]][%[[M]], %[[N]]] cache(evict_first)
// CHECK-NEXT:      } else {
// CHECK-NEXT:        sm.tma_store_wait read 0
// CHECK-NEXT:        %[[WINDOW:.+]] = tile.view %[[OWN]][%[[M]], %[[N]]]
// CHECK-NEXT:        sm.store_global %[[VALUE]] to %[[WINDOW]] by "st.global.4" :
// CHECK-NEXT:      }
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,8),1,1):((64,8,512),64,4096)>
#mma = #sm.tiled_mma<wgmma.m64n64k16.f32.bf16, atoms [1, 1, 1]>
#schedule = #tile.schedule<grid = <tile = [64, 64], scheduler = persistent>, mainloop = <k = 64, stages = 1, agents = <producer = <warps = 4>, consumer = <warps = 4, instances = 1>>>, multiply = <atoms = [1, 1, 1]>, epilogue = <path = tma, math = registers, tile = [64, 64], swizzle = <3,3,3>, cache = evict_first>>
!mat = memref<?x64xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x64xf32, #tv>
module attributes {tile.level = "atoms", tile.target = "sm_90a"} {
func.func @host(%d: !mat, %ends: memref<4xi32>, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(256) args(%d, %ends) : !mat, memref<4xi32>
  return
}
tile.kernel @kernel(%d: !mat, %ends: memref<4xi32>) attributes {schedule = #schedule} {
  %rows = arith.constant 300 : index
  %columns = arith.constant 64 : index
  %as = sm.alloc : !a
  %bs = sm.alloc : !a
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      tile.work_tiles (%m, %n) of (%rows, %columns) by [64, 64] groups(%g to %end of %ends : memref<4xi32>)
          order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc
        %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !a, !acc -> !sm.pending<!acc>
        %acc, %r = sm.mma_wait 0, %p : !sm.pending<!acc> -> !acc
        %own = memref.subview %d[0, 0] [%end, 64] [1, 1] : !mat to !mat
        tile.store %acc into %own[%m, %n] {
        ^bb0(%x: f32):
          %y = arith.truncf %x : f32 to bf16
          tile.yield %y : bf16
        } : !acc, !mat
      }
    }
  }
  tile.return
}
}
