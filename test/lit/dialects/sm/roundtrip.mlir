// Every op, attribute and type of the sm dialect prints as it is written here, and reads back to itself.
// RUN: lowtide-opt %s > %t.once && lowtide-opt %t.once > %t.twice && diff %t.once %t.twice
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt > %t.generic && diff %t.once %t.generic
// RUN: filecheck %s < %t.once

// CHECK-DAG: #layout = #tile.layout<(128,32):(32,1), swizzle<2,3,3>>
// CHECK-DAG: #[[ACC:tv[0-9]*]] = #tile.tv<threads 32:1, values 512:32>
// CHECK-DAG: #[[COPY:tiled_copy]] = #sm.tiled_copy<cp.async.16, #{{.+}}>
// CHECK-DAG: #tiled_mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1]>
// CHECK-DAG: #tiled_mma1 = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1], permutation [32, #{{.+}}, 16]>
// CHECK-DAG: !ring = !sm.ring<3 x [memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>, memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>]>

#layout = #tile.layout<(128,32):(32,1), swizzle<2,3,3>>
#tv_copy = #tile.tv<threads (4,32):(1024,1), values (8,4):(128,32)>
#tv_a = #tile.tv<threads 32:1, values 64:32>
#tv_c = #tile.tv<threads 32:1, values 512:32>
#tv_part = #tile.tv<threads 32:1, values 128:32>
!buffer = memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>
!scratch = memref<32x128xf32, #tile.layout<(32,128):(128,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>

// CHECK-LABEL: tile.kernel @buffers
tile.kernel @buffers(%a: memref<?x?xbf16, strided<[?, 1]>>) {
  %c0 = arith.constant 0 : index
  %at = tile.view %a[%c0, %c0] : memref<?x?xbf16, strided<[?, 1]>> to !tile.view<128x32xbf16>
  // CHECK: %[[S:.+]] = sm.alloc : memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>
  %s = sm.alloc : !buffer
  // CHECK: sm.alloc at 8192 : memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>
  %placed = sm.alloc at 8192 : !buffer
  // CHECK: sm.copy %[[A:.+]] to %[[S]] : !tile.view<128x32xbf16>, memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>
  sm.copy %at to %s : !tile.view<128x32xbf16>, !buffer
  // CHECK: sm.barrier
  sm.barrier
  // CHECK: sm.cp_async %[[A]] to %[[S]] by #[[COPY]] : !tile.view<128x32xbf16>, memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>
  sm.cp_async %at to %s by <cp.async.16, #tv_copy> : !tile.view<128x32xbf16>, !buffer
  // CHECK: sm.cp_async_commit
  sm.cp_async_commit
  // CHECK: sm.cp_async_wait 1
  sm.cp_async_wait 1
  tile.return
}

// Results of the ring's ops are named after what they are.
// CHECK-LABEL: tile.kernel @ring
tile.kernel @ring(%m: memref<?x?xbf16, strided<[?, 1]>>) {
  %c0 = arith.constant 0 : index
  %at = tile.view %m[%c0, %c0] : memref<?x?xbf16, strided<[?, 1]>> to !tile.view<128x32xbf16>
  // CHECK: %ring = sm.ring : !ring
  %ring = sm.ring : !ring
  // CHECK: %ring_{{.+}} = sm.ring at [0, 24576] : !ring
  %placed = sm.ring at [0, 24576] : !ring
  // CHECK: %ring_{{.+}} = sm.ring kept [1] of 1 at [0, 24576] : !ring
  %kept = sm.ring kept [1] of 1 at [0, 24576] : !ring
  // CHECK: %slot, %a, %b = sm.producer_acquire %ring[%c0, %c0] : !ring
  %slot, %a, %b = sm.producer_acquire %ring[%c0, %c0] : !ring
  // CHECK: sm.copy_async %{{.+}} to %a : !tile.view<128x32xbf16>, memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>
  sm.copy_async %at to %a : !tile.view<128x32xbf16>, !buffer
  // CHECK: sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
  sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
  // CHECK: %[[READ:slot_.+]], %{{.+}}, %{{.+}} = sm.consumer_wait %ring[%c0, %c0] : !ring
  %read, %ra, %rb = sm.consumer_wait %ring[%c0, %c0] : !ring
  // CHECK: sm.consumer_release %ring, %[[READ]] : !ring, !sm.slot<read>
  sm.consumer_release %ring, %read : !ring, !sm.slot<read>
  // CHECK: %index, %phase = sm.ring_advance %ring[%c0, %c0] : !ring
  %index, %phase = sm.ring_advance %ring[%c0, %c0] : !ring
  // CHECK: %{{a_.+}}, %{{b_.+}} = sm.ring_slot %ring[%index] : !ring
  %sa, %sb = sm.ring_slot %ring[%index] : !ring
  // CHECK: sm.producer_tail %ring : !ring
  sm.producer_tail %ring : !ring
  // CHECK: sm.ring_reuse %ring : !ring to memref<32x128xf32, #{{.+}}, #gpu.address_space<workgroup>>
  %scratch = sm.ring_reuse %ring : !ring to !scratch
  // CHECK: sm.prefix %{{.+}} : memref<32x128xf32, #{{.+}}, #gpu.address_space<workgroup>> to memref<16x8xf32, #gpu.address_space<workgroup>>
  %part = sm.prefix %scratch : !scratch to memref<16x8xf32, #gpu.address_space<workgroup>>
  tile.return
}

