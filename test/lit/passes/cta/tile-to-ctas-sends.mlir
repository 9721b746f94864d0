// The kernel sends the shard of this GPU before its work tiles; all CTAs run at the same time. 16 bytes are moved at once if
// K says that rows are multiples of them, otherwise one element.
// RUN: lowtide-opt %s -p tile-to-ctas | filecheck %s

// CHECK-LABEL: func.func @known(
// CHECK:         cf.assert %{{.+}}, "peers must have a row for each shard of A"
// CHECK:         %[[EACH:.+]] = tile.sm_count
// CHECK:         tile.launch @known_kernel grid(%{{.+}}) threads({{[0-9]+}}) cooperative args(
// CHECK:       tile.kernel @known_kernel(%[[A:[^ ]+]]: {{.*}}, %[[ARRIVED:[^ ]+]]: memref<?xi32>, %[[TURN:[^ ]+]]: memref<3xi32>, %{{[^ ]+}}: memref<4xi32>, %[[PEERS:[^ ]+]]: memref<?x4xi32, strided<[?, 1]>>, %[[SENT:[^ ]+]]: memref<?xi32>)
// CHECK:         tile.send_shard %[[A]] to %[[PEERS]] in_turn %[[TURN]] counting %[[SENT]] by 16 :
// CHECK:         tile.work_tiles
// CHECK-LABEL: tile.kernel @open_kernel(
// CHECK:         tile.send_shard %{{.+}} by 2 :
!shards = memref<?x?x64xbf16, strided<[?, ?, 1]>>
!mat = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!peers = memref<?x4xi32, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [128, 8], order = row, scheduler = persistent, sender = kernel>,
  mainloop = <k = 64, stages = 2, roles = cooperative(1)>, multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = tma, math = registers, tile = [64, 8]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
  func.func @known(%a: !shards, %b: !shards, %d: !mat, %arrived: memref<?xi32>, %turn: memref<3xi32>,
      %status: memref<4xi32>, %peers: !peers, %sent: memref<?xi32>) {
    tile.gemm tn %a, %b into %d acc(f32)
        operands(arrived %arrived : memref<?xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>,
                 peers %peers : !peers, sent %sent : memref<?xi32>)
        schedule(#schedule) {
    ^bb0(%acc: f32):
      %y = arith.truncf %acc : f32 to bf16
      tile.yield %y : bf16
    } : !shards, !shards, !mat
    return
  }
  func.func @open(%a: !mat, %b: !mat, %d: !mat, %arrived: memref<?xi32>, %turn: memref<3xi32>,
      %status: memref<4xi32>, %peers: !peers, %sent: memref<?xi32>) {
    tile.gemm tn %a, %b into %d acc(f32)
        operands(arrived %arrived : memref<?xi32>, turn %turn : memref<3xi32>, status %status : memref<4xi32>,
                 peers %peers : !peers, sent %sent : memref<?xi32>)
        schedule(#schedule) {
    ^bb0(%acc: f32):
      %y = arith.truncf %acc : f32 to bf16
      tile.yield %y : bf16
    } : !mat, !mat, !mat
    return
  }
}
