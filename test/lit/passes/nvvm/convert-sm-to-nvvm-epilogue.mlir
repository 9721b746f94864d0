// convert-sm-to-nvvm: the epilogue's ops: parts of fragments, arithmetic on them, loads and stores of their runs.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,cse | filecheck %s

#tv_tall = #tile.tv<threads (4,8):(64,1), values ((2,2),2,1):((32,8),16,256)>
#tv_atom = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
#tv_pair = #tile.tv<threads (4,8):(16,1), values (2,1):(8,8)>
!tall = !sm.fragment<32x8xf32, #tv_tall>
!atom = !sm.fragment<16x8xf32, #tv_atom>
!narrow = !sm.fragment<16x8xbf16, #tv_atom>
!pair = !sm.fragment<8x8xbf16, #tv_pair>
!wide = !sm.fragment<8x8xf32, #tv_pair>
!scratch = memref<8x8xbf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
!scratch32 = memref<8x8xf32, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
!scratch_atom = memref<16x8xf32, #tile.layout<(16,8):(8,1)>, #gpu.address_space<workgroup>>
!scratch_narrow = memref<16x8xbf16, #tile.layout<(16,8):(8,1)>, #gpu.address_space<workgroup>>
!window = !tile.view<8x8xbf16>
!window32 = !tile.view<8x8xf32>
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: !mat, %e: memref<64x40xbf16>, %v: memref<?xf32>, %f: f32) {
  tile.launch @extract grid(%ctas) threads(32) shared_memory(512) args(%f) : f32
  tile.launch @extract_part grid(%ctas) threads(32) shared_memory(512) args(%f) : f32
  tile.launch @map grid(%ctas) threads(32) shared_memory(512) args(%f) : f32
  tile.launch @through_shared grid(%ctas) threads(32) shared_memory(128) args()
  tile.launch @store_whole grid(%ctas) threads(32) shared_memory(128) args(%e) : memref<64x40xbf16>
  tile.launch @store_parts grid(%ctas) threads(32) shared_memory(128) args(%e) : memref<64x40xbf16>
  tile.launch @store_ragged grid(%ctas) threads(32) shared_memory(128) args(%d) : !mat
  tile.launch @load_full grid(%ctas) threads(32) shared_memory(128) args(%d) : !mat
  tile.launch @load_vector grid(%ctas) threads(32) shared_memory(256) args(%v) : memref<?xf32>
  return
}

// The lower half of a fragment is the register that holds it; nothing is computed. The region runs once a register, on
// vectors.
// CHECK-LABEL: gpu.func @extract(
// CHECK-SAME:    %[[F:.+]]: f32) kernel
// CHECK:       %[[ONES:.+]] = arith.constant dense<1.000000e+00> : vector<4xf32>
// CHECK:       %[[FS:.+]] = vector.broadcast %[[F]] : f32 to vector<4xf32>
// CHECK:       %[[LOWER:.+]] = arith.addf %[[ONES]], %[[FS]] : vector<4xf32>
// CHECK:       %[[LOW:.+]] = vector.shuffle %[[LOWER]], %[[LOWER]] [0, 1]
// CHECK:       llvm.store %[[LOW]],
tile.kernel @extract(%f: f32) {
  %s = sm.alloc at 0 : !scratch_atom
  %ones = sm.splat 1.0 : !tall
  %sum = sm.map %ones, %f : !tall, f32 {
  ^bb0(%x: f32, %y: f32):
    %0 = arith.addf %x, %y : f32
    tile.yield %0 : f32
  } : !tall
  %lower = sm.extract %sum[16, 0] : !tall to !atom
  sm.store_shared %lower to %s by "st.shared.8" : !atom, !scratch_atom
  tile.return
}

