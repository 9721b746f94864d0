// convert-sm-to-nvvm: the producer's one thread counts a work tile of all that its loop has in the launch.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-LABEL: gpu.func @waves(
// CHECK-SAME:    %[[COUNTER:[^ ]+]]: !llvm.ptr<1>
// CHECK:       scf.for
// CHECK:         %[[CTAS:.+]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK:         sm.ptx_await_wave %[[COUNTER]] tiles(%c15{{.*}}) ctas(%[[CTAS]]) : !llvm.ptr<1>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%ctas: index, %counter: memref<?xi32>) {
  tile.launch @waves grid(%ctas) threads(256) shared_memory(0) args(%counter) : memref<?xi32>
  return
}
tile.kernel @waves(%counter: memref<?xi32>) {
  %rows = arith.constant 150 : index
  %columns = arith.constant 40 : index
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%i, %j) of (%rows, %columns) by [64, 8] order(<row>) persistent {
        tile.await_wave %counter : memref<?xi32>
      }
    }
    consumer warps(4) {
    }
  }
  tile.return
}
}
