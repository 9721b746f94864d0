// convert-sm-to-nvvm: roles, mbarriers, TMA loads and wgmma of one thread's program.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// A tensor map is passed as it is on the host, and as a pointer on the device; the kernel says where.
// CHECK:       tile.launch @kernel grid(%{{.+}}) threads(384) shared_memory(69696) args({{.*}}, %[[MAP:[^ ,]+]]) : index, i64, i32, i32, !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
// CHECK-LABEL: gpu.func @kernel(
// CHECK-SAME:    %{{.+}}: !llvm.ptr<1>, %{{.+}}: i64, %{{.+}}: i32, %{{.+}}: i32, %[[MAP:.+]]: !llvm.ptr) kernel
// Its registers at entry are an even share of an SM's, in steps of 8; setmaxnreg moves them from there.
// CHECK-SAME:    known_block_size = array<i32: 384, 1, 1>, nvvm.maxnreg = 168 : i32, nvvm.minctasm = 1 : i32,
// CHECK-SAME:    tensor_maps = array<i64: 4>

// mbarriers, 8 bytes each: one thread initialises all of them with their arrivals, one fence shows them to the TMA unit,
// one barrier to the other threads.
// CHECK:       %[[SMEM:.+]] = llvm.mlir.addressof @shared_memory
// CHECK:       %[[TID:.+]] = nvvm.read.ptx.sreg.tid.x
// CHECK:       %[[RINGB:.+]] = llvm.getelementptr %[[SMEM]][65536]
// CHECK:       %[[FULL:.+]] = llvm.getelementptr %[[SMEM]][69632]
// CHECK:       %[[EMPTY:.+]] = llvm.getelementptr %[[SMEM]][69664]
// CHECK:       %[[FIRST:.+]] = arith.cmpi eq, %[[TID]], %c0_i32{{.*}} : i32
// CHECK:       scf.if %[[FIRST]] {
// CHECK-NEXT:    nvvm.mbarrier.init %[[FULL]], %c1_i32{{.*}} : !llvm.ptr<3>, i32
// CHECK:         %[[FULL1:.+]] = llvm.getelementptr %[[FULL]][8] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK:         nvvm.mbarrier.init %[[FULL1]], %c1_i32
// CHECK-NEXT:    nvvm.mbarrier.init %[[EMPTY]], %c2_i32
// CHECK-COUNT-3: nvvm.mbarrier.init %{{.+}}, %c2_i32
// CHECK-NEXT:    nvvm.fence.mbarrier.init
// CHECK-NEXT:  }
// CHECK-NEXT:  nvvm.barrier0
// CHECK-NOT:   nvvm.mbarrier.init
// CHECK-NOT:   nvvm.barrier0

// Roles are branches on the thread: the first four warps are the producer, which gives registers up. One thread of it
// does all.
// CHECK:       %[[PRODUCES:.+]] = arith.cmpi ult, %[[TID]], %c128_i32{{.*}} : i32
// CHECK:       scf.if %[[PRODUCES]] {
// CHECK-NEXT:    nvvm.setmaxregister decrease 40
// CHECK:         scf.if %{{.+}} {

// Slot 3 of the empty barriers lies 3·8 bytes on; the wait sleeps at most 10 ms at a time.
// CHECK:           %[[E3:.+]] = llvm.getelementptr %[[EMPTY]][24] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK:           nvvm.mbarrier.try_wait.parity %[[E3]], %c1_i32{{.*}}, %c10000000_i32{{.*}} : !llvm.ptr<3>, i32, i32

// It arrives by itself, with the bytes, on slot 1.
// CHECK:           %[[F1:.+]] = llvm.getelementptr %[[FULL]][8]
// CHECK:           nvvm.mbarrier.arrive.expect_tx %[[F1]], %c9216_i32 : !llvm.ptr<3>, i32

