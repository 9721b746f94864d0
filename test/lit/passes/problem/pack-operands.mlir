// pack-operands puts matrices with aligned rows in the place of those that the schedule packs.
// RUN: lowtide-opt %s -p pack-operands --split-input-file | filecheck %s

// CHECK-LABEL: func.func @all(
// CHECK-SAME:    %[[A:.+]]: memref<{{.*}}>, %[[B:.+]]: memref<{{.*}}>, %[[D:.+]]: memref<{{.*}}>)
// CHECK:       %[[P:.+]] = tile.pack %[[A]] align(16) :
// CHECK:       %[[Q:.+]] = tile.pack %[[B]] align(8) :
// CHECK:       %[[R:.+]] = tile.pack %[[D]] align(16) uninitialized :
// CHECK:       tile.gemm tn %[[P]], %[[Q]] into %[[R]] acc(f32)
// CHECK:       tile.unpack %[[R]] into %[[D]] :
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @all(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
  grid = <tile = [32, 32]>,
  mainloop = <k = 32, a = <copy = cp.async.16, pack = rows>, b = <copy = cp.async.8, pack = rows>>,
  multiply = <atom = mma.m16n8k16, atoms = [2, 1, 1], permutation = [32, 16, 16]>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <2,3,3>, pack = rows>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// TMA stores whole units, so rows of D must be made of them.
// CHECK-LABEL: func.func @tma(
// CHECK-SAME:    %[[A:.+]]: memref<{{.*}}>, %[[B:.+]]: memref<{{.*}}>, %[[D:.+]]: memref<{{.*}}>)
// CHECK-NEXT:  %[[R:.+]] = tile.pack %[[D]] align(16) whole_rows uninitialized :
// CHECK-NEXT:  tile.gemm tn %[[A]], %[[B]] into %[[R]] acc(f32)
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @tma(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
  mainloop = <a = <copy = tma, pack = none>, b = <copy = tma>>, epilogue = <path = tma, pack = rows>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A and B of which K is not contiguous are transposed where the schedule says so; layout and shapes are then of that.
// CHECK-LABEL: func.func @turned(
// CHECK-SAME:    %[[A:.+]]: memref<{{.*}}>, %[[B:.+]]: memref<{{.*}}>, %[[D:.+]]: memref<{{.*}}>)
// CHECK-NEXT:  %[[P:.+]] = tile.pack %[[A]] transposed align(16) : memref<96x?xf8E4M3FN, strided<[?, 1]>> to memref<?x96xf8E4M3FN, strided<[?, 1]>>
// CHECK-NEXT:  %[[Q:.+]] = tile.pack %[[B]] transposed align(16) : memref<96x64xf8E4M3FN, strided<[?, 1]>> to memref<64x96xf8E4M3FN, strided<[?, 1]>>
// CHECK-NEXT:  tile.gemm tn %[[P]], %[[Q]] into %[[D]] acc(f32)
!a = memref<96x?xf8E4M3FN, strided<[?, 1]>>
!b = memref<96x64xf8E4M3FN, strided<[?, 1]>>
!d = memref<?x64xf32, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @turned(%a: !a, %b: !b, %d: !d) {
  tile.gemm nt %a, %b into %d acc(f32) schedule(#tile.schedule<
  mainloop = <a = <copy = tma, pack = transposed>, b = <copy = tma, pack = transposed>>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !a, !b, !d
  return
}
}
// -----

// Scales of blocks that TMA copies are packed, whose rows may be of any length.
// CHECK-LABEL: func.func @scales(
// CHECK-SAME:    %[[SA:[^:]+]]: memref<?x?xf32, strided<[?, 1]>>, %[[SB:[^:]+]]: memref<?x?xf32, strided<[?, 1]>>)
// CHECK-NEXT:  %[[P:.+]] = tile.pack %[[SA]] align(16) :
// CHECK-NEXT:  %[[Q:.+]] = tile.pack %[[SB]] align(16) :
// CHECK-NEXT:  tile.gemm tn {{.*}} operands(row_scale %[[P]] : {{.*}}, column_block_scale %[[Q]] :
// CHECK-LABEL: func.func @direct(
// CHECK-NOT:   tile.pack
!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!s = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @scales(%a: !mat, %b: !mat, %d: !s, %sa: !s, %sb: !s) {
  tile.gemm tn %a, %b into %d acc(f32) operands(row_scale %sa : !s, column_block_scale %sb : !s)
      schedule(#tile.schedule<mainloop = <scales = staged, a = <copy = tma>, b = <copy = tma>>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !s
  return
}
func.func @direct(%a: !mat, %b: !mat, %d: !s, %sa: !s, %sb: !s) {
  tile.gemm tn %a, %b into %d acc(f32) operands(row_scale %sa : !s, column_block_scale %sb : !s)
      schedule(#tile.schedule<mainloop = <scales = direct, a = <copy = tma>, b = <copy = tma>>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !s
  return
}
}
