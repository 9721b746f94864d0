// tile-to-ctas turns a tile.gemm into a host side that checks shapes and launches, and a kernel whose CTAs take tiles.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse --split-input-file | filecheck %s

// The module moves to level cta, and the host function remembers what the problem was.
// CHECK: #[[PROBLEM:.+]] = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>
// CHECK-LABEL: module attributes {tile.level = "cta", tile.target = "sm_80"}
// CHECK:       func.func @dynamic(%[[A:.+]]: memref<?x?xbf16, {{.*}}>, %[[B:.+]]: memref<?x?xbf16, {{.*}}>, %[[D:.+]]: memref<?x?xbf16, {{.*}}>)
// CHECK-SAME:    attributes {tile.problem = #[[PROBLEM]]}

// Extents that are known only at run time are compared before the launch.
// CHECK-DAG:   %[[M:.+]] = memref.dim %[[D]], %c0
// CHECK-DAG:   %[[N:.+]] = memref.dim %[[D]], %c1
// CHECK-DAG:   %[[K:.+]] = memref.dim %[[A]], %c1
// CHECK:       %[[AM:.+]] = memref.dim %[[A]], %c0
// CHECK:       %[[SAME_M:.+]] = arith.cmpi eq, %[[AM]], %[[M]]
// CHECK:       cf.assert %[[SAME_M]], "A and D must have the same M"
// CHECK:       %[[BN:.+]] = memref.dim %[[B]], %c0
// CHECK:       %[[SAME_N:.+]] = arith.cmpi eq, %[[BN]], %[[N]]
// CHECK:       cf.assert %[[SAME_N]], "B and D must have the same N"
// CHECK:       %[[BK:.+]] = memref.dim %[[B]], %c1
// CHECK:       %[[SAME_K:.+]] = arith.cmpi eq, %[[BK]], %[[K]]
// CHECK:       cf.assert %[[SAME_K]], "A and B must have the same K"

// One CTA for each output tile, the last ones ragged.
// CHECK:       %[[TILES_M:.+]] = arith.ceildivsi %[[M]], %c32
// CHECK:       %[[TILES_N:.+]] = arith.ceildivsi %[[N]], %c64
// CHECK:       %[[GRID:.+]] = arith.muli %[[TILES_M]], %[[TILES_N]]
// CHECK:       tile.launch @dynamic_kernel grid(%[[GRID]]) threads(64) args(%[[A]], %[[B]], %[[D]])

