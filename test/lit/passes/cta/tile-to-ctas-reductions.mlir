// tile-to-ctas gives the kernel a matrix of partial results for each reduction, and launches what finishes it.
// RUN: lowtide-opt %s -p tile-to-ctas,canonicalize,cse | filecheck %s

!mat = memref<?x?xbf16, strided<[?, 1]>>
!few = memref<1024x?xbf16, strided<[?, 1]>>

// Each tile of 64 columns has a partial result for each row: two warps hold elements of it.
// CHECK:       func.func @f(%[[A:.+]]: memref{{.*}}, %[[B:.+]]: memref{{.*}}, %[[D:.+]]: memref{{.*}}, %[[S:.+]]: memref<?xf32>, %[[T:.+]]: memref<1xf32>)
// CHECK-DAG:   %[[M:.+]] = memref.dim %[[D]], %c0
// CHECK-DAG:   %[[N:.+]] = memref.dim %[[D]], %c1
// CHECK:       cf.assert %{{.+}}, "a reduction of each of M rows must have M elements"
// CHECK:       %[[TILES:.+]] = arith.ceildivsi %[[N]], %c64
// CHECK:       %[[ROWS:.+]] = arith.muli %[[TILES]], %c2
// CHECK-NEXT:  %[[SIZE:.+]] = arith.muli %[[ROWS]], %[[M]]
// CHECK-NEXT:  %[[SPACE:.+]] = tile.workspace %[[SIZE]] : memref<?xf32>
// CHECK-NEXT:  %[[P:.+]] = memref.reinterpret_cast %[[SPACE]] to offset: [0], sizes: [%[[ROWS]], %[[M]]], strides: [%[[M]], 1]
// CHECK:       tile.launch @f_kernel grid(%{{.+}}) threads(128) args(%[[A]], %[[B]], %[[D]], %[[P]], %[[Q:.+]])
// CHECK:       tile.launch @f_finish_sum grid(%{{.+}}) threads(64) args(%[[S]], %[[SPACE]]) : memref<?xf32>, memref<?xf32>
// Of all elements, rows are reduced first, then to 64, then to one.
// CHECK:       tile.launch @f_finish_max grid(%{{.+}}) threads(64) args(%[[LINES:.+]], %{{.+}}) : memref<?xf32>, memref<?xf32>
// CHECK:       tile.launch @f_finish_max grid(%{{.+}}) threads(64) args(%[[FEW:.+]], %[[LINES]])
// CHECK:       tile.launch @f_finish_max grid(%c1) threads(64) args(%{{.+}}, %[[FEW]])

module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @f(%a: !mat, %b: !mat, %d: !mat, %s: memref<?xf32>, %t: memref<1xf32>) {
  tile.gemm tn %a, %b into (%d, row_sum %s, all_max %t) acc(f32) schedule(#tile.schedule<
    grid = <tile = [64, 64], order = row, scheduler = one_shot>,
    mainloop = <k = 32, stages = 3>,
    multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16]>,
    epilogue = <path = direct, math = registers, tile = [64, 64]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x, %x : bf16, f32, f32
  } : !mat, !mat, !mat, memref<?xf32>, memref<1xf32>
  return
}

// If M is known only at run time, a column may have many partial results: sixteen groups of them are reduced first. If it
// has few, the two launches with groups are empty, otherwise the last launch.
// CHECK:       func.func @columns(
// CHECK:       %[[PARTS:.+]] = tile.workspace %{{.+}} : memref<?xf32>
// CHECK:       tile.launch @columns_kernel
// CHECK:       %[[FEW:.+]] = arith.cmpi ule, %{{.+}}, %c96
// CHECK-NEXT:  %[[NONE:.+]] = arith.select %[[FEW]], %c0, %c1
// CHECK-NEXT:  %[[MANY:.+]] = arith.muli %[[LENGTH:.+]], %c16
// CHECK-NEXT:  %[[GROUPS:.+]] = tile.workspace %[[MANY]] : memref<?xf32>
// CHECK:       arith.muli %[[NONE]],
// CHECK:       tile.launch @columns_finish_sum grid(%{{.+}}) threads(64) args(%[[GROUPS]], %[[PARTS]])
// CHECK-NEXT:  arith.muli %[[NONE]],
// CHECK:       tile.launch @columns_finish_sum grid(%{{.+}}) threads(64) args(%[[SUMS:.+]], %[[GROUPS]])
// CHECK-NEXT:  %[[ONE:.+]] = arith.select %[[FEW]], %c1, %c0
// CHECK:       %[[COUNT:.+]] = arith.muli %[[ONE]], %{{.+}}
// CHECK:       %[[GRID:.+]] = arith.ceildivui %[[COUNT]], %c64
// CHECK:       tile.launch @columns_finish_sum grid(%[[GRID]]) threads(64) args(%[[SUMS]], %[[PARTS]])
func.func @columns(%a: !mat, %b: !mat, %d: !mat, %s: memref<?xf32>) {
  tile.gemm tn %a, %b into (%d, column_sum %s) acc(f32) schedule(#tile.schedule<
    grid = <tile = [64, 64], order = row, scheduler = one_shot>,
    mainloop = <k = 32, stages = 3>,
    multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16]>,
    epilogue = <path = direct, math = registers, tile = [64, 64]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !mat, !mat, !mat, memref<?xf32>
  return
}

// With M = 1024 a column has few partial results: one launch reduces them.
// CHECK:       func.func @few(
// CHECK:       %[[PARTS:.+]] = tile.workspace %{{.+}} : memref<?xf32>
// CHECK-NOT:   tile.workspace
// CHECK:       tile.launch @few_finish_sum grid(%{{.+}}) threads(64) args(%{{.+}}, %[[PARTS]])
// CHECK-NOT:   tile.launch @few_finish
func.func @few(%a: !few, %b: !mat, %d: !few, %s: memref<?xf32>) {
  tile.gemm tn %a, %b into (%d, column_sum %s) acc(f32) schedule(#tile.schedule<
    grid = <tile = [64, 64], order = row, scheduler = one_shot>,
    mainloop = <k = 32, stages = 3>,
    multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16]>,
    epilogue = <path = direct, math = registers, tile = [64, 64]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !few, !mat, !few, memref<?xf32>
  return
}

// CHECK:       tile.kernel @f_finish_sum(
// CHECK:       tile.kernel @f_finish_max(%[[X:.+]]: memref<?xf32>, %[[Y:.+]]: memref<?xf32>) {
// CHECK-NEXT:    tile.finish row_max %[[X]] from %[[Y]]
// CHECK:       tile.kernel @f_kernel(
// CHECK-SAME:    problem = #{{.+}}
// CHECK:         tile.store %{{.+}} into (%{{.+}}, row_sum %{{.+}}, row_max %{{.+}})[%m, %n] {
}