// A part of a register is what it holds of the sub-tile.
// CHECK-LABEL: gpu.func @extract_part(
// CHECK:       %[[SUM:.+]] = arith.addf
// CHECK:       %[[PART:.+]] = vector.shuffle %[[SUM]], %[[SUM]] [2, 3]
// CHECK:       llvm.store %[[PART]],
tile.kernel @extract_part(%f: f32) {
  %s = sm.alloc at 0 : !scratch32
  %ones = sm.splat 1.0 : !tall
  %sum = sm.map %ones, %f : !tall, f32 {
  ^bb0(%x: f32, %y: f32):
    %0 = arith.addf %x, %y : f32
    tile.yield %0 : f32
  } : !tall
  %half = sm.extract %sum[8, 0] : !tall to !wide
  sm.store_shared %half to %s by "st.shared.8" : !wide, !scratch32
  tile.return
}

// A scalar is broadcast; constants, in the region or outside, become constant vectors; attributes of an op stay.
// CHECK-LABEL: gpu.func @map(
// CHECK-SAME:    %[[F:.+]]: f32) kernel
// CHECK:       %[[X:.+]] = arith.constant dense<2.000000e+00> : vector<4xf32>
// CHECK:       %[[FS:.+]] = vector.broadcast %[[F]] : f32 to vector<4xf32>
// CHECK:       %[[HALF:.+]] = arith.constant dense<5.000000e-01> : vector<4xf32>
// CHECK:       %[[SCALED:.+]] = arith.mulf %[[X]], %[[FS]] fastmath<contract> : vector<4xf32>
// CHECK:       %[[SHIFTED:.+]] = arith.addf %[[SCALED]], %[[HALF]] : vector<4xf32>
// CHECK:       %[[ONE:.+]] = arith.constant dense<1.000000e+00> : vector<4xf32>
// CHECK:       %[[MAX:.+]] = arith.maximumf %[[SHIFTED]], %[[ONE]] : vector<4xf32>
// CHECK:       %[[Y:.+]] = arith.truncf %[[MAX]] : vector<4xf32> to vector<4xbf16>
tile.kernel @map(%f: f32) {
  %s = sm.alloc at 0 : !scratch_narrow
  %one = arith.constant 1.0 : f32
  %c = sm.splat 2.0 : !atom
  %y = sm.map %c, %f : !atom, f32 {
  ^bb0(%x: f32, %g: f32):
    %half = arith.constant 0.5 : f32
    %0 = arith.mulf %x, %g fastmath<contract> : f32
    %1 = arith.addf %0, %half : f32
    %2 = arith.maximumf %1, %one : f32
    %3 = arith.truncf %2 : f32 to bf16
    tile.yield %3 : bf16
  } : !narrow
  sm.store_shared %y to %s by "st.shared.4" : !narrow, !scratch_narrow
  tile.return
}

// Runs go in one access, aligned to its bytes; runs of another length are put together or taken apart.
// CHECK-LABEL: gpu.func @through_shared(
// CHECK:       %[[SMEM:.+]] = llvm.mlir.addressof @shared_memory
// CHECK:       %[[AT:.+]] = llvm.getelementptr %[[SMEM]][%{{.+}}]
// CHECK:       %[[PAIR:.+]] = llvm.load %[[AT]] {alignment = 4 : i64} : !llvm.ptr<3> -> vector<2xbf16>
// CHECK-NEXT:  llvm.store %[[PAIR]], %[[AT]] {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<3>
// CHECK-NEXT:  %[[FIRST:.+]] = llvm.load %[[AT]] {alignment = 2 : i64} : !llvm.ptr<3> -> vector<1xbf16>
// CHECK:       %[[AT1:.+]] = llvm.getelementptr %[[AT]][2]
// CHECK:       %[[SECOND:.+]] = llvm.load %[[AT1]] {alignment = 2 : i64} : !llvm.ptr<3> -> vector<1xbf16>
// CHECK:       %[[BOTH:.+]] = vector.shuffle %[[FIRST]], %[[SECOND]] [0, 1]
// CHECK:       llvm.store %[[BOTH]], %[[AT]] {alignment = 4 : i64}
tile.kernel @through_shared() {
  %s = sm.alloc at 0 : !scratch
  %c = sm.load_shared %s by "ld.shared.4" : !scratch to !pair
  sm.store_shared %c to %s by "st.shared.4" : !pair, !scratch
  %b = sm.load_shared %s by "ld.shared.2" : !scratch to !pair
  sm.store_shared %b to %s by "st.shared.4" : !pair, !scratch
  tile.return
}

