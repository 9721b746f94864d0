// lower-epilogue of a D by columns: full operands are loaded, and D is stored, in runs of rows, here of one element.
// RUN: lowtide-opt %s -p lower-epilogue | filecheck %s

#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!columns = memref<?x?xbf16, strided<[1, ?]>>
// CHECK-LABEL: tile.kernel @columns(
// CHECK-SAME:    %[[D:[^ :,]+]]: memref<?x?xbf16, strided<[1, ?]>>, %[[C:[^ :,]+]]: memref<?x?xbf16, strided<[1, ?]>>
// CHECK:       %[[FROM:.+]] = tile.view %[[C]][%[[M:.+]], %[[N:.+]]] : memref<?x?xbf16, strided<[1, ?]>> to !tile.view<32x32xbf16>
// CHECK:       sm.load_global %[[FROM]] by "ld.global.2"
// CHECK:       %[[TO:.+]] = tile.view %[[D]][%[[M]], %[[N]]] : memref<?x?xbf16, strided<[1, ?]>> to !tile.view<32x32xbf16>
// CHECK:       sm.store_global %{{.+}} to %[[TO]] by "st.global.2"
module attributes {tile.level = "atoms", tile.target = "sm_80"} {
tile.kernel @columns(%d: !columns, %c: !columns, %m: index, %n: index) attributes {
    schedule = #tile.schedule<grid = <scheduler = one_shot>, multiply = <atoms = [1, 1, 1]>, epilogue = <path = direct, math = registers, tile = [32, 32], swizzle = <0,3,3>>>} {
  %x = sm.splat 1.0 : !a
  %y = sm.splat 1.0 : !b
  %z = sm.splat 0.0 : !c
  %acc = sm.mma_sync %x, %y, %z by #mma : !a, !b, !c
  tile.store %acc into %d[%m, %n] operands(full %c : !columns) {
  ^bb0(%v: f32, %w: bf16):
    %wide = arith.extf %w : bf16 to f32
    %sum = arith.addf %v, %wide : f32
    %r = arith.truncf %sum : f32 to bf16
    tile.yield %r : bf16
  } : !c, !columns
  tile.return
}
}
