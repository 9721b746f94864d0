// keep-tiles-ahead writes an empty asm statement that reads what a block computes for TMA loads after a wait for earlier
// kernels. It leaves alone what other code reads, constants and pointers.
// RUN: lowtide-opt %s -p keep-tiles-ahead | filecheck %s

module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @loads
  // CHECK:         %[[M:.*]] = llvm.udiv
  // CHECK-NEXT:    %[[LATER:.*]] = llvm.urem
  // CHECK-NEXT:    %[[STEPS:.*]] = llvm.add
  // CHECK-NEXT:    llvm.inline_asm has_side_effects "", "r,r" %[[M]], %[[STEPS]] : (i32, i32) -> ()
  // CHECK-NEXT:    llvm.cond_br
  // CHECK-NOT:     llvm.inline_asm
  llvm.func @loads(%tile: i32, %n: i32, %first: i1, %map: !llvm.ptr, %to: !llvm.ptr<7>, %bar: !llvm.ptr<3>) {
    %m = llvm.udiv %tile, %n : i32
    %later = llvm.urem %tile, %n : i32
    %steps = llvm.add %m, %n : i32
    llvm.cond_br %first, ^bb1, ^bb2
  ^bb1:
    nvvm.griddepcontrol wait
    llvm.br ^bb2
  ^bb2:
    %any = llvm.icmp "slt" %tile, %steps : i32
    llvm.cond_br %any, ^bb3, ^bb4
  ^bb3:
    nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %bar, box[%tile, %m] : !llvm.ptr<7>, !llvm.ptr
    llvm.br ^bb4
  ^bb4:
    %x = llvm.add %later, %n : i32
    llvm.return
  }

  // Nothing is loaded by TMA.
  // CHECK-LABEL: llvm.func @no_loads
  // CHECK-NOT:     llvm.inline_asm
  llvm.func @no_loads(%tile: i32, %n: i32, %first: i1) {
    %m = llvm.udiv %tile, %n : i32
    llvm.cond_br %first, ^bb1, ^bb2
  ^bb1:
    nvvm.griddepcontrol wait
    llvm.br ^bb2
  ^bb2:
    %x = llvm.add %m, %n : i32
    llvm.return
  }

  // Nothing waits.
  // CHECK-LABEL: llvm.func @no_wait
  // CHECK-NOT:     llvm.inline_asm
  llvm.func @no_wait(%tile: i32, %n: i32, %first: i1, %map: !llvm.ptr, %to: !llvm.ptr<7>, %bar: !llvm.ptr<3>) {
    %m = llvm.udiv %tile, %n : i32
    llvm.cond_br %first, ^bb1, ^bb2
  ^bb1:
    nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %bar, box[%tile, %m] : !llvm.ptr<7>, !llvm.ptr
    llvm.br ^bb2
  ^bb2:
    llvm.return
  }
}
}
