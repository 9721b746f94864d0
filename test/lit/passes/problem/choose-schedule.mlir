// choose-schedule completes #tile.schedule: what is given is kept, everything else follows from problem and target.
// What it chooses is legal, so verify-schedule is content.
// RUN: lowtide-opt %s -p choose-schedule,verify-schedule --split-input-file | filecheck %s

// Every field is decided: tile and warps by cost, the others from them, each swizzle by counting conflicts.
// CHECK:      #schedule = #tile.schedule<
// CHECK-NEXT:   grid = <tile = [[LARGE:.+]], order = grouped(8), scheduler = one_shot>,
// CHECK-NEXT:   mainloop = <k = {{[0-9]+}}, stages = {{[0-9]+}},
// CHECK-NEXT:   agents = <single = <instances = 1>>,
// CHECK-NEXT:     a = <copy = cp.async.16, swizzle = <{{.+}}>>,
// CHECK-NEXT:     b = <copy = cp.async.16, swizzle = <{{.+}}>>>,
// CHECK-NEXT:   multiply = <atom = mma.m16n8k16, atoms = {{.+}}, permutation = {{.+}}, fragment_buffers = 2>,
// CHECK-NEXT:   epilogue = <path = smem, math = registers, tile = {{.+}}, swizzle = <{{.+}}>>>
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
// CHECK: grid = <tile = [64, 64],
// CHECK: atoms = [2, 2, 1]
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
// CHECK: grid = <tile = [[LARGE]],
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
// CHECK: grid = <tile = [128, {{.*}}]
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
// CHECK: grid = <tile = [128, 128],
// CHECK: epilogue = <path = smem, math = rows, tile = [{{[0-9]+}}, 128],
// CHECK-LABEL: func.func @full_operand
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @full_operand(%a: !mat, %b: !mat, %d: !mat, %c: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) operands(full %c : !mat) schedule(#tile.schedule<grid = <tile = [128, 128]>, mainloop = <k = 32>>) {
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
// CHECK: a = <copy = cp.async.16, swizzle = <3,3,4>, pack = rows>
// CHECK: b = <copy = cp.async.16, swizzle = <3,3,5>, pack = rows>
// CHECK-LABEL: func.func @other_layout
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @other_layout(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm nt %a, %b into %d acc(f16) schedule(#tile.schedule<grid = <tile = [128, 256]>, mainloop = <k = 32>>) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Given fields stay as they are, in whatever order they were written; `auto` is as good as left out; what depends on
// them follows.
// CHECK:      grid = <tile = [96, 48], order = row, scheduler = persistent>,
// CHECK-NEXT: mainloop = <k = 64, stages = 5,
// CHECK-NEXT: agents = <single = <instances = 1>>,
// CHECK-NEXT: a = <copy = {{.+}}, swizzle = <1,4,3>, pack = rows>
// CHECK-NEXT: b = <copy = {{.+}}, swizzle = <3,3,3>, pack = rows>
// CHECK-NEXT: multiply = <atom = mma.m16n8k16, atoms = [3, 1, 1], permutation = [48, 16, 16], fragment_buffers = 1>
// CHECK-NEXT: epilogue = <{{.+}}, tile = [{{[0-9]+}}, 48],
// CHECK-LABEL: func.func @given
!mat = memref<?x?xf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @given(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
  grid = <tile = [96, 48], order = row, scheduler = persistent>,
  mainloop = <k = 64, stages = 5, a = <swizzle = <1,4,3>>>,
  multiply = <atoms = [3, 1, 1], fragment_buffers = 1>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Direct stores have no scratch, so nothing to swizzle, and the arithmetic runs on the fragments.
// CHECK: epilogue = <path = direct, math = registers, {{.*}} swizzle = <0,3,3>, pack = rows>
// CHECK-LABEL: func.func @direct
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @direct(%a: !mat, %b: !mat, %d: !mat, %c: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) operands(full %c : !mat) schedule(#tile.schedule<epilogue = <path = direct>>) {
  ^bb0(%x: f32, %r: bf16):
    tile.yield %r : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// The smaller atom makes half the step along K.
// CHECK: multiply = <atom = mma.m16n8k8, {{.*}} permutation = [32, 32, 8],
// CHECK-LABEL: func.func @smaller_atom
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @smaller_atom(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<grid = <tile = [64, 64]>, mainloop = <k = 32>, multiply = <atom = mma.m16n8k8>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// A target with wgmma takes a producer and consumers, and the tile that fills the last wave, or half of it as half tiles.
// CHECK:      grid = <tile = [256, 192], {{.*}} scheduler = persistent{{.*}}, tail = halves>,
// CHECK-NEXT: mainloop = <k = 64, stages = 3,
// CHECK-NEXT: agents = <producer = <warps = 4, registers = 40>, consumer = <warps = 8, instances = 1, registers = 232>>,
// CHECK-NEXT: a = <copy = tma,
// CHECK-NEXT: b = <copy = tma,
// CHECK-NEXT: multiply = <atom = wgmma.m64n192k16, atoms = [2, 1, 1], permutation = [128, 192, 16],
// CHECK-NEXT: epilogue = <path = tma, math = registers, tile = [128, 64], buffers = 3, {{.*}} cache = evict_first, start = first_rows>
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
// CHECK: grid = <tile = [128, 256],
// CHECK: consumer = <warps = 8,
// CHECK: epilogue = <path = smem,
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
// CHECK: grid = <tile = [128, 128], {{.*}} scheduler = one_shot>
// CHECK: single = <instances = 1>
// CHECK: multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1],
// CHECK: epilogue = <path = smem,
// CHECK-LABEL: func.func @warps_given
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @warps_given(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<multiply = <atoms = [2, 2, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
