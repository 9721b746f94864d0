// convert-sm-to-nvvm: f64 fragments come by vector loads whose elements are sorted into the instruction's registers, and
// are multiplied by the intrinsics of mma.sync, of which nvvm.mma.sync has no shape above m8n8k4.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

#mma = #sm.tiled_mma<mma.m16n8k8.f64.f64, atoms [1, 1, 1], permutation [16, 8, #tile.layout<(4,2):(2,1)>]>
#small = #sm.tiled_mma<mma.m8n8k4.f64.f64, atoms [1, 1, 1]>
#tv_a = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((8,16),16,128)>
#tv_b = #tile.tv<threads (4,8):(16,1), values (2,1,1):(8,8,64)>
#tv_c = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
#tv_a4 = #tile.tv<threads (4,8):(16,1), values (1,2,1):(0,8,64)>
#tv_b4 = #tile.tv<threads (4,8):(8,1), values (1,1,1):(0,8,32)>
#tv_c4 = #tile.tv<threads (4,8):(32,1), values (2,2,1):(16,8,128)>
!a = memref<16x8xf64, #tile.layout<(16,8):(8,1)>, #gpu.address_space<workgroup>>
!b = memref<8x8xf64, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
!at = memref<4x16xf64, #tile.layout<(4,16):(16,1)>, #gpu.address_space<workgroup>>
!b4 = memref<8x4xf64, #tile.layout<(8,4):(4,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_90"} {
func.func @host(%ctas: index) {
  tile.launch @large grid(%ctas) threads(32) shared_memory(2048) args()
  tile.launch @small grid(%ctas) threads(32) shared_memory(2048) args()
  return
}
// Of A a thread loads (row, 2 columns) and (row + 8, 2 columns); the instruction takes both rows of a column first.
// CHECK-LABEL: gpu.func @large(
// CHECK:       %[[L0:.+]] = llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<2xf64>
// CHECK:       %[[L1:.+]] = llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<2xf64>
// CHECK:       %[[V0:.+]] = vector.shuffle %[[L0]], %[[L0]] [0]
// CHECK:       %[[V1:.+]] = vector.shuffle %[[L1]], %[[L1]] [0]
// CHECK:       %[[V2:.+]] = vector.shuffle %[[L0]], %[[L0]] [1]
// CHECK:       %[[V3:.+]] = vector.shuffle %[[L1]], %[[L1]] [1]
// CHECK:       %[[L2:.+]] = llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<2xf64>
// CHECK:       %[[A0:.+]] = vector.extract %[[V0]][0]
// CHECK:       %[[A1:.+]] = vector.extract %[[V1]][0]
// CHECK:       %[[A2:.+]] = vector.extract %[[V2]][0]
// CHECK:       %[[A3:.+]] = vector.extract %[[V3]][0]
// CHECK:       %[[D:.+]] = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k8.row.col.f64"(%[[A0]], %[[A1]], %[[A2]], %[[A3]], {{.*}} -> !llvm.struct<(f64, f64, f64, f64)>
// CHECK:       %[[D0:.+]] = llvm.extractvalue %[[D]][0]
// CHECK:       vector.from_elements %[[D0]], %{{.+}}, %{{.+}}, %{{.+}} : vector<4xf64>
tile.kernel @large() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 1024 : !b
  %zero = sm.splat 0.0 : !sm.fragment<16x8xf64, #tv_c>
  %fa = sm.load_shared %as at [0, 0] by "ld.shared.16" : !a to !sm.fragment<16x8xf64, #tv_a>
  %fb = sm.load_shared %bs at [0, 0] by "ld.shared.16" : !b to !sm.fragment<8x8xf64, #tv_b>
  %c = sm.mma_sync %fa, %fb, %zero by #mma : !sm.fragment<16x8xf64, #tv_a>, !sm.fragment<8x8xf64, #tv_b>, !sm.fragment<16x8xf64, #tv_c>
  tile.return
}

// m8n8k4 sums two elements per thread; accumulators are carried in fours all the same. A lies with K down its columns.
// CHECK-LABEL: gpu.func @small(
// CHECK-COUNT-3: llvm.load %{{.+}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<1xf64>
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.nvvm.mma.m8n8k4.row.col.f64"({{.*}} : (f64, f64, f64, f64) -> !llvm.struct<(f64, f64)>
// CHECK:       vector.shuffle %{{.+}}, %{{.+}} [0, 1, 2, 3]
tile.kernel @small() {
  %as = sm.alloc at 0 : !at
  %bs = sm.alloc at 1024 : !b4
  %zero = sm.splat 0.0 : !sm.fragment<16x8xf64, #tv_c4>
  %fa = sm.load_shared %as at [0, 0] by "ld.shared.8" trans : !at to !sm.fragment<16x4xf64, #tv_a4>
  %fb = sm.load_shared %bs at [0, 0] by "ld.shared.8" : !b4 to !sm.fragment<8x4xf64, #tv_b4>
  %c = sm.mma_sync %fa, %fb, %zero by #small : !sm.fragment<16x4xf64, #tv_a4>, !sm.fragment<8x4xf64, #tv_b4>, !sm.fragment<16x8xf64, #tv_c4>
  tile.return
}
}
