// convert-math-to-intrinsics names the one instruction that computes each math op; vectors are taken apart.
// RUN: lowtide-opt %s -p convert-math-to-intrinsics | filecheck %s
module attributes {tile.target = "sm_80"} {

// CHECK-LABEL: func.func @scalars(
// CHECK-SAME:    %[[X:.+]]: f32)
// CHECK:       llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%[[X]]) : (f32) -> f32
// CHECK:       llvm.call_intrinsic "llvm.nvvm.lg2.approx.f"(%[[X]])
// CHECK:       llvm.call_intrinsic "llvm.nvvm.sqrt.rn.f"(%[[X]])
// CHECK:       llvm.call_intrinsic "llvm.nvvm.rsqrt.approx.f"(%[[X]])
// CHECK:       llvm.call_intrinsic "llvm.fabs.f32"(%[[X]])
// CHECK:       llvm.call_intrinsic "llvm.copysign.f32"(%[[X]], %[[X]])
// CHECK:       llvm.call_intrinsic "llvm.fma.f32"(%[[X]], %[[X]], %[[X]])
// CHECK:       return
func.func @scalars(%x: f32) {
  %0 = math.exp2 %x : f32
  %1 = math.log2 %x : f32
  %2 = math.sqrt %x : f32
  %3 = math.rsqrt %x : f32
  %4 = math.absf %x : f32
  %5 = math.copysign %x, %x : f32
  %6 = math.fma %x, %x, %x : f32
  return
}

// What f64 has too.
// CHECK-LABEL: func.func @wide(
// CHECK-SAME:    %[[X:.+]]: f64)
// CHECK:       llvm.call_intrinsic "llvm.nvvm.sqrt.rn.d"(%[[X]]) : (f64) -> f64
// CHECK:       llvm.call_intrinsic "llvm.fabs.f64"(%[[X]])
// CHECK:       llvm.call_intrinsic "llvm.fma.f64"(%[[X]], %[[X]], %[[X]])
func.func @wide(%x: f64) {
  %0 = math.sqrt %x : f64
  %1 = math.absf %x : f64
  %2 = math.fma %x, %x, %x : f64
  return
}

// CHECK-LABEL: func.func @vector(
// CHECK-SAME:    %[[X:.+]]: vector<2xf32>)
// CHECK:       %[[X0:.+]] = vector.extract %[[X]][0]
// CHECK:       %[[Y0:.+]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%[[X0]])
// CHECK:       %[[X1:.+]] = vector.extract %[[X]][1]
// CHECK:       %[[Y1:.+]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%[[X1]])
// CHECK:       %[[Y:.+]] = vector.from_elements %[[Y0]], %[[Y1]] : vector<2xf32>
// CHECK:       return %[[Y]]
func.func @vector(%x: vector<2xf32>) -> vector<2xf32> {
  %y = math.exp2 %x fastmath<afn> : vector<2xf32>
  return %y : vector<2xf32>
}
}
