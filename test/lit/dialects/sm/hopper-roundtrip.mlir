// The ops and types of Hopper kernels (roles, mbarriers, TMA, wgmma) print as written here and read back to themselves.
// RUN: lowtide-opt %s > %t.once && lowtide-opt %t.once > %t.twice && diff %t.once %t.twice
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt > %t.generic && diff %t.once %t.generic
// RUN: filecheck %s < %t.once

// The type of a wgmma's registers has an alias if there are more than eight.
// CHECK: !registers = !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
!registers = !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
#tv8 = #tile.tv<threads (4,8,4):(64,1,16), values (2,2):(8,256)>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!panels = memref<64x128xbf16, #tile.layout<(64,(64,2)):(64,(1,4096)), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!plain = memref<8x16xi8, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!fa = !sm.fragment<64x64xbf16, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,4):((64,8,512),64,1024)>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
#tv2 = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
!a2 = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!pending2 = !sm.pending<!sm.fragment<128x8xf32, #tv2>>

// CHECK-DAG: #[[TV:tv1]] = #tile.tv<
// CHECK-DAG: #[[MMA:tiled_mma]] = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
// CHECK-DAG: !pending = !sm.pending<!sm.fragment<64x8xf32, #[[TV]]>>

// Any number of roles; registers are printed where they are asked for. A body captures what is outside.
// CHECK-LABEL: tile.kernel @roles
tile.kernel @roles(%ring: !ring) {
  %c0 = arith.constant 0 : index
  // CHECK:      sm.roles {
  // CHECK-NEXT:   producer warps(4) registers(40) {
  // CHECK-NEXT:     sm.producer_acquire %{{.+}}[%c0, %c0]
  // CHECK-NEXT:   }
  // CHECK-NEXT:   consumer warps(8) registers(232) {
  // CHECK-NEXT:     sm.barrier
  // CHECK-NEXT:   }
  // CHECK-NEXT: }
  // CHECK-NOT:  tile.yield
  sm.roles {
    producer warps(4) registers(40) {
      %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
    }
    consumer warps(8) registers(232) {
      sm.barrier
      tile.yield
    }
  }
  // CHECK:      sm.roles attributes {test.note} {
  // CHECK-NEXT:   consumer warps(4) {
  // CHECK-NEXT:   }
  // CHECK-NEXT: }
  sm.roles attributes {test.note} {
    consumer warps(4) {
    }
  }
  tile.return
}

// A role of which two instances take turns, and its number, by which it skips slots of the ring.
// CHECK-LABEL: tile.kernel @instances
tile.kernel @instances(%ring: !ring) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[TURN:turn]] = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %t = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  // CHECK:      producer warps(4) {
  // CHECK:      consumer warps(4) instances(2) registers(240) {
  // CHECK-NEXT:   %[[INSTANCE:instance]] = sm.role_instance : index
  // CHECK-NEXT:   %index, %phase = sm.ring_advance %{{.+}}[%c0, %c0] by %[[INSTANCE]] : !ring
  // CHECK-NEXT:   tile.work_tiles (%m, %n) of (%c0, %c0) by [8, 8] order(<row>) persistent in_turn {
  // CHECK-NEXT:     sm.mbarrier_wait %[[TURN]]
  // CHECK-NEXT:     sm.mbarrier_arrive %[[TURN]]
  // CHECK:        tile.work_tiles (%m, %n) of (%c0, %c0) by [8, 8] order(<row>) even_split in_turn iter_args(%{{.+}} = %c0) -> (index) {
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) instances(2) registers(240) {
      %i = sm.role_instance : index
      %s, %p = sm.ring_advance %ring[%c0, %c0] by %i : !ring
      tile.work_tiles (%m, %n) of (%c0, %c0) by [8, 8] order(<row>) persistent in_turn {
        sm.mbarrier_wait %t[%i, %p] : !sm.mbarriers<2>
        sm.mbarrier_arrive %t[%s] : !sm.mbarriers<2>
      }
      %r = tile.work_tiles (%m, %n) of (%c0, %c0) by [8, 8] order(<row>) even_split in_turn iter_args(%x = %c0) -> (index) {
        tile.yield %x : index
      }
    }
  }
  tile.return
}

