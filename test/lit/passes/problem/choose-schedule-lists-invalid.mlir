// choose-schedule refuses what does not go with lists of matrices: only the device reads their addresses.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
module attributes {tile.target = "sm_90a"} {
func.func @tma(%a: !mats, %b: !list, %d: !mats) {
  // expected-error @below {{choose-schedule: mainloop.b.copy = tma.3d: only the device knows where the matrices of a list lie; take cp.async.16 or}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <b = <copy = tma.3d>>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mats, !list, !mats
  return
}
}

// -----

!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
module attributes {tile.target = "sm_90a"} {
func.func @stores(%a: !list, %b: !list, %d: !list, %counts: memref<?xi32>) {
  // expected-error @below {{epilogue.path = tma: only the device knows where the matrices of a list lie; take smem or direct [lists-field]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %counts : memref<?xi32>) schedule(#tile.schedule<epilogue = <path = tma>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !list, !list, !list
  return
}
}

// -----

!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
module attributes {tile.target = "sm_90a"} {
func.func @turns(%a: !list, %b: !list, %d: !list, %counts: memref<?xi32>) {
  // expected-error @below {{consumers that take turns need the same number of K steps in each tile, but each matrix of the list has its own K; take roles = cooperative(2) [lists-turns]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(ends %counts : memref<?xi32>) schedule(#tile.schedule<mainloop = <agents = <producer = <warps = 4>, consumer = <warps = 4, instances = 2>>>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !list, !list, !list
  return
}
}
