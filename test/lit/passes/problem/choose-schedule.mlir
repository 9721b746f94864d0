// choose-schedule completes #tile.schedule: what is given is kept, everything else follows from problem and target.
// What it chooses is legal, so verify-schedule is content.
// RUN: lowtide-opt %s -p choose-schedule,verify-schedule --split-input-file | filecheck %s

// Every field is decided: tile and warps by cost, the others from them, each swizzle by counting conflicts.
// CHECK:      #schedule = #tile.schedule<[[LARGE:cta = .+, warps = .+, permutation = .+, mma = mma.m16n8k16, copy = cp.async.16, stages = [0-9]+, roles = single, fragment_buffers = 2, swizzle_a = <.+>, swizzle_b = <.+>, swizzle_d = <.+>, raster = grouped\(8\), scheduler = one_shot, epilogue = smem, epilogue_math = registers, epilogue_tile = .+]]>
// CHECK-LABEL: func.func @large
// CHECK:      tile.gemm tn {{.*}} schedule(#schedule)
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @large(%a: memref<4096x4096xbf16>, %b: memref<4096x4096xbf16>, %d: memref<4096x4096xbf16>) {
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : memref<4096x4096xbf16>, memref<4096x4096xbf16>, memref<4096x4096xbf16>
  return
}
}
// -----

// A small problem takes a small tile: more CTAs, less of the tile past the edge.
// CHECK: #schedule = #tile.schedule<cta = [64, 64, {{.*}}], warps = [2, 2, 1],
// CHECK-LABEL: func.func @small
module attributes {tile.target = "sm_80"} {
func.func @small(%a: memref<64x512xbf16>, %b: memref<64x512xbf16>, %d: memref<64x64xbf16>) {
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : memref<64x512xbf16>, memref<64x512xbf16>, memref<64x64xbf16>
  return
}
}
// -----

// Extents known only at run time are taken to be large.
// CHECK: #schedule = #tile.schedule<[[LARGE]]>
// CHECK-LABEL: func.func @dynamic
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @dynamic(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A target with less shared memory takes a choice that fits it.
// CHECK: #schedule = #tile.schedule<cta = [128, {{.*}}, stages =
// CHECK-LABEL: func.func @little_shared_memory
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_86"} {
func.func @little_shared_memory(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// An operand with one element for each of D is read in whole rows, so the epilogue's arithmetic moves there; its
// scratch then holds accumulators, whole rows of the tile at a time.
// CHECK:      #schedule = #tile.schedule<cta = [128, 128, 32],
// CHECK-SAME: epilogue_math = rows, epilogue_tile = [{{[0-9]+}}, 128]>
// CHECK-LABEL: func.func @full_operand
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @full_operand(%a: !mat, %b: !mat, %d: !mat, %c: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) operands(full %c : !mat) schedule(#tile.schedule<cta = [128, 128, 32]>) {
  ^bb0(%x: f32, %r: bf16):
    %s = arith.extf %r : bf16 to f32
    %z = arith.addf %x, %s : f32
    %y = arith.truncf %z : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Operands that lie the other way make rows of another length in shared memory, and need other swizzles.
// CHECK:      swizzle_a = <3,3,4>, swizzle_b = <3,3,5>
// CHECK-LABEL: func.func @other_layout
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @other_layout(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm nt %a, %b into %d acc(f16) schedule(#tile.schedule<cta = [128, 256, 32]>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Given fields stay as they are, in whatever order they were written; `auto` is as good as left out; what depends on
// them follows.
// CHECK:      #schedule = #tile.schedule<cta = [96, 48, 64], warps = [3, 1, 1], permutation = [48, 16, 16],
// CHECK-SAME: stages = 5, roles = single, fragment_buffers = 1, swizzle_a = <1,4,3>, swizzle_b = <3,3,3>,
// CHECK-SAME: raster = row, scheduler = persistent
// CHECK-SAME: epilogue_tile = [{{[0-9]+}}, 48]>
// CHECK-LABEL: func.func @given
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @given(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<scheduler = persistent, raster = row, swizzle_b = auto,
      swizzle_a = <1,4,3>, fragment_buffers = 1, stages = 5, warps = [3, 1, 1], cta = [96, 48, 64]>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Direct stores have no scratch, so nothing to swizzle, and the arithmetic runs on the fragments.
// CHECK: swizzle_d = <0,3,3>, {{.*}} epilogue = direct, epilogue_math = registers,
// CHECK-LABEL: func.func @direct
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @direct(%a: !mat, %b: !mat, %d: !mat, %c: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) operands(full %c : !mat) schedule(#tile.schedule<epilogue = direct>) {
  ^bb0(%x: f32, %r: bf16):
    tile.yield %r : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// The smaller atom makes half the step along K.
// CHECK: permutation = [32, 32, 8], mma = mma.m16n8k8,
// CHECK-LABEL: func.func @smaller_atom
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @smaller_atom(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<cta = [64, 64, 32], mma = mma.m16n8k8>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A target with wgmma takes a producer and consumers, and the tile that fills the last wave; what is left of its N
// beside parts of 64 columns is a narrower part.
// CHECK:      #schedule = #tile.schedule<cta = [256, 184, 64], warps = [2, 1, 1], permutation = [128, 184, 16],
// CHECK-SAME: mma = wgmma.m64n184k16, copy = tma, stages = 3, roles = cooperative(2), registers = [40, 232],
// CHECK-SAME: scheduler = persistent, cache_hints = [normal, normal, evict_first], epilogue = tma,
// CHECK-SAME: epilogue_math = registers, epilogue_tile = [128, 64], epilogue_buffers = 2>
// CHECK-LABEL: func.func @roles
module attributes {tile.target = "sm_90a"} {
func.func @roles(%a: memref<8192x8192xbf16>, %b: memref<8192x8192xbf16>, %d: memref<8192x8192xbf16>) {
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : memref<8192x8192xbf16>, memref<8192x8192xbf16>, memref<8192x8192xbf16>
  return
}
}
// -----

// Panels of an N-contiguous B are whole, and rows of D that may end within 16 bytes are not stored by TMA.
// CHECK:      #schedule = #tile.schedule<cta = [128, 256, 64], {{.*}} roles = cooperative(2), {{.*}} epilogue = smem,
// CHECK-LABEL: func.func @run_time_extents
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @run_time_extents(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tt %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A field that only cp.async and mma.sync have leads to them, on any target.
// CHECK:      #schedule = #tile.schedule<cta = [128, 128, 64], warps = [2, 2, 1], {{.*}} mma = mma.m16n8k16, copy = cp.async.16,
// CHECK-SAME: roles = single, {{.*}} scheduler = one_shot, epilogue = smem
// CHECK-LABEL: func.func @warps_given
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @warps_given(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<warps = [2, 2, 1]>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
