// expand-math refuses an op without an expansion, and any element type but f32.
// RUN: lowtide-opt %s -p expand-math --split-input-file --verify-diagnostics

module attributes {tile.target = "sm_80"} {
func.func @unknown(%x: f32) -> f32 {
  // expected-error @below {{expand-math: has no expansion; expand-math knows math.erf, math.erfc, math.exp, math.log, math.tanh and keeps math.absf, math.copysign, math.exp2, math.fma, math.log2, math.roundeven, math.rsqrt, math.sqrt: write it with these [no-expansion]}}
  %y = math.sin %x : f32
  return %y : f32
}
}
// -----

module attributes {tile.target = "sm_80"} {
func.func @half(%x: f16) -> f16 {
  // expected-error @below {{expand-math: takes f32 and fixed vectors of f32, not f16: extend before it, truncate after it [math-type]}}
  %y = math.exp %x : f16
  return %y : f16
}
}
// -----

module attributes {tile.target = "sm_80"} {
func.func @scalable(%x: vector<[4]xf32>) -> vector<[4]xf32> {
  // expected-error @below {{[math-type]}}
  %y = math.exp %x : vector<[4]xf32>
  return %y : vector<[4]xf32>
}
}
