// keep-comparisons-wide puts fences before comparisons of f32 in kernels whose wgmma sums in f16, and in no others.
// RUN: lowtide-opt %s -p keep-comparisons-wide | filecheck %s

module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @sums_of_f16
  // CHECK:         %[[X:.*]] = arith.extf
  // CHECK:         %[[Y:.*]] = llvm.call_intrinsic "llvm.arithmetic.fence.v4f32"(%[[X]])
  // CHECK-NEXT:    arith.cmpf olt, %[[Y]], %cst
  // CHECK:         llvm.call_intrinsic "llvm.arithmetic.fence.f32"
  // CHECK:         llvm.call_intrinsic "llvm.arithmetic.fence.f32"
  // CHECK-NEXT:    arith.cmpf ogt
  // CHECK-NOT:     llvm.arithmetic.fence
  // CHECK:         arith.cmpf oeq, %{{.*}} : f16
  gpu.func @sums_of_f16(%d: i64, %h: vector<4xf16>, %x: f32, %z: f16) kernel {
    %cst = arith.constant dense<0.0> : vector<4xf32>
    %s = llvm.mlir.undef : !llvm.struct<(i32, i32)>
    %0 = nvvm.wgmma.mma_async %d, %d, %s, <m = 64, n = 8, k = 16>, D[<f16>, <zero>], A[<f16>, <one>, <row>],
      B[<f16>, <one>, <col>] : !llvm.struct<(i32, i32)> -> !llvm.struct<(i32, i32)>
    %1 = arith.extf %h : vector<4xf16> to vector<4xf32>
    %2 = arith.cmpf olt, %1, %cst : vector<4xf32>
    %3 = arith.cmpf ogt, %x, %x : f32
    %4 = arith.cmpf oeq, %z, %z : f16
    gpu.return
  }

  // CHECK-LABEL: gpu.func @sums_of_f32
  // CHECK-NOT:     llvm.arithmetic.fence
  gpu.func @sums_of_f32(%d: i64, %h: vector<4xf16>) kernel {
    %cst = arith.constant dense<0.0> : vector<4xf32>
    %s = llvm.mlir.undef : !llvm.struct<(f32, f32, f32, f32)>
    %0 = nvvm.wgmma.mma_async %d, %d, %s, <m = 64, n = 8, k = 16>, D[<f32>, <zero>], A[<f16>, <one>, <row>],
      B[<f16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
    %1 = arith.extf %h : vector<4xf16> to vector<4xf32>
    %2 = arith.cmpf olt, %1, %cst : vector<4xf32>
    gpu.return
  }
}
}
