// A module may name the extents that its schedules are chosen for. Rules take them for run-time extents.
// RUN: lowtide-opt %s -p choose-schedule,verify-schedule --split-input-file | filecheck %s

// With a K that is known, the sums of first rows are stored early.
// CHECK: #schedule = #tile.schedule<
// CHECK: start = first_rows
// CHECK-LABEL: func.func @known
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @known(%a: memref<6144x6144xbf16>, %b: memref<6144x6144xbf16>, %d: memref<6144x6144xbf16>) {
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : memref<6144x6144xbf16>, memref<6144x6144xbf16>, memref<6144x6144xbf16>
  func.return
}
}

// -----

// CHECK: #schedule = #tile.schedule<
// CHECK-NEXT: grid = <tile = [256, 192]
// CHECK-NOT: start = first_rows
// CHECK-LABEL: func.func @expected
module attributes {tile.expected = {k = 6144, m = 6144, n = 6144}, tile.level = "problem", tile.target = "sm_90a"} {
func.func @expected(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>) {
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>
  func.return
}
}
