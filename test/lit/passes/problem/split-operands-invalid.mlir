// RUN: lowtide-opt %s -p split-operands --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{split-operands: by tf32x3 is a product of f32, not of bf16 by bf16 [split-types]}}
  tile.gemm tn %a, %b into %d acc(f32 by tf32x3) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
