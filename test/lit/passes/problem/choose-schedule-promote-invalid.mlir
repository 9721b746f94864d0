// choose-schedule refuses sums of 8-bit floats that would be less precise than asked for, and layouts that wgmma lacks.
// RUN: lowtide-opt %s -p split-operands,choose-schedule --split-input-file --verify-diagnostics

!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @f(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{choose-schedule: no schedule fits: promote = none: tensor cores keep 14 bits of sums of e4m3, which are no f32; take promote = per_step, or acc = "fast" in the spec [promote-needed]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<multiply = <promote = none>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @f(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{choose-schedule: no schedule fits: k = 256: a sum of e4m3 in a K step is promoted to f32 after at most 128 products; take k = 128, or acc = "fast" in the spec [promote-length]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <k = 256>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @f(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{takes e4m3 and e4m3 with K contiguous in both; take a.pack = transposed, or layout = tn in the spec [atom-layout]}}
  tile.gemm nn %a, %b into %d acc(f32 fast) schedule(#tile.schedule<mainloop = <roles = cooperative(2), a = <pack = none>>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

// A that threads load to registers.
!mat = memref<?x?xtf32, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @f(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{layout nn: wgmma.m64n128k8 takes A from registers, which promote = per_step does not support; take a.pack = transposed [held-a-promoted]}}
  tile.gemm nn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [128, 128]>, mainloop = <roles = cooperative(2), a = <pack = none>>, multiply = <promote = per_step>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}
}

// -----

// A K step that does not divide the K of a scale.
!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
!scales = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @f(%a: !mat, %b: !mat, %d: !out, %sa: !scales, %sb: !scales) {
  // expected-error @below {{k = 96: 128 products share a scale, so that many are a whole number of K steps; nearest is k = 64 [scale-block]}}
  tile.gemm tn %a, %b into %d acc(f32) operands(row_scale %sa : !scales, column_block_scale %sb : !scales)
      schedule(#tile.schedule<mainloop = <k = 96, roles = cooperative(2)>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

// A target that lacks them, and the first that has them.
!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_86"} {
func.func @f(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{sm_86 has none for these types; take target sm_89, or convert}}
  tile.gemm tn %a, %b into %d acc(f32) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @f(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{[promote-needed]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = single>, multiply = <promote = none>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

// What is transposed for the kernel is A or B, of which K is not contiguous.
!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @f(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{b.pack = transposed: K is contiguous in operand b of layout nn; take b.pack = rows or none [k-contiguous]}}
  tile.gemm nn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <b = <pack = transposed>>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!out = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @f(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{epilogue.pack = transposed: D is written as it lies; take rows or none, or d_order in the spec [d-transposed]}}
  tile.gemm nn %a, %b into %d acc(f32) schedule(#tile.schedule<epilogue = <pack = transposed>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !out
  return
}
}

// -----

!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @fma(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{promote = per_step: fma.m1n1k1 rounds each sum to f32 as it is; take promote = none [promote-fma]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<multiply = <atom = fma.m1n1k1, promote = per_step>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @pieces(%a: !mat, %b: !mat, %d: !mat) {
  // expected-error @below {{[promote-needed]}}
  tile.gemm tn %a, %b into %d acc(f32 by tf32x3) schedule(#tile.schedule<multiply = <promote = none>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !mat
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @staged(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{scales = staged copies scales of blocks, which this product has none of; leave scales out [staged-scales-none]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <roles = cooperative(2), scales = staged>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}
}

// -----

!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @staged(%a: !mat, %b: !mat, %d: !out) {
  // expected-error @below {{scales = staged goes with a producer that loads them; take roles = cooperative(2) with wgmma, or scales = direct [staged-scales-roles]}}
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<mainloop = <k = 32, roles = single, scales = staged>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !mat, !mat, !out
  return
}
}
