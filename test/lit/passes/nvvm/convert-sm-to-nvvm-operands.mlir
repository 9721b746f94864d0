// convert-sm-to-nvvm: TMA loads of buffers in panels, and wgmma on operands of every layout with several blocks of rows.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// A of 256×64, M contiguous: (64,256) is four panels of 64×64, 8192 bytes each. Two dimensions: one load a panel, at
// every 64th column. The hint is the L2 policy of evict_first.
// CHECK-LABEL: gpu.func @kernel(
// CHECK-DAG:   %[[POLICY:.+]] = arith.constant 1364590687093260288 : i64
// CHECK-DAG:   %[[LAST:.+]] = arith.constant 1508705875169116160 : i64
// CHECK:       %[[A:.+]] = llvm.getelementptr %{{.+}}[1024] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK:       %[[P0_NUMBER:.+]] = llvm.ptrtoint %[[A]] : !llvm.ptr<3> to i64
// CHECK:       %[[P0:.+]] = llvm.inttoptr %[[P0_NUMBER]] : i64 to !llvm.ptr<7>
// CHECK:       nvvm.cp.async.bulk.tensor.shared.cluster.global %[[P0]], %{{.+}}, %{{.+}}, box[%c0_i32{{.*}}, %[[K:.+]]] l2_cache_hint = %[[POLICY]]
// CHECK:       %[[A1:.+]] = llvm.getelementptr %[[A]][8192]
// CHECK:       %[[P1_NUMBER:.+]] = llvm.ptrtoint %[[A1]] : !llvm.ptr<3> to i64
// CHECK:       %[[P1:.+]] = llvm.inttoptr %[[P1_NUMBER]] : i64 to !llvm.ptr<7>
// CHECK:       nvvm.cp.async.bulk.tensor.shared.cluster.global %[[P1]], %{{.+}}, %{{.+}}, box[%{{.+}}, %[[K]]] l2_cache_hint
// CHECK:       llvm.getelementptr %[[A]][16384]
// CHECK:       box[%{{.+}}, %[[K]]]
// CHECK:       llvm.getelementptr %[[A]][24576]
// CHECK:       box[%{{.+}}, %[[K]]]

// B of 16×64, N contiguous: one panel of 32-byte rows. Four dimensions: one load, at column, row, panel, 0.
// CHECK:       nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %{{.+}}, %{{.+}}, box[%c0_i32{{.*}}, %[[K]], %{{.+}}, %c0_i32{{.*}}] : !llvm.ptr<7>, !llvm.ptr

// Five, with the L2 policy of evict_last: the same, at one 0 more.
// CHECK:       box[%c0_i32{{.*}}, %[[K]], %{{.+}}, %c0_i32{{.*}}, %c0_i32{{.*}}] l2_cache_hint = %[[LAST]]
// CHECK-NOT:   nvvm.cp.async.bulk.tensor

// Each warpgroup's first 64 rows of M are a panel of their own, 8192 bytes on.
// CHECK:       %[[ROWS:.+]] = arith.shli %{{.+}}, %c13_i32
// CHECK:       %[[OWN:.+]] = llvm.getelementptr %[[A]][%[[ROWS]]]
// A: 128-byte swizzle (1 in bits 62–63), 1024 bytes from 8 rows of K to the next (64 in bits 32–45), 8192 from panel to
// panel (512 in bits 16–29). B: 32-byte swizzle (3), 256 bytes (16), 2048 (128), which one panel does not use.
// CHECK:       %[[DA:.+]] = arith.ori %{{.+}}, %c4611686293338849280_i64 : i64
// CHECK:       %[[DB:.+]] = arith.ori %{{.+}}, %c-4611685949699522560_i64 : i64
// CHECK:       llvm.mlir.zero : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>

// Two blocks a warpgroup, every second one: 128 rows of M on are two panels, 16384 bytes, 1024 units. Each has a chain
// of its own, and they take turns there and back: the one that was last begins the next k-slice. Both operands are
// transposed.
// CHECK:       nvvm.wgmma.fence.aligned
// CHECK:       %[[X0:.+]] = nvvm.wgmma.mma_async %[[DA]], %[[DB]], %{{.+}}, <m = 64, n = 16, k = 16>, D[<f32>, <zero>], A[<bf16>, <one>, <col>], B[<bf16>, <one>, <row>]
// CHECK:       %[[DA1:.+]] = arith.addi %[[DA]], %c1024_i64
// CHECK:       %[[Y0:.+]] = nvvm.wgmma.mma_async %[[DA1]], %[[DB]],
// A k-slice is 16 rows: 2048 bytes of A, 128 units; 512 of B, 32.
// CHECK:       %[[DB1:.+]] = arith.addi %[[DB]], %c32_i64
// CHECK:       %[[DA2:.+]] = arith.addi %[[DA]], %c1152_i64
// CHECK:       nvvm.wgmma.mma_async %[[DA2]], %[[DB1]], %[[Y0]],
// CHECK:       %[[DA3:.+]] = arith.addi %[[DA]], %c128_i64
// CHECK:       nvvm.wgmma.mma_async %[[DA3]], %[[DB1]], %[[X0]],
// CHECK-COUNT-4: nvvm.wgmma.mma_async
// CHECK-NEXT:  nvvm.wgmma.commit.group.sync.aligned

