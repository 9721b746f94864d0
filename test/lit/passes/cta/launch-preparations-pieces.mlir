// launch-preparations takes workspaces for pieces, and launches what makes them before the product.
// RUN: lowtide-opt %s -p launch-preparations,cse --split-input-file | filecheck %s

// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[A:.+]]: memref<{{.*}}>, %[[B:.+]]: memref<{{.*}}>, %[[D:.+]]: memref<{{.*}}>, %[[G:.+]]: index)
// CHECK:       %[[K:.+]] = memref.dim %[[A]], %c1
// CHECK:       %[[KB:.+]] = memref.dim %[[B]], %c0
// CHECK:       %[[SAME:.+]] = arith.cmpi eq, %[[K]], %[[KB]]
// CHECK:       cf.assert %[[SAME]], "A and B must have the same K"
// K in units of four pieces, for three products; rows at multiples of 128 bytes.
// CHECK:       %[[ROWS:.+]] = memref.dim %[[A]], %c0
// CHECK:       %[[UNITS:.+]] = arith.ceildivui %[[K]], %c4
// CHECK:       %[[DEPTH:.+]] = arith.muli %[[UNITS]], %c12
// CHECK:       cf.assert %{{.+}}, "K is over 715827880, the most that precision='tf32x3' takes"
// CHECK:       %[[LINES:.+]] = arith.ceildivui %[[DEPTH]], %c32
// CHECK:       %[[STRIDE:.+]] = arith.muli %[[LINES]], %c32
// CHECK:       %[[SIZE:.+]] = arith.muli %[[ROWS]], %[[STRIDE]]
// CHECK:       %[[ALL:.+]] = arith.muli %[[ROWS]], %[[UNITS]]
// CHECK:       %[[CTAS:.+]] = arith.ceildivui %[[ALL]], %c256
// CHECK:       cf.assert %{{.+}}, "A or B has 2^32 or more 16-byte units of pieces; reduce M, N or K"
// CHECK:       %[[SPACE:.+]] = tile.workspace %[[SIZE]] : memref<?xtf32>
// CHECK:       %[[P:.+]] = memref.reinterpret_cast %[[SPACE]] to offset: [0], sizes: [%[[ROWS]], %[[DEPTH]]], strides: [%[[STRIDE]], 1]
// B has K first: its rows of pieces are its columns.
// CHECK:       %[[COLUMNS:.+]] = memref.dim %[[B]], %c1
// CHECK:       %[[DOWN:.+]] = arith.ceildivui %[[COLUMNS]], %c32
// CHECK:       %[[ALONG:.+]] = arith.ceildivui %{{.+}}, %c8
// CHECK:       %[[PATCHES:.+]] = arith.muli %[[DOWN]], %[[ALONG]]
// CHECK:       %[[Q:.+]] = memref.reinterpret_cast %{{.+}} to offset: [0], sizes: [%[[COLUMNS]], %{{.+}}], strides: [%{{.+}}, 1]
// What asks for an extent of pieces gets it.
// CHECK:       arith.addi %[[DEPTH]], %[[G]]
// CHECK:       tile.launch @host_split_left grid(%[[CTAS]]) threads(256) args(%[[A]], %[[P]])
// CHECK-NEXT:  tile.launch @host_split_right grid(%[[PATCHES]]) threads(256) args(%[[B]], %[[Q]])
// CHECK-NEXT:  tile.launch @kernel grid(%[[G]]) threads(32) args(%[[P]], %[[Q]], %[[D]])

// CHECK:       tile.kernel @host_split_left(%[[S:.+]]: memref<?x?xf32, strided<[?, 1]>>, %[[T:.+]]: memref<?x?xtf32, strided<[?, 1]>>) {
// CHECK-NEXT:    tile.prepare %[[T]] from %[[S]] pieces(left of tf32x3) :
// CHECK-NEXT:    tile.return
// CHECK:       tile.kernel @host_split_right(
// CHECK-NEXT:    tile.prepare %{{.+}} from %{{.+}} transposed pieces(right of tf32x3) :
!mat = memref<?x?xf32, strided<[?, 1]>>
!pieces = memref<?x?xtf32, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %d: !mat, %g: index) {
  %p = tile.pack %a pieces(left of tf32x3) align(16) : !mat to !pieces
  %q = tile.pack %b transposed pieces(right of tf32x3) align(16) : !mat to !pieces
  %c1 = arith.constant 1 : index
  %k = memref.dim %p, %c1 : !pieces
  %n = arith.addi %k, %g : index
  %same = arith.cmpi eq, %n, %n : index
  cf.assert %same, "n"
  tile.launch @kernel grid(%g) threads(32) args(%p, %q, %d) : !pieces, !pieces, !mat
  return
}
tile.kernel @kernel(%a: !pieces, %b: !pieces, %d: !mat) {
  tile.return
}
}

// -----

// Of a batch that all products share, whose stride is 0, one matrix is split; its pieces have a stride of 0.
// CHECK-LABEL: func.func @batch(
// CHECK-SAME:    %[[A:.+]]: memref<8x16x64xf32
// CHECK:       %{{.+}}, %{{.+}}, %{{.+}}:3, %[[STRIDES:.+]]:3 = memref.extract_strided_metadata %[[A]]
// CHECK:       %[[SHARED:.+]] = arith.cmpi eq, %[[STRIDES]]#0, %c0
// CHECK:       %[[COUNT:.+]] = arith.select %[[SHARED]], %c1, %c8
// CHECK:       %[[OWN:.+]] = memref.reinterpret_cast %[[A]] to offset: [0], sizes: [%[[COUNT]], %c16, %c64], strides: [%[[STRIDES]]#0, %[[STRIDES]]#1, 1]
// CHECK:       %[[STEP:.+]] = arith.select %[[SHARED]], %c0, %c6144
// CHECK:       memref.reinterpret_cast %{{.+}} to offset: [0], sizes: [8, 16, 384], strides: [%[[STEP]], %c384, 1]
// CHECK:       tile.launch @batch_split_left grid(%{{.+}}) threads(256) args(%{{.+}}, %{{.+}}) : memref<?x?x?xf32
!in = memref<8x16x64xf32, strided<[?, ?, 1]>>
!out = memref<8x16x384xbf16, strided<[?, ?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @batch(%a: !in, %g: index) {
  %p = tile.pack %a pieces(left of bf16x6) align(16) : !in to !out
  tile.launch @kernel grid(%g) threads(32) args(%p) : !out
  return
}
tile.kernel @kernel(%a: !out) {
  tile.return
}
}
