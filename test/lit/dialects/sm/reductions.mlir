// Ops of reductions print as they are written here, and read back to themselves.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt | filecheck %s

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 2:128>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x2xf32, #own>

// CHECK-LABEL: tile.kernel @k(
// CHECK:         %[[R:.+]] = sm.reduce row_sum %{{.+}} in %{{.+}} : !sm.fragment<64x8xf32, #[[TV:.+]]>, !tile.view<64x8xbf16>, !sm.fragment<128x2xf32, #[[OWN:.+]]>
// CHECK-NEXT:    %[[S:.+]] = sm.reduce row_value %{{.+}} in %{{.+}} at %{{.+}} : !tile.view<64x8xi32> into %[[R]] : !sm.fragment<128x2xf32, #[[OWN]]> : !sm.fragment<64x8xf32, #[[TV]]>, !tile.view<64x8xbf16>, !sm.fragment<128x2xf32, #[[OWN]]>
// CHECK-NEXT:    sm.store_reduced row_sum %[[S]] of !sm.fragment<64x8xf32, #[[TV]]> into %{{.+}}[%c0, %c0] : !sm.fragment<128x2xf32, #[[OWN]]>, memref<?x?xf32, strided<[?, 1]>>
// CHECK-NEXT:    sm.store_reduced row_sum %[[S]] of !sm.fragment<64x8xf32, #[[TV]]> into %{{.+}}[%c0, %c0] batch(%c0) : !sm.fragment<128x2xf32, #[[OWN]]>, memref<?x?x?xf32, strided<[?, ?, 1]>>
tile.kernel @k(%v: !acc, %w: !tile.view<64x8xbf16>, %t: !tile.view<64x8xi32>, %p: memref<?x?xf32, strided<[?, 1]>>,
               %q: memref<?x?x?xf32, strided<[?, ?, 1]>>) {
  %c0 = arith.constant 0 : index
  %r = sm.reduce row_sum %v in %w : !acc, !tile.view<64x8xbf16>, !own
  %s = sm.reduce row_value %v in %w at %t : !tile.view<64x8xi32> into %r : !own : !acc, !tile.view<64x8xbf16>, !own
  sm.store_reduced row_sum %s of !acc into %p[%c0, %c0] : !own, memref<?x?xf32, strided<[?, 1]>>
  sm.store_reduced row_sum %s of !acc into %q[%c0, %c0] batch(%c0) : !own, memref<?x?x?xf32, strided<[?, ?, 1]>>
  tile.return
}
