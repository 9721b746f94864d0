// Every op, attribute and type of the tile dialect prints as it is written here, and reads back to itself.
// RUN: lowtide-opt %s > %t.once && lowtide-opt %t.once > %t.twice && diff %t.once %t.twice
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt > %t.generic && diff %t.once %t.generic
// RUN: filecheck %s < %t.once

// Layouts and schedules are named once, ahead of the module. Parts and fields of a schedule print in the order of the tables;
// a part may be named by an alias.
// CHECK-DAG: #[[NESTED:.+]] = #tile.layout<((8,16),64):((64,512),1)>
// CHECK-DAG: #[[STAGE:.+]] = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
// CHECK-DAG: #[[PERMUTED:.+]] = #tile.layout<(8,2):(1,8)>
// CHECK: #[[FULL:.+]] = #tile.schedule<
// CHECK-NEXT:   grid = <tile = [128, 256], order = groups(16, 8), scheduler = persistent>,
// CHECK-NEXT:   mainloop = <k = 64, stages = 4,
// CHECK-NEXT:     agents = <producer = <registers = 0>, consumer = <registers = 0>, single = <instances = 1>>,
// CHECK-NEXT:     a = <copy = cp.async.16, swizzle = <3,3,3>, cache = evict_last>,
// CHECK-NEXT:     b = <copy = cp.async.16>>,
// CHECK-NEXT:   multiply = <atom = mma.m16n8k16, atoms = [2, 4, 1], permutation = [32, 64, 16], fragment_buffers = 2>,
// CHECK-NEXT:   epilogue = <path = smem, math = registers, tile = [32, 256], buffers = 1, swizzle = <3,3,4>, cache = streaming>>
// CHECK: #[[STAGES:.+]] = #tile.schedule<
// CHECK-NEXT:   mainloop = <stages = 3>>
// CHECK: #[[TV:.+]] = #tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>
// CHECK: #[[MIXED:.+]] = #tile.schedule<
// CHECK-NEXT:   grid = <order = row>,
// CHECK-NEXT:   multiply = <permutation = [#[[PERMUTED]], 16, 16]>>

#operand = #tile.operand<swizzle = <3,3,3>, copy = cp.async.16, cache = evict_last>
#schedule = #tile.schedule<
  epilogue = <tile = [32, 256], math = registers, path = smem, cache = streaming, buffers = 1, swizzle = <3,3,4>>,
  mainloop = <b = <copy = cp.async.16>, a = #operand, stages = 4, roles = single, registers = [0, 0], k = 64>,
  multiply = <fragment_buffers = 2, atom = mma.m16n8k16, permutation = [32, 64, 16], atoms = [2, 4, 1]>,
  grid = <scheduler = persistent, order = groups(16, 8), tile = [128, 256]>>

