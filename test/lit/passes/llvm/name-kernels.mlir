// name-kernels names a kernel after its problem and schedule, in launches and where its clusters are counted too. Kernels
// without a schedule get a prefix; functions that are no kernels stay as they are.
// RUN: lowtide-opt %s -p name-kernels | filecheck %s
// RUN: lowtide-opt %s -p name-kernels,name-kernels | filecheck %s

module attributes {tile.target = "sm_90a"} {
// CHECK-LABEL: func.func @gemm
// CHECK:         tile.cluster_count @[[PRODUCT:lowtide_gemm_bf16_e4m3_f32_f16_f32_nt_row_sum_groups_pairs_swapped_128x256x64_s4_c2x1_split8_tma_cp_async_16_wgmma_cooperative2_persistent]] cluster
// CHECK:         tile.launch @lowtide_gemm_copy_bf16 grid
// CHECK:         tile.launch @[[PRODUCT]] grid
// CHECK:         tile.launch @lowtide_other_f64_f64_f64_f64_tn_tf32x3_pingpong2 grid
// CHECK:         tile.launch @lowtide_odd_name_8x8x1_ld_global_fma grid
func.func @gemm(%g: index, %a: i64) {
  %n = tile.cluster_count @gemm_kernel cluster [2, 1] : index
  tile.launch @gemm_copy_bf16 grid(%g) threads(128) args(%a) : i64
  tile.launch @gemm_kernel grid(%n) threads(384) cluster [2, 1] args(%a) : i64
  tile.launch @other_kernel grid(%g) threads(384) args(%a) : i64
  tile.launch @"odd name" grid(%g) threads(384) args(%a) : i64
  return
}
gpu.module @kernels {
  // CHECK:       llvm.func @[[PRODUCT]]
  llvm.func @gemm_kernel(%a: i64) attributes {gpu.kernel, nvvm.kernel,
      problem = #tile.problem<nt, a = bf16, b = f8E4M3FN, acc = f32, results = [full f16, full f32, row_sum f32],
        operands = [ends i32], swapped, pairs>,
      schedule = #tile.schedule<grid = <tile = [128, 256], cluster = [2, 1], scheduler = persistent, k_division = split(8)>,
        mainloop = <k = 64, stages = 4, roles = cooperative(2), a = <copy = tma>, b = <copy = cp.async.16>>,
        multiply = <atom = wgmma.m64n256k16>>} {
    llvm.return
  }
  // CHECK:       llvm.func @lowtide_gemm_copy_bf16
  llvm.func @gemm_copy_bf16(%a: i64) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
  // An absent D has no type, as it is not stored.
  // CHECK:       llvm.func @lowtide_other
  llvm.func @other_kernel(%a: i64) attributes {gpu.kernel, nvvm.kernel,
      problem = #tile.problem<tn, a = f64, b = f64, acc = f64, results = [full f64, absent f32], by = tf32x3>,
      schedule = #tile.schedule<grid = <scheduler = one_shot>, mainloop = <roles = pingpong(2)>>} {
    llvm.return
  }
  // CHECK:       llvm.func @lowtide_odd_name
  llvm.func @"odd name"(%a: i64) attributes {gpu.kernel, nvvm.kernel,
      schedule = #tile.schedule<grid = <tile = [8, 8]>, mainloop = <k = 1, a = <copy = ld.global>, b = <copy = ld.global>>,
        multiply = <atom = fma.m1n1k1>>} {
    llvm.return
  }
  // CHECK:       llvm.func @helper
  llvm.func @helper(%a: i64) {
    llvm.return
  }
}
}
