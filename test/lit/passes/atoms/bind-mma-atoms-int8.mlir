// bind-mma-atoms binds s8 to ldmatrix, which moves pairs of bytes, and where K is not contiguous to loads of bytes.
// RUN: lowtide-opt %s -p bind-mma-atoms | filecheck %s

// Thread-value layouts of mma.m16n8k32 of .s8 (PTX ISA, "Matrix Fragments for mma.m16n8k32").
// CHECK-DAG: #[[MMA:.+]] = #sm.tiled_mma<mma.m16n8k32.s32.s8.u8, atoms [1, 1, 1], permutation [16, 8, 32]>
// CHECK-DAG: #[[A:.+]] = #tile.tv<threads (4,8):(64,1), values ((4,2,2),1,1):((16,8,256),16,512)>
// CHECK-LABEL: module attributes {tile.level = "atoms", tile.target = "sm_80"}

!mat = memref<?x?xi32, strided<[?, 1]>>
!a = memref<16x32xsi8, #tile.layout<(16,32):(32,1)>, #gpu.address_space<workgroup>>
!b = memref<8x32xui8, #tile.layout<(8,32):(32,1)>, #gpu.address_space<workgroup>>
!bt = memref<32x8xui8, #tile.layout<(32,8):(8,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<multiply = <atom = mma.m16n8k32, atoms = [1, 1, 1], permutation = [16, 8, 32]>>
module attributes {tile.level = "pipelined", tile.target = "sm_80"} {
// CHECK-LABEL: tile.kernel @tn(
// CHECK:       sm.splat 0.000000e+00 : !sm.fragment<16x8xi32,
// CHECK:         %[[FA:.+]] = sm.ldmatrix %{{.+}}[0, 0] by "ldmatrix.x4" : {{.*}} to !sm.fragment<16x32xsi8, #[[A]]>
// CHECK:         %[[FB:.+]] = sm.ldmatrix %{{.+}}[0, 0] by "ldmatrix.x2" : {{.*}} to !sm.fragment<8x32xui8,
// CHECK:         sm.mma_sync %[[FA]], %[[FB]], %{{.+}} by #[[MMA]]
tile.kernel @tn(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<tn, a = si8, b = ui8, acc = i32, results = [full i32]>} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = tile.splat 0.0 : !tile.tile<16x8xi32>
  %acc = scf.for %i = %c0 to %k step %c32 iter_args(%c = %zero) -> (!tile.tile<16x8xi32>) {
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile.tile<16x8xi32>
    scf.yield %next : !tile.tile<16x8xi32>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: i32):
    tile.yield %x : i32
  } : !tile.tile<16x8xi32>, !mat
  tile.return
}

// CHECK-LABEL: tile.kernel @tt(
// CHECK:         sm.load_shared %{{.+}} at [0, 0] by "ld.shared.1" trans : {{.*}} to !sm.fragment<8x32xui8,
tile.kernel @tt(%as: !a, %bs: !bt, %d: !mat, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<tt, a = si8, b = ui8, acc = i32, results = [full i32]>} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = tile.splat 0.0 : !tile.tile<16x8xi32>
  %acc = scf.for %i = %c0 to %k step %c32 iter_args(%c = %zero) -> (!tile.tile<16x8xi32>) {
    %next = tile.mma tt %as, %bs, %c : !a, !bt, !tile.tile<16x8xi32>
    scf.yield %next : !tile.tile<16x8xi32>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: i32):
    tile.yield %x : i32
  } : !tile.tile<16x8xi32>, !mat
  tile.return
}
}
