// keep-loops-rolled moves a loop's annotation into the attribute of the branch itself, and touches no other branch.
// RUN: lowtide-opt %s -p keep-loops-rolled | filecheck %s

#unroll = #llvm.loop_unroll<disable = true>
#rolled = #llvm.loop_annotation<unroll = #unroll>
module attributes {tile.target = "sm_80"} {
gpu.module @kernels {
  // CHECK-LABEL: llvm.func @loop
  // CHECK:         llvm.br ^bb1(%{{.*}} : i32)
  // CHECK-NOT:     loop_annotation
  // CHECK:       ^bb2:
  // CHECK:         llvm.br ^bb1(%{{.*}} : i32) {loop_annotation = #loop_annotation}
  llvm.func @loop(%n: i32) {
    %zero = llvm.mlir.constant(0 : i32) : i32
    llvm.br ^bb1(%zero : i32)
  ^bb1(%i: i32):
    %more = llvm.icmp "slt" %i, %n : i32
    llvm.cond_br %more, ^bb2, ^bb3
  ^bb2:
    %next = llvm.add %i, %n : i32
    llvm.br ^bb1(%next : i32) {llvm.loop_annotation = #rolled}
  ^bb3:
    llvm.return
  }
}
}
