// expand-math writes exp, tanh, erf, erfc and log with what one instruction computes. The formulas' errors are held by
// test/unit/test_math_formulas.py; here only that nothing else is left.
// RUN: lowtide-opt %s -p expand-math | filecheck %s
module attributes {tile.level = "nvvm", tile.target = "sm_80"} {

// exp(x) = 2^(x·log2 e), by the hardware's ex2.approx.
// CHECK-LABEL: func.func @exp
// CHECK-NOT:   math.exp %
// CHECK:       arith.mulf
// CHECK-NEXT:  math.exp2 %{{.+}} fastmath<afn> : f32
// CHECK-NEXT:  return
func.func @exp(%x: f32) -> f32 {
  %y = math.exp %x : f32
  return %y : f32
}

// CHECK-LABEL: func.func @others
// CHECK-NOT:   math.{{tanh|erf|log }}
// CHECK:       return
func.func @others(%x: f32) -> (f32, f32, f32, f32) {
  %t = math.tanh %x : f32
  %e = math.erf %x : f32
  %c = math.erfc %x : f32
  %l = math.log %x : f32
  return %t, %e, %c, %l : f32, f32, f32, f32
}

// Vectors are expanded as they are.
// CHECK-LABEL: func.func @vector
// CHECK:       math.log2 %{{.+}} fastmath<afn> : vector<4xf32>
func.func @vector(%x: vector<4xf32>) -> vector<4xf32> {
  %y = math.log %x : vector<4xf32>
  return %y : vector<4xf32>
}

// What is one instruction stays.
// CHECK-LABEL: func.func @kept(
// CHECK-SAME:    %[[X:.+]]: f32)
// CHECK:       math.exp2 %[[X]]
// CHECK:       math.log2 %[[X]]
// CHECK:       math.sqrt %[[X]]
// CHECK:       math.rsqrt %[[X]]
// CHECK:       math.absf %[[X]]
// CHECK:       math.copysign %[[X]], %[[X]]
// CHECK:       math.fma %[[X]], %[[X]], %[[X]]
// CHECK:       return
func.func @kept(%x: f32) {
  %0 = math.exp2 %x : f32
  %1 = math.log2 %x : f32
  %2 = math.sqrt %x : f32
  %3 = math.rsqrt %x : f32
  %4 = math.absf %x : f32
  %5 = math.copysign %x, %x : f32
  %6 = math.fma %x, %x, %x : f32
  return
}
}
