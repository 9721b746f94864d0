// convert-sm-to-nvvm: a role that asks for no registers keeps those it has; a barrier in a role is one of its own threads.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// The chain of branches names its roles.
// CHECK-LABEL: gpu.func @kernel(
// CHECK-NOT:     nvvm.maxnreg
// CHECK:       %[[TID:.+]] = nvvm.read.ptx.sreg.tid.x
// CHECK:       nvvm.barrier0
// CHECK:       scf.if
// CHECK-NOT:     nvvm.setmaxregister
// CHECK:       } else {
// CHECK-NOT:     nvvm.setmaxregister

// Barrier 0 is the whole CTA's; that of the consumers counts their 128 threads.
// CHECK:         nvvm.barrier id = %c2_i32{{.*}} number_of_threads = %c128_i32{{.*}}
// CHECK-NOT:     nvvm.barrier0
// CHECK:       } {roles = ["producer", "consumer"]}
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  sm.barrier
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      sm.barrier
    }
  }
  tile.return
}
}