// CHECK-LABEL: tile.kernel @fragments
tile.kernel @fragments(%d: memref<?x?xf32, strided<[?, 1]>>, %alpha: f32) {
  %c0 = arith.constant 0 : index
  %s = sm.alloc : !buffer
  %transposed = sm.alloc : memref<32x128xbf16, #tile.layout<(32,128):(128,1)>, #gpu.address_space<workgroup>>
  %scratch = sm.alloc : !scratch
  // CHECK: %[[C:.+]] = sm.splat 0.000000e+00 : !sm.fragment<128x128xf32, #[[ACC]]>
  %c = sm.splat 0.0 : !sm.fragment<128x128xf32, #tv_c>
  // CHECK: sm.ldmatrix %{{.+}}[0, 16] by "ldmatrix.x4" : memref<128x32xbf16, #layout, #gpu.address_space<workgroup>> to !sm.fragment<128x16xbf16, #[[A:.+]]>
  %fa = sm.ldmatrix %s[0, 16] by "ldmatrix.x4" : !buffer to !sm.fragment<128x16xbf16, #tv_a>
  // CHECK: sm.ldmatrix %{{.+}}[16, 0] by "ldmatrix.x4.trans" trans
  %fb = sm.ldmatrix %transposed[16, 0] by "ldmatrix.x4.trans" trans : memref<32x128xbf16, #tile.layout<(32,128):(128,1)>, #gpu.address_space<workgroup>> to !sm.fragment<128x16xbf16, #tv_a>
  // CHECK: sm.mma_sync %{{.+}}, %{{.+}}, %[[C]] by #tiled_mma : !sm.fragment<128x16xbf16, #[[A]]>, !sm.fragment<128x16xbf16, #[[A]]>, !sm.fragment<128x128xf32, #[[ACC]]>
  %c1 = sm.mma_sync %fa, %fb, %c by <mma.m16n8k16.f32.bf16, atoms [2, 2, 1]> : !sm.fragment<128x16xbf16, #tv_a>, !sm.fragment<128x16xbf16, #tv_a>, !sm.fragment<128x128xf32, #tv_c>
  // CHECK: sm.mma_sync {{.*}} by #tiled_mma1
  %c2 = sm.mma_sync %fa, %fb, %c1 by <mma.m16n8k16.f32.bf16, atoms [2, 2, 1], permutation [32, #tile.layout<(8,2):(1,8)>, 16]> : !sm.fragment<128x16xbf16, #tv_a>, !sm.fragment<128x16xbf16, #tv_a>, !sm.fragment<128x128xf32, #tv_c>
  // CHECK: sm.extract %{{.+}}[32, 0] : !sm.fragment<128x128xf32, #[[ACC]]> to !sm.fragment<32x128xf32, #[[PART:.+]]>
  %part = sm.extract %c2[32, 0] : !sm.fragment<128x128xf32, #tv_c> to !sm.fragment<32x128xf32, #tv_part>
  // CHECK: %[[Y:.+]] = sm.map %{{.+}}, %{{.+}} : !sm.fragment<32x128xf32, #[[PART]]>, f32 {
  // CHECK-NEXT: ^bb0(%{{.+}}: f32, %{{.+}}: f32):
  // CHECK: tile.yield %{{.+}} : f32
  // CHECK-NEXT: } : !sm.fragment<32x128xf32, #[[PART]]>
  %y = sm.map %part, %alpha : !sm.fragment<32x128xf32, #tv_part>, f32 {
  ^bb0(%e: f32, %f: f32):
    %0 = arith.mulf %e, %f : f32
    tile.yield %0 : f32
  } : !sm.fragment<32x128xf32, #tv_part>
  // CHECK: sm.store_shared %[[Y]] to %[[SCRATCH:.+]] by "st.shared.8" : !sm.fragment<32x128xf32, #[[PART]]>, memref<32x128xf32, #{{.+}}, #gpu.address_space<workgroup>>
  sm.store_shared %y to %scratch by "st.shared.8" : !sm.fragment<32x128xf32, #tv_part>, !scratch
  // CHECK: %[[ROWS:.+]] = sm.load_shared %[[SCRATCH]] by "ld.shared.16" : memref<32x128xf32, #{{.+}}, #gpu.address_space<workgroup>> to !sm.fragment<32x128xf32, #[[PART]]>
  %rows = sm.load_shared %scratch by "ld.shared.16" : !scratch to !sm.fragment<32x128xf32, #tv_part>
  %turned = tile.view %d[%c0, %c0] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<8x16xf32>
  // CHECK: sm.load_global %{{.+}} by "ld.global.4" trans : !tile.view<8x16xf32> to !sm.fragment<16x8xf32, #{{.+}}>
  %turned_fragment = sm.load_global %turned by "ld.global.4" trans : !tile.view<8x16xf32> to !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
  // CHECK: sm.load_global %{{.+}} by "ld.global.16" aligned : !tile.view<8x16xf32> to !sm.fragment<8x16xf32, #{{.+}}>
  %staged = sm.load_global %turned by "ld.global.16" aligned : !tile.view<8x16xf32> to !sm.fragment<8x16xf32, #tile.tv<threads (4,8):(32,1), values 4:8>>
  // CHECK: sm.load_global %{{.+}} by "ld.global.16" realigned : !tile.view<8x16xf32> to !sm.fragment<8x16xf32, #{{.+}}>
  %shifted = sm.load_global %turned by "ld.global.16" realigned : !tile.view<8x16xf32> to !sm.fragment<8x16xf32, #tile.tv<threads (4,8):(32,1), values 4:8>>
  // CHECK: sm.stack %{{.+}} : !sm.fragment<16x8xf32, #{{.+}}> to !sm.fragment<32x8xf32, #{{.+}}>
  %stacked = sm.stack %turned_fragment : !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>> to !sm.fragment<32x8xf32, #tile.tv<threads (16,2):(1,16), values 8:32>>
  // CHECK: sm.sum_over_k %{{.+}} by #{{.+}} : !sm.fragment<128x128xf32, #[[ACC]]> to !sm.fragment<128x128xf32, #{{.+}}>
  %sum = sm.sum_over_k %c2 by <mma.m16n8k16.f32.bf16, atoms [2, 2, 1]> : !sm.fragment<128x128xf32, #tv_c> to !sm.fragment<128x128xf32, #tile.tv<threads 128:1, values 128:128>>
  // CHECK: sm.load_shared %[[SCRATCH]] at [0, 8] by "ld.shared.4" trans : memref<32x128xf32, #{{.+}}, #gpu.address_space<workgroup>> to !sm.fragment<16x8xf32, #{{.+}}>
  %corner = sm.load_shared %scratch at [0, 8] by "ld.shared.4" trans : !scratch to !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
  %dt = tile.view %d[%c0, %c0] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<32x128xf32>
  // CHECK: sm.load_global %[[DT:.+]] by "ld.global.16" : !tile.view<32x128xf32> to !sm.fragment<32x128xf32, #[[PART]]>
  %old = sm.load_global %dt by "ld.global.16" : !tile.view<32x128xf32> to !sm.fragment<32x128xf32, #tv_part>
  // CHECK: sm.store_global %[[ROWS]] to %[[DT]] by "st.global.16" : !sm.fragment<32x128xf32, #[[PART]]>, !tile.view<32x128xf32>
  sm.store_global %rows to %dt by "st.global.16" : !sm.fragment<32x128xf32, #tv_part>, !tile.view<32x128xf32>
  // CHECK: tile.store %{{.+}} into %{{.+}}[%c0, %c0] {
  // CHECK: } : !sm.fragment<128x128xf32, #[[ACC]]>, memref<?x?xf32, strided<[?, 1]>>
  tile.store %c2 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !sm.fragment<128x128xf32, #tv_c>, memref<?x?xf32, strided<[?, 1]>>
  tile.return
}

// CHECK-LABEL: tile.kernel @timing
tile.kernel @timing(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: } {sm.timing = #sm.timing<stores = next_tile, copies = spread, slot = step_before, steps = unrolled>}
  scf.for %i = %c0 to %n step %c1 {
  } {sm.timing = #sm.timing<stores = next_tile, copies = spread, slot = step_before, steps = unrolled>}
  // CHECK: } {sm.timing = #sm.timing<stores = first_rows>}
  scf.for %i = %c0 to %n step %c1 {
  } {sm.timing = #sm.timing<stores = first_rows, copies = at_head, slot = in_step, steps = rolled>}
  tile.return
}