// Static extents that the tile divides: nothing is asked. 40 columns in tiles of 16 leave half a tile; but 40 is whole
// pairs, so a store is made whole or not at all.
// CHECK-LABEL: gpu.func @store_whole(
// CHECK:       %[[PAIR:.+]] = llvm.load
// CHECK-NOT:   arith.cmpi
// CHECK:       llvm.store %[[PAIR]], %{{.+}} {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
// CHECK:       %[[EXISTS:.+]] = arith.cmpi ult, %{{.+}}, %c40
// CHECK:       scf.if %[[EXISTS]] {
// CHECK-NEXT:    llvm.store %[[PAIR]], %{{.+}} {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
// CHECK-NEXT:  }
// CHECK-NEXT:  gpu.return
tile.kernel @store_whole(%d: memref<64x40xbf16>) {
  %c64 = arith.constant 64 : index
  %c40 = arith.constant 40 : index
  %s = sm.alloc at 0 : !scratch
  %c = sm.load_shared %s by "ld.shared.4" : !scratch to !pair
  tile.work_tiles (%i, %j) of (%c64, %c40) by [8, 8] order(<row>) one_shot {
    %v = tile.view %d[%i, %j] : memref<64x40xbf16> to !window
    sm.store_global %c to %v by "st.global.4" : !pair, !window
  }
  tile.work_tiles (%i, %j) of (%c64, %c40) by [8, 16] order(<row>) one_shot {
    %v = tile.view %d[%i, %j] : memref<64x40xbf16> to !window
    sm.store_global %c to %v by "st.global.4" : !pair, !window
  }
  tile.return
}

// Parts of a tile of 32 rows, of which each tile has all: eight rows from the 8th on lie in it, and nothing is asked.
// From the 24th on they do too; from the 28th on they may reach over its end, and from the 40th on they begin past it: each
// row is asked for by itself.
// CHECK-LABEL: gpu.func @store_parts(
// CHECK:       %[[PAIR:.+]] = llvm.load
// CHECK-NOT:   arith.cmpi
// CHECK:       llvm.store %[[PAIR]], %{{.+}} {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
// CHECK-NOT:   arith.cmpi
// CHECK:       llvm.store %[[PAIR]], %{{.+}} {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
// CHECK:       %[[AT28:.+]] = arith.addi %[[I:.+]], %c28
// CHECK:       %[[ROW28:.+]] = arith.addi %[[AT28]], %[[OWN:[^ ]+]]
// CHECK:       %[[EXISTS:.+]] = arith.cmpi ult, %[[ROW28]], %c64
// CHECK:       scf.if %[[EXISTS]] {
// CHECK:       %[[AT40:.+]] = arith.addi %[[I]], %c40
// CHECK:       %[[ROW40:.+]] = arith.addi %[[AT40]], %[[OWN]]
// CHECK:       %[[THERE:.+]] = arith.cmpi ult, %[[ROW40]], %c64
// CHECK:       scf.if %[[THERE]] {
tile.kernel @store_parts(%d: memref<64x40xbf16>) {
  %c64 = arith.constant 64 : index
  %c40 = arith.constant 40 : index
  %c8 = arith.constant 8 : index
  %c24 = arith.constant 24 : index
  %c28 = arith.constant 28 : index
  %s = sm.alloc at 0 : !scratch
  %c = sm.load_shared %s by "ld.shared.4" : !scratch to !pair
  tile.work_tiles (%i, %j) of (%c64, %c40) by [32, 8] order(<row>) one_shot {
    %i8 = arith.addi %i, %c8 : index
    %v8 = tile.view %d[%i8, %j] : memref<64x40xbf16> to !window
    sm.store_global %c to %v8 by "st.global.4" : !pair, !window
    %i24 = arith.addi %i, %c24 : index
    %v24 = tile.view %d[%i24, %j] : memref<64x40xbf16> to !window
    sm.store_global %c to %v24 by "st.global.4" : !pair, !window
    %i28 = arith.addi %i, %c28 : index
    %v28 = tile.view %d[%i28, %j] : memref<64x40xbf16> to !window
    sm.store_global %c to %v28 by "st.global.4" : !pair, !window
    %i40 = arith.addi %i, %c40 : index
    %v40 = tile.view %d[%i40, %j] : memref<64x40xbf16> to !window
    sm.store_global %c to %v40 by "st.global.4" : !pair, !window
  }
  tile.return
}

