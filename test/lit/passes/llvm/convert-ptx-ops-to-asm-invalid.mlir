// convert-ptx-ops-to-asm threads f32 registers through a wait, and stores at most 16 bytes of floats.
// RUN: lowtide-opt %s -p convert-ptx-ops-to-asm --split-input-file --verify-diagnostics

module attributes {tile.target = "sm_90a"} {
func.func @mixed(%p: !llvm.struct<(f32, i32)>) {
  // expected-error @below {{convert-ptx-ops-to-asm: threads a struct of f32 or of i32 registers, not !llvm.struct<(f32, i32)> [wait-registers]}}
  %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, i32)>
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @empty(%p: !llvm.struct<()>) {
  // expected-error @below {{[wait-registers]}}
  %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<()>
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @scalar(%p: f32) {
  // expected-error @below {{[wait-registers]}}
  %c = sm.ptx_wgmma_wait 0, %p : f32
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @wide(%v: vector<16xbf16>, %p: !llvm.ptr<1>) {
  // expected-error @below {{convert-ptx-ops-to-asm: is a store of 32 bytes; st.global.cs and .wt store 1, 2, 4, 8 or 16 [store-operator-bytes]}}
  sm.ptx_store streaming %v to %p : vector<16xbf16>, !llvm.ptr<1>
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @hint(%v: vector<8xbf16>, %p: !llvm.ptr<1>) {
  // expected-error @below {{convert-ptx-ops-to-asm: has the hint evict_first; st.global has streaming and write_through [store-hint]}}
  sm.ptx_store evict_first %v to %p : vector<8xbf16>, !llvm.ptr<1>
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @elements(%v: vector<4xi16>, %p: !llvm.ptr<1>) {
  // expected-error @below {{[element-known]}}
  sm.ptx_store streaming %v to %p : vector<4xi16>, !llvm.ptr<1>
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @round(%x: f32) {
  // expected-error @below {{convert-ptx-ops-to-asm: rounds to a type that is stored with more bits, such as tf32, not to bf16 [round-type]}}
  %y = sm.ptx_round %x to bf16 : f32
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @field(%p: !llvm.ptr<3>) {
  // expected-error @below {{convert-ptx-ops-to-asm: sets the field colour of a tensor map; give a value or an immediate for one of global_address, rank, box_dim,}}
  sm.ptx_replace_map %p "colour" immediate 1 : !llvm.ptr<3>
  return
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @none(%p: !llvm.ptr<3>) {
  // expected-error @below {{[map-field]}}
  sm.ptx_replace_map %p "rank" : !llvm.ptr<3>
  return
}
}