// Slots become full where bytes are expected, empty where threads arrive: dumps name them so.
// CHECK-LABEL: tile.kernel @mbarriers
tile.kernel @mbarriers(%ring: !ring, %slot: !sm.slot<read>, %retired: !sm.retired, %bytes: index) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[FULL:full]] = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  // CHECK: %[[EMPTY:empty]] = sm.mbarriers arrivals(2) at 1024 : !sm.mbarriers<4>
  %empty = sm.mbarriers arrivals(2) at 1024 : !sm.mbarriers<4>
  // CHECK: sm.mbarrier_wait %[[FULL]][%c0, %c0] : !sm.mbarriers<2>
  sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
  // CHECK: sm.mbarrier_arrive %[[FULL]][%c0] : !sm.mbarriers<2>
  sm.mbarrier_arrive %full[%c0] : !sm.mbarriers<2>
  // CHECK: sm.cp_async_arrive %[[FULL]][%c0] : !sm.mbarriers<2>
  sm.cp_async_arrive %full[%c0] : !sm.mbarriers<2>
  // CHECK: sm.mbarrier_arrive %[[FULL]][%c0] expects 9216 : !sm.mbarriers<2>
  sm.mbarrier_arrive %full[%c0] expects 9216 : !sm.mbarriers<2>
  // In addition, bytes of loads with `rows`.
  // CHECK: sm.mbarrier_arrive %[[FULL]][%c0] expects 1024 plus %[[BYTES:.+]] : !sm.mbarriers<2>
  sm.mbarrier_arrive %full[%c0] expects 1024 plus %bytes : !sm.mbarriers<2>
  // CHECK: sm.mbarrier_arrive %[[FULL]][%c0] expects 0 plus %[[BYTES]] after %{{.+}} : !sm.mbarriers<2>
  sm.mbarrier_arrive %full[%c0] expects 0 plus %bytes after %retired : !sm.mbarriers<2>
  // CHECK: sm.mbarrier_arrive %[[EMPTY]][%c0] after %{{.+}} : !sm.mbarriers<4>
  sm.mbarrier_arrive %empty[%c0] after %retired : !sm.mbarriers<4>
  // CHECK: sm.mbarrier_arrive %[[EMPTY]][%c0] each_warp after %{{.+}} : !sm.mbarriers<4>
  sm.mbarrier_arrive %empty[%c0] each_warp after %retired : !sm.mbarriers<4>
  // CHECK: sm.consumer_release %{{.+}}, %[[SLOT:.+]] after %{{.+}} : !ring, !sm.slot<read>
  sm.consumer_release %ring, %slot after %retired : !ring, !sm.slot<read>
  tile.return
}

// Boxes with and without a swizzle, of 1-byte elements and of 2.
// CHECK-LABEL: func.func @maps
func.func @maps(%a: !mat, %q: memref<64x64xi8>, %as: memref<?x?x?xbf16, strided<[?, ?, 1]>>, %rows: index) {
  // CHECK: sm.tensor_map %{{.+}} : memref<?x?xbf16, strided<[?, 1]>> to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
  %map = sm.tensor_map %a : !mat to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
  // CHECK: sm.tensor_map %{{.+}} : memref<64x64xi8> to !sm.tensor_map<8x16xi8>
  %plain = sm.tensor_map %q : memref<64x64xi8> to !sm.tensor_map<8x16xi8>
  // CHECK: sm.tensor_map %{{.+}} : memref<64x64xi8> to !sm.tensor_map<256x32xi8, swizzle<1,4,3>>
  %narrow = sm.tensor_map %q : memref<64x64xi8> to !sm.tensor_map<256x32xi8, swizzle<1,4,3>>
  // As panels of 64 columns, two a box.
  // CHECK: sm.tensor_map %{{.+}} : memref<?x?xbf16, strided<[?, 1]>> to !sm.tensor_map<2x64x64xbf16, swizzle<3,3,3>>
  %panels = sm.tensor_map %a : !mat to !sm.tensor_map<2x64x64xbf16, swizzle<3,3,3>>
  // CHECK: sm.tensor_map %{{.+}} : memref<?x?xbf16, strided<[?, 1]>> to !sm.tensor_map<1x1x1x64x64xbf16, swizzle<3,3,3>>
  %five = sm.tensor_map %a : !mat to !sm.tensor_map<1x1x1x64x64xbf16, swizzle<3,3,3>>
  // Boxes of as many rows as the last tile has; also for a batch.
  // CHECK: sm.tensor_map %{{.+}} rows(%[[ROWS:.+]]) : memref<?x?xbf16, strided<[?, 1]>> to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
  %last = sm.tensor_map %a rows(%rows) : !mat to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
  // CHECK: sm.tensor_map %{{.+}} rows(%[[ROWS]]) : memref<?x?x?xbf16, strided<[?, ?, 1]>> to !sm.tensor_map<1x64x64xbf16, swizzle<3,3,3>>
  %lasts = sm.tensor_map %as rows(%rows) : memref<?x?x?xbf16, strided<[?, ?, 1]>> to !sm.tensor_map<1x64x64xbf16, swizzle<3,3,3>>
  return
}