// Extents known at run time: a whole run in one store, else each of its elements that exists.
// CHECK-LABEL: gpu.func @store_ragged(
// CHECK-SAME:    %{{.+}}: !llvm.ptr<1>, %{{.+}}: i64, %[[M:.+]]: i32, %[[N:.+]]: i32) kernel
// CHECK:       %[[PAIR:.+]] = llvm.load
// CHECK:       %[[AT:.+]] = llvm.getelementptr %{{.+}} -> !llvm.ptr<1>, bf16
// CHECK:       %[[ROW_EXISTS:.+]] = arith.cmpi ult, %{{.+}}, %[[M]]
// CHECK:       %[[LAST:.+]] = arith.addi %[[COLUMN:.+]], %c1
// CHECK:       %[[LAST_EXISTS:.+]] = arith.cmpi ult, %[[LAST]], %[[N]]
// CHECK:       %[[WHOLE:.+]] = arith.andi %[[ROW_EXISTS]], %[[LAST_EXISTS]]
// CHECK:       scf.if %[[WHOLE]] {
// CHECK-NEXT:    llvm.store %[[PAIR]], %[[AT]] {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
// CHECK-NEXT:  } else {
// CHECK:         %[[FIRST:.+]] = arith.cmpi ult, %[[COLUMN]], %[[N]]
// CHECK:         %[[FIRST_EXISTS:.+]] = arith.andi %[[ROW_EXISTS]], %[[FIRST]]
// CHECK:         scf.if %[[FIRST_EXISTS]] {
// CHECK:           %[[ELEMENT:.+]] = vector.extract %[[PAIR]][0]
// CHECK:           llvm.store %[[ELEMENT]], %[[AT]] {alignment = 2 : i64} : bf16, !llvm.ptr<1>
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.if %[[WHOLE]] {
// CHECK:           %[[ELEMENT1:.+]] = vector.extract %[[PAIR]][1]
// CHECK:           %[[AT1:.+]] = llvm.getelementptr %[[AT]][1]
// CHECK:           llvm.store %[[ELEMENT1]], %[[AT1]] {alignment = 2 : i64} : bf16, !llvm.ptr<1>
tile.kernel @store_ragged(%d: !mat) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %d, %c0 : !mat
  %s = sm.alloc at 0 : !scratch
  %c = sm.load_shared %s by "ld.shared.4" : !scratch to !pair
  tile.work_tiles (%i, %j) of (%m, %m) by [8, 8] order(<row>) one_shot {
    %v = tile.view %d[%i, %j] : !mat to !window
    sm.store_global %c to %v by "st.global.4" : !pair, !window
  }
  tile.return
}

