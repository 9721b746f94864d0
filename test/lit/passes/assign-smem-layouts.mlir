// assign-smem-layouts applies the swizzles of the schedule to the buffers that feed tile.mma, and only those.
// RUN: lowtide-opt %s -p assign-smem-layouts | filecheck %s

// CHECK-DAG: #[[A:.+]] = #tile.layout<(32,32):(32,1), swizzle<2,3,3>>
// CHECK-DAG: #[[B:.+]] = #tile.layout<(32,32):(32,1), swizzle<1,3,3>>
// CHECK-DAG: #[[PLAIN:.+]] = #tile.layout<(32,32):(32,1)>

// CHECK-LABEL: tile.kernel @both
// CHECK-NEXT:  %[[AS:.+]] = sm.alloc : memref<32x32xbf16, #[[A]], #gpu.address_space<workgroup>>
// CHECK-NEXT:  %[[BS:.+]] = sm.alloc : memref<32x32xbf16, #[[B]], #gpu.address_space<workgroup>>
// CHECK-NEXT:  %[[OTHER:.+]] = sm.alloc : memref<32x32xbf16, #[[PLAIN]], #gpu.address_space<workgroup>>
// CHECK:       sm.copy %{{.+}} to %[[AS]] : !tile.view<32x32xbf16>, memref<32x32xbf16, #[[A]], #gpu.address_space<workgroup>>
// CHECK-NEXT:  sm.copy %{{.+}} to %[[BS]] : !tile.view<32x32xbf16>, memref<32x32xbf16, #[[B]], #gpu.address_space<workgroup>>
// CHECK-NEXT:  sm.copy %{{.+}} to %[[OTHER]]
// CHECK-NEXT:  tile.mma tn %[[AS]], %[[BS]], %{{.+}} : memref<32x32xbf16, #[[A]], #gpu.address_space<workgroup>>, memref<32x32xbf16, #[[B]], #gpu.address_space<workgroup>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.level = "smem", tile.target = "sm_80"} {
tile.kernel @both(%a: !mat) attributes {schedule = #tile.schedule<swizzle_a = <2,3,3>, swizzle_b = <1,3,3>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %other = sm.alloc : !buffer
  %c0 = arith.constant 0 : index
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x32xbf16>
  sm.copy %at to %as : !tile.view<32x32xbf16>, !buffer
  sm.copy %at to %bs : !tile.view<32x32xbf16>, !buffer
  sm.copy %at to %other : !tile.view<32x32xbf16>, !buffer
  %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf32>
  tile.return
}

// A swizzle of no bits is none.
// CHECK-LABEL: tile.kernel @none
// CHECK-NEXT:  sm.alloc : memref<32x32xbf16, #[[PLAIN]], #gpu.address_space<workgroup>>
tile.kernel @none(%a: !mat) attributes {schedule = #tile.schedule<swizzle_a = <0,3,3>, swizzle_b = <0,3,3>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf32>
  tile.return
}
}