// Coordinates of the box innermost first: column 192, then row 3. The buffer lies one stage of 2¹⁴ bytes on.
// CHECK:           %[[A1:.+]] = llvm.getelementptr %[[SMEM]][16384]
// CHECK:           %[[SIGNAL:.+]] = llvm.getelementptr %[[FULL]][8]
// CHECK:           %[[A1C_NUMBER:.+]] = llvm.ptrtoint %[[A1]] : !llvm.ptr<3> to i64
// CHECK:           %[[A1C:.+]] = llvm.inttoptr %[[A1C_NUMBER]] : i64 to !llvm.ptr<7>
// CHECK:           nvvm.cp.async.bulk.tensor.shared.cluster.global %[[A1C]], %[[MAP]], %[[SIGNAL]], box[%c192_i32{{.*}}, %c3_i32{{.*}}] : !llvm.ptr<7>, !llvm.ptr
// CHECK-NEXT:    }

// The rest are consumers, which take registers, and count their threads from 0.
// CHECK-NEXT:  } else {
// CHECK-NEXT:    nvvm.setmaxregister increase 232
// CHECK:         %[[OWN:.+]] = arith.subi %[[TID]], %c128_i32{{.*}} : i32

// All lanes of a warp take the number of their warpgroup from the first of them, for the uniform registers of ptxas.
// CHECK:         %[[NUMBER:.+]] = arith.shrui %[[OWN]], %c7_i32{{.*}} : i32
// CHECK-NEXT:    %[[WG:.+]] = nvvm.shfl.sync idx %c-1_i32{{.*}}, %[[NUMBER]], %c0_i32{{.*}}, %c31_i32{{.*}} : i32 -> i32

// Each warpgroup's 64 rows of A begin 64·128 = 2¹³ bytes on. A descriptor is the address in units of 16 bytes below
// the constant bits: 128-byte swizzle (1 in bits 62–63), 1024 bytes from 8 rows to the next 8 (64 in bits 32–45), and
// the leading offset of 1 (bits 16–29) that is not used.
// CHECK:         %[[A:.+]] = llvm.getelementptr %[[SMEM]][
// CHECK:         %[[B:.+]] = llvm.getelementptr %[[RINGB]][
// CHECK:         %[[ROWS:.+]] = arith.shli %[[WG]], %c13_i32{{.*}} : i32
// CHECK:         %[[AW:.+]] = llvm.getelementptr %[[A]][%[[ROWS]]] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
// CHECK:         %[[ADDRESS:.+]] = llvm.ptrtoint %[[AW]] : !llvm.ptr<3> to i32
// CHECK:         %[[UNITS:.+]] = arith.shrui %[[ADDRESS]], %c4_i32{{.*}} : i32
// CHECK:         %[[START:.+]] = arith.extui %[[UNITS]] : i32 to i64
// CHECK:         %[[DA:.+]] = arith.ori %[[START]], %c4611686293305360384_i64 : i64
// CHECK:         llvm.ptrtoint %[[B]] : !llvm.ptr<3> to i32
// CHECK:         %[[DB:.+]] = arith.ori %{{.+}}, %c4611686293305360384_i64 : i64

// The first group starts from zeros; a k-slice is 32 bytes on, 2 in both descriptors. Fence before, commit after.
// CHECK:         %[[ZERO:.+]] = llvm.mlir.zero : !llvm.struct<(f32, f32, f32, f32)>
// CHECK:         nvvm.wgmma.fence.aligned
// CHECK:         %[[P0:.+]] = nvvm.wgmma.mma_async %[[DA]], %[[DB]], %[[ZERO]], <m = 64, n = 8, k = 16>, D[<f32>, <zero>], A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>]
// CHECK:         %[[DB1:.+]] = arith.addi %[[DB]], %c2_i64{{.*}} : i64
// CHECK:         %[[DA1:.+]] = arith.addi %[[DA]], %c2_i64{{.*}} : i64
// CHECK:         %[[P1:.+]] = nvvm.wgmma.mma_async %[[DA1]], %[[DB1]], %[[P0]], <m = 64, n = 8, k = 16>, D[<f32>, <one>]
// CHECK:         %[[DA2:.+]] = arith.addi %[[DA]], %c4_i64
// CHECK:         %[[P2:.+]] = nvvm.wgmma.mma_async %[[DA2]], %{{.+}}, %[[P1]],
// CHECK:         %[[DA3:.+]] = arith.addi %[[DA]], %c6_i64
// CHECK:         %[[P3:.+]] = nvvm.wgmma.mma_async %[[DA3]], %{{.+}}, %[[P2]],
// CHECK-NEXT:    nvvm.wgmma.commit.group.sync.aligned

