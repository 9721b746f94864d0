// bind-mma-atoms with an FMA atom: each thread loads its own rows and columns by vector loads, and multiplies them.
// RUN: lowtide-opt %s -p bind-mma-atoms | filecheck %s
// RUN: lowtide-opt %s -p bind-mma-atoms,split-k-slices | filecheck %s --check-prefix=SLICES

// 8 x 4 threads: thread t holds rows 4·(t mod 8) to 4·(t mod 8) + 3 of A, whatever its column, and likewise of B.
// CHECK-DAG: #[[MMA:.+]] = #sm.tiled_mma<fma.m1n1k1.f32.f32, atoms [8, 4, 1] order #{{.+}}, permutation [#{{.+}}, #{{.+}}, 1]>
// CHECK-DAG: #[[A:.+]] = #tile.tv<threads (8,4):(4,0), values (1,4,2):(0,1,32)>
// CHECK-DAG: #[[B:.+]] = #tile.tv<threads (8,4):(0,4), values (1,4,2):(0,1,16)>
// CHECK-DAG: #[[C:.+]] = #tile.tv<threads (8,4):(4,128), values (1,4,4):(0,1,32)>
// CHECK-LABEL: module attributes {tile.level = "atoms", tile.target = "sm_80"}

!mat = memref<?x?xf32, strided<[?, 1]>>
!kept = memref<2x32xf32, #tile.layout<(2,32):(32,1)>, #gpu.address_space<workgroup>>
!transposed = memref<16x2xf32, #tile.layout<(16,2):(1,20)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<multiply = <atom = fma.m1n1k1, atoms = [8, 4, 1],
  atom_order = #tile.layout<(8,4,1):(1,8,32)>,
  permutation = [#tile.layout<(8,4):(4,1)>, #tile.layout<(4,4):(4,1)>, 1]>>
module attributes {tile.level = "pipelined", tile.target = "sm_80"} {
// A lies with M contiguous, so that its stage's rows are the fragment's columns; B's stage was transposed by its copy.
// Both are read along the contiguous dimension, four elements at a time.
// CHECK-LABEL: tile.kernel @nn
// CHECK:       %[[ZERO:.+]] = sm.splat 0.000000e+00 : !sm.fragment<32x16xf32, #[[C]]>
// CHECK:       %[[FA:.+]] = sm.load_shared %{{.+}} at [0, 0] by "ld.shared.16" trans : memref<2x32xf32, {{.*}}> to !sm.fragment<32x2xf32, #[[A]]>
// CHECK:       %[[FB:.+]] = sm.load_shared %{{.+}} at [0, 0] by "ld.shared.16" : memref<16x2xf32, {{.*}}> to !sm.fragment<16x2xf32, #[[B]]>
// CHECK:       sm.mma_sync %[[FA]], %[[FB]], %{{.+}} by #[[MMA]] : !sm.fragment<32x2xf32, #[[A]]>, !sm.fragment<16x2xf32, #[[B]]>, !sm.fragment<32x16xf32, #[[C]]>
// SLICES-LABEL: tile.kernel @nn
// SLICES:       sm.load_shared %{{.+}} at [0, 0] by "ld.shared.16" trans : {{.*}} to !sm.fragment<32x1xf32
// SLICES:       sm.load_shared %{{.+}} at [0, 0] by "ld.shared.16" : {{.*}} to !sm.fragment<16x1xf32
// SLICES:       sm.mma_sync
// SLICES:       sm.load_shared %{{.+}} at [1, 0] by "ld.shared.16" trans : {{.*}} to !sm.fragment<32x1xf32
// SLICES:       sm.load_shared %{{.+}} at [0, 1] by "ld.shared.16" : {{.*}} to !sm.fragment<16x1xf32
// SLICES:       sm.mma_sync
tile.kernel @nn(%as: !kept, %bs: !transposed, %d: !mat, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<nn, a = f32, b = f32, acc = f32, results = [full f32]>} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %zero = tile.splat 0.0 : !tile.tile<32x16xf32>
  %acc = scf.for %i = %c0 to %k step %c2 iter_args(%c = %zero) -> (!tile.tile<32x16xf32>) {
    %next = tile.mma nn %as, %bs, %c : !kept, !transposed, !tile.tile<32x16xf32>
    scf.yield %next : !tile.tile<32x16xf32>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<32x16xf32>, !mat
  tile.return
}
}
