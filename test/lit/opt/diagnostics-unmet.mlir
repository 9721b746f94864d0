// A diagnostic that nobody expects, an expectation that nothing meets, and one on the wrong line each fail the test.
// RUN: not lowtide-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// CHECK: diagnostics-unmet.mlir:5:{{[0-9]+}}: unexpected error: stages takes an integer
module attributes {test.bad = #tile.schedule<mainloop = <stages = one>>} {}

// -----

// CHECK: diagnostics-unmet.mlir:10: expected error "a message" was not produced on line 11
// expected-error @below {{a message}}
module {}

// -----

// CHECK: diagnostics-unmet.mlir:17:{{[0-9]+}}: unexpected error: stages takes an integer
// CHECK: diagnostics-unmet.mlir:18: expected error "stages takes an integer" was not produced on line 18
module attributes {test.bad = #tile.schedule<mainloop = <stages = one>>} {}
// expected-error {{stages takes an integer}}
