// split-k-slices cuts sm.mma_sync along K into steps of one atom, each with fragments loaded for it alone.
// RUN: lowtide-opt %s -p split-k-slices | filecheck %s

#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,3):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,3):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
#tv_a1 = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b1 = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_a2 = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,2):((32,8,256),16,512)>
#tv_b2 = #tile.tv<threads (4,8):(64,1), values ((2,2),4,2):((32,256),8,512)>
!c = !sm.fragment<32x32xf32, #tv_c>
!rows = memref<32x48xbf16, #tile.layout<(32,48):(48,1)>, #gpu.address_space<workgroup>>
!columns = memref<48x32xbf16, #tile.layout<(48,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.level = "atoms", tile.target = "sm_80"} {

// Three slices, one after the other through the accumulator. A lies with K along its rows, B with K down its columns
// (ldmatrix transposes): each load starts where its slice does.
// CHECK-DAG:   #[[A:.+]] = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
// CHECK-DAG:   #[[B:.+]] = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
// CHECK-LABEL: tile.kernel @three_slices(
// CHECK-SAME:    %[[AS:.+]]: memref<32x48xbf16, {{.*}}>, %[[BS:.+]]: memref<48x32xbf16
// CHECK:       %[[C0:.+]] = sm.splat
// CHECK:       %[[A0:.+]] = sm.ldmatrix %[[AS]][0, 0] by "ldmatrix.x4" : {{.*}} to !sm.fragment<32x16xbf16, #[[A]]>
// CHECK:       %[[B0:.+]] = sm.ldmatrix %[[BS]][0, 0] by "ldmatrix.x4" trans : {{.*}} to !sm.fragment<32x16xbf16, #[[B]]>
// CHECK:       %[[C1:.+]] = sm.mma_sync %[[A0]], %[[B0]], %[[C0]] by #tiled_mma
// CHECK:       %[[A1:.+]] = sm.ldmatrix %[[AS]][0, 16] by "ldmatrix.x4" :
// CHECK:       %[[B1:.+]] = sm.ldmatrix %[[BS]][16, 0] by "ldmatrix.x4" trans :
// CHECK:       %[[C2:.+]] = sm.mma_sync %[[A1]], %[[B1]], %[[C1]] by #tiled_mma
// CHECK:       %[[A2:.+]] = sm.ldmatrix %[[AS]][0, 32] by "ldmatrix.x4" :
// CHECK:       %[[B2:.+]] = sm.ldmatrix %[[BS]][32, 0] by "ldmatrix.x4" trans :
// CHECK:       %{{.+}} = sm.mma_sync %[[A2]], %[[B2]], %[[C2]] by #tiled_mma
// CHECK-NOT:   sm.mma_sync
// CHECK:       tile.return
tile.kernel @three_slices(%as: !rows, %bs: !columns) {
  %c = sm.splat 0.0 : !c
  %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" : !rows to !sm.fragment<32x48xbf16, #tv_a>
  %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x4" trans : !columns to !sm.fragment<32x48xbf16, #tv_b>
  %c1 = sm.mma_sync %fa, %fb, %c by #mma : !sm.fragment<32x48xbf16, #tv_a>, !sm.fragment<32x48xbf16, #tv_b>, !c
  tile.return
}

// What is one slice already stays as it is.
// CHECK-LABEL: tile.kernel @one_slice
// CHECK-COUNT-1: sm.mma_sync
// CHECK-NOT:   sm.mma_sync
// CHECK:       tile.return
tile.kernel @one_slice(%as: !rows, %bs: !columns) {
  %c = sm.splat 0.0 : !c
  %fa = sm.ldmatrix %as[0, 32] by "ldmatrix.x4" : !rows to !sm.fragment<32x16xbf16, #tv_a1>
  %fb = sm.ldmatrix %bs[32, 0] by "ldmatrix.x4" trans : !columns to !sm.fragment<32x16xbf16, #tv_b1>
  %c1 = sm.mma_sync %fa, %fb, %c by #mma : !sm.fragment<32x16xbf16, #tv_a1>, !sm.fragment<32x16xbf16, #tv_b1>, !c
  tile.return
}

// A load that starts further on in its buffer, and is read twice: the offsets add up, and both readers get slices.
// CHECK-LABEL: tile.kernel @shared_load
// CHECK:       sm.ldmatrix %{{.+}}[0, 16]
// CHECK:       sm.mma_sync
// CHECK:       sm.ldmatrix %{{.+}}[0, 32]
// CHECK-COUNT-3: sm.mma_sync
// CHECK:       tile.return
tile.kernel @shared_load(%as: !rows, %bs: !columns) {
  %c = sm.splat 0.0 : !c
  %fa = sm.ldmatrix %as[0, 16] by "ldmatrix.x4" : !rows to !sm.fragment<32x32xbf16, #tv_a2>
  %fb = sm.ldmatrix %bs[16, 0] by "ldmatrix.x4" trans : !columns to !sm.fragment<32x32xbf16, #tv_b2>
  %c1 = sm.mma_sync %fa, %fb, %c by #mma : !sm.fragment<32x32xbf16, #tv_a2>, !sm.fragment<32x32xbf16, #tv_b2>, !c
  %c2 = sm.mma_sync %fa, %fb, %c1 by #mma : !sm.fragment<32x32xbf16, #tv_a2>, !sm.fragment<32x32xbf16, #tv_b2>, !c
  tile.return
}
}
