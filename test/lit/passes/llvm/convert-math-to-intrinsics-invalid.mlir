// convert-math-to-intrinsics takes what expand-math leaves.
// RUN: lowtide-opt %s -p convert-math-to-intrinsics --split-input-file --verify-diagnostics

module attributes {tile.target = "sm_80"} {
func.func @not_expanded(%x: f32) -> f32 {
  // expected-error @below {{convert-math-to-intrinsics: is no single instruction, as math.absf, math.copysign, math.exp2, math.fma, math.log2, math.roundeven, math.rsqrt, math.sqrt are: run expand-math first [no-intrinsic]}}
  %y = math.exp %x : f32
  return %y : f32
}
}
// -----

module attributes {tile.target = "sm_80"} {
func.func @half(%x: f16) -> f16 {
  // expected-error @below {{[math-type]}}
  %y = math.exp2 %x : f16
  return %y : f16
}
}
