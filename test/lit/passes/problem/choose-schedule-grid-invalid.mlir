// choose-schedule refuses fields of the grid, or of the problem itself that no schedule has: the rule broken, its limit and the nearest legal value.
// RUN: lowtide-opt %s -p choose-schedule --split-input-file --verify-diagnostics

// Numbers out of range.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @cta(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: grid.tile = [0, 32]: every extent is at least 1 [tile-extents]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<grid = <tile = [0, 32]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Elements that nothing here computes with.
!mat = memref<?x?xf16, strided<[?, 1]>>
!wide = memref<?x?xf8E4M3, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @element(%a: !mat, %b: !mat, %d: !wide) {
  // expected-error @below {{choose-schedule: D of f8E4M3: elements are one of f16, bf16, f32, f64, e4m3, e5m2, s8, u8, s32 [elements-of-problem]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f8E4M3
    tile.yield %y : f8E4M3
  } : !mat, !mat, !wide
  return
}
}

// -----

// More than an index inside of a tile counts.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @extent(%a: memref<2147483648x64xf16>, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: M = 2147483648 is out of range: 0 to 2147483647 [problem-extents]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<2147483648x64xf16>, !mat, !mat
  return
}
}

// -----

// With fewer than two it is no ring: the tile must shrink.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @tile(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: grid.tile = [512, 512] holds 262144 accumulators of f16, but the registers of one SM of sm_80 hold 131072; take a tile of at most [128, 256] [accumulators-per-sm]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<grid = <tile = [512, 512]>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// An instruction that the target lacks.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @launch(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: grid.launch = programmatic needs sm_90 or later, not sm_80; take serialized [launch-target]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<grid = <launch = programmatic>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// A tail in halves is that of a persistent grid.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @tail(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: tail = halves splits the last wave of scheduler = persistent; even_split has none: take whole [tail-scheduler]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [256, 128], scheduler = even_split, tail = halves>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// It goes on with the ring of the full waves.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @tail(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: tail = halves goes on with the ring of the full waves, which roles = single drains after each tile; take roles = cooperative(2) with wgmma, or whole [tail-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <scheduler = persistent, tail = halves>, mainloop = <roles = single>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Each consumer has 64 rows of a half tile.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @tail(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: tail = halves needs 64 rows of a half tile for each of 2 consumers, so M of the tile is a multiple of 256, not 128; take tail = whole}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [128, 256], tail = halves>, mainloop = <roles = cooperative(2)>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// CTAs of one shot do not all run at the same time.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @waves(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: scheduler = one_shot with roles, whose ring outlives a tile; take scheduler = persistent or even_split; nor with roles = single: waves = synchronized waits for CTAs that run at the same time, which those of one_shot do not; take free}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <scheduler = one_shot, waves = synchronized>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}

// -----

// Only a producer can wait while others multiply.
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @waves(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{choose-schedule: no schedule fits: waves = synchronized lets the producer wait while the consumers multiply, but roles = single has none; take roles = cooperative(2) with wgmma, or free [waves-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <scheduler = persistent, waves = synchronized>, mainloop = <roles = single>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
