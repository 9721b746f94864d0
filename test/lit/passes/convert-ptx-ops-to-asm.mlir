// convert-ptx-ops-to-asm writes the one instruction that nvvm lacks, every register tied to itself.
// RUN: lowtide-opt %s -p convert-ptx-ops-to-asm | filecheck %s

// Registers go in by number, as what comes out: nothing that reads them can move above the wait. Side effects keep it
// in its place.
// CHECK-LABEL: func.func @wait(
// CHECK-SAME:    %[[P:.+]]: !llvm.struct<(f32, f32, f32)>)
// CHECK:       %[[R0:.+]] = llvm.extractvalue %[[P]][0]
// CHECK-NEXT:  %[[R1:.+]] = llvm.extractvalue %[[P]][1]
// CHECK-NEXT:  %[[R2:.+]] = llvm.extractvalue %[[P]][2]
// CHECK-NEXT:  %[[C:.+]] = llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;", "=f,=f,=f,0,1,2" %[[R0]], %[[R1]], %[[R2]] : (f32, f32, f32) -> !llvm.struct<(f32, f32, f32)>
// CHECK-NEXT:  return %[[C]]
// CHECK-NOT:   sm.ptx_
module attributes {tile.target = "sm_90a"} {
func.func @wait(%p: !llvm.struct<(f32, f32, f32)>) -> !llvm.struct<(f32, f32, f32)> {
  %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, f32, f32)>
  return %c : !llvm.struct<(f32, f32, f32)>
}

// The number of groups that may stay in flight is the instruction's.
// CHECK-LABEL: func.func @in_flight(
// CHECK:       llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 2;", "=f,0"
func.func @in_flight(%p: !llvm.struct<(f32)>) {
  %c = sm.ptx_wgmma_wait 2, %p : !llvm.struct<(f32)>
  return
}
}
