// --verify-diagnostics: exactly what is expected must come.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics
// RUN: not lowtide-opt %s --split-input-file 2>&1 | filecheck %s

// Places: above, below, beside, counted; the line numbers are those of the whole file.
// expected-error @below {{[field-of-part]}}
module attributes {test.bad = #tile.schedule<stage = 3>} {}

// -----

module attributes {test.bad = #tile.schedule<mainloop = <stages = three>>} {}
// expected-error @above {{[field-integer]}}

// -----

module attributes {test.bad = #tile.schedule<mainloop = <stages = two>>} {} // expected-error {{[field-integer]}}

// -----

// expected-error @+3 {{[field-integer]}}

// A line between.
module attributes {test.bad = #tile.schedule<mainloop = <stages = one>>} {}

// -----

// expected-error-re @below {{M is {{[0-9]+}} in A but {{8|9}} in D}}
func.func @f(%a: memref<4x8xf16>, %d: memref<8x8xf16>) { tile.gemm tn %a, %d into %d acc(f16) { ^bb0(%x: f16): tile.yield %x : f16 } : memref<4x8xf16>, memref<8x8xf16>, memref<8x8xf16>
  return
}

// -----

// Notes are expected as errors are.
func.func @f() -> i32 {
  // expected-note @below {{prior use here}}
  %0 = arith.constant 0 : i32
  // expected-error @below {{use of value '%0' expects different type than prior uses: 'i64' vs 'i32'}}
  %1 = arith.addi %0, %0 : i64
  return %0 : i32
}

// CHECK: diagnostics.mlir:7:{{[0-9]+}}: error: schedule has no field 'stage'
// CHECK-NEXT: module attributes {test.bad = #tile.schedule<stage = 3>} {}
// CHECK-NEXT: ^
// CHECK: diagnostics.mlir:11:{{[0-9]+}}: error: stages takes an integer
