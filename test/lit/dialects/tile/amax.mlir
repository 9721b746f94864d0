// An amax prints as it is written here, and reads back to itself.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt | filecheck %s

!mat = memref<?x?xbf16, strided<[?, 1]>>

// CHECK-LABEL: func.func @gemm(
// CHECK:         tile.gemm tn %{{.+}}, %{{.+}} into (%{{.+}}, amax %{{.+}}) acc(f32) operands(per_row %{{.+}} : memref<?xf32>) {
// CHECK-NEXT:    ^bb0(%[[X:.+]]: f32, %[[B:.+]]: f32):
// CHECK-NEXT:      %[[S:.+]] = arith.addf %[[X]], %[[B]] : f32
// CHECK-NEXT:      %[[Y:.+]] = arith.truncf %[[S]] : f32 to bf16
// CHECK-NEXT:      tile.yield %[[Y]], %[[S]] : bf16, f32
func.func @gemm(%a: !mat, %b: !mat, %d: !mat, %bias: memref<?xf32>, %amax: memref<1xf32>) {
  tile.gemm tn %a, %b into (%d, amax %amax) acc(f32) operands(per_row %bias : memref<?xf32>) {
  ^bb0(%x: f32, %add: f32):
    %s = arith.addf %x, %add : f32
    %y = arith.truncf %s : f32 to bf16
    tile.yield %y, %s : bf16, f32
  } : !mat, !mat, !mat, memref<1xf32>
  return
}

// CHECK-LABEL: tile.kernel @store(
// CHECK:         tile.store %{{.+}} into (%{{.+}}, amax %{{.+}})[%c0, %c0] {
// CHECK:           tile.yield %{{.+}}, %{{.+}} : bf16, f32
tile.kernel @store(%d: !mat, %amax: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %sum = tile.splat 0.0 : !tile.tile<64x64xf32>
  tile.store %sum into (%d, amax %amax)[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !tile.tile<64x64xf32>, !mat, memref<1xf32>
  tile.return
}

// CHECK-LABEL: tile.kernel @clear(
// CHECK-NEXT:    tile.prepare %{{.+}} : memref<1xf32>
tile.kernel @clear(%amax: memref<1xf32>) {
  tile.prepare %amax : memref<1xf32>
  tile.return
}
