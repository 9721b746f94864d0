// Pairs of columns: a part of the tile has a fragment from each half of the accumulators' columns, and one sm.map takes
// both.
// RUN: lowtide-opt %s -p lower-epilogue | filecheck %s

// CHECK:      %[[FIRST:.+]] = sm.extract %{{.+}}[0, 0] : {{.*}} to !sm.fragment<32x16xf32
// CHECK:      %[[SECOND:.+]] = sm.extract %{{.+}}[0, 16] : {{.*}} to !sm.fragment<32x16xf32
// CHECK:      sm.map %[[FIRST]], %[[SECOND]]
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "atoms", tile.target = "sm_80"} {
tile.kernel @kernel(%d: !mat, %fa: !a, %fb: !b, %m: index, %n: index) attributes {schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = direct, math = registers, tile = [32, 16], swizzle = <0,3,3>>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  tile.store %acc pairs into %d[%m, %n] {
  ^bb0(%gate: f32, %up: f32):
    %y = arith.mulf %gate, %up : f32
    %z = arith.truncf %y : f32 to bf16
    tile.yield %z : bf16
  } : !c, !mat
  tile.return
}
}
