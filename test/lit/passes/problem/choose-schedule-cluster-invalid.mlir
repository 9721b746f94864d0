// choose-schedule refuses clusters that the target, the roles or the tile have no room for.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

// Clusters: too large, of another side, without roles, on a GPU without them, of rows that cannot be shared.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @large(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: grid.cluster = [4, 4] is 16 CTAs; more than 8 are not portable: a GPU need not have room for them; nearest is [2, 4] [cluster-size]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <cluster = [4, 4]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @side(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: grid.cluster = [1, 3]: a side has 1, 2 or 4 CTAs; nearest is [1, 4] [cluster-sides]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <cluster = [1, 3]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @single(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: grid.cluster = [2, 1] shares TMA loads, which only roles have; take roles = cooperative(2) with wgmma, or grid.cluster = [1, 1] [cluster-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <cluster = [2, 1]>, mainloop = <roles = single>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @sm_80(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: grid.cluster = [2, 1]: sm_80 has no clusters; take [1, 1] [cluster-target]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <cluster = [2, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @share(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: grid.cluster = [4, 1]: 4 CTAs share the 80 rows of a stage of operand b, and each loads a multiple of 8, the period of the swizzle; take [2, 1] [cluster-rows]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [64, 80], cluster = [4, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @divided(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: grid.cluster = [2, 1]: the CTAs of a cluster compute the same K of their tiles, but k_division = stream_k gives each its own; take k_division = split(2), or grid.cluster = [1, 1]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <cluster = [2, 1], k_division = stream_k>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