// CHECK: module attributes {test.layout = #[[NESTED]], test.raster = [#tile.raster<row>, #tile.raster<column>, #tile.raster<grouped 8>, #tile.raster<groups 16, 8>, #tile.raster<hilbert>], test.schedule = #[[MIXED]], test.swizzle = #tile.swizzle<3, 3, 3>, test.tv = #[[TV]]
module attributes {
  tile.level = "cta", tile.target = "sm_80",
  test.layout = #tile.layout<((8,16),64):((64,512),1)>,
  test.raster = [#tile.raster<row>, #tile.raster<column>, #tile.raster<grouped 8>, #tile.raster<groups 16, 8>, #tile.raster<hilbert>],
  test.schedule = #tile.schedule<grid = <order = row>, multiply = <permutation = [#tile.layout<(8,2):(1,8)>, 16, 16]>>,
  test.swizzle = #tile.swizzle<3,3,3>,
  test.tv = #tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>
} {

// CHECK-LABEL: func.func @gemm_plain
func.func @gemm_plain(%a: memref<64x32xf16>, %b: memref<48x32xf16>, %d: memref<64x48xf16>) {
  // CHECK: tile.gemm tn %{{.+}}, %{{.+}} into %{{.+}} acc(f16) {
  // CHECK-NEXT: ^bb0(%acc: f16):
  // CHECK-NEXT: tile.yield %acc : f16
  // CHECK-NEXT: } : memref<64x32xf16>, memref<48x32xf16>, memref<64x48xf16>
  tile.gemm tn %a, %b into %d acc(f16) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<64x32xf16>, memref<48x32xf16>, memref<64x48xf16>
  return
}

// CHECK-LABEL: func.func @gemm_operands
func.func @gemm_operands(%a: memref<?x?xbf16, strided<[?, 1]>>, %b: memref<?x?xbf16, strided<[?, 1]>>,
                         %d: memref<?x?xbf16, strided<[?, 1]>>, %c: memref<?x?xbf16, strided<[?, 1]>>,
                         %row: memref<?xf32>, %column: memref<?xbf16>, %alpha: f32) {
  // CHECK: tile.gemm nt %{{.+}}, %{{.+}} into %{{.+}} acc(f32)
  // CHECK-SAME: operands(full %{{.+}} : memref<?x?xbf16, strided<[?, 1]>>, per_row %{{.+}} : memref<?xf32>, per_column %{{.+}} : memref<?xbf16>, scalar %{{.+}} : f32)
  // CHECK-SAME: schedule(#[[FULL]])
  // What the region computes with is named by what it is.
  // CHECK-NEXT: ^bb0(%acc: f32, %full: bf16, %per_row: f32, %per_column: bf16, %scalar: f32):
  tile.gemm nt %a, %b into %d acc(f32)
      operands(full %c : memref<?x?xbf16, strided<[?, 1]>>, per_row %row : memref<?xf32>,
               per_column %column : memref<?xbf16>, scalar %alpha : f32)
      schedule(#schedule) {
  ^bb0(%x: f32, %ce: bf16, %re: f32, %be: bf16, %s: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
  return
}

// CHECK-LABEL: func.func @host
func.func @host(%d: memref<?x?xf32, strided<[?, 1]>>) {
  // CHECK: %[[SMS:.+]] = tile.sm_count : index
  %sms = tile.sm_count : index
  // CHECK: tile.workspace %[[SMS]] : memref<?xf32>
  %partials = tile.workspace %sms : memref<?xf32>
  // CHECK: tile.workspace %[[SMS]] zeroed : memref<?xi32>
  %counters = tile.workspace %sms zeroed : memref<?xi32>
  // CHECK: tile.launch @nothing grid(%[[SMS]]) threads(32) args()
  tile.launch @nothing grid(%sms) threads(32) args()
  // CHECK: tile.launch @kernel grid(%[[SMS]]) threads(128) shared_memory(49152) args(%{{.+}}) : memref<?x?xf32, strided<[?, 1]>>
  tile.launch @kernel grid(%sms) threads(128) shared_memory(49152) args(%d) : memref<?x?xf32, strided<[?, 1]>>
  // CHECK: tile.launch @nothing grid(%[[SMS]]) threads(32) shared_memory(0) programmatic args()
  tile.launch @nothing grid(%sms) threads(32) shared_memory(0) programmatic args()
  return
}

// CHECK-LABEL: tile.kernel @nothing() {
tile.kernel @nothing() {
  // CHECK-NEXT: tile.launch_dependents
  tile.launch_dependents
  // CHECK-NEXT: tile.grid_dependency_wait
  tile.grid_dependency_wait
  // CHECK-NEXT: tile.return
  tile.return
}

// The matrices are A, B and D, the first row and column of a tile m and n, whatever they were called.
// CHECK-LABEL: tile.kernel @named(
// CHECK-SAME:    %A: memref<8x16xbf16>, %B: memref<8x16xbf16>, %D: memref<8x8xf32>, %{{arg.+}}: memref<8x8xf32>)
// CHECK:         tile.work_tiles (%m, %n) of
// CHECK:         tile.view %A[%m, %c0]
tile.kernel @named(%x: memref<8x16xbf16>, %y: memref<8x16xbf16>, %z: memref<8x8xf32>, %c: memref<8x8xf32>) {
  %c0 = arith.constant 0 : index
  tile.work_tiles (%i, %j) of (%c0, %c0) by [8, 8] order(<row>) one_shot {
    %v = tile.view %x[%i, %c0] : memref<8x16xbf16> to !tile.view<8x16xbf16>
  }
  tile.return
}

// CHECK-LABEL: tile.kernel @kernel
// CHECK-SAME: attributes {schedule = #[[STAGES]]}
tile.kernel @kernel(%d: memref<?x?xf32, strided<[?, 1]>>) attributes {schedule = #tile.schedule<mainloop = <stages = 3>>} {
  %c0 = arith.constant 0 : index
  // CHECK: tile.work_tiles (%[[M:.+]], %[[N:.+]]) of (%c0, %c0) by [128, 64] order(<row>) one_shot {
  // CHECK-NEXT: }
  tile.work_tiles (%m, %n) of (%c0, %c0) by [128, 64] order(<row>) one_shot {
  }
  // CHECK: tile.work_tiles ({{.*}}) of (%c0, %c0) by [1, 1] order(<grouped 16>) persistent attributes {note = "kept"} {
  tile.work_tiles (%m, %n) of (%c0, %c0) by [1, 1] order(<grouped 16>) persistent attributes {note = "kept"} {
    tile.yield
  }
  tile.return
}

// CHECK-LABEL: tile.kernel @tiles
tile.kernel @tiles(%a: memref<?x?xbf16, strided<[?, 1]>>, %d: memref<?x?xf32, strided<[?, 1]>>,
                   %bias: memref<?xf32>, %alpha: f32, %s: memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>>) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[ACC:.+]] = tile.splat 0.000000e+00 : !tile.tile<128x128xf32>
  %acc = tile.splat 0.0 : !tile.tile<128x128xf32>
  // CHECK: %[[A:.+]] = tile.view %{{.+}}[%c0, %c0] : memref<?x?xbf16, strided<[?, 1]>> to !tile.view<128x64xbf16>
  %at = tile.view %a[%c0, %c0] : memref<?x?xbf16, strided<[?, 1]>> to !tile.view<128x64xbf16>
  // CHECK: tile.view full %{{.+}}[%c0, %c0]
  %full = tile.view full %a[%c0, %c0] : memref<?x?xbf16, strided<[?, 1]>> to !tile.view<8x8xbf16>
  // CHECK: tile.view per_row %{{.+}}[%c0] : memref<?xf32> to !tile.view<128x64xf32>
  %rows = tile.view per_row %bias[%c0] : memref<?xf32> to !tile.view<128x64xf32>
  // CHECK: tile.view per_column %{{.+}}[%c0] : memref<?xf32> to !tile.view<128x64xf32>
  %columns = tile.view per_column %bias[%c0] : memref<?xf32> to !tile.view<128x64xf32>
  // CHECK: tile.mma tn %[[A]], %[[A]], %[[ACC]] : !tile.view<128x64xbf16>, !tile.view<128x64xbf16>, !tile.tile<128x128xf32>
  %c1 = tile.mma tn %at, %at, %acc : !tile.view<128x64xbf16>, !tile.view<128x64xbf16>, !tile.tile<128x128xf32>
  // CHECK: tile.promote %{{.+}} into %[[ACC]] : !tile.tile<128x128xf32>
  %sum = tile.promote %c1 into %acc : !tile.tile<128x128xf32>
  // CHECK: %[[C:.+]] = tile.mma tn %{{.+}}, %{{.+}}, %{{.+}} : memref<128x64xbf16, #[[STAGE]]>, memref<128x64xbf16, #[[STAGE]]>, !tile.tile<128x128xf32>
  %c2 = tile.mma tn %s, %s, %c1 : memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>>, memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>>, !tile.tile<128x128xf32>
  // CHECK: tile.store %[[C]] into %{{.+}}[%c0, %c0] operands(per_column %{{.+}} : memref<?xf32>, scalar %{{.+}} : f32) {
  // CHECK: } : !tile.tile<128x128xf32>, memref<?x?xf32, strided<[?, 1]>>
  tile.store %c2 into %d[%c0, %c0] operands(per_column %bias : memref<?xf32>, scalar %alpha : f32) {
  ^bb0(%x: f32, %b: f32, %f: f32):
    tile.yield %x : f32
  } : !tile.tile<128x128xf32>, memref<?x?xf32, strided<[?, 1]>>
  // CHECK: tile.store %[[C]] into %{{.+}}[%c0, %c0] {
  tile.store %c2 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<128x128xf32>, memref<?x?xf32, strided<[?, 1]>>
  tile.return
}

// tt and nn, so that every layout letter is seen.
// CHECK-LABEL: func.func @letters
func.func @letters(%mk: memref<64x32xf16>, %kn: memref<32x48xf16>, %km: memref<32x64xf16>, %nk: memref<48x32xf16>,
                   %d: memref<64x48xf16>) {
  // CHECK: tile.gemm tt
  tile.gemm tt %mk, %kn into %d acc(f16) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<64x32xf16>, memref<32x48xf16>, memref<64x48xf16>
  // CHECK: tile.gemm nn
  tile.gemm nn %km, %nk into %d acc(f16) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : memref<32x64xf16>, memref<48x32xf16>, memref<64x48xf16>
  return
}
}
