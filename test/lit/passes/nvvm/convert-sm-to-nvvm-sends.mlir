// convert-sm-to-nvvm: all threads copy units of the shard to each peer that has a place for it, from the rank before this one
// on. After a barrier the first thread counts its CTA.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-LABEL: gpu.func @send(
// CHECK-SAME:    %[[A:[^ ]+]]: !llvm.ptr<1>, %[[SHARDS:[^ ]+]]: i64, %[[ROW:[^ ]+]]: i64, %{{.+}}: i32, %[[TURN:[^ ]+]]: !llvm.ptr<1>, %[[PEERS:[^ ]+]]: !llvm.ptr<1>, %{{.+}}: i64, %[[SENT:[^ ]+]]: !llvm.ptr<1>
// CHECK:       %[[RANK:.+]] = llvm.load %[[TURN]]
// CHECK:       %[[EPOCH:.+]] = llvm.load
// CHECK:       %[[CTAS:.+]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK:       %[[LAST:.+]] = arith.subi %[[CTAS]], %c1{{.*}}
// CHECK:       scf.for %[[STEP:.+]] = %c1{{[^ ]*}} to %c4{{[^ ]*}} step %c1
// CHECK:         %[[AHEAD:.+]] = arith.addi %[[RANK]], %c4
// CHECK:         %[[BEHIND:.+]] = arith.subi %[[AHEAD]], %[[STEP]]
// CHECK-COUNT-4: llvm.load
// CHECK:         arith.cmpi ne, %{{.+}}, %c0_i64
// CHECK:         scf.if
// CHECK:           %[[PLACE:.+]] = llvm.inttoptr
// CHECK:           %[[STRIDE:.+]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK:           scf.for %{{.+}} = %{{.+}} to %{{.+}} step %[[STRIDE]]
// CHECK:             scf.for %{{.+}} = %{{.+}} to %c8{{[^ ]*}} step %c128
// CHECK:               %[[UNIT:.+]] = llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// CHECK:               llvm.store %[[UNIT]], %{{.+}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
// CHECK:           nvvm.barrier0
// CHECK:           scf.if
// CHECK:             %[[COUNTER:.+]] = llvm.getelementptr %[[SENT]]
// CHECK:             %[[FLAG:.+]] = llvm.inttoptr
// CHECK:             sm.ptx_tell_last %[[COUNTER]] limit %[[LAST]] then %[[FLAG]], %[[EPOCH]] : !llvm.ptr<1>
!shards = memref<4x?x64xbf16, strided<[?, ?, 1]>>
!peers = memref<4x4xi32, strided<[?, 1]>>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%ctas: index, %a: !shards, %turn: memref<3xi32>, %peers: !peers, %sent: memref<4xi32>) {
  tile.launch @send grid(%ctas) threads(128) shared_memory(0) cooperative args(%a, %turn, %peers, %sent) : !shards,
      memref<3xi32>, !peers, memref<4xi32>
  return
}
tile.kernel @send(%a: !shards, %turn: memref<3xi32>, %peers: !peers, %sent: memref<4xi32>) {
  tile.send_shard %a to %peers in_turn %turn counting %sent by 16 : !shards, !peers, memref<3xi32>, memref<4xi32>
  tile.return
}
}
