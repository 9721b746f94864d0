// convert-sm-to-nvvm: each thread arrives when its copies by cp.async have landed; the mbarrier expects these arrivals.
// RUN: lowtide-opt %s --target sm_90a -p convert-sm-to-nvvm | filecheck %s

// CHECK:      nvvm.cp.async.mbarrier.arrive %{{.+}} {noinc = true}
module attributes {tile.target = "sm_90a"} {
func.func @host(%n: index) {
  tile.launch @kernel grid(%n) threads(256) args()
  return
}
tile.kernel @kernel() {
  %full = sm.mbarriers arrivals(128) at 0 : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) at 16 : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    copiers warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.cp_async_arrive %full[%c0] : !sm.mbarriers<2>
    }
    consumer warps(4) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
}
