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

// ½ erfc(−x/√2): the products are part of the constants. The polynomial is of |x|.
// CHECK-LABEL: func.func @half_of_scaled_erfc(
// CHECK-SAME:    %[[X:.+]]: f32)
// CHECK:       math.absf %[[X]]
// CHECK-NOT:   arith.mulf
// CHECK:       return
func.func @half_of_scaled_erfc(%x: f32) -> f32 {
  %scale = arith.constant 0.707106769 : f32
  %half = arith.constant 5.000000e-01 : f32
  %0 = arith.mulf %x, %scale : f32
  %1 = arith.negf %0 : f32
  %2 = math.erfc %1 : f32
  %3 = arith.mulf %half, %2 : f32
  return %3 : f32
}

// A power of two in the other factor, too: one product is left, by x.
// CHECK-LABEL: func.func @gelu(
// CHECK-SAME:    %[[X:.+]]: f32)
// CHECK:       math.exp2
// CHECK:       arith.mulf %[[X]]
// CHECK-NOT:   arith.mulf
// CHECK:       return
func.func @gelu(%x: f32) -> f32 {
  %scale = arith.constant -0.707106769 : f32
  %half = arith.constant 5.000000e-01 : f32
  %0 = arith.mulf %x, %half : f32
  %1 = arith.mulf %x, %scale : f32
  %2 = math.erfc %1 : f32
  %3 = arith.mulf %0, %2 : f32
  return %3 : f32
}

// Constant factors in the argument of exp multiply the constant: one product is left. Of two factors, both do so if the
// outer one is a power of two.
// CHECK-LABEL: func.func @scaled_exp(
// CHECK-SAME:    %[[X:.+]]: f32)
// CHECK:       %[[C:.+]] = arith.constant -0.72134751
// CHECK-NEXT:  %[[P:.+]] = arith.mulf %[[X]], %[[C]]
// CHECK-NEXT:  math.exp2 %[[P]]
// CHECK:       %[[D:.+]] = arith.constant -8.65617
// CHECK-NEXT:  %[[Q:.+]] = arith.mulf %[[X]], %[[D]]
// CHECK-NEXT:  math.exp2 %[[Q]]
// CHECK:       %[[E:.+]] = arith.constant 4.32808
// CHECK-NEXT:  %[[S:.+]] = arith.mulf %{{.+}}, %[[E]]
// CHECK-NEXT:  math.exp2 %[[S]]
// CHECK:       return
func.func @scaled_exp(%x: f32) -> (f32, f32, f32) {
  %exact = arith.constant -5.000000e-01 : f32
  %two = arith.constant 2.000000e+00 : f32
  %other = arith.constant 3.000000e+00 : f32
  %0 = arith.mulf %x, %exact : f32
  %1 = math.exp %0 : f32
  %2 = arith.mulf %x, %other : f32
  %3 = arith.mulf %two, %2 : f32
  %4 = arith.negf %3 : f32
  %5 = math.exp %4 : f32
  %6 = arith.mulf %2, %other : f32
  %7 = math.exp %6 : f32
  return %1, %5, %7 : f32, f32, f32
}

// A constant factor of exp becomes part of an fma, as its logarithm. A factor far from 1 stays a product.
// CHECK-LABEL: func.func @multiplied_exp(
// CHECK-SAME:    %[[X:.+]]: f32)
// CHECK-DAG:     %[[A:.+]] = arith.constant -0.72134751
// CHECK-DAG:     %[[B:.+]] = arith.constant -1.32574
// CHECK:       %[[P:.+]] = math.fma %[[X]], %[[A]], %[[B]]
// CHECK-NEXT:  %[[Y:.+]] = math.exp2 %[[P]]
// CHECK:       %[[Q:.+]] = math.fma
// CHECK-NEXT:  %[[E:.+]] = math.exp2 %[[Q]]
// CHECK-NEXT:  %[[N:.+]] = arith.negf %[[E]]
// CHECK-NEXT:  %[[Z:.+]] = arith.mulf %[[X]], %[[N]]
// CHECK:       %[[F:.+]] = math.exp2
// CHECK-NEXT:  %[[W:.+]] = arith.mulf %[[F]], %{{.+}}
// CHECK:       return %[[Y]], %[[Z]], %[[W]]
func.func @multiplied_exp(%x: f32) -> (f32, f32, f32) {
  %scale = arith.constant -5.000000e-01 : f32
  %factor = arith.constant 0.398942292 : f32
  %negative = arith.constant -2.000000e+00 : f32
  %large = arith.constant 3.000000e+00 : f32
  %0 = arith.mulf %x, %scale : f32
  %1 = math.exp %0 : f32
  %2 = arith.mulf %1, %factor : f32
  %3 = arith.mulf %negative, %x : f32
  %4 = math.exp %x : f32
  %5 = arith.mulf %3, %4 : f32
  %6 = math.exp %x : f32
  %7 = arith.mulf %6, %large : f32
  return %2, %5, %7 : f32, f32, f32
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

// Other factors of erfc stay products: the sum of 2 · factor and a value below it would overflow, or the power lose bits.
// CHECK-LABEL: func.func @other_factors(
// CHECK-DAG:     %[[LARGE:.+]] = arith.constant 1.70141183E+38
// CHECK-DAG:     %[[SMALL:.+]] = arith.constant 2.500000e-01
// CHECK:       %[[Y:.+]] = arith.select
// CHECK:       arith.mulf %{{.+}}, %[[Y]]
// CHECK:       %[[Z:.+]] = arith.select
// CHECK:       arith.mulf %[[SMALL]], %[[Z]]
func.func @other_factors(%x: f32) -> (f32, f32) {
  %large = arith.constant 0x7F000000 : f32
  %small = arith.constant 2.500000e-01 : f32
  %0 = arith.mulf %x, %large : f32
  %1 = math.erfc %x : f32
  %2 = arith.mulf %0, %1 : f32
  %3 = math.erfc %x : f32
  %4 = arith.mulf %small, %3 : f32
  return %2, %4 : f32, f32
}
}
