// verify-schedule refuses a field that is missing, unknown or out of range by itself, and names the limit.
// RUN: lowtide-opt %s -p verify-schedule --split-input-file --verify-diagnostics

// No schedule at all.
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @no_schedule(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: has no schedule; run choose-schedule first, or write one}}
  tile.gemm tn %a, %b into %d acc(f16) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// The schedule is asked for whole: what is left open belongs to choose-schedule.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @no_field(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: field stages is not decided; run choose-schedule first, or write it}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Words that no pass knows.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = lazy, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @scheduler(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: scheduler = lazy is not one of one_shot, persistent, even_split}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = late, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @epilogue(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: epilogue = late is not one of smem, direct, tma}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = columns,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @epilogue_math(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: epilogue_math = columns is not one of registers, rows}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.32, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @copy(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: copy = cp.async.32 is not one of cp.async.16, cp.async.8, cp.async.4}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = diagonal, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @raster(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: raster = diagonal is not row, column, grouped(n) or groups(m, n)}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = grouped(0), scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @raster_group(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: raster = grouped(0): a band has at least 1 tile row; nearest is grouped(1)}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row(4), scheduler = even_split, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @raster_row(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: raster = row(4): row takes no number; take row}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = grouped(8, 4), scheduler = even_split, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @raster_two(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: raster = grouped(8, 4): grouped takes tile rows, e.g. grouped(16)}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = groups(16), scheduler = even_split, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @raster_one(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: raster = groups(16): groups takes tile rows and tile columns, e.g. groups(16, 8)}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = groups(16, 0), scheduler = even_split, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @raster_columns(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: raster = groups(16, 0): a group has at least 1 tile row and column; nearest is groups(16, 1)}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Words that do not go together.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = direct, epilogue_math = rows,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @direct_rows(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: epilogue_math = rows needs epilogue = smem; with direct stores take registers}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Numbers out of range.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [0, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @cta(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: cta = [0, 32, 32]: every extent is at least 1}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [-1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @warps(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: warps = [-1, 1, 1]: every extent is at least 1}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [0, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @permutation_extent(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: permutation = [0, 16, 16]: every extent is at least 1}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 0]>
module attributes {tile.target = "sm_80"} {
func.func @epilogue_tile(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: epilogue_tile = [32, 0]: every extent is at least 1}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 1, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @one_stage(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: stages = 1 is out of range: 2 to 64; nearest is 2}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 65, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @many_stages(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: stages = 65 is out of range: 2 to 64; nearest is 64}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 3, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @fragment_buffers(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: fragment_buffers = 3 is not 1 or 2}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Elements that nothing here computes with.
!mat = memref<?x?xf16, strided<[?, 1]>>
!wide = memref<?x?xf64, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @element(%a: !mat, %b: !mat, %d: !wide) {
  // expected-error @below {{verify-schedule: D of f64: elements are one of f16, bf16, f32}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.extf %x : f32 to f64
    tile.yield %y : f64
  } : !mat, !mat, !wide
  return
}
}
// -----

// Nothing to compute.
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<cta = [32, 32, 32], warps = [1, 1, 1], permutation = [16, 16, 16], mma = mma.m16n8k16,
  copy = cp.async.16, stages = 2, roles = single, fragment_buffers = 1, swizzle_a = <2,3,3>, swizzle_b = <2,3,3>,
  swizzle_d = <2,3,3>, raster = row, scheduler = one_shot, epilogue = smem, epilogue_math = registers,
  epilogue_tile = [32, 32]>
module attributes {tile.target = "sm_80"} {
func.func @extent(%a: memref<0x64xf16>, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: M = 0 is out of range: 1 to 2147483647}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<0x64xf16>, !mat, !mat
  return
}
}
