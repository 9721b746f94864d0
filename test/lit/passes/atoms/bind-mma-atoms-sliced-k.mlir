// With two atoms along K, bind-mma-atoms adds what the warps along K have summed after the loop.
// RUN: lowtide-opt %s -p bind-mma-atoms | filecheck %s
// RUN: lowtide-opt %s -p bind-mma-atoms,lower-epilogue | filecheck %s --check-prefix=LOWERED

// Both warps hold the same elements of C, and each its own sixteen columns of A. After the sum a thread
// has four columns.
// CHECK-DAG: #[[C:.+]] = #tile.tv<threads (4,8,2):(32,1,0), values ((2,2),1,2):((16,8),16,128)>
// CHECK-DAG: #[[A:.+]] = #tile.tv<threads (4,8,2):(32,1,256), values ((2,2,2),1,1):((16,8,128),16,512)>
// CHECK-DAG: #[[ROWS:.+]] = #tile.tv<threads (4,16):(64,1), values (4,1,1):(16,16,256)>
// CHECK-DAG: #[[MMA:.+]] = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 2], permutation [16, 16, 32]>

!mat = memref<?x?xf32, strided<[?, 1]>>
!a = memref<16x32xbf16, #tile.layout<(16,32):(32,1)>, #gpu.address_space<workgroup>>
!b = memref<16x32xbf16, #tile.layout<(16,32):(32,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 2], permutation = [16, 16, 32]>,
  epilogue = <path = smem, math = rows, tile = [16, 16], swizzle = <0,2,3>>>
module attributes {tile.level = "pipelined", tile.target = "sm_80"} {
// CHECK-LABEL: tile.kernel @tn(
// CHECK:       %[[ACC:.+]] = scf.for
// CHECK:         sm.ldmatrix %{{.+}}[0, 0] by "ldmatrix.x4" : {{.*}} to !sm.fragment<16x32xbf16, #[[A]]>
// CHECK:         sm.mma_sync
// CHECK:       %[[SUM:.+]] = sm.sum_over_k %[[ACC]] by #[[MMA]] : !sm.fragment<16x16xf32, #[[C]]> to !sm.fragment<16x16xf32, #[[ROWS]]>
// CHECK:       tile.store %[[SUM]] into

// The second warp's tile stands below the first's in the scratch; rows of both are added in order, then stored.
// LOWERED-LABEL: tile.kernel @tn(
// LOWERED:       %[[SCRATCH:.+]] = sm.alloc : memref<32x16xf32
// LOWERED:       %[[ACC:.+]] = scf.for
// LOWERED:       %[[STACK:.+]] = sm.stack %[[ACC]] : !sm.fragment<16x16xf32, #{{.+}}> to !sm.fragment<32x16xf32, #[[TALL:.+]]>
// LOWERED-NEXT:  sm.store_shared %[[STACK]] to %[[SCRATCH]] by "st.shared.8"
// LOWERED-NEXT:  sm.barrier
// LOWERED-NEXT:  %[[FIRST:.+]] = sm.load_shared %[[SCRATCH]] at [0, 0] by "ld.shared.16"
// LOWERED-NEXT:  %[[SECOND:.+]] = sm.load_shared %[[SCRATCH]] at [16, 0] by "ld.shared.16"
// LOWERED-NEXT:  %[[SUM:.+]] = sm.map %[[FIRST]], %[[SECOND]]
// LOWERED:         arith.addf
// LOWERED:       %[[Y:.+]] = sm.map %[[SUM]]
// LOWERED:       sm.store_global %[[Y]]
// LOWERED-NOT:   sm.sum_over_k
tile.kernel @tn(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full f32]>} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = tile.splat 0.0 : !tile.tile<16x16xf32>
  %acc = scf.for %i = %c0 to %k step %c32 iter_args(%c = %zero) -> (!tile.tile<16x16xf32>) {
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile.tile<16x16xf32>
    scf.yield %next : !tile.tile<16x16xf32>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<16x16xf32>, !mat
  tile.return
}
}
