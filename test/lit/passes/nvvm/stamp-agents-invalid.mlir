// stamp-agents refuses kernels whose tiles are not one loop that counts, and kernels without products that it knows.
// RUN: lowtide-opt %s -p stamp-agents --split-input-file --verify-diagnostics

module attributes {tile.target = "sm_90a"} {
func.func @host(%grid: index) attributes {tile.stamps} {
  tile.launch @kernel grid(%grid) threads(128) args()
  return
}
gpu.module @kernels {
  // expected-error @below {{stamp-agents: has a divided K, but stamps need tiles that one loop counts; compile without stamps [stamps-loop]}}
  gpu.func @kernel() kernel attributes {schedule = #tile.schedule<grid = <k_division = split(2)>>} {
    gpu.return
  }
}
}

// -----

module attributes {tile.target = "sm_90a"} {
func.func @host(%grid: index) attributes {tile.stamps} {
  tile.launch @kernel grid(%grid) threads(128) args()
  return
}
gpu.module @kernels {
  // expected-error @below {{stamp-agents: has a tail in halves, but stamps need tiles}}
  gpu.func @kernel() kernel attributes {schedule = #tile.schedule<grid = <tail = halves>>} {
    gpu.return
  }
}
}

// -----

module attributes {tile.target = "sm_90a"} {
func.func @host(%grid: index, %more: i1) attributes {tile.stamps} {
  tile.launch @kernel grid(%grid) threads(128) args(%more) : i1
  return
}
gpu.module @kernels {
  // expected-error @below {{stamp-agents: has groups, but stamps need tiles}}
  gpu.func @kernel(%more: i1) kernel attributes {schedule = #tile.schedule<grid = <tile = [64, 64]>>} {
    scf.while : () -> () {
      scf.condition(%more)
    } do {
      scf.yield
    }
    gpu.return
  }
}
}

// -----

module attributes {tile.target = "sm_90a"} {
func.func @host(%grid: index) attributes {tile.stamps} {
  tile.launch @kernel grid(%grid) threads(128) args()
  return
}
gpu.module @kernels {
  // expected-error @below {{stamp-agents: has no wgmma and no mma.sync for stamps to enclose; compile without stamps [stamps-products]}}
  gpu.func @kernel() kernel attributes {schedule = #tile.schedule<grid = <tile = [64, 64]>>} {
    gpu.return
  }
}
}
