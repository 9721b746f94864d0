// lower-epilogue stores several full results, one after the other; an amax takes its values from the same sm.map.
// RUN: lowtide-opt %s -p lower-epilogue,cse | filecheck %s

#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!buffer, !buffer]>

module attributes {tile.level = "atoms", tile.target = "sm_80"} {

// Each passes through the scratch by itself: a barrier stands before what overwrites it.
// CHECK-LABEL: tile.kernel @registers(
// CHECK-SAME:    %[[D:[^ :,]+]]: memref<?x?xbf16, strided<[?, 1]>>, %[[PRE:[^ :,]+]]: memref<?x?xbf16, strided<[?, 1]>>, %[[AMAX:[^ :,]+]]: memref<1xf32>
// CHECK:       %[[MAP:.+]]:3 = sm.map
// CHECK:         tile.yield %{{.+}}, %{{.+}}, %{{.+}} : bf16, bf16, f32
// CHECK:       %[[WINDOW:.+]] = tile.view %[[D]]
// CHECK:       %[[MOST:.+]] = sm.max_abs %[[MAP]]#2 in %[[WINDOW]]
// CHECK:       sm.store_shared %[[MAP]]#0 to %[[BUFFER:.+]] by
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  %[[ROWS:.+]] = sm.load_shared %[[BUFFER]]
// CHECK:       sm.store_global %[[ROWS]] to %[[WINDOW]]
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  sm.store_shared %[[MAP]]#1 to %[[BUFFER]] by
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  %[[MORE:.+]] = sm.load_shared %[[BUFFER]]
// CHECK:       %[[OTHER:.+]] = tile.view %[[PRE]]
// CHECK:       sm.store_global %[[MORE]] to %[[OTHER]]
// CHECK-NEXT:  sm.raise_max %[[MOST]] into %[[AMAX]]
tile.kernel @registers(%d: !mat, %pre: !mat, %amax: memref<1xf32>, %fa: !a, %fb: !b, %m: index, %n: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <1,3,3>>>} {
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  sm.cp_async_wait 0
  sm.barrier
  tile.store %acc into (%d, %pre, amax %amax)[%m, %n] {
  ^bb0(%x: f32):
    %p = arith.truncf %x : f32 to bf16
    %y = arith.negf %p : bf16
    tile.yield %y, %p, %x : bf16, bf16, f32
  } : !c, !mat, !mat, memref<1xf32>
  tile.return
}
}
