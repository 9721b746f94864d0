// Ops of an amax print as they are written here, and read back to themselves.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt | filecheck %s

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 1:0>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x1xf32, #own>

// CHECK-LABEL: tile.kernel @k(
// CHECK:         %[[MAP:.+]]:2 = sm.map %{{.+}} : !sm.fragment<64x8xf32, #[[TV:.+]]> {
// CHECK:           tile.yield %{{.+}}, %{{.+}} : bf16, f32
// CHECK-NEXT:    } : !sm.fragment<64x8xbf16, #[[TV]]>, !sm.fragment<64x8xf32, #[[TV]]>
// CHECK:         %[[M:.+]] = sm.max_abs %[[MAP]]#1 in %{{.+}}, %{{.+}} : !sm.fragment<64x8xf32, #[[TV]]>, !tile.view<64x8xbf16>, !sm.fragment<128x1xf32, #[[OWN:.+]]>
// CHECK-NEXT:    sm.raise_max %[[M]] into %{{.+}} : !sm.fragment<128x1xf32, #[[OWN]]>, memref<1xf32>
// CHECK-NEXT:    sm.ptx_raise_max %{{.+}} to %{{.+}} : !llvm.ptr<1>
tile.kernel @k(%d: memref<?x?xbf16, strided<[?, 1]>>, %amax: memref<1xf32>, %x: f32, %p: !llvm.ptr<1>) {
  %c0 = arith.constant 0 : index
  %sum = sm.splat 1.0 : !acc
  %y, %before = sm.map %sum : !acc {
  ^bb0(%e: f32):
    %0 = arith.truncf %e : f32 to bf16
    tile.yield %0, %e : bf16, f32
  } : !sm.fragment<64x8xbf16, #tv>, !acc
  %window = tile.view %d[%c0, %c0] : memref<?x?xbf16, strided<[?, 1]>> to !tile.view<64x8xbf16>
  %zero = sm.splat 0.0 : !own
  %m = sm.max_abs %before in %window, %zero : !acc, !tile.view<64x8xbf16>, !own
  sm.raise_max %m into %amax : !own, memref<1xf32>
  sm.ptx_raise_max %x to %p : !llvm.ptr<1>
  tile.return
}
