// keep-loads-ahead writes an empty asm statement before a back edge that passes loads from shared memory, in loops of an
// atom that keeps them, and nowhere else.
// RUN: lowtide-opt %s -p keep-loads-ahead | filecheck %s

module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @ahead
  // CHECK:         llvm.br ^bb1(
  // CHECK-NOT:     llvm.inline_asm
  // CHECK:       ^bb2:
  // CHECK:         %[[NEXT:.*]] = llvm.load
  // CHECK:         llvm.inline_asm has_side_effects "", "~{memory}"
  // CHECK-NEXT:    llvm.br ^bb1(%{{.*}}, %[[NEXT]]
  // CHECK-NOT:     llvm.inline_asm
  llvm.func @ahead(%n: i32, %p: !llvm.ptr<3>, %c: f64) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %first = llvm.load %p : !llvm.ptr<3> -> f64
    llvm.br ^bb1(%zero, %first : i32, f64)
  ^bb1(%i: i32, %a: f64):
    %more = llvm.icmp "slt" %i, %n : i32
    llvm.cond_br %more, ^bb2, ^bb3
  ^bb2:
    %d = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k4.row.col.f64"(%a, %a, %a, %c, %c, %c, %c)
        : (f64, f64, f64, f64, f64, f64, f64) -> !llvm.struct<(f64, f64, f64, f64)>
    %next = llvm.load %p : !llvm.ptr<3> -> f64
    %j = llvm.add %i, %n : i32
    llvm.br ^bb1(%j, %next : i32, f64)
  ^bb3:
    llvm.return
  }

  // The atom does not keep them.
  // CHECK-LABEL: llvm.func @another_atom
  // CHECK-NOT:     llvm.inline_asm
  llvm.func @another_atom(%n: i32, %p: !llvm.ptr<3>, %c: f64) {
    %first = llvm.load %p : !llvm.ptr<3> -> f64
    llvm.br ^bb1(%first : f64)
  ^bb1(%a: f64):
    %d = llvm.call_intrinsic "llvm.nvvm.mma.m8n8k4.row.col.f64"(%a, %a, %c, %c)
        : (f64, f64, f64, f64) -> !llvm.struct<(f64, f64)>
    %more = llvm.icmp "slt" %n, %n : i32
    %next = llvm.load %p : !llvm.ptr<3> -> f64
    llvm.cond_br %more, ^bb1(%next : f64), ^bb2
  ^bb2:
    llvm.return
  }

  // The loads are from global memory.
  // CHECK-LABEL: llvm.func @another_space
  // CHECK-NOT:     llvm.inline_asm
  llvm.func @another_space(%n: i32, %p: !llvm.ptr<1>, %c: f64) {
    %first = llvm.load %p : !llvm.ptr<1> -> f64
    llvm.br ^bb1(%first : f64)
  ^bb1(%a: f64):
    %d = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k4.row.col.f64"(%a, %a, %a, %c, %c, %c, %c)
        : (f64, f64, f64, f64, f64, f64, f64) -> !llvm.struct<(f64, f64, f64, f64)>
    %more = llvm.icmp "slt" %n, %n : i32
    %next = llvm.load %p : !llvm.ptr<1> -> f64
    llvm.cond_br %more, ^bb1(%next : f64), ^bb2
  ^bb2:
    llvm.return
  }
}
}
