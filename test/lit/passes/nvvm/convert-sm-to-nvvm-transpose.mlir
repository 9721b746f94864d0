// A CTA transposes a tile through shared memory: units of 16 bytes come in, elements are gathered, units go out.
// RUN: lowtide-opt %s -p assign-smem-offsets,convert-sm-to-nvvm,cse,canonicalize,cse | filecheck %s

// CHECK:       tile.launch @transpose grid(%{{.+}}) threads(128) shared_memory(4736)
// CHECK-LABEL: gpu.func @transpose(
// CHECK:       %[[SMEM:.+]] = llvm.mlir.addressof @shared_memory
// Whole tiles whose rows begin with a unit: all loads stand before the stores.
// CHECK:       scf.if %{{.+}} {
// CHECK:         %[[X:.+]] = llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NEXT:    %[[Y:.+]] = llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:         llvm.store %[[X]], %{{.+}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// CHECK:         llvm.store %[[Y]], %{{.+}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// Other tiles: nine units a row. All loads of units that lie in the matrix stand before the stores.
// CHECK:       } else {
// CHECK:         %[[X:.+]] = scf.if %[[HAS_X:.+]] -> (vector<4xf32>) {
// CHECK-NEXT:      llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:         %[[Y:.+]] = scf.if %{{.+}} -> (vector<4xf32>) {
// CHECK-NOT:     llvm.store
// CHECK:         scf.if %{{.+}} -> (vector<4xf32>) {
// CHECK:         scf.if %[[HAS_X]] {
// CHECK-NEXT:      llvm.store %[[X]], %{{.+}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// CHECK:           llvm.store %[[Y]], %{{.+}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// Of other units, the elements that exist are copied. All loads of a unit stand before its stores.
// CHECK:         scf.for %{{.+}} = %c0_i32 to %c288_i32 step %c128_i32
// CHECK-COUNT-4:   llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK-NOT:       llvm.load
// CHECK-COUNT-4:   llvm.store %{{.+}}, %{{.+}} {alignment = 4 : i64} : f32, !llvm.ptr<3>
// CHECK:       nvvm.barrier0
// CHECK-COUNT-4: llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<3> -> f32
// CHECK:       %[[UNIT:.+]] = vector.from_elements
// CHECK:       llvm.store %[[UNIT]], %{{.+}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%s: !mat, %t: !mat, %g: index) {
  tile.launch @transpose grid(%g) threads(128) args(%s, %t) : !mat, !mat
  return
}
tile.kernel @transpose(%s: !mat, %t: !mat) {
  tile.prepare %t from %s transposed : !mat from !mat
  tile.return
}
}
