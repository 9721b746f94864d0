// convert-sm-to-nvvm, loads of runs that lie anywhere: of two elements here, by the aligned pairs around each.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// How far a run lies past a multiple of its four bytes, from base and row stride.
// CHECK-LABEL: gpu.func @realigned(
// CHECK-SAME:    %[[C:.+]]: !llvm.ptr<1>, %[[LD:.+]]: i64, %[[M:.+]]: i32, %[[N:.+]]: i32) kernel
// CHECK:       %[[BASE:.+]] = llvm.ptrtoint %[[C]]
// CHECK:       %[[PAST:.+]] = arith.andi %{{.+}}, %c3
// CHECK:       %[[SHIFT:.+]] = arith.shrui %[[PAST]], %c1

// Where both pairs lie within the row they are loaded at once; the row is one that exists.
// CHECK:       %[[PAIRS:.+]]:2 = scf.if %{{.+}} -> (vector<2xbf16>, vector<2xbf16>) {
// CHECK:         arith.select %{{.+}} : i32
// CHECK:         %[[LOW:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
// CHECK:         %[[HIGH:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
// CHECK-NEXT:    scf.yield %[[LOW]], %[[HIGH]]

// Else those of their elements that exist, one after the other.
// CHECK:       } else {
// CHECK:         scf.for
// CHECK:           llvm.load %{{.+}} {alignment = 2 : i64} : !llvm.ptr<1> -> bf16

// The run begins with the first element or with the second. It is zero where its row does not exist.
// CHECK:       %[[HELD:.+]] = vector.shuffle %[[PAIRS]]#0, %[[PAIRS]]#1 [0, 1, 2, 3]
// CHECK:       %[[NEAR:.+]] = vector.shuffle %[[HELD]], %[[HELD]] [0, 1]
// CHECK:       %[[FAR:.+]] = vector.shuffle %[[HELD]], %[[HELD]] [1, 2]
// CHECK:       %[[TAKEN:.+]] = arith.select %{{.+}}, %[[FAR]], %[[NEAR]]
// CHECK:       arith.select %{{.+}}, %[[TAKEN]], %{{.+}} : vector<2xbf16>
#tv_pair = #tile.tv<threads (4,8):(16,1), values (2,1):(8,8)>
!pair = !sm.fragment<8x8xbf16, #tv_pair>
!scratch = memref<8x8xbf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
!window = !tile.view<8x8xbf16>
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: !mat) {
  tile.launch @realigned grid(%ctas) threads(32) shared_memory(128) args(%d) : !mat
  return
}
tile.kernel @realigned(%d: !mat) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %d, %c0 : !mat
  %s = sm.alloc at 0 : !scratch
  tile.work_tiles (%i, %j) of (%m, %m) by [8, 8] order(<row>) one_shot {
    %v = tile.view %d[%i, %j] : !mat to !window
    %c = sm.load_global %v by "ld.global.4" realigned : !window to !pair
    sm.store_shared %c to %s by "st.shared.4" : !pair, !scratch
  }
  tile.return
}
}