// The kernel: tiles in the schedule's order, a loop over K with one mma on windows, the epilogue at the store.
// CHECK-LABEL: tile.kernel @dynamic_kernel(
// CHECK-SAME:    %[[A:.+]]: memref<?x?xbf16, {{.*}}>, %[[B:.+]]: memref<?x?xbf16, {{.*}}>, %[[D:.+]]: memref<?x?xbf16, {{.*}}>) attributes {problem = #{{.+}}, schedule = #schedule}
// CHECK-DAG:   %[[M:.+]] = memref.dim %[[D]], %c0
// CHECK-DAG:   %[[N:.+]] = memref.dim %[[D]], %c1
// CHECK-DAG:   %[[K:.+]] = memref.dim %[[A]], %c1
// CHECK:       tile.work_tiles (%[[ROW:.+]], %[[COLUMN:.+]]) of (%[[M]], %[[N]]) by [32, 64] order(<grouped 4>) one_shot {
// CHECK:         %[[ZERO:.+]] = tile.splat 0.000000e+00 : !tile.tile<32x64xf32>
// CHECK:         %[[SUM:.+]] = scf.for %[[STEP:.+]] = %c0 to %[[K]] step %c16 iter_args(%[[ACC:.+]] = %[[ZERO]])
// CHECK:           %[[AT:.+]] = tile.view %[[A]][%[[ROW]], %[[STEP]]] : {{.*}} to !tile.view<32x16xbf16>
// CHECK:           %[[BT:.+]] = tile.view %[[B]][%[[COLUMN]], %[[STEP]]] : {{.*}} to !tile.view<64x16xbf16>
// CHECK:           %[[NEXT:.+]] = tile.mma tn %[[AT]], %[[BT]], %[[ACC]]
// CHECK:           scf.yield %[[NEXT]]
// CHECK:         tile.store %[[SUM]] into %[[D]][%[[ROW]], %[[COLUMN]]] {
// CHECK-NEXT:    ^bb0(%[[X:.+]]: f32):
// CHECK:           %[[Y:.+]] = arith.truncf %[[X]] : f32 to bf16
// CHECK:           tile.yield %[[Y]] : bf16
!mat = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [32, 64], order = grouped(4), scheduler = one_shot>,
  mainloop = <k = 16, stages = 2, roles = single,
    a = <copy = cp.async.16, swizzle = <0,3,3>>,
    b = <copy = cp.async.16, swizzle = <0,3,3>>>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 2, 1], permutation = [16, 32, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = registers, tile = [32, 64], swizzle = <0,3,3>>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @dynamic(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Static extents that agree need no check, and the grid is a constant; K = 40 makes three steps of 16, the last ragged.
// CHECK-LABEL: func.func @static
// CHECK-NOT:   cf.assert
// CHECK:       tile.launch @static_kernel grid(%c12) threads(32)
// CHECK-LABEL: tile.kernel @static_kernel
// CHECK:       tile.work_tiles ({{.*}}) of (%c100, %c65) by [32, 32] order(<row>) one_shot {
// CHECK:       scf.for %{{.+}} = %c0 to %c40 step %c16
#schedule = #tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = one_shot>,
  mainloop = <k = 16, stages = 2, roles = single,
    a = <copy = cp.async.16, swizzle = <0,3,3>>,
    b = <copy = cp.async.16, swizzle = <0,3,3>>>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <0,3,3>>>
module attributes {tile.target = "sm_80"} {
func.func @static(%a: memref<100x40xf16>, %b: memref<65x40xf16>, %d: memref<100x65xf16>) {
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<100x40xf16>, memref<65x40xf16>, memref<100x65xf16>
  return
}
}
// -----

// A persistent kernel is launched on as many CTAs as run at once, never more than there are tiles. Windows follow the
// layout letters: in `nt` K comes first in both.
// CHECK-LABEL: func.func @persistent
// CHECK:       %[[TILES:.+]] = arith.muli
// CHECK:       %[[SMS:.+]] = tile.sm_count
// CHECK:       %[[AT_ONCE:.+]] = arith.muli %[[SMS]], %c{{[0-9]+}}
// CHECK:       %[[GRID:.+]] = arith.minsi %[[TILES]], %[[AT_ONCE]]
// CHECK:       tile.launch @persistent_kernel grid(%[[GRID]]) threads(32)
// CHECK-LABEL: tile.kernel @persistent_kernel(
// CHECK-SAME:    %[[A:.+]]: memref<?x?xf16, {{.*}}>, %[[B:.+]]: memref<?x?xf16, {{.*}}>, %{{.+}}: memref<?x?xf16
// CHECK:       %[[K:.+]] = memref.dim %[[A]], %c0
// CHECK:       tile.work_tiles (%[[ROW:.+]], %[[COLUMN:.+]]) of {{.*}} order(<column>) persistent {
// CHECK:       scf.for %[[STEP:.+]] = %c0 to %[[K]] step %c16
// CHECK:       tile.view %[[A]][%[[STEP]], %[[ROW]]] : {{.*}} to !tile.view<16x32xf16>
// CHECK:       tile.view %[[B]][%[[STEP]], %[[COLUMN]]] : {{.*}} to !tile.view<16x32xf16>
// CHECK:       tile.mma nt
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [32, 32], order = column, scheduler = persistent>,
  mainloop = <k = 16, stages = 2, roles = single,
    a = <copy = cp.async.16, swizzle = <0,3,3>>,
    b = <copy = cp.async.16, swizzle = <0,3,3>>>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <0,3,3>>>
module attributes {tile.target = "sm_80"} {
func.func @persistent(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm nt %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// So is one whose CTAs take even runs of tiles; an order in groups has two numbers.
// CHECK-LABEL: func.func @even_split
// CHECK:       %[[TILES:.+]] = arith.muli
// CHECK:       %[[SMS:.+]] = tile.sm_count
// CHECK:       %[[AT_ONCE:.+]] = arith.muli %[[SMS]], %c{{[0-9]+}}
// CHECK:       %[[GRID:.+]] = arith.minsi %[[TILES]], %[[AT_ONCE]]
// CHECK:       tile.launch @even_split_kernel grid(%[[GRID]]) threads(32)
// CHECK-LABEL: tile.kernel @even_split_kernel(
// CHECK-SAME:    %[[A:.+]]: memref<?x?xf16, {{.*}}>, %[[B:.+]]: memref<?x?xf16, {{.*}}>, %{{.+}}: memref<?x?xf16
// CHECK:       %[[K:.+]] = memref.dim %[[A]], %c0
// CHECK:       tile.work_tiles (%[[ROW:.+]], %[[COLUMN:.+]]) of {{.*}} order(<groups 16, 8>) even_split {
// CHECK:       scf.for %[[STEP:.+]] = %c0 to %[[K]] step %c16
// CHECK:       tile.view %[[A]][%[[STEP]], %[[ROW]]] : {{.*}} to !tile.view<16x32xf16>
// CHECK:       tile.view %[[B]][%[[STEP]], %[[COLUMN]]] : {{.*}} to !tile.view<16x32xf16>
// CHECK:       tile.mma nt
!mat = memref<?x?xf16, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [32, 32], order = groups(16, 8), scheduler = even_split>,
  mainloop = <k = 16, stages = 2, roles = single,
    a = <copy = cp.async.16, swizzle = <0,3,3>>,
    b = <copy = cp.async.16, swizzle = <0,3,3>>>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <0,3,3>>>
module attributes {tile.target = "sm_80"} {
func.func @even_split(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm nt %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}
}
// -----

// Epilogue operands go to the kernel after A, B and D; each that has rows or columns is checked against D.
// CHECK:       #tile.problem<tn, {{.+}} operands = [full f32, per_row f32, per_column f32, scalar f32]>
// CHECK-LABEL: func.func @operands
// CHECK:       cf.assert %{{.+}}, "epilogue operand 0 must have M rows"
// CHECK:       cf.assert %{{.+}}, "epilogue operand 0 must have N columns"
// CHECK:       cf.assert %{{.+}}, "epilogue operand 1 must have M rows"
// CHECK:       cf.assert %{{.+}}, "epilogue operand 2 must have N columns"
// CHECK-NOT:   cf.assert
// CHECK:       tile.launch @operands_kernel grid(%{{.+}}) threads(32) args(%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}})
// CHECK-LABEL: tile.kernel @operands_kernel(
// CHECK-SAME:    %[[C:[^:]+]]: memref<?x?xf32, strided<[?, 1]>>, %[[ROW:[^:]+]]: memref<?xf32>, %[[COLUMN:[^:]+]]: memref<?xf32>, %[[SCALAR:[^:]+]]: f32)
// CHECK:       tile.store {{.*}} operands(full %[[C]] : {{.*}}, per_row %[[ROW]] : memref<?xf32>, per_column %[[COLUMN]] : memref<?xf32>, scalar %[[SCALAR]] : f32) {
// CHECK-NEXT:    ^bb0(%[[X:.+]]: f32, %[[E:.+]]: f32, %{{.+}}: f32, %{{.+}}: f32, %{{.+}}: f32):
// CHECK:           %[[Y:.+]] = arith.addf %[[X]], %[[E]] : f32
// CHECK:           tile.yield %[[Y]] : f32
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = one_shot>,
  mainloop = <k = 16, stages = 2, roles = single,
    a = <copy = cp.async.16, swizzle = <0,3,3>>,
    b = <copy = cp.async.16, swizzle = <0,3,3>>>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = rows, tile = [32, 32], swizzle = <0,3,3>>>
module attributes {tile.target = "sm_80"} {
func.func @operands(%a: !mat, %b: !mat, %d: !out, %c: !out, %row: memref<?xf32>, %column: memref<?xf32>, %s: f32) {
  tile.gemm tn %a, %b into %d acc(f32) operands(full %c : !out, per_row %row : memref<?xf32>,
      per_column %column : memref<?xf32>, scalar %s : f32) schedule(#schedule) {
  ^bb0(%x: f32, %e: f32, %r: f32, %k: f32, %f: f32):
    %y = arith.addf %x, %e : f32
    tile.yield %y : f32
  } : !mat, !mat, !out
  return
}
}
// -----

// The accumulator itself may be what the epilogue yields, or an operand of it.
// CHECK-LABEL: tile.kernel @swapped_kernel
// CHECK:       ^bb0(%{{.+}}: f32, %[[E:.+]]: f32):
// CHECK-NEXT:    tile.yield %[[E]] : f32
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = one_shot>,
  mainloop = <k = 16, stages = 2, roles = single,
    a = <copy = cp.async.16, swizzle = <0,3,3>>,
    b = <copy = cp.async.16, swizzle = <0,3,3>>>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = rows, tile = [32, 32], swizzle = <0,3,3>>>
module attributes {tile.target = "sm_80"} {
func.func @swapped(%a: !mat, %b: !mat, %d: !out, %c: !out) {
  tile.gemm tn %a, %b into %d acc(f32) operands(full %c : !out) schedule(#schedule) {
  ^bb0(%x: f32, %e: f32):
    tile.yield %e : f32
  } : !mat, !mat, !out
  return
}
}
// -----

// A constant that canonicalize has hoisted out of the epilogue comes along into the kernel, once.
// CHECK-LABEL: func.func @hoisted
// CHECK-LABEL: tile.kernel @hoisted_kernel
// CHECK:       %[[HALF:.+]] = arith.constant 5.000000e-01 : f32
// CHECK:       ^bb0(%[[X:.+]]: f32):
// CHECK:         %[[Y:.+]] = arith.mulf %[[X]], %[[HALF]] : f32
// CHECK:         %[[Z:.+]] = arith.addf %[[Y]], %[[HALF]] : f32
// CHECK:         tile.yield %[[Z]] : f32
!mat = memref<?x?xbf16, strided<[?, 1]>>
!out = memref<?x?xf32, strided<[?, 1]>>
#schedule = #tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = one_shot>,
  mainloop = <k = 16, stages = 2, roles = single,
    a = <copy = cp.async.16, swizzle = <0,3,3>>,
    b = <copy = cp.async.16, swizzle = <0,3,3>>>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <0,3,3>>>
module attributes {tile.target = "sm_80"} {
func.func @hoisted(%a: !mat, %b: !mat, %d: !out) {
  %half = arith.constant 5.0e-01 : f32
  tile.gemm tn %a, %b into %d acc(f32) schedule(#schedule) {
  ^bb0(%x: f32):
    %y = arith.mulf %x, %half : f32
    %z = arith.addf %y, %half : f32
    tile.yield %z : f32
  } : !mat, !mat, !out
  return
}
}
