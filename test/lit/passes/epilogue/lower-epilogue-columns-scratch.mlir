// lower-epilogue of a D by columns through scratch that is transposed: by TMA, and by threads.
// RUN: lowtide-opt %s -p lower-epilogue,cse | filecheck %s

#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,5),1,1):((128,8,1024),128,5120)>
#mma = #sm.tiled_mma<wgmma.m64n40k16.f32.bf16, atoms [2, 1, 1]>
!columns = memref<?x?xbf16, strided<[1, ?]>>
!a = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<40x64xbf16, #tile.layout<(40,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<128x40xf32, #tv>

// Each warpgroup has a panel of 64 rows, whose columns are rows of 128 bytes as they lie. A narrower part lies alike.
// CHECK-DAG: #[[WIDE:.+]] = #tile.layout<((64,2),24):((1,1536),64), swizzle<3,3,3>>
// CHECK-DAG: #[[NARROW:.+]] = #tile.layout<((64,2),16):((1,1024),64), swizzle<3,3,3>>
// CHECK-DAG: #[[PLAIN:.+]] = #tile.layout<(128,40):(1,128), swizzle<3,3,4>>
// CHECK-DAG: #[[RUNS:.+]] = #tile.tv<threads 256:4, values (4,1,5):(1,128,1024)>
// CHECK-LABEL: module attributes {tile.level = "epilogue", tile.target = "sm_90a"}
module attributes {tile.level = "atoms", tile.target = "sm_90a"} {

// The rows of boxes are columns of D, and its extent along them is that of its rows.
// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[HD:[^:]+]]: memref
// CHECK:       %[[ROWS:.+]] = memref.dim %[[HD]], %c0
// CHECK:       %[[OVER:.+]] = arith.remui %[[ROWS]], %c8
// CHECK:       cf.assert %{{.+}}, "epilogue.path = tma: M must be a multiple of 8,
// CHECK:       %[[HWIDE:.+]] = sm.tensor_map %[[HD]] : memref<?x?xbf16, strided<[1, ?]>> to !sm.tensor_map<24x64xbf16, swizzle<3,3,3>>
// CHECK:       %[[HNARROW:.+]] = sm.tensor_map %[[HD]] : memref<?x?xbf16, strided<[1, ?]>> to !sm.tensor_map<16x64xbf16, swizzle<3,3,3>>
// CHECK:       tile.launch @tma grid(%{{.+}}) threads(384) args(%[[HD]], %[[HWIDE]], %[[HNARROW]])
func.func @host(%d: !columns, %ctas: index) {
  tile.launch @tma grid(%ctas) threads(384) args(%d) : !columns
  tile.launch @threads grid(%ctas) threads(384) args(%d) : !columns
  return
}

// CHECK-LABEL: tile.kernel @tma(
// CHECK-SAME:    %[[MAP:[^:]+]]: !sm.tensor_map<24x64xbf16, swizzle<3,3,3>>, %[[REST:[^:]+]]: !sm.tensor_map<16x64xbf16, swizzle<3,3,3>>)
// CHECK:       %[[FIRST:.+]] = sm.alloc : memref<128x24xbf16, #[[WIDE]], #gpu.address_space<workgroup>>
// CHECK:       %[[SECOND:.+]] = sm.alloc : memref<128x16xbf16, #[[NARROW]], #gpu.address_space<workgroup>>
// CHECK:       tile.work_tiles (%[[M:.+]], %[[N:.+]]) of
// CHECK:         sm.store_shared %{{.+}} to %[[FIRST]] by "stmatrix.x2"
// CHECK:         sm.tma_store %[[FIRST]] to %[[MAP]][%[[M]], %[[N]]]
// CHECK:         %[[N24:.+]] = arith.addi %[[N]], %c24
// CHECK:         sm.store_shared %{{.+}} to %[[SECOND]] by "stmatrix.x4"
// CHECK:         sm.tma_store %[[SECOND]] to %[[REST]][%[[M]], %[[N24]]]
tile.kernel @tma(%d: !columns) attributes {schedule = #tile.schedule<
  grid = <tile = [128, 40], scheduler = persistent>,
  mainloop = <k = 64, roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [128, 24], swizzle = <3,3,3>>>} {
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
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          %y = arith.truncf %x : f32 to bf16
          tile.yield %y : bf16
        } : !acc, !columns
      }
    }
  }
  tile.return
}

// A thread reads and stores four elements of a column.
// CHECK-LABEL: tile.kernel @threads(
// CHECK-SAME:    %[[D:[^:]+]]: memref<?x?xbf16, strided<[1, ?]>>)
// CHECK:       %[[SCRATCH:.+]] = sm.alloc : memref<128x40xbf16, #[[PLAIN]], #gpu.address_space<workgroup>>
// CHECK:         sm.store_shared %{{.+}} to %[[SCRATCH]] by "stmatrix.x2"
// CHECK-NEXT:    sm.barrier
// CHECK-NEXT:    %[[Y:.+]] = sm.load_shared %[[SCRATCH]] by "ld.shared.8" : {{.*}} to !sm.fragment<128x40xbf16, #[[RUNS]]>
// CHECK-NEXT:    %[[TO:.+]] = tile.view %[[D]][
// CHECK-NEXT:    sm.store_global %[[Y]] to %[[TO]] by "st.global.8"
tile.kernel @threads(%d: !columns) attributes {schedule = #tile.schedule<
  grid = <tile = [128, 40], scheduler = persistent>,
  mainloop = <k = 64, roles = cooperative(2)>,
  multiply = <atoms = [2, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [128, 40], swizzle = <3,3,4>, store = 8>>} {
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
        tile.store %acc into %d[%m, %n] {
        ^bb0(%x: f32):
          %y = arith.truncf %x : f32 to bf16
          tile.yield %y : bf16
        } : !acc, !columns
      }
    }
  }
  tile.return
}
}
