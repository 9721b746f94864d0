// pass-tensor-maps-by-value makes the tensor maps of a kernel its parameters themselves: 128 bytes, aligned to 64.
// RUN: lowtide-opt %s -p pass-tensor-maps-by-value | filecheck %s

module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
  // The positions that the kernel names, and no other argument.
  // CHECK-LABEL: llvm.func @maps(
  // CHECK-SAME:    %{{[^:]+}}: !llvm.ptr<1>,
  // CHECK-SAME:    %{{[^:]+}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant},
  // CHECK-SAME:    %{{[^:]+}}: i64,
  // CHECK-SAME:    %{{[^:]+}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant})
  llvm.func @maps(%d: !llvm.ptr<1>, %map: !llvm.ptr, %n: i64, %map2: !llvm.ptr) attributes {nvvm.kernel, tensor_maps = array<i64: 1, 3>} {
    llvm.return
  }

  // A kernel without tensor maps stays as it is, pointers too.
  // CHECK-LABEL: llvm.func @plain(
  // CHECK-SAME:    %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: i64) attributes {nvvm.kernel}
  llvm.func @plain(%p: !llvm.ptr, %n: i64) attributes {nvvm.kernel} {
    llvm.return
  }
}
}
