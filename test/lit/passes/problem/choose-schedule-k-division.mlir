// Divisions of K that a problem or another field rules out are refused, with the nearest one that is legal.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @more_parts_than_steps(%a: memref<64x96xf16>, %b: memref<64x96xf16>, %d: memref<64x64xf16>) {
  // expected-error @below {{k_division = split(4): K = 96 has 3 steps of 32, and a part at least one; nearest is split(3) [division-steps]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <k_division = split(4)>, mainloop = <k = 32>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<64x96xf16>, memref<64x96xf16>, memref<64x64xf16>
  return
}
}
// -----

module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @one_shot(%a: memref<64x96xf16>, %b: memref<64x96xf16>, %d: memref<64x64xf16>) {
  // expected-error @below {{k_division = stream_k needs a grid of the CTAs that run at once, not scheduler = one_shot; take scheduler = persistent, or k_division = split(2)}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <scheduler = one_shot, k_division = stream_k>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<64x96xf16>, memref<64x96xf16>, memref<64x64xf16>
  return
}
}
// -----

module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @too_many(%a: memref<64x96xf16>, %b: memref<64x96xf16>, %d: memref<64x64xf16>) {
  // expected-error @below {{k_division = split(129): at most 128 parts; nearest is split(128) [k-parts]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <k_division = split(129)>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<64x96xf16>, memref<64x96xf16>, memref<64x64xf16>
  return
}
}
// -----

module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @sums_of_parts(%a: memref<64x96xf16>, %b: memref<64x96xf16>, %d: memref<64x64xf16>) {
  // expected-error @below {{k_division = split(2) adds sums of whole K steps, and with atoms = [2, 1, 2] each warp has that of a part, which the epilogue adds; take atoms = [2, 1, 1], or k_division = none [division-warps]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
    grid = <k_division = split(2)>, mainloop = <k = 32>, multiply = <atoms = [2, 1, 2]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<64x96xf16>, memref<64x96xf16>, memref<64x64xf16>
  return
}
}
// -----

module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @no_share(%a: memref<64x96xf16>, %b: memref<64x96xf16>, %d: memref<64x64xf16>) {
  // expected-error @below {{k_division = scatter(2): the 32 columns of the tile must divide into shares that are multiples of 32; take split(2) [share-columns]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
    grid = <tile = [64, 32], scheduler = persistent, k_division = scatter(2)>, mainloop = <k = 32>,
    multiply = <atoms = [1, 2, 1]>, epilogue = <path = direct>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<64x96xf16>, memref<64x96xf16>, memref<64x64xf16>
  return
}
}
// -----

module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @no_whole_box(%a: memref<64x96xbf16>, %b: memref<64x96xbf16>, %d: memref<64x64xbf16>) {
  // expected-error @below {{k_division = scatter_tail(3): the 64 columns of the tile must divide into shares that are multiples of 32; nearest is scatter_tail(2) [share-columns]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
    grid = <tile = [64, 64], scheduler = persistent, k_division = scatter_tail(3)>,
    mainloop = <k = 32, roles = cooperative(1)>, epilogue = <path = tma, tile = [64, 32]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : memref<64x96xbf16>, memref<64x96xbf16>, memref<64x64xbf16>
  return
}
}
// -----

module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @shares_in_rows(%a: memref<64x96xf16>, %b: memref<64x96xf16>, %d: memref<64x64xf16>) {
  // expected-error @below {{k_division = scatter_tail(2) stores shares of a tile from fragments; take epilogue.path = direct or tma, not smem [share-path]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
    grid = <tile = [64, 32], scheduler = persistent, k_division = scatter_tail(2)>, mainloop = <k = 32>,
    multiply = <atoms = [1, 1, 1]>, epilogue = <path = smem>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<64x96xf16>, memref<64x96xf16>, memref<64x64xf16>
  return
}
}
// -----

module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @no_share_of_a_tail(%a: memref<64x96xf16>, %b: memref<64x96xf16>, %d: memref<64x64xf16>) {
  // expected-error @below {{k_division = scatter_tail(2): the 32 columns of the tile must divide into shares that are multiples of 32; take tail(2) [share-columns]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
    grid = <tile = [64, 32], scheduler = persistent, k_division = scatter_tail(2)>, mainloop = <k = 32>,
    multiply = <atoms = [1, 2, 1]>, epilogue = <path = direct>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<64x96xf16>, memref<64x96xf16>, memref<64x64xf16>
  return
}
}
