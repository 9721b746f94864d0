// spread-copies issues the copies of each K step one by one, before the first products of its k-slices.
// RUN: lowtide-opt %s -p spread-copies | filecheck %s

module attributes {tile.target = "sm_80"} {
gpu.module @kernels {
// Three copies for two k-slices, the group behind the last one; a copy under a condition stays. The second wait has a copy
// of its own, the third one products alone.
// CHECK-LABEL: gpu.func @three_steps
// CHECK-SAME:    %[[S:.+]]: !llvm.ptr<3>, %[[G:.+]]: !llvm.ptr<1>
// CHECK:         nvvm.cp.async.wait.group 1
// CHECK-NEXT:    nvvm.barrier0
// CHECK-NEXT:    %[[S1:.+]] = llvm.getelementptr %[[S]][16]
// CHECK-NEXT:    %[[S2:.+]] = llvm.getelementptr %[[S]][32]
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      nvvm.cp.async.shared.global %[[S]], %[[G]], 4
// CHECK:         nvvm.ldmatrix
// CHECK:         nvvm.ldmatrix
// CHECK-NOT:     nvvm.mma.sync
// CHECK:         nvvm.cp.async.shared.global %[[S]], %[[G]], 16
// CHECK-NEXT:    nvvm.cp.async.shared.global %[[S1]], %[[G]], 16
// CHECK-NEXT:    nvvm.mma.sync
// CHECK-NOT:     nvvm.cp.async
// CHECK:         nvvm.mma.sync
// CHECK-NOT:     nvvm.cp.async
// CHECK:         nvvm.ldmatrix
// CHECK-NOT:     nvvm.mma.sync
// CHECK:         nvvm.cp.async.shared.global %[[S2]], %[[G]], 16
// CHECK-NEXT:    nvvm.cp.async.commit.group
// CHECK-NEXT:    nvvm.mma.sync
// CHECK:         nvvm.cp.async.wait.group 1
// CHECK-NEXT:    nvvm.barrier0
// CHECK-NEXT:    nvvm.ldmatrix
// CHECK-NOT:     nvvm.mma.sync
// CHECK:         nvvm.cp.async.shared.global %[[S]], %[[G]], 16
// CHECK-NEXT:    nvvm.cp.async.commit.group
// CHECK-NEXT:    nvvm.mma.sync
// CHECK:         nvvm.cp.async.wait.group 0
// CHECK-NEXT:    nvvm.barrier0
// CHECK-NEXT:    nvvm.ldmatrix
// CHECK-NOT:     nvvm.cp.async
// CHECK:         nvvm.mma.sync
// CHECK-NOT:     nvvm.cp.async
gpu.func @three_steps(%s: !llvm.ptr<3>, %g: !llvm.ptr<1>, %b: vector<2xf16>, %c: f32, %is: i1, %n: i32) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    nvvm.cp.async.wait.group 1
    nvvm.barrier0
    nvvm.cp.async.shared.global %s, %g, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    %s1 = llvm.getelementptr %s[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    nvvm.cp.async.shared.global %s1, %g, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    %s2 = llvm.getelementptr %s[32] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    nvvm.cp.async.shared.global %s2, %g, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    scf.if %is {
      nvvm.cp.async.shared.global %s, %g, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>
    }
    nvvm.cp.async.commit.group
    %f0 = nvvm.ldmatrix %s {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 1 : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> i32
    %f1 = nvvm.ldmatrix %s1 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 1 : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> i32
    %a0 = llvm.bitcast %f0 : i32 to vector<2xf16>
    %a1 = llvm.bitcast %f1 : i32 to vector<2xf16>
    %p0 = nvvm.mma.sync A[%a0, %a1] B[%b] C[%c, %c, %c, %c] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %p1 = nvvm.mma.sync A[%a1, %a0] B[%b] C[%c, %c, %c, %c] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %f2 = nvvm.ldmatrix %s {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 1 : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> i32
    %a2 = llvm.bitcast %f2 : i32 to vector<2xf16>
    %p2 = nvvm.mma.sync A[%a2, %a1] B[%b] C[%c, %c, %c, %c] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    nvvm.cp.async.wait.group 1
    nvvm.barrier0
    nvvm.cp.async.shared.global %s, %g, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    nvvm.cp.async.commit.group
    %f3 = nvvm.ldmatrix %s {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 1 : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> i32
    %a3 = llvm.bitcast %f3 : i32 to vector<2xf16>
    %p3 = nvvm.mma.sync A[%a3, %a1] B[%b] C[%c, %c, %c, %c] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    nvvm.cp.async.wait.group 0
    nvvm.barrier0
    %f4 = nvvm.ldmatrix %s {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 1 : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> i32
    %a4 = llvm.bitcast %f4 : i32 to vector<2xf16>
    %p4 = nvvm.mma.sync A[%a4, %a1] B[%b] C[%c, %c, %c, %c] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  } {sm.timing = #sm.timing<copies = spread>}
  gpu.return
}

// Other timings: copies stay at the head of their step.
// CHECK-LABEL: gpu.func @at_once
// CHECK:         nvvm.cp.async.wait.group 0
// CHECK-NEXT:    nvvm.cp.async.shared.global
// CHECK-NEXT:    nvvm.cp.async.commit.group
// CHECK-NEXT:    nvvm.ldmatrix
gpu.func @at_once(%s: !llvm.ptr<3>, %g: !llvm.ptr<1>, %b: vector<2xf16>, %c: f32, %n: i32) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    nvvm.cp.async.wait.group 0
    nvvm.cp.async.shared.global %s, %g, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    nvvm.cp.async.commit.group
    %f = nvvm.ldmatrix %s {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 1 : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> i32
    %a = llvm.bitcast %f : i32 to vector<2xf16>
    %p = nvvm.mma.sync A[%a, %a] B[%b] C[%c, %c, %c, %c] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  }
  gpu.return
}
}
}