// CHECK-LABEL: tile.kernel @tma
tile.kernel @tma(%map: !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, %plain: !sm.tensor_map<8x16xi8>, %m: index, %k: index) {
  %c0 = arith.constant 0 : index
  %as = sm.alloc : !a
  %qs = sm.alloc : !plain
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  // CHECK: sm.tma_load %{{.+}}[%[[M:.+]], %[[K:.+]]] to %{{.+}} signals %{{.+}}[%c0] : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, memref<64x64xbf16, #{{.+}}, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  sm.tma_load %map[%m, %k] to %as signals %full[%c0] : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, !a, !sm.mbarriers<2>
  // CHECK: sm.tma_load {{.*}} : !sm.tensor_map<8x16xi8>, memref<8x16xi8, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  sm.tma_load %plain[%m, %k] to %qs signals %full[%c0] : !sm.tensor_map<8x16xi8>, !plain, !sm.mbarriers<2>
  // CHECK: sm.tma_load {{.*}} signals %{{.+}}[%c0] cache(evict_first) : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
  sm.tma_load %map[%m, %k] to %as signals %full[%c0] cache(evict_first) : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, !a, !sm.mbarriers<2>
  tile.return
}

// Loads of the rows that exist: one panel, two panels with a cache hint, and a matrix of a batch. Zeros in other rows.
// CHECK-LABEL: tile.kernel @rows
tile.kernel @rows(%map: !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, %maps: !sm.tensor_map<1x64x64xbf16, swizzle<3,3,3>>,
    %batch: index, %m: index, %k: index, %rows: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %as = sm.alloc : !a
  %panels = sm.alloc : !panels
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %ring = sm.ring : !ring
  // CHECK: sm.zero_rows %{{.+}} from(%[[ROWS:.+]], %c8) : !ring
  sm.zero_rows %ring from(%rows, %c8) : !ring
  // CHECK: sm.tma_load %{{.+}}[%[[M:.+]], %[[K:.+]]] rows(%[[ROWS]]) to %{{.+}} signals %{{.+}}[%c0] : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, memref<64x64xbf16, #{{.+}}, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  sm.tma_load %map[%m, %k] rows(%rows) to %as signals %full[%c0] : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, !a, !sm.mbarriers<2>
  // CHECK: sm.tma_load %{{.+}}[%[[M]], %[[K]]] rows(%[[ROWS]]) to %{{.+}} signals %{{.+}}[%c0] cache(evict_last) : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, memref<64x128xbf16
  sm.tma_load %map[%m, %k] rows(%rows) to %panels signals %full[%c0] cache(evict_last) : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, !panels, !sm.mbarriers<2>
  // CHECK: sm.tma_load %{{.+}}[%[[BATCH:.+]], %[[M]], %[[K]]] rows(%[[ROWS]]) to %{{.+}} signals %{{.+}}[%c0] : !sm.tensor_map<1x64x64xbf16, swizzle<3,3,3>>
  sm.tma_load %maps[%batch, %m, %k] rows(%rows) to %as signals %full[%c0] : !sm.tensor_map<1x64x64xbf16, swizzle<3,3,3>>, !a, !sm.mbarriers<2>
  tile.return
}

