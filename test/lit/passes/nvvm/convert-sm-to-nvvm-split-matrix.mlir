// A thread splits a unit of K: 16 bytes of pieces for each product, the differences exact, blocks of K apart.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,cse,canonicalize,cse --split-input-file | filecheck %s

// CHECK-LABEL: gpu.func @split(
// CHECK-SAME:    %[[S:.+]]: !llvm.ptr<1>, %[[LDS:.+]]: i64, %[[ROWS:.+]]: i32, %[[K:.+]]: i32, %[[T:.+]]: !llvm.ptr<1>, %[[LDT:.+]]: i64,
// CHECK:       %[[UNITS:.+]] = arith.ceildivui %[[K]], %c4_i32
// CHECK:       scf.if
// Sixteen bytes at once where the source is aligned, else elements, zeros past K.
// CHECK:         %[[X:.+]] = scf.if %{{.+}} -> (vector<4xf32>) {
// CHECK:           llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-COUNT-4:   llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK:         %[[X0:.+]] = vector.extract %[[X]][0]
// CHECK:         %[[HIGH:.+]] = sm.ptx_round %[[X0]] to tf32 : f32
// CHECK:         %[[NOT_FINITE:.+]] = arith.subf %[[HIGH]], %[[HIGH]]
// CHECK:         %[[FINITE:.+]] = arith.cmpf ord, %[[NOT_FINITE]], %[[NOT_FINITE]]
// CHECK:         %[[CROSS:.+]] = arith.select %[[FINITE]], %[[HIGH]], %{{.+}} : f32
// CHECK:         %[[REST:.+]] = arith.subf %[[X0]], %[[HIGH]]
// CHECK:         %[[ROUNDED:.+]] = sm.ptx_round %[[REST]] to tf32
// CHECK:         %[[LOW:.+]] = arith.select %[[FINITE]], %[[ROUNDED]], %{{.+}} : f32
// The products of A are low, high, high: the last with infinities and NaN.
// CHECK:         %[[FIRST:.+]] = vector.from_elements %[[LOW]],
// CHECK:         llvm.store %[[FIRST]], %[[P:[^ ]+]] {alignment = 16 : i64}
// CHECK:         %[[SECOND:.+]] = vector.from_elements %[[CROSS]],
// CHECK:         llvm.store %[[SECOND]], %{{.+}} {alignment = 16 : i64}
// CHECK:         %[[THIRD:.+]] = vector.from_elements %[[HIGH]],
// CHECK:         llvm.store %[[THIRD]], %{{.+}} {alignment = 16 : i64}
!mat = memref<?x?xf32, strided<[?, 1]>>
!pieces = memref<?x?xtf32, strided<[?, 1]>>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {
func.func @host(%s: !mat, %t: !pieces, %g: index) {
  tile.launch @split grid(%g) threads(256) shared_memory(0) args(%s, %t) : !mat, !pieces
  return
}
tile.kernel @split(%s: !mat, %t: !pieces) {
  tile.prepare %t from %s pieces(left of tf32x3) : !pieces from !mat
  tile.return
}
}

// -----

// With K first neighbouring threads take neighbouring columns; three pieces of bf16, six products.
// CHECK-LABEL: gpu.func @split(
// CHECK-COUNT-8: llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK:         %[[ONE:.+]] = arith.truncf %[[X:.+]] : f32 to bf16
// CHECK:         %[[WIDE:.+]] = arith.extf %[[ONE]] : bf16 to f32
// CHECK:         arith.subf %[[X]], %[[WIDE]]
// CHECK-COUNT-6: llvm.store %{{.+}}, %{{.+}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
!mat = memref<?x?xf32, strided<[?, 1]>>
!pieces = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {
func.func @host(%s: !mat, %t: !pieces, %g: index) {
  tile.launch @split grid(%g) threads(256) shared_memory(0) args(%s, %t) : !mat, !pieces
  return
}
tile.kernel @split(%s: !mat, %t: !pieces) {
  tile.prepare %t from %s transposed pieces(right of bf16x6) : !pieces from !mat
  tile.return
}
}
