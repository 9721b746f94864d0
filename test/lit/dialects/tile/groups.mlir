// Work tiles of groups of rows, whose ends a device array says. Padded groups are matrices of a batch.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s

// CHECK-LABEL: tile.kernel @kernel(
tile.kernel @kernel(%a: memref<?x?xbf16, strided<[?, 1]>>, %b: memref<?x?x?xbf16, strided<[?, ?, 1]>>,
                    %d: memref<?x?xf32, strided<[?, 1]>>, %ends: memref<4xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  // CHECK: tile.work_tiles (%[[M:.+]], %[[N:.+]]) of (%[[S:.+]], %[[S]]) by [8, 16] groups(%[[G:.+]] to %[[END:.+]] of %{{.+}} : memref<4xi32>) order(<grouped 2>) persistent {
  tile.work_tiles (%row, %column) of (%n, %n) by [8, 16] groups(%g to %end of %ends : memref<4xi32>) order(<grouped 2>) persistent {
    // CHECK: tile.view %B[%[[G]], %[[N]], %{{.+}}]
    %w = tile.view %b[%g, %column, %c0] : memref<?x?x?xbf16, strided<[?, ?, 1]>> to !tile.view<16x8xbf16>
    %zero = tile.splat 0.0 : !tile.tile<8x16xf32>
    // CHECK: %[[ROWS:.+]] = memref.subview %D[0, 0] [%[[END]], %[[S]]] [1, 1]
    %counted = memref.subview %d[0, 0] [%end, %n] [1, 1] : memref<?x?xf32, strided<[?, 1]>> to memref<?x?xf32, strided<[?, 1]>>
    // CHECK: tile.store %{{.+}} into %[[ROWS]][%[[M]], %[[N]]] {
    tile.store %zero into %counted[%row, %column] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile.tile<8x16xf32>, memref<?x?xf32, strided<[?, 1]>>
  }
  // CHECK: %{{.+}} = tile.work_tiles ({{.*}}) of ({{.*}}) by [8, 16] groups({{.*}}) order(<row>) even_split in_turn iter_args(%[[I:.+]] = %[[S]]) -> (index) {
  %last = tile.work_tiles (%row, %column) of (%n, %n) by [8, 16] groups(%g to %end of %ends : memref<4xi32>) order(<row>) even_split in_turn
      iter_args(%i = %n) -> (index) {
    tile.yield %i : index
  }
  // CHECK: tile.work_tiles (%{{.+}}, %{{.+}}) of (%{{.+}}, %{{.+}}) by [8, 16] batch(%{{.+}} of %{{.+}}) groups(%{{.+}} to %{{.+}} of %{{.+}} : memref<4xi32>) order(<row>) persistent {
  tile.work_tiles (%row, %column) of (%n, %n) by [8, 16] batch(%batch of %n) groups(%g to %end of %ends : memref<4xi32>) order(<row>) persistent {
  }
  tile.return
}