// An accumulator goes in as a fragment or while it is pending; it comes out readable only when nothing stays in flight.
// CHECK-LABEL: tile.kernel @wgmma
tile.kernel @wgmma(%as: !a, %bs: !b, %fa: !fa) {
  %zero = sm.splat 0.0 : !acc
  // CHECK: %[[P:.+]] = sm.wgmma tn %{{.+}}, %{{.+}}, %{{.+}} by #[[MMA]] : memref<64x64xbf16, {{.+}}>, memref<8x64xbf16, {{.+}}>, !sm.fragment<64x8xf32, #[[TV]]> -> !pending
  %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !pending
  // CHECK: %[[Q:.+]] = sm.wgmma tn %{{.+}}, %{{.+}}, %[[P]] by #[[MMA]] : memref<64x64xbf16, {{.+}}>, memref<8x64xbf16, {{.+}}>, !pending -> !pending
  %q = sm.wgmma tn %as, %bs, %p by #mma : !a, !b, !pending -> !pending
  // The letters of the other layouts; A of 64x64 is M×K as well as K×M.
  // CHECK: sm.wgmma nn
  %other = sm.wgmma nn %as, %bs, %zero by #mma : !a, !b, !acc -> !pending
  // CHECK: %{{.+}}, %{{.+}} = sm.wgmma_promote tn %{{.+}}, %{{.+}} into %{{.+}} by #[[MMA]] : memref<64x64xbf16, {{.+}}>, memref<8x64xbf16, {{.+}}>, !sm.fragment<64x8xf32, #[[TV]]>
  %sum, %done = sm.wgmma_promote tn %as, %bs into %zero by #mma : !a, !b, !acc
  // CHECK: sm.wgmma_promote tn %{{.+}}, %{{.+}} into %[[SCALE:.+]] scaled(%[[SCALE]] : !sm.fragment<64x8xf32, #[[TV]]>, %[[SCALE]] : !sm.fragment<64x8xf32, #[[TV]]>) by #[[MMA]]
  %scaled, %done2 = sm.wgmma_promote tn %as, %bs into %zero scaled(%zero : !acc, %zero : !acc) by #mma : !a, !b, !acc
  // CHECK: sm.wgmma tn %{{.+}}, %{{.+}}, %{{.+}} by #[[MMA]] : !sm.fragment<64x64xbf16, #{{.+}}>, memref<8x64xbf16, {{.+}}>, !sm.fragment<64x8xf32, #[[TV]]> -> !pending
  %held = sm.wgmma tn %fa, %bs, %zero by #mma : !fa, !b, !acc -> !pending
  // CHECK: %[[R:.+]], %{{.+}} = sm.mma_wait 1, %[[Q]] : !pending -> !pending
  %r, %retired = sm.mma_wait 1, %q : !pending -> !pending
  // CHECK: sm.mma_wait 0, %[[R]] : !pending -> !sm.fragment<64x8xf32, #[[TV]]>
  %c, %last = sm.mma_wait 0, %r : !pending -> !acc
  tile.return
}

// A of tf32 in registers.
// CHECK-LABEL: tile.kernel @held_tf32
tile.kernel @held_tf32(%fa: !sm.fragment<64x8xtf32, #tv8>, %bs: memref<8x8xtf32, #gpu.address_space<workgroup>>, %c: !acc) {
  // CHECK: sm.wgmma tn %{{.+}}, %{{.+}}, %{{.+}} by #{{.+}} : !sm.fragment<64x8xtf32, #{{.+}}>, memref<8x8xtf32, #gpu.address_space<workgroup>>, !sm.fragment<64x8xf32, #[[TV]]> -> !pending
  %p = sm.wgmma tn %fa, %bs, %c by <wgmma.m64n8k8.f32.tf32, atoms [1, 1, 1]> : !sm.fragment<64x8xtf32, #tv8>, memref<8x8xtf32, #gpu.address_space<workgroup>>, !acc -> !pending
  tile.return
}

