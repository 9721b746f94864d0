// assign-smem-layouts applies the swizzles of the schedule to the buffers that feed tile.mma, and only those.
// RUN: lowtide-opt %s -p assign-smem-layouts | filecheck %s

// CHECK-DAG: #[[A:.+]] = #tile.layout<(32,32):(32,1), swizzle<2,3,3>>
// CHECK-DAG: #[[B:.+]] = #tile.layout<(32,32):(32,1), swizzle<1,3,3>>
// CHECK-DAG: #[[PA:.+]] = #tile.layout<(64,(64,3)):(64,(1,4096)), swizzle<3,3,3>>
// CHECK-DAG: #[[PB:.+]] = #tile.layout<(16,(16,4)):(16,(1,256)), swizzle<1,3,3>>
// CHECK-DAG: #[[PC:.+]] = #tile.layout<(32,(16,2)):(16,(1,512)), swizzle<1,3,3>>
// CHECK-DAG: #[[ROWS:.+]] = #tile.layout<(32,32):(1,40)>
// CHECK-DAG: #[[PADDED:.+]] = #tile.layout<(32,32):(40,1)>
// CHECK-DAG: #[[PLAIN:.+]] = #tile.layout<(32,32):(32,1)>

// CHECK-LABEL: tile.kernel @both
// CHECK:       %[[AS:.+]] = sm.alloc : memref<32x32xbf16, #[[A]], #gpu.address_space<workgroup>>
// CHECK:       %[[BS:.+]] = sm.alloc : memref<32x32xbf16, #[[B]], #gpu.address_space<workgroup>>
// CHECK:       %[[OTHER:.+]] = sm.alloc : memref<32x32xbf16, #[[PLAIN]], #gpu.address_space<workgroup>>
// CHECK:       sm.copy %{{.+}} to %[[AS]] : !tile.view<32x32xbf16>, memref<32x32xbf16, #[[A]], #gpu.address_space<workgroup>>
// CHECK:       sm.copy %{{.+}} to %[[BS]] : !tile.view<32x32xbf16>, memref<32x32xbf16, #[[B]], #gpu.address_space<workgroup>>
// CHECK:       sm.copy %{{.+}} to %[[OTHER]]
// CHECK-NEXT:  tile.mma tn %[[AS]], %[[BS]], %{{.+}} : memref<32x32xbf16, #[[A]], #gpu.address_space<workgroup>>, memref<32x32xbf16, #[[B]], #gpu.address_space<workgroup>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>
!wide_a = memref<64x192xbf16, #tile.layout<(64,192):(192,1)>, #gpu.address_space<workgroup>>
!wide_b = memref<16x64xbf16, #tile.layout<(16,64):(64,1)>, #gpu.address_space<workgroup>>
module attributes {tile.level = "smem", tile.target = "sm_80"} {
tile.kernel @both(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <a = <swizzle = <2,3,3>>, b = <swizzle = <1,3,3>>>>} {
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
// CHECK:       sm.alloc : memref<32x32xbf16, #[[PLAIN]], #gpu.address_space<workgroup>>
tile.kernel @none(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <a = <swizzle = <0,3,3>>, b = <swizzle = <0,3,3>>>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf32>
  tile.return
}

// What TMA fills and wgmma reads lies in panels, each a row of its swizzle wide, one after the other.
// CHECK-LABEL: tile.kernel @panels
// CHECK:       sm.alloc : memref<64x192xbf16, #[[PA]], #gpu.address_space<workgroup>>
// CHECK:       sm.alloc : memref<16x64xbf16, #[[PB]], #gpu.address_space<workgroup>>
tile.kernel @panels() attributes {schedule = #tile.schedule<
  mainloop = <roles = cooperative(1), a = <swizzle = <3,3,3>>, b = <swizzle = <1,3,3>>>>} {
  %as = sm.alloc : !wide_a
  %bs = sm.alloc : !wide_b
  %zero = tile.splat 0.0 : !tile.tile<192x16xf32>
  %acc = tile.mma nn %as, %bs, %zero : !wide_a, !wide_b, !tile.tile<192x16xf32>
  tile.return
}

// A row that is one panel needs no cut.
// CHECK-LABEL: tile.kernel @one_panel
// CHECK:       sm.alloc : memref<32x32xbf16, #[[A]], #gpu.address_space<workgroup>>
// CHECK:       sm.alloc : memref<32x32xbf16, #[[PC]], #gpu.address_space<workgroup>>
tile.kernel @one_panel() attributes {schedule = #tile.schedule<
  mainloop = <roles = cooperative(1), a = <swizzle = <2,3,3>>, b = <swizzle = <1,3,3>>>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf32>
  tile.return
}

// A stage that the copies transpose is contiguous along its rows; padding parts its columns.
// CHECK-LABEL: tile.kernel @transposed
// CHECK:       sm.alloc : memref<32x32xbf16, #[[ROWS]], #gpu.address_space<workgroup>>
// CHECK:       sm.alloc : memref<32x32xbf16, #[[PADDED]], #gpu.address_space<workgroup>>
tile.kernel @transposed() attributes {schedule = #tile.schedule<mainloop = <
  a = <swizzle = <0,3,3>, stage = transposed, padding = 8>, b = <swizzle = <0,3,3>, padding = 8>>>} {
  %as = sm.alloc : !buffer
  %bs = sm.alloc : !buffer
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc = tile.mma tn %as, %bs, %zero : !buffer, !buffer, !tile.tile<32x32xf32>
  tile.return
}
}
