// Ops that pack and copy matrices, and the schedule's field, print as they are written here, and read back.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt | filecheck %s

// CHECK: #tile.schedule<
// CHECK-NEXT:   mainloop = <
// CHECK-NEXT:     a = <copy = tma, pack = rows>,
// CHECK-NEXT:     b = <copy = tma, pack = none>>,
// CHECK-NEXT:   epilogue = <path = smem, cache = streaming, pack = rows>>
#schedule = #tile.schedule<
  epilogue = <pack = rows, path = smem, cache = streaming>,
  mainloop = <a = <pack = rows, copy = tma>, b = <copy = tma, pack = none>>>
// CHECK: #tile.schedule<
// CHECK-NEXT:   mainloop = <
// CHECK-NEXT:     a = <pack = transposed>>>
#transposed = #tile.schedule<mainloop = <a = <pack = transposed>>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a", test.schedule = #schedule} {
// CHECK-LABEL: func.func @host
// CHECK:         %[[A:.+]] = tile.pack %{{.+}} align(16) : memref<?x?xbf16, strided<[?, 1]>> to memref<?x?xbf16, strided<[?, 1]>>
// CHECK:         %[[D:.+]] = tile.pack %{{.+}} align(8) whole_rows uninitialized : memref<?x?xbf16, strided<[?, 1]>> to memref<?x?xbf16, strided<[?, 1]>>
// CHECK:         tile.unpack %[[D]] into %{{.+}} : memref<?x?xbf16, strided<[?, 1]>>
func.func @host(%a: !mat, %d: !mat) {
  %0 = tile.pack %a align(16) : !mat to !mat
  %1 = tile.pack %d align(8) whole_rows uninitialized : !mat to !mat
  tile.unpack %1 into %d : !mat
  return
}
// CHECK-LABEL: func.func @batch
// CHECK:         tile.pack %{{.+}} align(16) : memref<?x?x?xbf16, strided<[?, ?, 1]>> to memref<?x?x?xbf16, strided<[?, ?, 1]>>
func.func @batch(%a: memref<?x?x?xbf16, strided<[?, ?, 1]>>) {
  %0 = tile.pack %a align(16) : memref<?x?x?xbf16, strided<[?, ?, 1]>> to memref<?x?x?xbf16, strided<[?, ?, 1]>>
  return
}
// CHECK-LABEL: func.func @transposed
// CHECK:         tile.pack %{{.+}} transposed align(16) : memref<?x64xf8E4M3FN, strided<[?, 1]>> to memref<64x?xf8E4M3FN, strided<[?, 1]>>
func.func @transposed(%a: memref<?x64xf8E4M3FN, strided<[?, 1]>>) attributes {test.schedule = #transposed} {
  %0 = tile.pack %a transposed align(16) : memref<?x64xf8E4M3FN, strided<[?, 1]>> to memref<64x?xf8E4M3FN, strided<[?, 1]>>
  return
}
// CHECK-LABEL: tile.kernel @transpose
// CHECK:         tile.prepare %{{.+}} from %{{.+}} transposed : memref<?x?x?xbf16, strided<[?, ?, 1]>> from memref<?x?x?xbf16, strided<[?, ?, 1]>>
tile.kernel @transpose(%s: memref<?x?x?xbf16, strided<[?, ?, 1]>>, %t: memref<?x?x?xbf16, strided<[?, ?, 1]>>) {
  tile.prepare %t from %s transposed : memref<?x?x?xbf16, strided<[?, ?, 1]>> from memref<?x?x?xbf16, strided<[?, ?, 1]>>
  tile.return
}
// CHECK-LABEL: tile.kernel @copy
// CHECK:         tile.prepare %{{.+}} from %{{.+}} : memref<?x?xbf16, strided<[?, 1]>> from memref<?x?xbf16, strided<[?, 1]>>
tile.kernel @copy(%s: !mat, %t: !mat) {
  tile.prepare %t from %s : !mat from !mat
  tile.return
}
}
