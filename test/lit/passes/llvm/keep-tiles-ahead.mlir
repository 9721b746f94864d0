// keep-tiles-ahead writes an empty asm statement that reads what a block computes for TMA loads after a wait for earlier
// kernels, and one that reads what other blocks compute from divisions by run-time values. It leaves alone what other
// code reads, constants and pointers.
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

  // Of other blocks, what depends on a division by a run-time value is kept for the blocks that use it.
  // CHECK-LABEL: llvm.func @stores
  // CHECK:         %[[ROW:.*]] = llvm.udiv
  // CHECK-NEXT:    %[[BACK:.*]] = llvm.mul %[[ROW]]
  // CHECK-NEXT:    %[[COLUMN:.*]] = llvm.sub %{{.*}}, %[[BACK]]
  // CHECK-NEXT:    llvm.inline_asm has_side_effects "", "r,r" %[[ROW]], %[[COLUMN]] : (i32, i32) -> ()
  // CHECK-NEXT:    nvvm.barrier
  // CHECK-NEXT:    llvm.cond_br
  // CHECK-NOT:     llvm.inline_asm
  llvm.func @stores(%tile: i32, %n: i32, %first: i1, %map: !llvm.ptr, %from: !llvm.ptr<3>) {
    llvm.br ^bb1
  ^bb1:
    %row = llvm.udiv %tile, %n : i32
    %back = llvm.mul %row, %n : i32
    %column = llvm.sub %tile, %back : i32
    nvvm.barrier
    llvm.cond_br %first, ^bb2, ^bb3
  ^bb2:
    nvvm.cp.async.bulk.tensor.global.shared.cta %map, %from, box[%row, %column] : !llvm.ptr, !llvm.ptr<3>
    llvm.br ^bb3
  ^bb3:
    llvm.return
  }

  // The height of a band is computed beside the division, and without extents as arguments all divisors are known.
  // CHECK-LABEL: llvm.func @bands
  // CHECK-NOT:     llvm.inline_asm
  llvm.func @bands(%tile: i32, %n: i32, %first: i1, %map: !llvm.ptr, %from: !llvm.ptr<3>) {
    llvm.br ^bb1
  ^bb1:
    %height = llvm.intr.umin(%tile, %n) : (i32, i32) -> i32
    %row = llvm.udiv %tile, %height : i32
    llvm.cond_br %first, ^bb2, ^bb3
  ^bb2:
    nvvm.cp.async.bulk.tensor.global.shared.cta %map, %from, box[%row, %tile] : !llvm.ptr, !llvm.ptr<3>
    llvm.br ^bb3
  ^bb3:
    llvm.return
  }

  // A division by a constant is cheap, and what the same block uses is computed there.
  // CHECK-LABEL: llvm.func @cheap
  // CHECK-NOT:     llvm.inline_asm
  llvm.func @cheap(%tile: i32, %n: i32, %first: i1) {
    %seven = llvm.mlir.constant(7 : i32) : i32
    llvm.br ^bb0
  ^bb0:
    %row = llvm.udiv %tile, %seven : i32
    %own = llvm.urem %tile, %n : i32
    %is_first = llvm.icmp "eq" %own, %seven : i32
    llvm.cond_br %is_first, ^bb1, ^bb2
  ^bb1:
    %x = llvm.add %row, %n : i32
    llvm.br ^bb2
  ^bb2:
    llvm.return
  }
}
}
