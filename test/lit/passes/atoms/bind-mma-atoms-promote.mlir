// bind-mma-atoms of sums that are promoted: those of a K step begin at zero, and are added to those that the loop carries.
// RUN: lowtide-opt %s -p bind-mma-atoms | filecheck %s

// CHECK:       %[[ZERO:.+]] = sm.splat 0.000000e+00 : !sm.fragment<32x32xf32, #[[C:.+]]>
// CHECK:       %[[SUM:.+]] = scf.for {{.*}} iter_args(%[[ACC:.+]] = %[[ZERO]])
// CHECK:         %[[P:.+]] = sm.mma_sync %{{.+}}, %{{.+}}, %[[ZERO]] by
// CHECK:         %[[NEXT:.+]] = sm.map %[[P]], %[[ACC]] : !sm.fragment<32x32xf32, #[[C]]>, !sm.fragment<32x32xf32, #[[C]]> {
// CHECK-NEXT:    ^bb0(%[[X:.+]]: f32, %[[Y:.+]]: f32):
// CHECK-NEXT:      %[[Z:.+]] = arith.addf %[[X]], %[[Y]] : f32
// CHECK-NEXT:      tile.yield %[[Z]] : f32
// CHECK:         scf.yield %[[NEXT]]
// CHECK:       tile.store %[[SUM]] into
!d = memref<?x?xf32, strided<[?, 1]>>
!rows = memref<32x64xf8E4M3FN, #tile.layout<(32,64):(64,1)>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<
  multiply = <atom = mma.m16n8k32, atoms = [1, 1, 1], permutation = [16, 16, 32], promote = per_step>>
module attributes {tile.level = "pipelined", tile.target = "sm_89"} {
tile.kernel @tn(%as: !rows, %bs: !rows, %d: !d, %k: index) attributes {schedule = #schedule,
    problem = #tile.problem<tn, a = f8E4M3FN, b = f8E4M3FN, acc = f32, results = [full f32]>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc = scf.for %i = %c0 to %k step %c64 iter_args(%c = %zero) -> (!tile.tile<32x32xf32>) {
    %p = tile.mma tn %as, %bs, %zero : !rows, !rows, !tile.tile<32x32xf32>
    %next = tile.promote %p into %c : !tile.tile<32x32xf32>
    scf.yield %next : !tile.tile<32x32xf32>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<32x32xf32>, !d
  tile.return
}
}
