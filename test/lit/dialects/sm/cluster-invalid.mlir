// Every message of the verifiers of what clusters add.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

tile.kernel @k(%full: !sm.mbarriers<2>, %i: index) {
  // expected-error @below {{'sm.mbarrier_arrive' op expects bytes of other CTAs; the CTA that waits for them expects them itself [bytes-of-other-ctas]}}
  sm.mbarrier_arrive %full[%i] expects 128 to(row) : !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @k(%map: !sm.tensor_map<8x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<16x64xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.tma_load' op shares a tile with a row or a column of the cluster, not with both [multicast-sides]}}
  sm.tma_load %map[%i, %i] to %s signals %full[%i] multicast(cross) : !sm.tensor_map<8x64xbf16>, memref<16x64xbf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @k(%i: index) {
  // expected-error @below {{'tile.work_tiles' op needs a cluster of two positive extents, e.g. [2, 1] [cluster-extents]}}
  tile.work_tiles (%m, %n) of (%i, %i) by [8, 8] cluster [2] order(<row>) persistent {
  }
  tile.return
}

// -----

func.func @host(%grid: index) {
  // expected-error @below {{[cluster-extents]}}
  tile.launch @k grid(%grid) threads(128) cluster [0, 1] args()
  return
}
tile.kernel @k() { tile.return }

// -----

func.func @host() -> index {
  // expected-error @below {{[cluster-extents]}}
  %count = tile.cluster_count @k cluster [2, 1, 1] : index
  return %count : index
}
tile.kernel @k() { tile.return }

// -----

func.func @host() -> index {
  // expected-error @below {{'tile.cluster_count' op asks about @other, which is not in the module [kernel-asked]}}
  %count = tile.cluster_count @other cluster [2, 1] : index
  return %count : index
}
