// convert-sm-to-nvvm makes one thread's program of a kernel: its interface, its launch, and which work tiles it takes.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

!mat = memref<?x?xbf16, strided<[?, 1]>>
// A launch passes base address, row stride in elements and the extents that the type leaves open; scalars as they are.
// CHECK-LABEL: module attributes {tile.level = "nvvm", tile.target = "sm_80"}
// CHECK:       func.func @host(
// CHECK-SAME:    %[[A:[^ ]+]]: memref<?x?xbf16, strided<[?, 1]>>, %[[B:[^ ]+]]: memref<100x64xbf16>, %[[BIAS:[^ ]+]]: memref<?xf32>, %[[ALPHA:[^ ]+]]: f32, %{{.+}}: index)
// CHECK:       %[[AP:.+]] = memref.extract_aligned_pointer_as_index %[[A]]
// CHECK:       %{{.+}}, %{{.+}}, %{{.+}}:2, %[[AS:.+]]:2 = memref.extract_strided_metadata %[[A]]
// CHECK:       %[[ALD:.+]] = arith.index_cast %[[AS]]#0 : index to i64
// CHECK:       %[[AM:.+]] = memref.dim %[[A]], %c0
// CHECK:       %[[AM32:.+]] = arith.index_cast %[[AM]] : index to i32
// CHECK:       %[[AN:.+]] = memref.dim %[[A]], %c1
// CHECK:       %[[AN32:.+]] = arith.index_cast %[[AN]] : index to i32
// CHECK:       %[[BP:.+]] = memref.extract_aligned_pointer_as_index %[[B]]
// CHECK:       %{{.+}}, %{{.+}}, %{{.+}}:2, %[[BS:.+]]:2 = memref.extract_strided_metadata %[[B]]
// CHECK:       %[[BLD:.+]] = arith.index_cast %[[BS]]#0 : index to i64
// CHECK-NOT:   memref.dim %[[B]]
// CHECK:       %[[VP:.+]] = memref.extract_aligned_pointer_as_index %[[BIAS]]
// CHECK:       %[[VN:.+]] = memref.dim %[[BIAS]]
// CHECK:       %[[VN32:.+]] = arith.index_cast %[[VN]] : index to i32
// CHECK:       tile.launch @interface grid(%{{.+}}) threads(64) shared_memory(9216) args(%[[AP]], %[[ALD]], %[[AM32]], %[[AN32]], %[[BP]], %[[BLD]], %[[VP]], %[[VN32]], %[[ALPHA]]) : index, i64, i32, i32, index, i64, index, i32, f32
// Every launch of a kernel is turned.
// CHECK:       tile.launch @interface grid(%{{.+}}) threads(64) {{.*}} : index, i64, i32, i32, index, i64, index, i32, f32
// CHECK:       tile.launch @extents grid(%{{.+}}) threads(32) shared_memory(0) args(%{{[^,]+}}, %[[ALPHA]]) : i32, f32

// The module is for the target; dynamic shared memory is one symbol, aligned as every swizzle needs it.
// CHECK:       gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_80", features = "+ptx80">] {
// CHECK-NEXT:    llvm.mlir.global external @shared_memory() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>

// The kernel takes what the launch passes, knows its threads, and keeps its schedule.
// CHECK-LABEL: gpu.func @interface(
// CHECK-SAME:    %{{.+}}: !llvm.ptr<1>, %{{.+}}: i64, %{{.+}}: i32, %{{.+}}: i32, %{{.+}}: !llvm.ptr<1>, %{{.+}}: i64, %{{.+}}: !llvm.ptr<1>, %{{.+}}: i32, %{{.+}}: f32) kernel
// CHECK-SAME:    known_block_size = array<i32: 64, 1, 1>
// CHECK-SAME:    schedule = #schedule
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {
func.func @host(%a: !mat, %b: memref<100x64xbf16>, %bias: memref<?xf32>, %alpha: f32, %ctas: index) {
  tile.launch @interface grid(%ctas) threads(64) shared_memory(9216) args(%a, %b, %bias, %alpha)
      : !mat, memref<100x64xbf16>, memref<?xf32>, f32
  tile.launch @interface grid(%ctas) threads(64) shared_memory(9216) args(%a, %b, %bias, %alpha)
      : !mat, memref<100x64xbf16>, memref<?xf32>, f32
  tile.launch @extents grid(%ctas) threads(32) shared_memory(0) args(%a, %b, %alpha) : !mat, memref<100x64xbf16>, f32
  tile.launch @row grid(%ctas) threads(32) shared_memory(0) args(%a) : !mat
  tile.launch @column grid(%ctas) threads(32) shared_memory(0) args(%a) : !mat
  tile.launch @grouped grid(%ctas) threads(32) shared_memory(0) args(%a) : !mat
  tile.launch @groups grid(%ctas) threads(32) shared_memory(0) args(%a) : !mat
  tile.launch @hilbert grid(%ctas) threads(32) shared_memory(0) args(%a) : !mat
  return
}

tile.kernel @interface(%a: !mat, %b: memref<100x64xbf16>, %bias: memref<?xf32>, %alpha: f32)
    attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %c0 = arith.constant 0 : index
  %0 = tile.view %a[%c0, %c0] : !mat to !tile.view<16x16xbf16>
  %1 = tile.view %b[%c0, %c0] : memref<100x64xbf16> to !tile.view<16x16xbf16>
  %2 = tile.view per_column %bias[%c0] : memref<?xf32> to !tile.view<16x16xf32>
  tile.return
}

