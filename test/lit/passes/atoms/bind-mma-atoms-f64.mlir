// bind-mma-atoms binds f64 to loads of neighbouring elements, since ldmatrix moves 16-bit elements only.
// RUN: lowtide-opt %s -p bind-mma-atoms | filecheck %s
// RUN: lowtide-opt %s -p bind-mma-atoms,split-k-slices | filecheck %s --check-prefix=SLICES

// Thread-value layouts of mma.m16n8k8 of .f64 (PTX ISA, "Matrix Fragments for mma.m16n8k8"), with K permuted so that a
// thread's two elements along K, four apart in the instruction, are neighbours.
// CHECK-DAG: #[[ORDER:.+]] = #tile.layout<(4,2):(2,1)>
// CHECK-DAG: #[[MMA:.+]] = #sm.tiled_mma<mma.m16n8k8.f64.f64, atoms [1, 1, 1], permutation [16, 8, #[[ORDER]]]>
// CHECK-DAG: #[[C:.+]] = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
// CHECK-DAG: #[[A:.+]] = #tile.tv<threads (4,8):(32,1), values ((2,2),1,2):((8,16),16,128)>
// CHECK-DAG: #[[B:.+]] = #tile.tv<threads (4,8):(16,1), values (2,1,2):(8,8,64)>
// CHECK-LABEL: module attributes {tile.level = "atoms", tile.target = "sm_90"}

!mat = memref<?x?xf64, strided<[?, 1]>>
!a = memref<16x16xf64, #tile.layout<(16,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<8x16xf64, #tile.layout<(8,16):(16,1)>, #gpu.address_space<workgroup>>
!bt = memref<16x8xf64, #tile.layout<(16,8):(8,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<multiply = <atom = mma.m16n8k8, atoms = [1, 1, 1], permutation = [16, 8, #tile.layout<(4,2):(2,1)>]>>
module attributes {tile.level = "pipelined", tile.target = "sm_90"} {
// CHECK-LABEL: tile.kernel @tn(
// CHECK-SAME:    %[[AS:.+]]: memref<16x16xf64, {{.*}}>, %[[BS:.+]]: memref<8x16xf64, {{.*}}>, %{{.+}}: memref<?x?
// CHECK:       sm.splat 0.000000e+00 : !sm.fragment<16x8xf64, #[[C]]>
// CHECK:         %[[FA:.+]] = sm.load_shared %[[AS]] at [0, 0] by "ld.shared.16" : {{.*}} to !sm.fragment<16x16xf64, #[[A]]>
// CHECK:         %[[FB:.+]] = sm.load_shared %[[BS]] at [0, 0] by "ld.shared.16" : {{.*}} to !sm.fragment<8x16xf64, #[[B]]>
// CHECK:         sm.mma_sync %[[FA]], %[[FB]], %{{.+}} by #[[MMA]]
// SLICES-LABEL: tile.kernel @tn(
// SLICES:        sm.load_shared %{{.+}} at [0, 0] by "ld.shared.16" : {{.*}} to !sm.fragment<16x8xf64
// SLICES-NEXT:   sm.load_shared %{{.+}} at [0, 0] by "ld.shared.16" : {{.*}} to !sm.fragment<8x8xf64
// SLICES-NEXT:   sm.mma_sync
// SLICES-NEXT:   sm.load_shared %{{.+}} at [0, 8] by "ld.shared.16" : {{.*}} to !sm.fragment<16x8xf64
// SLICES-NEXT:   sm.load_shared %{{.+}} at [0, 8] by "ld.shared.16" : {{.*}} to !sm.fragment<8x8xf64
// SLICES-NEXT:   sm.mma_sync
tile.kernel @tn(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<tn, a = f64, b = f64, acc = f64, results = [full f64]>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile.tile<16x8xf64>
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile.tile<16x8xf64>) {
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile.tile<16x8xf64>
    scf.yield %next : !tile.tile<16x8xf64>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f64):
    tile.yield %x : f64
  } : !tile.tile<16x8xf64>, !mat
  tile.return
}

// In `tt` B's rows are indexed by K: along them a thread has no neighbours, so its loads are of single elements.
// CHECK-LABEL: tile.kernel @tt
// CHECK:       sm.load_shared %{{.+}} at [0, 0] by "ld.shared.16" : memref<16x16xf64, {{.*}}> to !sm.fragment<16x16xf64, #[[A]]>
// CHECK:       sm.load_shared %{{.+}} at [0, 0] by "ld.shared.8" trans : memref<16x8xf64, {{.*}}> to !sm.fragment<8x16xf64, #[[B]]>
// SLICES-LABEL: tile.kernel @tt(
// SLICES:        sm.load_shared %{{.+}} at [8, 0] by "ld.shared.8" trans : {{.*}} to !sm.fragment<8x8xf64
tile.kernel @tt(%as: !a, %bs: !bt, %d: !mat, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<tt, a = f64, b = f64, acc = f64, results = [full f64]>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile.tile<16x8xf64>
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile.tile<16x8xf64>) {
    %next = tile.mma tt %as, %bs, %c : !a, !bt, !tile.tile<16x8xf64>
    scf.yield %next : !tile.tile<16x8xf64>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f64):
    tile.yield %x : f64
  } : !tile.tile<16x8xf64>, !mat
  tile.return
}
}