// Each block of rows is a group of its own, and the first one is readable before the others.
// CHECK-LABEL: tile.kernel @row_groups
tile.kernel @row_groups(%as: !a2, %bs: !b, %p: !pending2) {
  // CHECK: %[[Q:.+]] = sm.wgmma tn %{{.+}}, %{{.+}}, %{{.+}} by #[[MMA]] row_groups : memref<128x64xbf16, {{.+}}>, memref<8x64xbf16, {{.+}}>, !{{.+}} -> !{{.+}}
  %q = sm.wgmma tn %as, %bs, %p by #mma row_groups : !a2, !b, !pending2 -> !pending2
  // CHECK: %{{.+}}, %[[REST:.+]] = sm.mma_wait_rows 1, %[[Q]] : !{{.+}} -> !sm.fragment<64x8xf32, #[[TV]]>
  %top, %rest = sm.mma_wait_rows 1, %q : !pending2 -> !acc
  // CHECK: sm.mma_wait 0, %[[REST]] : !{{.+}} -> !sm.fragment<128x8xf32, #{{.+}}>
  %c, %last = sm.mma_wait 0, %rest : !pending2 -> !sm.fragment<128x8xf32, #tv2>
  tile.return
}

// Scales of a matrix, or of what a slot holds of one, as a fragment; those of blocks begin anywhere in the first of them.
// CHECK-LABEL: tile.kernel @scales
tile.kernel @scales(%rows: memref<1x64xf32, #gpu.address_space<workgroup>>, %columns: memref<2x16xf32, #gpu.address_space<workgroup>>, %all: memref<?x?xf32, strided<[?, 1]>>, %n: index) {
  %c0 = arith.constant 0 : index
  // CHECK: sm.load_scales row_scale %{{.+}}[%{{.+}}, %c0] : memref<?x?xf32, strided<[?, 1]>> to !sm.fragment<64x8xf32, #[[TV]]>
  %r = sm.load_scales row_scale %all[%n, %c0] : memref<?x?xf32, strided<[?, 1]>> to !acc
  // CHECK: sm.load_scales row_scale %{{.+}}[%c0, %c0] : memref<1x64xf32, #gpu.address_space<workgroup>> to !sm.fragment<64x8xf32, #[[TV]]>
  %s = sm.load_scales row_scale %rows[%c0, %c0] : memref<1x64xf32, #gpu.address_space<workgroup>> to !acc
  // CHECK: sm.load_scales column_block_scale %{{.+}}[%{{.+}}] : memref<2x16xf32, #gpu.address_space<workgroup>> to !sm.fragment<64x8xf32, #[[TV]]>
  %t = sm.load_scales column_block_scale %columns[%n, %c0] : memref<2x16xf32, #gpu.address_space<workgroup>> to !acc
  tile.return
}

// CHECK-LABEL: func.func @ptx
func.func @ptx(%p: !llvm.struct<(f32, f32)>, %r: i32, %b: i64) {
  // CHECK: sm.ptx_wgmma_wait 0, %{{.+}} : !llvm.struct<(f32, f32)>
  %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, f32)>
  // CHECK: sm.ptx_wgmma "wgmma.m64n8k16.f32.bf16" %{{.+}}, (%[[R:.+]], %[[R]], %[[R]], %[[R]]), %{{.+}} : !llvm.struct<(f32, f32)>
  %q = sm.ptx_wgmma "wgmma.m64n8k16.f32.bf16" %c, (%r, %r, %r, %r), %b : !llvm.struct<(f32, f32)>
  // CHECK: sm.ptx_wgmma "wgmma.m64n8k16.f32.bf16" clears %{{.+}}, (%[[R]], %[[R]], %[[R]], %[[R]]), %{{.+}} transposed : !llvm.struct<(f32, f32)>
  %s = sm.ptx_wgmma "wgmma.m64n8k16.f32.bf16" clears %q, (%r, %r, %r, %r), %b transposed : !llvm.struct<(f32, f32)>
  return
}

// CHECK-LABEL: func.func @registers
func.func @registers(%p: !registers) {
  // CHECK: sm.ptx_wgmma_wait 0, %{{.+}} : !registers
  %c = sm.ptx_wgmma_wait 0, %p : !registers
  return
}
