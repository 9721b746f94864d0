// tile-to-ctas launches as many CTAs as surely run at once where they wait for each other: with k_division = scatter,
// those that ptxas keeps registers for. Other grids are as large as the estimate of registers lets them be.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse --split-input-file | filecheck %s

// CHECK-LABEL: func.func @waiting(
// CHECK:       %[[SMS:.+]] = tile.sm_count
// CHECK-NEXT:  %[[HALF:.+]] = arith.divsi %[[SMS]], %c2
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @waiting(%a: memref<64x96xf16>, %b: memref<64x96xf16>, %d: memref<64x64xf16>) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
    grid = <tile = [32, 32], order = row, scheduler = persistent, k_division = scatter(2)>,
    mainloop = <k = 32, stages = 2, roles = single>, multiply = <atoms = [1, 1, 1]>,
    epilogue = <path = direct, math = registers, tile = [32, 32]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<64x96xf16>, memref<64x96xf16>, memref<64x64xf16>
  return
}
}
// -----

// CHECK-LABEL: func.func @free(
// CHECK:       %[[SMS:.+]] = tile.sm_count
// CHECK-NEXT:  %[[CTAS:.+]] = arith.muli %[[SMS]], %c
// CHECK-NEXT:  %[[HALF:.+]] = arith.divsi %[[CTAS]], %c2
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @free(%a: memref<64x96xf16>, %b: memref<64x96xf16>, %d: memref<64x64xf16>) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
    grid = <tile = [32, 32], order = row, scheduler = persistent, k_division = split(2)>,
    mainloop = <k = 32, stages = 2, roles = single>, multiply = <atoms = [1, 1, 1]>,
    epilogue = <path = direct, math = registers, tile = [32, 32]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<64x96xf16>, memref<64x96xf16>, memref<64x64xf16>
  return
}
}
