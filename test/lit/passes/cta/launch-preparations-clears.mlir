// launch-preparations: a kernel that sets the amax to zero, launched before each launch of one that raises it.
// RUN: lowtide-opt %s -p launch-preparations | filecheck %s

// CHECK-LABEL: func.func @host(
// CHECK:         tile.launch @host_clear grid(%{{.+}}) threads(32) args(%[[AMAX:.+]]) : memref<1xf32>
// CHECK-NEXT:    tile.launch @kernel grid(%{{.+}}) threads(128) args(%{{.+}}, %[[AMAX]])
// CHECK-NEXT:    tile.launch @plain
// CHECK-NEXT:    return
// CHECK:       tile.kernel @host_clear(%[[X:.+]]: memref<1xf32>) {
// CHECK-NEXT:    tile.prepare %[[X]] : memref<1xf32>
// CHECK-NEXT:    tile.return
// CHECK-NOT:   tile.kernel @{{.+}}_clear
!d = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @host(%d: !d, %amax: memref<1xf32>, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(128) args(%d, %amax) : !d, memref<1xf32>
  tile.launch @plain grid(%ctas) threads(128) args(%d) : !d
  return
}
tile.kernel @kernel(%d: !d, %amax: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %sum = tile.splat 0.0 : !tile.tile<64x64xf32>
  tile.store %sum into (%d, amax %amax)[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !tile.tile<64x64xf32>, !d, memref<1xf32>
  tile.return
}
tile.kernel @plain(%d: !d) {
  %c0 = arith.constant 0 : index
  %sum = tile.splat 0.0 : !tile.tile<64x64xf32>
  tile.store %sum into %d[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile.tile<64x64xf32>, !d
  tile.return
}
}