// Of a matrix whose elements the kernel does not reach by its address, it takes the extents that it reads.
// CHECK-LABEL: gpu.func @extents(
// CHECK-SAME:    %[[N:[^:]+]]: i32, %{{[^:]+}}: f32) kernel
// CHECK:       arith.addi %[[N]], %[[N]] : i32
tile.kernel @extents(%a: !mat, %b: memref<100x64xbf16>, %alpha: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %a, %c1 : !mat
  %m = memref.dim %b, %c0 : memref<100x64xbf16>
  %use = arith.addi %n, %n : index
  tile.return
}

// One shot, by rows: tile t is in row t / tiles_n. Powers of two divide by shifts.
// CHECK-LABEL: gpu.func @row(
// CHECK:       %[[TILES_M:.+]] = arith.shrui %{{.+}}, %c5
// CHECK:       %[[TILES_N:.+]] = arith.divui %{{.+}}, %c48
// CHECK:       %[[CTA:.+]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK-NOT:   scf.for
// CHECK-DAG:   %[[ROW:.+]] = arith.divui %[[CTA]], %[[TILES_N]]
// CHECK-DAG:   %[[COLUMN:.+]] = arith.remui %[[CTA]], %[[TILES_N]]
// CHECK-DAG:   %[[I:.+]] = arith.shli %[[ROW]], %c5
// CHECK-DAG:   %[[J:.+]] = arith.muli %[[COLUMN]], %c48
// CHECK:       arith.addi %[[I]], %[[J]]
tile.kernel @row(%d: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %d, %c0 : !mat
  %n = memref.dim %d, %c1 : !mat
  tile.work_tiles (%i, %j) of (%m, %n) by [32, 48] order(<row>) one_shot {
    %use = arith.addi %i, %j : index
  }
  tile.return
}

// By columns: tile t is in column t / tiles_m.
// CHECK-LABEL: gpu.func @column(
// CHECK:       %[[TILES_M:.+]] = arith.shrui %{{.+}}, %c5
// CHECK:       %[[TILES_N:.+]] = arith.divui %{{.+}}, %c48
// CHECK:       %[[CTA:.+]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK-NOT:   scf.for
// CHECK-DAG:   %[[ROW:.+]] = arith.remui %[[CTA]], %[[TILES_M]]
// CHECK-DAG:   %[[COLUMN:.+]] = arith.divui %[[CTA]], %[[TILES_M]]
// CHECK-DAG:   %[[I:.+]] = arith.shli %[[ROW]], %c5
// CHECK-DAG:   %[[J:.+]] = arith.muli %[[COLUMN]], %c48
// CHECK:       arith.addi %[[I]], %[[J]]
tile.kernel @column(%d: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %d, %c0 : !mat
  %n = memref.dim %d, %c1 : !mat
  tile.work_tiles (%i, %j) of (%m, %n) by [32, 48] order(<column>) one_shot {
    %use = arith.addi %i, %j : index
  }
  tile.return
}

