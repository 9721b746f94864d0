// Our passes and upstream's stand in one pipeline, nested upstream ones too; IR is printed after each on request.
// RUN: lowtide-opt %s --target=sm_80 --pass-pipeline='builtin.module(canonicalize,choose-schedule,gpu.module(cse),tile-to-ctas)' | filecheck %s
// RUN: lowtide-opt - --target=sm_80 -p 'canonicalize,choose-schedule,tile-to-ctas' --mlir-print-ir-after-all -o %t.out < %s 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: filecheck %s < %t.out
// RUN: lowtide-opt --list-passes | filecheck %s --check-prefix=LIST

// CHECK-NOT: arith.constant 3 : index
// CHECK: tile.launch @gemm_kernel
// CHECK: tile.kernel @gemm_kernel
// CHECK-SAME: schedule = #schedule

// AFTER: IR Dump After canonicalize
// AFTER: tile.gemm
// AFTER: IR Dump After choose-schedule
// AFTER: IR Dump After tile-to-ctas
// AFTER: tile.kernel

// LIST: choose-schedule
// LIST: tile-to-ctas

func.func @gemm(%a: memref<?x?xbf16, strided<[?, 1]>>, %b: memref<?x?xbf16, strided<[?, 1]>>,
                %d: memref<?x?xf32, strided<[?, 1]>>) {
  %unused = arith.constant 3 : index
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xf32, strided<[?, 1]>>
  return
}
