// Batches: tile.gemm of three dimensions, and the number of the matrix as a coordinate of work items, of windows,
// stores and tensor maps' boxes.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!rows = memref<?x?xbf16, strided<[?, 1]>>
!tile = !tile.tile<8x16xf32>
module {
// CHECK-LABEL: func.func @gemm
func.func @gemm(%a: !mats, %b: memref<3x?x?xbf16, strided<[?, ?, 1]>>, %d: !mats, %r: !rows, %v: memref<?xbf16>) {
  // CHECK: tile.gemm tn %{{.+}}, %{{.+}} into %{{.+}} acc(f32) operands(per_row %{{.+}} : memref<?x?xbf16, {{.*}}>, per_column %{{.+}} : memref<?xbf16>) {
  // CHECK: } : memref<?x?x?xbf16, {{.*}}>, memref<3x?x?xbf16, {{.*}}>, memref<?x?x?xbf16, {{.*}}>
  tile.gemm tn %a, %b into %d acc(f32) operands(per_row %r : !rows, per_column %v : memref<?xbf16>) {
  ^bb0(%x: f32, %y: bf16, %z: bf16):
    tile.yield %y : bf16
  } : !mats, memref<3x?x?xbf16, strided<[?, ?, 1]>>, !mats
  // CHECK: sm.tensor_map %{{.+}} : memref<?x?x?xbf16, {{.*}}> to !sm.tensor_map<1x8x64xbf16>
  %map = sm.tensor_map %a : !mats to !sm.tensor_map<1x8x64xbf16>
  return
}

// CHECK-LABEL: tile.kernel @kernel(%A: memref<?x?x?xbf16, {{.*}}>, %B: memref<?x?x?xbf16, {{.*}}>, %D: memref<?x?x?xbf16, {{.*}}>,
tile.kernel @kernel(%a: !mats, %b: !mats, %d: !mats, %r: !rows, %n: index, %part: index) {
  // CHECK: tile.work_tiles (%[[M:[^ ]+]], %[[N:[^ ]+]]) of (%[[S:[^ ]+]], %[[S]]) by [8, 16] batch(%[[BATCH:[^ ]+]] of %[[S]]) order(<row>) persistent {
  tile.work_tiles (%row, %column) of (%n, %n) by [8, 16] batch(%batch of %n) order(<row>) persistent {
    // CHECK: %{{.+}}, %{{.+}}, %{{.+}} = tile.next_work_tile batched
    %nb, %nm, %nn = tile.next_work_tile batched
    // CHECK: tile.view %A[%[[BATCH]], %[[M]], %[[N]]] : memref<?x?x?xbf16, {{.*}}> to !tile.view<8x16xbf16>
    %w = tile.view %a[%batch, %row, %column] : !mats to !tile.view<8x16xbf16>
    // CHECK: tile.view per_row %{{.+}}[%[[BATCH]], %[[M]]] : memref<?x?xbf16, {{.*}}> to !tile.view<8x16xbf16>
    %v = tile.view per_row %r[%batch, %row] : !rows to !tile.view<8x16xbf16>
    %zero = tile.splat 0.0 : !tile
    // CHECK: tile.store %{{.+}} into %D[%[[BATCH]], %[[M]], %[[N]]] {
    tile.store %zero into %d[%batch, %row, %column] {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to bf16
      tile.yield %y : bf16
    } : !tile, !mats
  }
  // CHECK: tile.work_tiles (%[[R:[^ ]+]], %[[C:[^ ]+]]) of (%[[S]], %[[S]]) by [8, 16] batch(%[[B:[^ ]+]] of %[[S]]) k(%{{.+}} to %{{.+}} of %[[S]] by 32) split 2 (%[[P:.+]] of %[[Q:.+]] at %[[T:.+]]) order(<row>) persistent iter_args(%[[I:.+]] = %[[S]]) -> (index) {
  %end = tile.work_tiles (%row, %column) of (%n, %n) by [8, 16] batch(%batch of %n) k(%k0 to %k1 of %n by 32) split 2 (%p of %q at %t)
      order(<row>) persistent iter_args(%i = %n) -> (index) {
    %zero = tile.splat 0.0 : !tile
    // CHECK: tile.store %{{.+}} part(%[[P]] of %[[Q]] at %[[T]]) into %D[%[[B]], %[[R]], %[[C]]] {
    tile.store %zero part(%p of %q at %t) into %d[%batch, %row, %column] {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to bf16
      tile.yield %y : bf16
    } : !tile, !mats
    tile.yield %i : index
  }
  tile.return
}
}
