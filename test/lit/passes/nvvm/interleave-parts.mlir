// interleave-parts orders the ops of a part by its stores: each follows the loads and the arithmetic that it needs.
// RUN: lowtide-opt %s -p interleave-parts | filecheck %s

module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
// Two results of the same elements stay together. What is reduced is added as soon as it is computed. Ops behind the
// barrier stay there. %acc2 and %acc3 are the halves of one value: what is not loaded does not join stores.
// CHECK-LABEL: gpu.func @part
// CHECK-SAME:    %[[S:[^:]+]]: !llvm.ptr<3>, %[[D:[^:]+]]: !llvm.ptr<3>, %[[E:[^:]+]]: !llvm.ptr<3>
// CHECK:         nvvm.barrier0
// CHECK:         %[[X0:.+]] = nvvm.ldmatrix %[[S]]
// CHECK-NOT:     nvvm.ldmatrix
// CHECK:         nvvm.stmatrix %[[D]]
// CHECK-NOT:     nvvm.ldmatrix
// CHECK:         nvvm.stmatrix %[[E]]
// CHECK-NOT:     nvvm.ldmatrix
// CHECK:         %[[SUM:.+]] = arith.addi
// CHECK:         %[[S1:.+]] = llvm.getelementptr %[[S]][16]
// CHECK:         %[[X1:.+]] = nvvm.ldmatrix %[[S1]]
// CHECK:         %[[D1:.+]] = llvm.getelementptr %[[D]][16]
// CHECK:         nvvm.stmatrix %[[D1]]
// CHECK:         %[[E1:.+]] = llvm.getelementptr %[[E]][16]
// CHECK:         nvvm.stmatrix %[[E1]]
// CHECK:         nvvm.barrier0
// CHECK-NEXT:    llvm.store %{{.+}}, %[[S]]
gpu.func @part(%s: !llvm.ptr<3>, %d: !llvm.ptr<3>, %e: !llvm.ptr<3>, %acc: i32, %both: vector<2xi32>) kernel {
  nvvm.barrier0
  %s1 = llvm.getelementptr %s[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %acc2 = vector.extract %both[0] : i32 from vector<2xi32>
  %acc3 = vector.extract %both[1] : i32 from vector<2xi32>
  %x0 = nvvm.ldmatrix %s {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 1 : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> i32
  %x1 = nvvm.ldmatrix %s1 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 1 : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> i32
  %y0 = arith.muli %x0, %acc2 : i32
  %y1 = arith.muli %x1, %acc3 : i32
  %z0 = arith.xori %x0, %acc2 : i32
  %z1 = arith.xori %x1, %acc3 : i32
  %sum = arith.addi %acc, %y0 : i32
  %total = arith.addi %sum, %y1 : i32
  nvvm.stmatrix %d, %y0 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32
  %d1 = llvm.getelementptr %d[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  nvvm.stmatrix %d1, %y1 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32
  nvvm.stmatrix %e, %z0 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32
  %e1 = llvm.getelementptr %e[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  nvvm.stmatrix %e1, %z1 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32
  nvvm.barrier0
  llvm.store %total, %s : i32, !llvm.ptr<3>
  gpu.return
}

// Elements of 32 bits, by vector loads and stores.
// CHECK-LABEL: gpu.func @vectors
// CHECK:         llvm.load
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    llvm.store
// CHECK:         llvm.load
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    llvm.store
gpu.func @vectors(%s: !llvm.ptr<3>, %t: !llvm.ptr<3>, %d: !llvm.ptr<3>, %e: !llvm.ptr<3>, %acc: f32) kernel {
  %x0 = llvm.load %s : !llvm.ptr<3> -> f32
  %x1 = llvm.load %t : !llvm.ptr<3> -> f32
  %y0 = arith.addf %x0, %acc : f32
  %y1 = arith.addf %x1, %acc : f32
  llvm.store %y0, %d : f32, !llvm.ptr<3>
  llvm.store %y1, %e : f32, !llvm.ptr<3>
  gpu.return
}

// Values that are stored are not those that are loaded: the order stays.
// CHECK-LABEL: gpu.func @copies
// CHECK:         llvm.load
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    llvm.store
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    llvm.store
gpu.func @copies(%s: !llvm.ptr<3>, %d: !llvm.ptr<3>, %e: !llvm.ptr<3>, %a: f32, %b: f32) kernel {
  %x = llvm.load %s : !llvm.ptr<3> -> f32
  %y = arith.addf %x, %a : f32
  llvm.store %a, %d : f32, !llvm.ptr<3>
  %z = arith.addf %y, %b : f32
  llvm.store %b, %e : f32, !llvm.ptr<3>
  nvvm.barrier0
  llvm.store %z, %s : f32, !llvm.ptr<3>
  gpu.return
}

// Without loads there is nothing to wait for: the order stays.
// CHECK-LABEL: gpu.func @no_loads
// CHECK:         arith.addf
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    llvm.store
// CHECK-NEXT:    llvm.store
gpu.func @no_loads(%d: !llvm.ptr<3>, %e: !llvm.ptr<3>, %a: f32, %b: f32) kernel {
  %x = arith.addf %a, %b : f32
  %y = arith.addf %b, %b : f32
  llvm.store %x, %d : f32, !llvm.ptr<3>
  llvm.store %y, %e : f32, !llvm.ptr<3>
  gpu.return
}
}
}
