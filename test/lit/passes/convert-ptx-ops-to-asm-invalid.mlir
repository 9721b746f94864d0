// convert-ptx-ops-to-asm threads f32 registers through a wait, and nothing else.
// RUN: lowtide-opt %s -p convert-ptx-ops-to-asm --split-input-file --verify-diagnostics

module attributes {tile.target = "sm_90a"} {
func.func @mixed(%p: !llvm.struct<(f32, i32)>) {
  // expected-error @below {{convert-ptx-ops-to-asm: threads a struct of f32 registers, not !llvm.struct<(f32, i32)>}}
  %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, i32)>
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @empty(%p: !llvm.struct<()>) {
  // expected-error @below {{convert-ptx-ops-to-asm: threads a struct of f32 registers, not !llvm.struct<()>}}
  %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<()>
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @scalar(%p: f32) {
  // expected-error @below {{convert-ptx-ops-to-asm: threads a struct of f32 registers, not f32}}
  %c = sm.ptx_wgmma_wait 0, %p : f32
  return
}
}