// Both structs go through a wait.
// CHECK:       sm.ptx_wgmma_wait 0, %{{.+}} : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
// CHECK-NEXT:  sm.ptx_wgmma_wait 0, %{{.+}} : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
// CHECK-COUNT-4: vector.from_elements {{.*}} : vector<4xf32>

// K = 128, contiguous: two panels of 64×64, and a k-slice of the second lies in it. tn takes rows and columns.
// CHECK-LABEL: gpu.func @deep(
// CHECK:       %[[DD:.+]] = arith.ori %{{.+}}, %c4611686293305360384_i64
// CHECK:       nvvm.wgmma.mma_async %[[DD]], {{.*}} A[<f16>, <one>, <row>], B[<f16>, <one>, <col>]
// CHECK:       arith.addi %[[DD]], %c2_i64
// CHECK:       arith.addi %[[DD]], %c4_i64
// CHECK:       arith.addi %[[DD]], %c6_i64
// CHECK:       arith.addi %[[DD]], %c512_i64
// CHECK:       arith.addi %[[DD]], %c514_i64
#a = #tile.layout<(64,(64,4)):(64,(1,4096)), swizzle<3,3,3>>
#b = #tile.layout<(64,16):(16,1), swizzle<1,3,3>>
#tv = #tile.tv<threads (4,8,8):(512,1,16), values ((2,2,2),2,1):((256,8,2048),128,4096)>
#mma = #sm.tiled_mma<wgmma.m64n16k16.f32.bf16, atoms [2, 1, 1], permutation [128, 16, 16]>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
!map4 = !sm.tensor_map<1x1x64x16xbf16, swizzle<1,3,3>>
!map5 = !sm.tensor_map<1x1x1x64x16xbf16, swizzle<1,3,3>>
!a = memref<64x256xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<64x16xbf16, #b, #gpu.address_space<workgroup>>
!acc = !sm.fragment<256x16xf32, #tv>
!pending = !sm.pending<!acc>
!deep = memref<64x128xf16, #tile.layout<(64,(64,2)):(64,(1,4096)), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!deep_b = memref<8x128xf16, #tile.layout<(8,(64,2)):(64,(1,512)), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!one = !sm.fragment<64x8xf32, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %map: !map, %map4: !map4, %map5: !map5) {
  tile.launch @kernel grid(%ctas) threads(384) shared_memory(40960) args(%map, %map4, %map5) : !map, !map4, !map5
  tile.launch @deep grid(%ctas) threads(256) shared_memory(40960) args()
  return
}
tile.kernel @kernel(%map: !map, %map4: !map4, %map5: !map5) {
  %k = arith.constant 48 : index
  %c0 = arith.constant 0 : index
  %full = sm.mbarriers arrivals(1) at 0 : !sm.mbarriers<1>
  %as = sm.alloc at 1024 : !a
  %bs = sm.alloc at 33792 : !b
  sm.roles {
    producer warps(4) {
      sm.tma_load %map[%k, %c0] to %as signals %full[%c0] cache(evict_first) : !map, !a, !sm.mbarriers<1>
      sm.tma_load %map4[%k, %c0] to %bs signals %full[%c0] : !map4, !b, !sm.mbarriers<1>
      sm.tma_load %map5[%k, %c0] to %bs signals %full[%c0] cache(evict_last) : !map5, !b, !sm.mbarriers<1>
    }
    consumer warps(8) {
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma nt %as, %bs, %zero by #mma : !a, !b, !acc -> !pending
      %c, %r = sm.mma_wait 0, %p : !pending -> !acc
    }
  }
  tile.return
}
tile.kernel @deep() {
  %as = sm.alloc at 0 : !deep
  %bs = sm.alloc at 16384 : !deep_b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      %zero = sm.splat 0.0 : !one
      %p = sm.wgmma tn %as, %bs, %zero by <wgmma.m64n8k16.f32.f16, atoms [1, 1, 1]> : !deep, !deep_b, !one -> !sm.pending<!one>
    }
  }
  tile.return
}
}
