// lower-epilogue takes tile.store apart: the region as one sm.map, a way through shared memory, stores of whole rows.
// RUN: lowtide-opt %s -p lower-epilogue,cse | filecheck %s

#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!buffer, !buffer]>
!large_ring = !sm.ring<4 x [!buffer, !buffer]>

// The scratch has the swizzle of the schedule; on the way out each thread has 16 bytes of a row.
// CHECK-DAG: #[[SCRATCH:.+]] = #tile.layout<(16,32):(32,1), swizzle<1,3,3>>
// CHECK-DAG: #[[WIDE:.+]] = #tile.layout<(32,32):(32,1), swizzle<2,2,3>>
// CHECK-DAG: #[[WHOLE:.+]] = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
// CHECK-DAG: #[[PART:.+]] = #tile.tv<threads (4,8):(32,1), values ((2,2),1,4):((16,8),16,128)>
// CHECK-DAG: #[[ROWS:.+]] = #tile.tv<threads (4,8):(128,1), values (8,2,1):(16,8,512)>
// CHECK-DAG: #[[ROWS4:.+]] = #tile.tv<threads (8,4):(128,1), values (4,8,1):(32,4,1024)>
// CHECK-LABEL: module attributes {tile.level = "epilogue", tile.target = "sm_80"}
module attributes {tile.level = "atoms", tile.target = "sm_80"} {

// Arithmetic on the fragments, 16 rows of the tile at a time, through the storage of the drained ring.
// CHECK-LABEL: tile.kernel @registers(
// CHECK-SAME:    %[[D:[^ :,]+]]: memref<?x?xbf16, strided<[?, 1]>>, %[[BIAS:[^:]+]]: memref<?xbf16>, %[[ALPHA:[^:]+]]: f32, %[[M:[^:]+]]: index, %[[N:[^:]+]]: index)
// CHECK:       %[[ACC:.+]] = sm.mma_sync
// CHECK:       %[[BUFFER:.+]] = sm.ring_reuse %ring : !ring to memref<16x32xbf16, #[[SCRATCH]], #gpu.address_space<workgroup>>
// CHECK:       %[[TOP:.+]] = sm.extract %[[ACC]][0, 0] : !sm.fragment<32x32xf32, #[[WHOLE]]> to !sm.fragment<16x32xf32, #[[PART]]>

// Operands are read in the fragment's own layout; a scalar is shared by all.
// CHECK:       %[[BIASES:.+]] = tile.view per_column %[[BIAS]][%[[N]]] : memref<?xbf16> to !tile.view<16x32xbf16>
// CHECK:       %[[BN:.+]] = sm.load_global %[[BIASES]] by "ld.global.4" : !tile.view<16x32xbf16> to !sm.fragment<16x32xbf16, #[[PART]]>
// CHECK:       %[[Y:.+]] = sm.map %[[TOP]], %[[BN]], %[[ALPHA]] : !sm.fragment<16x32xf32, #[[PART]]>, !sm.fragment<16x32xbf16, #[[PART]]>, f32 {
// CHECK:       ^bb0(%[[X:.+]]: f32, %[[B:.+]]: bf16, %[[F:.+]]: f32):
// CHECK:         %[[SCALED:.+]] = arith.mulf %[[X]], %[[F]] : f32
// CHECK:         %[[WIDER:.+]] = arith.extf %[[B]] : bf16 to f32
// CHECK:         %[[SHIFTED:.+]] = arith.addf %[[SCALED]], %[[WIDER]] : f32
// CHECK:         %[[NARROW:.+]] = arith.truncf %[[SHIFTED]] : f32 to bf16
// CHECK:         tile.yield %[[NARROW]] : bf16
// CHECK-NEXT:  } : !sm.fragment<16x32xbf16, #[[PART]]>

// All have stored before any loads; all have loaded before the scratch is stored to again.
// CHECK-NEXT:  sm.store_shared %[[Y]] to %[[BUFFER]] by "st.shared.4"
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  %[[LOADED:.+]] = sm.load_shared %[[BUFFER]] by "ld.shared.16" : {{.*}} to !sm.fragment<16x32xbf16, #[[ROWS]]>
// CHECK:       %[[WINDOW:.+]] = tile.view %[[D]][%[[M]], %[[N]]] : {{.*}} to !tile.view<16x32xbf16>
// CHECK:       sm.store_global %[[LOADED]] to %[[WINDOW]] by "st.global.16"
// CHECK-NEXT:  sm.barrier

// The lower half: its window starts 16 rows further down; that of the bias is the same, and cse sees it.
// CHECK:       %[[BOTTOM:.+]] = sm.extract %[[ACC]][16, 0]
// CHECK:       %[[M16:.+]] = arith.addi %[[M]], %c16
// CHECK-NOT:   tile.view per_column
// CHECK:       sm.map %[[BOTTOM]],
// CHECK:       sm.store_shared
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  sm.load_shared
// CHECK:       %[[WINDOW2:.+]] = tile.view %[[D]][%[[M16]], %[[N]]]
// CHECK:       sm.store_global %{{.+}} to %[[WINDOW2]]

// A one-shot CTA ends here: no barrier after the last store.
// CHECK-NEXT:  tile.return
tile.kernel @registers(%fa: !a, %fb: !b, %d: !mat, %bias: memref<?xbf16>, %alpha: f32, %m: index, %n: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = registers, tile = [16, 32], swizzle = <1,3,3>>>} {
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  sm.cp_async_wait 0
  sm.barrier
  tile.store %acc into %d[%m, %n] operands(per_column %bias : memref<?xbf16>, scalar %alpha : f32) {
  ^bb0(%x: f32, %b: bf16, %f: f32):
    %0 = arith.mulf %x, %f : f32
    %1 = arith.extf %b : bf16 to f32
    %2 = arith.addf %0, %1 : f32
    %3 = arith.truncf %2 : f32 to bf16
    tile.yield %3 : bf16
  } : !c, !mat
  tile.return
}

// Arithmetic on rows: accumulators go through shared memory as they are, operands are read as rows. A persistent CTA
// fills its ring again, so the scratch in it must have been read by all. The third hint is D's.
// CHECK-LABEL: tile.kernel @rows
// CHECK-SAME:    %[[M:[^ :,]+]]: index, %[[N:[^ :,]+]]: index)
// CHECK:       %[[ACC:.+]] = sm.mma_sync
// CHECK:       %[[BUFFER:.+]] = sm.ring_reuse %ring : !ring{{.*}} to memref<32x32xf32, #[[WIDE]], #gpu.address_space<workgroup>>
// CHECK-NEXT:  sm.store_shared %[[ACC]] to %[[BUFFER]] by "st.shared.8" : !sm.fragment<32x32xf32, #[[WHOLE]]>
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  %[[X:.+]] = sm.load_shared %[[BUFFER]] by "ld.shared.16" : {{.*}} to !sm.fragment<32x32xf32, #[[ROWS4]]>
// CHECK:       %[[CV:.+]] = tile.view %{{.+}}[%[[M]], %[[N]]] : {{.*}} to !tile.view<32x32xbf16>
// CHECK:       %[[C:.+]] = sm.load_global %[[CV]] by "ld.global.8" : !tile.view<32x32xbf16> to !sm.fragment<32x32xbf16, #[[ROWS4]]>
// CHECK:       %[[RV:.+]] = tile.view per_row %{{.+}}[%[[M]]] : memref<?xf32> to !tile.view<32x32xf32>
// CHECK:       %[[R:.+]] = sm.load_global %[[RV]] by "ld.global.16" : !tile.view<32x32xf32> to !sm.fragment<32x32xf32, #[[ROWS4]]>
// CHECK:       %[[Y:.+]] = sm.map %[[X]], %[[C]], %[[R]]
// CHECK:       sm.store_global %[[Y]] to %{{.+}} by "st.global.8" cache(streaming) : !sm.fragment<32x32xbf16, #[[ROWS4]]>, !tile.view<32x32xbf16>
// CHECK:       sm.barrier
// CHECK-NEXT:  tile.return
tile.kernel @rows(%fa: !a, %fb: !b, %d: !mat, %c: !mat, %r: memref<?xf32>, %m: index, %n: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = persistent>,
  mainloop = <b = <cache = evict_last>>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = rows, tile = [32, 32], swizzle = <2,2,3>, cache = streaming>>} {
  %ring = sm.ring : !large_ring
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  tile.store %acc into %d[%m, %n] operands(full %c : !mat, per_row %r : memref<?xf32>) {
  ^bb0(%x: f32, %e: bf16, %s: f32):
    %0 = arith.extf %e : bf16 to f32
    %1 = arith.addf %0, %x : f32
    %2 = arith.mulf %1, %s : f32
    %3 = arith.truncf %2 : f32 to bf16
    tile.yield %3 : bf16
  } : !c, !mat
  tile.return
}

// Full operands are loaded one part ahead: those of the second part before the first one is stored.
// CHECK-LABEL: tile.kernel @prefetched
// CHECK:       %[[ACC:.+]] = sm.mma_sync
// CHECK:       %[[TOP:.+]] = sm.extract %[[ACC]][0, 0]
// CHECK:       %[[C0:.+]] = sm.load_global %{{.+}} by "ld.global.8" : !tile.view<16x32xbf16>
// CHECK:       %[[LOW:.+]] = sm.extract %[[ACC]][16, 0]
// CHECK:       %[[C1:.+]] = sm.load_global %{{.+}} by "ld.global.8" : !tile.view<16x32xbf16>
// CHECK:       sm.store_shared %[[TOP]]
// CHECK:       %[[X0:.+]] = sm.load_shared
// CHECK:       sm.map %[[X0]], %[[C0]]
// CHECK:       sm.store_global
// CHECK-NEXT:  sm.barrier
// CHECK:       sm.store_shared %[[LOW]]
// CHECK:       %[[X1:.+]] = sm.load_shared
// CHECK:       sm.map %[[X1]], %[[C1]]
tile.kernel @prefetched(%fa: !a, %fb: !b, %d: !mat, %c: !mat, %m: index, %n: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = rows, tile = [16, 32], swizzle = <2,2,3>, prefetch = 1>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  tile.store %acc into %d[%m, %n] operands(full %c : !mat) {
  ^bb0(%x: f32, %e: bf16):
    %0 = arith.extf %e : bf16 to f32
    %1 = arith.addf %0, %x : f32
    %2 = arith.truncf %1 : f32 to bf16
    tile.yield %2 : bf16
  } : !c, !mat
  tile.return
}

// A scratch that is larger than the ring gets storage of its own.
// CHECK-LABEL: tile.kernel @own_scratch
// CHECK:       %[[BUFFER:.+]] = sm.alloc : memref<32x32xf32, #[[WIDE]], #gpu.address_space<workgroup>>
// CHECK-NOT:   sm.ring_reuse
// CHECK:       sm.store_shared %{{.+}} to %[[BUFFER]]
tile.kernel @own_scratch(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = one_shot>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = smem, math = rows, tile = [32, 32], swizzle = <2,2,3>>>} {
  %ring = sm.ring : !sm.ring<1 x [!buffer, !buffer]>
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    %0 = arith.truncf %x : f32 to bf16
    tile.yield %0 : bf16
  } : !c, !mat
  tile.return
}

// Direct stores: pairs of neighbours from the fragment as it is held; no scratch, no barrier.
// CHECK-LABEL: tile.kernel @direct
// CHECK:       %[[ACC:.+]] = sm.mma_sync
// CHECK:       %[[Y:.+]] = sm.map %[[ACC]]
// CHECK:       %[[WINDOW:.+]] = tile.view %{{.+}} to !tile.view<32x32xbf16>
// CHECK:       sm.store_global %[[Y]] to %[[WINDOW]] by "st.global.4" cache(write_through) : !sm.fragment<32x32xbf16, #[[WHOLE]]>
// CHECK-NEXT:  tile.return
tile.kernel @direct(%fa: !a, %fb: !b, %d: !mat, %m: index) attributes {
    schedule = #tile.schedule<
  grid = <scheduler = persistent>,
  mainloop = <a = <cache = evict_first>>,
  multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = direct, math = registers, tile = [32, 32], swizzle = <0,3,3>, cache = write_through>>} {
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  tile.store %acc into %d[%m, %m] {
  ^bb0(%x: f32):
    %0 = arith.truncf %x : f32 to bf16
    tile.yield %0 : bf16
  } : !c, !mat
  tile.return
}
}
