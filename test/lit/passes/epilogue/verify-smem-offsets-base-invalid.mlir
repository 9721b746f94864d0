// verify-smem-offsets refuses shared memory whose base is less aligned than swizzles need; without `alignment` that is 1.
// RUN: lowtide-opt %s -p verify-smem-offsets --split-input-file --verify-diagnostics

module attributes {tile.level = "nvvm", tile.target = "sm_90a"} {
gpu.module @kernels {
  // expected-error @below {{verify-smem-offsets: shared memory begins at a multiple of 1; TMA and wgmma apply swizzles to addresses, which needs one of 1024: write alignment = 1024 [smem-base-alignment]}}
  llvm.mlir.global external @shared_memory() {addr_space = 3 : i32} : !llvm.array<0 x i8>
  llvm.func @kernel(%map: !llvm.ptr, %to: !llvm.ptr<3>, %barrier: !llvm.ptr<3>, %c: i32) {
    nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %barrier, box[%c, %c] {isCTAOnly = true, mode = #nvvm.tma_load_mode<tile>} : !llvm.ptr<3>, !llvm.ptr
    llvm.return
  }
}
}

// -----

module attributes {tile.level = "nvvm", tile.target = "sm_90a"} {
gpu.module @kernels {
  // expected-error @below {{[smem-base-alignment]}}
  llvm.mlir.global external @shared_memory() {addr_space = 3 : i32, alignment = 512 : i64} : !llvm.array<0 x i8>
  llvm.func @kernel(%map: !llvm.ptr, %to: !llvm.ptr<3>, %barrier: !llvm.ptr<3>, %c: i32) {
    nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %barrier, box[%c, %c] {isCTAOnly = true, mode = #nvvm.tma_load_mode<tile>} : !llvm.ptr<3>, !llvm.ptr
    llvm.return
  }
}
}
