// Work tiles of groups of rows: the loop carries the number of the group, its first row and end, and the number of tiles
// before it. From there an inner loop goes on to the group of the next tile, and reads each end once.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-LABEL: gpu.func @kernel
// CHECK-DAG:     %[[ROWS:.+]] = arith.constant 200 : i32
// CHECK:         %[[CTAS:.+]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK:         scf.while (%[[TILE:.+]] = %{{.+}}, %[[NUMBER:.+]] = %c-1_i32, %[[FIRST:.+]] = %c0_i32, %[[END:.+]] = %c0_i32, %[[BEFORE:.+]] = %c0_i32)
// CHECK:           %[[GROUP:.+]]:4 = scf.while (%{{.+}} = %[[NUMBER]], %{{.+}} = %[[FIRST]], %{{.+}} = %[[END]], %{{.+}} = %[[BEFORE]])
// CHECK:             scf.condition
// CHECK:             %[[LOADED:.+]] = llvm.load
// CHECK:             %[[GIVEN:.+]] = nvvm.shfl.sync idx %{{.+}}, %[[LOADED]], %c0_i32
// CHECK:             %[[LOW:.+]] = arith.maxsi %[[GIVEN]], %[[LAST:.+]] : i32
// CHECK:             %[[NEXT:.+]] = arith.minsi %[[LOW]], %[[ROWS]] : i32
// CHECK:             scf.yield %{{.+}}, %[[LAST]], %[[NEXT]], %{{.+}} : i32, i32, i32, i32
// CHECK-NOT:       llvm.load
// CHECK:           scf.condition(%{{.+}}) %[[TILE]], %[[GROUP]]#0, %[[GROUP]]#1, %[[GROUP]]#2, %[[GROUP]]#3 :
// CHECK:         ^bb0(%[[TILE2:.+]]: i32, %[[NUMBER2:.+]]: i32, %[[FIRST2:.+]]: i32, %[[END2:.+]]: i32, %[[BEFORE2:.+]]: i32):
// CHECK:           %[[FOLLOWING:.+]] = arith.addi %[[TILE2]], %[[CTAS]] : i32
// CHECK:           llvm.store
// CHECK:           nvvm.bar.warp.sync
// CHECK:           scf.yield %[[FOLLOWING]], %[[NUMBER2]], %[[FIRST2]], %[[END2]], %[[BEFORE2]] :
#tv = #tile.tv<threads (4,8):(32,1), values (2,2,1):(16,8,128)>
!out = memref<200x64xf32, strided<[64, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: !out, %ends: memref<5xi32>) {
  tile.launch @kernel grid(%ctas) threads(32) args(%d, %ends) : !out, memref<5xi32>
  return
}
tile.kernel @kernel(%d: !out, %ends: memref<5xi32>) {
  %rows = arith.constant 200 : index
  %columns = arith.constant 64 : index
  tile.work_tiles (%m, %n) of (%rows, %columns) by [16, 8] groups(%g to %end of %ends : memref<5xi32>) order(<row>)
      persistent {
    %zero = sm.splat 0.0 : !sm.fragment<16x8xf32, #tv>
    %own = memref.subview %d[0, 0] [%end, 64] [1, 1] : !out to memref<?x64xf32, strided<[64, 1]>>
    %w = tile.view %own[%m, %n] : memref<?x64xf32, strided<[64, 1]>> to !tile.view<16x8xf32>
    sm.store_global %zero to %w by "st.global.8" : !sm.fragment<16x8xf32, #tv>, !tile.view<16x8xf32>
  }
  tile.return
}
}
