// convert-sm-to-nvvm: the producer's one thread polls the flag of its shard, with a fence for its TMA loads. Work begins
// with matrix %first of the batch: matrix number i is (first + i) mod R.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-LABEL: gpu.func @arrivals(
// CHECK-SAME:    %[[ARRIVED:[^ ]+]]: !llvm.ptr<1>, %{{.+}}: i32, %[[TURN:[^ ]+]]: !llvm.ptr<1>, %[[STATUS:[^ ]+]]: !llvm.ptr<1>
// CHECK:       scf.for
// CHECK:         %[[SUM:.+]] = arith.addi %{{.+}}, %{{.+}} : i32
// CHECK:         %[[FITS:.+]] = arith.cmpi ult, %[[SUM]], %[[R:.+]] : i32
// CHECK:         %[[LESS:.+]] = arith.subi %[[SUM]], %[[R]] : i32
// CHECK:         %[[SHARD:.+]] = arith.select %[[FITS]], %[[SUM]], %[[LESS]] : i32
// CHECK:         %[[RANK:.+]] = llvm.load
// CHECK:         %[[EPOCH:.+]] = llvm.load
// CHECK:         %[[LIMIT:.+]] = llvm.load
// CHECK:         %[[LATE:.+]] = sm.ptx_await_arrival %{{.+}} reaches(%[[EPOCH]]) within(%[[LIMIT]]) else(%[[STATUS]], %[[SHARD]]) for_tma : !llvm.ptr<1>
// CHECK:         arith.select %[[LATE]], %[[RANK]], %[[SHARD]] : i32
// CHECK:         %[[SAID:.+]] = sm.ptx_read_status %[[STATUS]] : !llvm.ptr<1>
// CHECK:         arith.cmpi ne, %[[SAID]], %c0{{.*}} : i32
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%ctas: index, %arrived: memref<?xi32>, %turn: memref<3xi32>, %status: memref<4xi32>) {
  tile.launch @arrivals grid(%ctas) threads(256) shared_memory(0) args(%arrived, %turn, %status) : memref<?xi32>,
      memref<3xi32>, memref<4xi32>
  return
}
tile.kernel @arrivals(%arrived: memref<?xi32>, %turn: memref<3xi32>, %status: memref<4xi32>) {
  %rows = arith.constant 150 : index
  %columns = arith.constant 40 : index
  %shards = arith.constant 4 : index
  %c0 = arith.constant 0 : index
  %given = memref.load %turn[%c0] : memref<3xi32>
  %rank = arith.index_cast %given : i32 to index
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%i, %j) of (%rows, %columns) by [64, 8] batch(%batch of %shards from %rank) order(<row>) persistent {
        %from = tile.await_arrival %batch of %arrived, %turn, %status : memref<?xi32>, memref<3xi32>, memref<4xi32>
        %late = tile.is_late %status : memref<4xi32>
      }
    }
    consumer warps(4) {
    }
  }
  tile.return
}
}
