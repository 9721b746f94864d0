// RUN: lowtide-opt %s | lowtide-opt | filecheck %s

!mat = memref<8x?x?xbf16, strided<[?, ?, 1]>>
module {
// CHECK-LABEL: func.func @gemm(
func.func @gemm(%a: !mat, %b: !mat, %d: !mat, %arrived: memref<8xi32>, %turn: memref<3xi32>, %status: memref<4xi32>) {
  // CHECK: tile.gemm tn {{.*}} operands(arrived %{{.+}} : memref<8xi32>, turn %{{.+}} : memref<3xi32>, status %{{.+}} : memref<4xi32>) {
  tile.gemm tn %a, %b into %d acc(f32)
      operands(arrived %arrived : memref<8xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>) {
  ^bb0(%acc: f32):
    %y = arith.truncf %acc : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
// CHECK-LABEL: func.func @sends(
func.func @sends(%a: !mat, %b: !mat, %d: !mat, %arrived: memref<8xi32>, %turn: memref<3xi32>, %status: memref<4xi32>,
    %peers: memref<8x4xi32, strided<[?, 1]>>, %sent: memref<8xi32>) {
  // CHECK: tile.gemm tn {{.*}}, peers %{{.+}} : memref<8x4xi32, strided<[?, 1]>>, sent %{{.+}} : memref<8xi32>) {
  tile.gemm tn %a, %b into %d acc(f32)
      operands(arrived %arrived : memref<8xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>,
               peers %peers : memref<8x4xi32, strided<[?, 1]>>, sent %sent : memref<8xi32>) {
  ^bb0(%acc: f32):
    %y = arith.truncf %acc : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
// CHECK-LABEL: tile.kernel @send(
tile.kernel @send(%a: memref<8x?x64xbf16, strided<[?, ?, 1]>>, %turn: memref<3xi32>,
    %peers: memref<8x4xi32, strided<[?, 1]>>, %sent: memref<8xi32>) {
  // CHECK-NEXT: tile.send_shard %{{.+}} to %{{.+}} in_turn %{{.+}} counting %{{.+}} by 16 : memref<8x?x64xbf16, strided<[?, ?, 1]>>, memref<8x4xi32, strided<[?, 1]>>, memref<3xi32>, memref<8xi32>
  tile.send_shard %a to %peers in_turn %turn counting %sent by 16 : memref<8x?x64xbf16, strided<[?, ?, 1]>>,
      memref<8x4xi32, strided<[?, 1]>>, memref<3xi32>, memref<8xi32>
  tile.return
}
// CHECK-LABEL: tile.kernel @arrivals(
tile.kernel @arrivals(%M: index, %R: index, %rank: index, %arrived: memref<8xi32>, %turn: memref<3xi32>,
    %status: memref<4xi32>) {
  // CHECK: tile.work_tiles (%m, %n) of {{.*}} batch(%[[BATCH:.+]] of %{{.+}} from %{{.+}}) order(<row>) persistent {
  tile.work_tiles (%m, %n) of (%M, %M) by [64, 8] batch(%batch of %R from %rank) order(<row>) persistent {
    // CHECK-NEXT: tile.await_arrival %[[BATCH]] of %{{.+}}, %{{.+}}, %{{.+}} : memref<8xi32>, memref<3xi32>, memref<4xi32>
    %from = tile.await_arrival %batch of %arrived, %turn, %status : memref<8xi32>, memref<3xi32>, memref<4xi32>
    // CHECK-NEXT: tile.is_late %{{.+}} : memref<4xi32>
    %late = tile.is_late %status : memref<4xi32>
  }
  tile.return
}
// CHECK-LABEL: func.func @instructions(
func.func @instructions(%flag: !llvm.ptr<1>, %status: !llvm.ptr<1>, %n: i32) {
  // CHECK-NEXT: sm.ptx_await_arrival %{{.+}} reaches(%{{.+}}) within(%{{.+}}) else(%{{.+}}, %{{.+}}) for_tma : !llvm.ptr<1>
  %0 = sm.ptx_await_arrival %flag reaches(%n) within(%n) else(%status, %n) for_tma : !llvm.ptr<1>
  // CHECK-NEXT: sm.ptx_await_arrival %{{.+}} reaches(%{{.+}}) within(%{{.+}}) else(%{{.+}}, %{{.+}}) : !llvm.ptr<1>
  %1 = sm.ptx_await_arrival %flag reaches(%n) within(%n) else(%status, %n) : !llvm.ptr<1>
  // CHECK-NEXT: sm.ptx_read_status %{{.+}} : !llvm.ptr<1>
  %2 = sm.ptx_read_status %status : !llvm.ptr<1>
  // CHECK-NEXT: sm.ptx_tell_last %{{.+}} limit %{{.+}} then %{{.+}}, %{{.+}} : !llvm.ptr<1>
  sm.ptx_tell_last %status limit %n then %flag, %n : !llvm.ptr<1>
  return
}
}
