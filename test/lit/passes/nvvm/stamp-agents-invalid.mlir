// stamp-agents refuses loops over tiles that do not count them, and kernels without products that it knows.
// RUN: lowtide-opt %s -p stamp-agents --split-input-file --verify-diagnostics

module attributes {tile.target = "sm_90a"} {
func.func @host(%grid: index, %more: i1) attributes {tile.stamps} {
  tile.launch @kernel grid(%grid) threads(128) args(%more) : i1
  return
}
gpu.module @kernels {
  gpu.func @kernel(%more: i1) kernel attributes {schedule = #tile.schedule<grid = <tile = [64, 64], scheduler = persistent>>} {
    %a = llvm.mlir.zero : !llvm.ptr
    %to = llvm.mlir.zero : !llvm.ptr<3>
    // expected-error @below {{stamp-agents: is a loop over tiles that does not count them; compile without stamps [stamps-loop]}}
    scf.while : () -> () {
      scf.condition(%more)
    } do {
      %x = arith.constant dense<0.0> : vector<2xf16>
      nvvm.mma.sync A[%x, %x] B[%x] C[%x, %x] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
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
