// convert-sm-to-nvvm refuses clusters that ops and launches do not agree on.
// RUN: lowtide-opt %s --target sm_90a -p convert-sm-to-nvvm --split-input-file --verify-diagnostics

func.func @host(%n: index) {
  tile.launch @kernel grid(%n) threads(128) cluster [2, 1] shared_memory(0) args(%n) : index
  return
}
tile.kernel @kernel(%n: index) {
  // expected-error @below {{hands tiles to clusters of [1, 2], but the launch has clusters of [2, 1] [tiles-of-cluster]}}
  tile.work_tiles (%i, %j) of (%n, %n) by [64, 64] cluster [1, 2] order(<row>) persistent {
  }
  tile.return
}

// -----

func.func @host(%n: index) {
  tile.launch @kernel grid(%n) threads(128) cluster [2, 1] shared_memory(0) args()
  // expected-error @below {{launches clusters of [1, 1], an earlier launch of the kernel [2, 1] [launched-clusters]}}
  tile.launch @kernel grid(%n) threads(128) shared_memory(0) args()
  return
}
tile.kernel @kernel() { tile.return }

// -----

!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
func.func @host(%n: index, %map: !map) {
  tile.launch @kernel grid(%n) threads(128) cluster [2, 1] shared_memory(8208) args(%map) : !map
  return
}
tile.kernel @kernel(%map: !map) {
  %c0 = arith.constant 0 : index
  %s = sm.alloc at 0 : !a
  %full = sm.mbarriers arrivals(1) at 8192 : !sm.mbarriers<2>
  // expected-error @below {{shares 64 rows among 2 CTAs in boxes of 64 rows; each must load whole boxes, and a multiple of 8 rows [tma-load-share]}}
  sm.tma_load %map[%c0, %c0] to %s signals %full[%c0] multicast(column) : !map, !a, !sm.mbarriers<2>
  tile.return
}

// -----

func.func @host(%n: index) {
  tile.launch @kernel grid(%n) threads(256) cluster [2, 1] shared_memory(16) args()
  return
}
tile.kernel @kernel() {
  %c0 = arith.constant 0 : index
  %full = sm.mbarriers arrivals(1) at 0 : !sm.mbarriers<2>
  sm.roles {
    producer warps(4) {
      // expected-error @below {{arrives at other CTAs from a producer, which is one thread; arrive from a consumer role [producer-arrives]}}
      sm.mbarrier_arrive %full[%c0] to(column) : !sm.mbarriers<2>
    }
    consumer warps(4) {
    }
  }
  tile.return
}
