// overlap-stores writes the K steps of a tile out, and stores the tile before between their products, at even distances;
// the last tile behind the loop over tiles.
// RUN: lowtide-opt %s -p overlap-stores | filecheck %s

module attributes {tile.target = "sm_80"} {
gpu.module @kernels {
// CHECK-LABEL: gpu.func @two_stores
// CHECK-SAME:    %[[D:.+]]: !llvm.ptr<1>, %[[FIRST:.+]]: i32, %[[TILES:.+]]: i32, %[[CTAS:.+]]: i32
// CHECK:       %[[NONE:.+]] = llvm.mlir.undef : vector<4xf32>
// CHECK:       %[[LAST:.+]]:4 = scf.for %[[TILE:.+]] = %[[FIRST]] to %[[TILES]] step %[[CTAS]] iter_args(%[[SLOT:.+]] = %{{.+}}, %[[PAST:.+]] = %[[FIRST]], %[[HELD0:.+]] = %{{.+}}, %[[HELD1:.+]] = %{{.+}})
// CHECK:         %[[IS_HELD:.+]] = arith.cmpi ne, %[[TILE]], %[[FIRST]]
// CHECK:         %[[SUM0:.+]] = nvvm.mma.sync
// CHECK-NOT:     nvvm.mma.sync
// CHECK:         %[[ROW:.+]] = arith.muli %[[PAST]], %c64
// CHECK:         %[[AT0:.+]] = llvm.getelementptr %[[D]][%[[ROW]]]
// CHECK-NEXT:    scf.if %[[IS_HELD]] {
// CHECK-NEXT:      llvm.store %[[HELD0]], %[[AT0]] {alignment = 16 : i64}
// CHECK-NEXT:    }
// CHECK:         %[[SUM1:.+]] = nvvm.mma.sync
// CHECK:         %[[AT1:.+]] = llvm.getelementptr %[[AT0]][32]
// CHECK-NEXT:    scf.if %[[IS_HELD]] {
// CHECK-NEXT:      llvm.store %[[HELD1]], %[[AT1]]
// CHECK-NEXT:    }
// CHECK-NOT:     nvvm.mma.sync
// CHECK-NOT:     llvm.store
// CHECK:         %[[LOW:.+]] = arith.addf
// CHECK:         %[[HIGH:.+]] = arith.mulf
// CHECK-NOT:     llvm.store
// CHECK:         scf.yield %{{.+}}, %[[TILE]], %[[LOW]], %[[HIGH]] : i32, i32, vector<4xf32>, vector<4xf32>
// CHECK:       %[[ANY:.+]] = arith.cmpi slt, %[[FIRST]], %[[TILES]]
// CHECK-NEXT:  scf.if %[[ANY]] {
// CHECK-NEXT:    %[[LAST_ROW:.+]] = arith.muli %[[LAST]]#1, %c64
// CHECK-NEXT:    %[[LAST_AT:.+]] = llvm.getelementptr %[[D]][%[[LAST_ROW]]]
// CHECK-NEXT:    llvm.store %[[LAST]]#2, %[[LAST_AT]]
// CHECK:         llvm.store %[[LAST]]#3
// CHECK-NEXT:  }
gpu.func @two_stores(%d: !llvm.ptr<1>, %first: i32, %tiles: i32, %ctas: i32, %pair: vector<2xf16>) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<4xf32>
  %end = scf.for %tile = %first to %tiles step %ctas iter_args(%slot = %c0) -> (i32) : i32 {
    %sum:2 = scf.for %i = %c0 to %c2 step %c1 iter_args(%acc = %zero, %at = %slot) -> (f32, i32) : i32 {
      %product = nvvm.mma.sync A[%pair, %pair] B[%pair] C[%acc, %acc, %acc, %acc] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %next = llvm.extractvalue %product[0] : !llvm.struct<(f32, f32, f32, f32)>
      %after = arith.addi %at, %i : i32
      scf.yield %next, %after : f32, i32
    } {sm.timing = #sm.timing<stores = next_tile>}
    %all = vector.broadcast %sum#0 : f32 to vector<4xf32>
    %low = arith.addf %all, %zeros : vector<4xf32>
    %high = arith.mulf %all, %all : vector<4xf32>
    %row = arith.muli %tile, %c64 : i32
    %p0 = llvm.getelementptr %d[%row] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    llvm.store %low, %p0 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    %p1 = llvm.getelementptr %p0[32] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
    llvm.store %high, %p1 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    scf.yield %sum#1 : i32
  }
  gpu.return
}

// Other timings: D is stored where its tile is multiplied.
// CHECK-LABEL: gpu.func @at_once
// CHECK:         scf.for
// CHECK:           llvm.store
// CHECK-NOT:   scf.if
gpu.func @at_once(%d: !llvm.ptr<1>, %first: i32, %tiles: i32, %ctas: i32, %value: f32) kernel {
  scf.for %tile = %first to %tiles step %ctas : i32 {
    llvm.store %value, %d : f32, !llvm.ptr<1>
  }
  gpu.return
}
}
}