// Persistent: tiles from this CTA's number on, as many apart as there are CTAs. In bands of at most six tile rows. Which
// tile each CTA computes is tested by running levels side by side.
// CHECK-LABEL: gpu.func @grouped(
// CHECK-DAG:   %[[TILES_M:.+]] = arith.shrui %{{.+}}, %c5
// CHECK-DAG:   %[[TILES_N:.+]] = arith.divui %{{.+}}, %c48
// CHECK-DAG:   %[[CTA:.+]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK-DAG:   %[[CTAS:.+]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK-DAG:   %[[TILES:.+]] = arith.muli %[[TILES_M]], %[[TILES_N]]
// CHECK:       scf.for %[[T:.+]] = %[[CTA]] to %[[TILES]] step %[[CTAS]] : i32 {
// CHECK:         %[[SIX:.+]] = arith.minui %[[TILES_M]], %c6
// CHECK:         %[[BAND:.+]] = arith.muli %[[TILES_N]], %[[SIX]]
// CHECK:         arith.divui %[[T]], %[[BAND]]
tile.kernel @grouped(%d: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %d, %c0 : !mat
  %n = memref.dim %d, %c1 : !mat
  tile.work_tiles (%i, %j) of (%m, %n) by [32, 48] order(<grouped 6>) persistent {
    %use = arith.addi %i, %j : index
  }
  tile.return
}

// Evenly split: CTA i of g takes a run of tiles / g neighbouring tiles, the first tiles mod g CTAs one more. In bands of
// at most six tile rows, cut into groups of at most five columns.
// CHECK-LABEL: gpu.func @groups(
// CHECK-DAG:   %[[TILES_M:.+]] = arith.shrui %{{.+}}, %c5
// CHECK-DAG:   %[[TILES_N:.+]] = arith.divui %{{.+}}, %c48
// CHECK-DAG:   %[[CTA:.+]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK-DAG:   %[[CTAS:.+]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK-DAG:   %[[TILES:.+]] = arith.muli %[[TILES_M]], %[[TILES_N]]
// CHECK-DAG:   arith.divui %[[TILES]], %[[CTAS]]
// CHECK-DAG:   %[[OVER:.+]] = arith.remui %[[TILES]], %[[CTAS]]
// CHECK-DAG:   %[[IS_LONGER:.+]] = arith.cmpi ult, %[[CTA]], %[[OVER]]
// CHECK:       scf.for %[[T:.+]] = %{{.+}} to %{{.+}} step %c1_i32 : i32 {
// CHECK:         %[[SIX:.+]] = arith.minui %[[TILES_M]], %c6
// CHECK:         %[[BAND:.+]] = arith.muli %[[TILES_N]], %[[SIX]]
// CHECK-DAG:     %[[WITHIN:.+]] = arith.remui %[[T]], %[[BAND]]
// CHECK-DAG:     %[[FIVE:.+]] = arith.minui %[[TILES_N]], %c5
// CHECK-DAG:     %[[GROUP:.+]] = arith.muli %{{.+}}, %[[FIVE]]
// CHECK:         arith.divui %[[WITHIN]], %[[GROUP]]
tile.kernel @groups(%d: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %d, %c0 : !mat
  %n = memref.dim %d, %c1 : !mat
  tile.work_tiles (%i, %j) of (%m, %n) by [32, 48] order(<groups 6, 5>) even_split {
    %use = arith.addi %i, %j : index
  }
  tile.return
}

// Along a Hilbert curve: one cut of the grid per iteration, of a loop that stays a loop.
// CHECK-LABEL: gpu.func @hilbert(
// CHECK-DAG:   %[[TILES_M:.+]] = arith.shrui %{{.+}}, %c5
// CHECK-DAG:   %[[TILES_N:.+]] = arith.divui %{{.+}}, %c48
// CHECK:       scf.for %[[T:.+]] = %{{.+}} to %{{.+}} step %{{.+}} : i32 {
// CHECK-DAG:     %[[LONGER:.+]] = arith.maxui %[[TILES_M]], %[[TILES_N]]
// CHECK-DAG:     %[[SHORTER:.+]] = arith.minui %[[TILES_M]], %[[TILES_N]]
// CHECK:         scf.while (%{{.+}} = %[[T]], %{{.+}} = %[[LONGER]], %{{.+}} = %[[SHORTER]],
// CHECK:         } do {
// CHECK:           scf.if
// CHECK:           } else {
tile.kernel @hilbert(%d: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %d, %c0 : !mat
  %n = memref.dim %d, %c1 : !mat
  tile.work_tiles (%i, %j) of (%m, %n) by [32, 48] order(<hilbert>) persistent {
    %use = arith.addi %i, %j : index
  }
  tile.return
}
}
