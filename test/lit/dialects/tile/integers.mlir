// Elements of matrices have a sign; values that arith computes on have none.
// RUN: lowtide-opt %s --verify-diagnostics --split-input-file | filecheck %s

!bytes = memref<?x?xsi8, strided<[?, 1]>>

// CHECK-LABEL: func.func @gemm
func.func @gemm(%a: !bytes, %b: memref<?x?xui8, strided<[?, 1]>>, %d: !bytes, %c: !bytes) {
  // CHECK: tile.gemm tn %{{.+}}, %{{.+}} into %{{.+}} acc(i32)
  tile.gemm tn %a, %b into %d acc(i32) operands(full %c : !bytes) {
  // CHECK: ^bb0(%acc: i32, %full: i8):
  ^bb0(%acc: i32, %full: i8):
    %0 = arith.trunci %acc : i32 to i8
    %1 = arith.addi %0, %full : i8
    // CHECK: tile.yield %{{.+}} : i8
    tile.yield %1 : i8
  } : !bytes, memref<?x?xui8, strided<[?, 1]>>, !bytes
  return
}

// -----

func.func @signed(%a: memref<?x?xsi8>, %d: memref<?x?xsi8>) {
  // expected-error @below {{[epilogue-yield]}}
  tile.gemm tn %a, %a into %d acc(i32) {
  ^bb0(%acc: i32):
    tile.yield %acc : i32
  } : memref<?x?xsi8>, memref<?x?xsi8>, memref<?x?xsi8>
  return
}
