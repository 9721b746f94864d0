// bind-mma-atoms binds tile.mma to the schedule's tiled mma: ldmatrix of both operands, then mma.sync on fragments.
// RUN: lowtide-opt %s -p bind-mma-atoms | filecheck %s

// Thread-value layouts of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"), as indices of a tile in
// column-major order: lane t holds rows t/4 and t/4 + 8, and pairs of columns from 2·(t mod 4) on.
// CHECK-DAG: #[[MMA:.+]] = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
// CHECK-DAG: #[[C:.+]] = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
// CHECK-DAG: #[[A:.+]] = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
// CHECK-DAG: #[[B:.+]] = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
// CHECK-DAG: #{{.+}} = #sm.tiled_mma<mma.m16n8k16.f16.f16, atoms [1, 1, 1], permutation [16, 16, 16]>
// CHECK-DAG: #{{.+}} = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 1, 1], permutation [32, 16, 16]>
// CHECK-DAG: #{{.+}} = #tile.tv<threads (4,8,2):(64,1,16), values ((2,2,2),1,1):((32,8,256),32,512)>
// CHECK-DAG: #{{.+}} = #tile.tv<threads (4,8,2):(64,1,0), values ((2,2),4,1):((32,256),8,512)>
// CHECK-LABEL: module attributes {tile.level = "atoms", tile.target = "sm_80"}

!mat = memref<?x?xbf16, strided<[?, 1]>>
!rows = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!columns = memref<16x32xbf16, #tile.layout<(16,32):(32,1)>, #gpu.address_space<workgroup>>
!hrows = memref<32x16xf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!hcolumns = memref<16x32xf16, #tile.layout<(16,32):(32,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16]>>
module attributes {tile.level = "pipelined", tile.target = "sm_80"} {
// The accumulator is a fragment wherever it goes: where it starts, around the loop, into the store. What else the loop
// carries stays.
// CHECK-LABEL: tile.kernel @tn(
// CHECK-SAME:    %[[AS:.+]]: memref<32x16xbf16, {{.*}}>, %[[BS:.+]]: memref<32x16xbf16, {{.*}}>, %{{.+}}: memref<?x?
// CHECK:       %[[ZERO:.+]] = sm.splat 0.000000e+00 : !sm.fragment<32x32xf32, #[[C]]>
// CHECK:       %[[SUM:.+]]:2 = scf.for {{.*}} iter_args(%[[N:.+]] = %c0, %[[ACC:.+]] = %[[ZERO]])
// CHECK:         %[[FA:.+]] = sm.ldmatrix %[[AS]][0, 0] by "ldmatrix.x4" : {{.*}} to !sm.fragment<32x16xbf16, #[[A]]>
// CHECK:         %[[FB:.+]] = sm.ldmatrix %[[BS]][0, 0] by "ldmatrix.x4" : {{.*}} to !sm.fragment<32x16xbf16, #[[B]]>
// CHECK:         %[[NEXT:.+]] = sm.mma_sync %[[FA]], %[[FB]], %[[ACC]] by #[[MMA]] : !sm.fragment<32x16xbf16, #[[A]]>, !sm.fragment<32x16xbf16, #[[B]]>, !sm.fragment<32x32xf32, #[[C]]>
// CHECK:         scf.yield %{{.+}}, %[[NEXT]] : index, !sm.fragment<32x32xf32, #[[C]]>
// CHECK:       tile.store %[[SUM]]#1 into %{{.+}}[%c0, %[[SUM]]#0] {
// CHECK:       } : !sm.fragment<32x32xf32, #[[C]]>, memref<?x?xbf16
tile.kernel @tn(%as: !rows, %bs: !rows, %d: !mat, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc:2 = scf.for %i = %c0 to %k step %c16 iter_args(%n = %c0, %c = %zero) -> (index, !tile.tile<32x32xf32>) {
    %next = tile.mma tn %as, %bs, %c : !rows, !rows, !tile.tile<32x32xf32>
    %m = arith.addi %n, %c16 : index
    scf.yield %m, %next : index, !tile.tile<32x32xf32>
  }
  tile.store %acc#1 into %d[%c0, %acc#0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile.tile<32x32xf32>, !mat
  tile.return
}

// Where K comes first in shared memory, ldmatrix transposes; the fragments are the same.
// CHECK-LABEL: tile.kernel @nt
// CHECK:       sm.ldmatrix %{{.+}}[0, 0] by "ldmatrix.x4" trans : memref<16x32xbf16, {{.*}}> to !sm.fragment<32x16xbf16, #[[A]]>
// CHECK:       sm.ldmatrix %{{.+}}[0, 0] by "ldmatrix.x4" trans : memref<16x32xbf16, {{.*}}> to !sm.fragment<32x16xbf16, #[[B]]>
tile.kernel @nt(%as: !columns, %bs: !columns, %d: !mat, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<nt, a = bf16, b = bf16, acc = f32, results = [full bf16]>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile.tile<32x32xf32>) {
    %next = tile.mma nt %as, %bs, %c : !columns, !columns, !tile.tile<32x32xf32>
    scf.yield %next : !tile.tile<32x32xf32>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile.tile<32x32xf32>, !mat
  tile.return
}

// In `tt` only B lies so. f16 accumulators have an atom of their own.
// CHECK-LABEL: tile.kernel @tt
// CHECK:       sm.splat 0.000000e+00 : !sm.fragment<32x32xf16, #[[C]]>
// CHECK:       sm.ldmatrix %{{.+}}[0, 0] by "ldmatrix.x4" : memref<32x16xf16, {{.*}}> to !sm.fragment<32x16xf16, #[[A]]>
// CHECK:       sm.ldmatrix %{{.+}}[0, 0] by "ldmatrix.x4" trans : memref<16x32xf16, {{.*}}> to !sm.fragment<32x16xf16, #[[B]]>
// CHECK:       sm.mma_sync {{.*}} by #{{.+}} : !sm.fragment<32x16xf16
tile.kernel @tt(%as: !hrows, %bs: !hcolumns, %d: memref<?x?xf16>, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<tt, a = f16, b = f16, acc = f16, results = [full f16]>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile.tile<32x32xf16>
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile.tile<32x32xf16>) {
    %next = tile.mma tt %as, %bs, %c : !hrows, !hcolumns, !tile.tile<32x32xf16>
    scf.yield %next : !tile.tile<32x32xf16>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !tile.tile<32x32xf16>, memref<?x?xf16>
  tile.return
}

// Two warps side by side along M: their bit of the thread index moves down 16 rows; of B both hold the same.
// CHECK-LABEL: tile.kernel @two_warps
// CHECK:       sm.ldmatrix {{.*}} to !sm.fragment<32x16xbf16, #{{.+}}>
// CHECK:       sm.ldmatrix {{.*}} to !sm.fragment<32x16xbf16, #{{.+}}>
// CHECK:       sm.mma_sync {{.*}} by #{{.+}} :
tile.kernel @two_warps(%as: !rows, %bs: !rows, %d: !mat, %k: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<multiply = <atom = mma.m16n8k16, atoms = [2, 1, 1], permutation = [32, 16, 16]>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile.tile<32x32xf32>) {
    %next = tile.mma tn %as, %bs, %c : !rows, !rows, !tile.tile<32x32xf32>
    scf.yield %next : !tile.tile<32x32xf32>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile.tile<32x32xf32>, !mat
  tile.return
}
}
