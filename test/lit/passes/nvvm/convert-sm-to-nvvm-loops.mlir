// convert-sm-to-nvvm says which loops of threads that copy and multiply are unrolled: those of constant length whose
// timing has steps = unrolled.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-DAG: #[[ROLLED:.+]] = #llvm.loop_unroll<disable = true>
// CHECK-DAG: #[[FULL:.+]] = #llvm.loop_unroll<full = true>
// CHECK-DAG: #[[KEEP:.+]] = #llvm.loop_annotation<unroll = #[[ROLLED]]>
// CHECK-DAG: #[[UNROLL:.+]] = #llvm.loop_annotation<unroll = #[[FULL]]>

// The function has the timing of its loops together.
// CHECK-LABEL: gpu.func @unrolled(
// CHECK-SAME:    sm.timing = #sm.timing<steps = unrolled>
// CHECK:       scf.for
// CHECK:       } {llvm.loop_annotation = #[[UNROLL]], sm.timing = #sm.timing<steps = unrolled>}
// CHECK:       scf.for
// CHECK:       } {llvm.loop_annotation = #[[KEEP]], sm.timing = #sm.timing<steps = unrolled>}
// CHECK-LABEL: gpu.func @rolled(
// CHECK:       scf.for
// CHECK:       } {llvm.loop_annotation = #[[KEEP]]}
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {
func.func @host(%a: !mat, %n: index) {
  tile.launch @unrolled grid(%n) threads(32) shared_memory(0) args(%a) : !mat
  tile.launch @rolled grid(%n) threads(32) shared_memory(0) args(%a) : !mat
  return
}
tile.kernel @unrolled(%a: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %n = memref.dim %a, %c0 : !mat
  scf.for %i = %c0 to %c4 step %c1 {
    sm.barrier
  } {sm.timing = #sm.timing<steps = unrolled>}
  scf.for %i = %c0 to %n step %c1 {
    sm.barrier
  } {sm.timing = #sm.timing<steps = unrolled>}
  tile.return
}
tile.kernel @rolled(%a: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    sm.barrier
  }
  tile.return
}
}
