// verify-schedule refuses a schedule that is missing, incomplete or illegal, and a kernel that was built for another.
// RUN: lowtide-opt %s -p verify-schedule --split-input-file --verify-diagnostics
// Each rule has its test beside choose-schedule; each mismatch in test/unit/test_built_for.py.

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @no_schedule(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[no-schedule]}}
  tile.gemm tn %a, %b into %d acc(f16) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @incomplete(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{verify-schedule: field grid.tile is not decided; run choose-schedule first, or write it [field-undecided]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#tile.schedule<mainloop = <stages = 3>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#operand = #tile.operand<copy = cp.async.16, swizzle = <2,3,3>>
#schedule = #tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = one_shot>,
  mainloop = <k = 32, stages = 1, roles = single, a = #operand, b = #operand>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <2,3,3>>>
module attributes {tile.target = "sm_80"} {
func.func @illegal(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[stages-range]}}
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}

// -----

// A kernel carries its problem beside its schedule.
module attributes {tile.target = "sm_80"} {
// expected-error @below {{[no-problem]}}
tile.kernel @no_problem() attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  tile.return
}
}

// -----

module attributes {tile.target = "sm_80"} {
// expected-error @below {{[no-schedule]}}
tile.kernel @no_schedule() attributes {problem = #tile.problem<tn, a = f16, b = f16, acc = f16, results = [full f16]>} {
  tile.return
}
}

// -----

!mat = memref<?x?xf16, strided<[?, 1]>>
#operand = #tile.operand<copy = cp.async.16, swizzle = <2,3,3>>
#schedule = #tile.schedule<
  grid = <tile = [32, 32], order = grouped(4), scheduler = one_shot>,
  mainloop = <k = 32, stages = 2, roles = single, a = #operand, b = #operand>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <2,3,3>>>
module attributes {tile.target = "sm_80"} {
tile.kernel @built_for_another(%a: !mat, %b: !mat, %d: !mat) attributes {
    problem = #tile.problem<tn, a = f16, b = f16, acc = f16, results = [full f16]>, schedule = #schedule} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{verify-schedule: has the order row, but the kernel's schedule says order = grouped(4); write the same in both, or lower again from level problem with it [not-as-scheduled]}}
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
  }
  tile.return
}
}