// The second goes on from its registers, with no wait between; then all but one group are waited for.
// CHECK-NOT:     wait
// CHECK:         nvvm.wgmma.fence.aligned
// CHECK:         nvvm.wgmma.mma_async %{{.+}}, %{{.+}}, %[[P3]], <m = 64, n = 8, k = 16>, D[<f32>, <one>]
// CHECK-COUNT-2: nvvm.wgmma.mma_async
// CHECK:         %[[Q3:.+]] = nvvm.wgmma.mma_async
// CHECK-NEXT:    nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:    nvvm.wgmma.wait.group.sync.aligned 1

// One thread of each warpgroup arrives.
// CHECK:         %[[E3:.+]] = llvm.getelementptr %[[EMPTY]][
// CHECK:         %[[LANE:.+]] = arith.andi %[[OWN]], %c127_i32{{.*}} : i32
// CHECK:         %[[ONE:.+]] = arith.cmpi eq, %[[LANE]], %c0_i32{{.*}} : i32
// CHECK:         scf.if %[[ONE]] {
// CHECK-NEXT:      nvvm.mbarrier.arrive %[[E3]] : !llvm.ptr<3> -> i64
// CHECK-NEXT:    }

// The last wait threads the registers through; only what comes out of it is read.
// CHECK-NOT:     llvm.extractvalue %[[Q3]]
// CHECK:         %[[C:.+]] = sm.ptx_wgmma_wait 0, %[[Q3]] : !llvm.struct<(f32, f32, f32, f32)>
// CHECK:         %[[C0:.+]] = llvm.extractvalue %[[C]][0]
// CHECK:         %[[C1:.+]] = llvm.extractvalue %[[C]][1]
// CHECK:         %[[C2:.+]] = llvm.extractvalue %[[C]][2]
// CHECK:         %[[C3:.+]] = llvm.extractvalue %[[C]][3]
// CHECK:         vector.from_elements %[[C0]], %[[C1]], %[[C2]], %[[C3]] : vector<4xf32>
// CHECK-NOT:     llvm.extractvalue %[[Q3]]
#a = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
#tv = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,1),1,1):((128,8,1024),128,1024)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [2, 1, 1], permutation [128, 8, 16]>
!out = memref<?x?xf32, strided<[?, 1]>>
!map = !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
!a = memref<128x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<4 x [!a, !b]>
!acc = !sm.fragment<128x8xf32, #tv>
!pending = !sm.pending<!acc>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %d: !out, %map: !map) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(69696) args(%d, %map) : !out, !map
  return
}
tile.kernel @kernel(%d: !out, %map: !map) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c192 = arith.constant 192 : index
  %ring = sm.ring at [0, 65536] : !ring
  %full = sm.mbarriers arrivals(1) at 69632 : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(2) at 69664 : !sm.mbarriers<4>
  sm.roles {
    producer warps(4) registers(40) {
      sm.mbarrier_wait %empty[%c3, %c1] : !sm.mbarriers<4>
      sm.mbarrier_arrive %full[%c1] expects 9216 : !sm.mbarriers<2>
      %as, %bs = sm.ring_slot %ring[%c1] : !ring
      sm.tma_load %map[%c3, %c192] to %as signals %full[%c1] : !map, !a, !sm.mbarriers<2>
    }
    consumer warps(8) registers(232) {
      %zero = sm.splat 0.0 : !acc
      %as, %bs = sm.ring_slot %ring[%c1] : !ring
      %p = sm.wgmma tn %as, %bs, %zero by #mma : !a, !b, !acc -> !pending
      %q = sm.wgmma tn %as, %bs, %p by #mma : !a, !b, !pending -> !pending
      %q2, %r = sm.mma_wait 1, %q : !pending -> !pending
      sm.mbarrier_arrive %empty[%c3] : !sm.mbarriers<4>
      %c, %last = sm.mma_wait 0, %q2 : !pending -> !acc
      %w = tile.view %d[%c0, %c0] : !out to !tile.view<128x8xf32>
      sm.store_global %c to %w by "st.global.8" : !acc, !tile.view<128x8xf32>
    }
  }
  tile.return
}
}