// An operand of the epilogue need only have its element's alignment: base and row stride are asked at run time. What
// does not exist is zero, and is not read.
// CHECK-LABEL: gpu.func @load_full(
// CHECK-SAME:    %[[C:.+]]: !llvm.ptr<1>, %[[LD:.+]]: i64, %[[M:.+]]: i32, %[[N:.+]]: i32) kernel
// CHECK:       %[[BASE:.+]] = llvm.ptrtoint %[[C]]
// CHECK:       %[[STRIDE:.+]] = arith.shli %[[LD]], %c1
// CHECK:       %[[EITHER:.+]] = arith.ori %[[BASE]], %[[STRIDE]]
// CHECK:       %[[OFF:.+]] = arith.andi %[[EITHER]], %c3
// CHECK:       %[[ALIGNED:.+]] = arith.cmpi eq, %[[OFF]], %c0
// CHECK:       %[[INSIDE:.+]] = arith.andi %{{.+}}, %{{.+}} : i1
// CHECK:       %[[WHOLE:.+]] = arith.andi %[[ALIGNED]], %[[INSIDE]] : i1
// CHECK:       %[[PAIR:.+]] = scf.if %[[WHOLE]] -> (vector<2xbf16>) {
// CHECK:         %[[LOADED:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
// CHECK-NEXT:    scf.yield %[[LOADED]]
// CHECK-NEXT:  } else {
// CHECK:         %[[FIRST:.+]] = scf.if %{{.+}} -> (bf16) {
// CHECK:           llvm.load %{{.+}} {alignment = 2 : i64} : !llvm.ptr<1> -> bf16
// CHECK:         } else {
// CHECK:           %[[ZERO:.+]] = arith.constant 0.000000e+00 : bf16
// CHECK:           scf.yield %[[ZERO]]
// CHECK:         %[[SECOND:.+]] = scf.if %[[INSIDE]] -> (bf16) {
// CHECK:         vector.from_elements %[[FIRST]], %[[SECOND]] : vector<2xbf16>
tile.kernel @load_full(%d: !mat) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %d, %c0 : !mat
  %s = sm.alloc at 0 : !scratch
  tile.work_tiles (%i, %j) of (%m, %m) by [8, 8] order(<row>) one_shot {
    %v = tile.view %d[%i, %j] : !mat to !window
    %c = sm.load_global %v by "ld.global.4" : !window to !pair
    sm.store_shared %c to %s by "st.shared.4" : !pair, !scratch
  }
  tile.return
}

// A vector is loaded once for each row, or column, that the thread's values have.
// CHECK-LABEL: gpu.func @load_vector(
// CHECK-SAME:    %[[R:.+]]: !llvm.ptr<1>, %[[M:.+]]: i32) kernel
// CHECK:       %[[EXISTS:.+]] = arith.cmpi ult, %[[ROW:.+]], %[[M]]
// CHECK:       %[[X:.+]] = scf.if %[[EXISTS]] -> (f32) {
// CHECK:         %[[WIDE:.+]] = arith.extui %[[ROW]] : i32 to i64
// CHECK:         %[[AT:.+]] = llvm.getelementptr %[[R]][%[[WIDE]]] : {{.*}}, f32
// CHECK:         llvm.load %[[AT]] {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK:       vector.from_elements %[[X]], %[[X]] : vector<2xf32>
// CHECK:       %[[X0:.+]] = scf.if
// CHECK:       %[[X1:.+]] = scf.if
// CHECK:       vector.from_elements %[[X0]], %[[X1]] : vector<2xf32>
// CHECK-NOT:   scf.if
// CHECK:       gpu.return
tile.kernel @load_vector(%r: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %r, %c0 : memref<?xf32>
  %s = sm.alloc at 0 : !scratch32
  tile.work_tiles (%i, %j) of (%m, %m) by [8, 8] order(<row>) one_shot {
    %v = tile.view per_row %r[%i] : memref<?xf32> to !window32
    %x = sm.load_global %v by "ld.global.8" : !window32 to !wide
    sm.store_shared %x to %s by "st.shared.8" : !wide, !scratch32
    %w = tile.view per_column %r[%j] : memref<?xf32> to !window32
    %y = sm.load_global %w by "ld.global.8" : !window32 to !wide
    sm.store_shared %y to %s by "st.shared.8" : !wide, !scratch32
  }
  tile.return
}
}
