// Work tiles of padded groups: as of groups of rows, but each group begins at row 0 of its own matrix, and its end is
// clamped to the rows of the matrix. The store is to this matrix.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-LABEL: gpu.func @kernel
// CHECK-DAG:     %[[ROWS:.+]] = arith.constant 200 : i32
// CHECK:         scf.while (%{{.+}} = %{{.+}}, %{{.+}} = %c-1_i32,
// CHECK:             %[[LOADED:.+]] = llvm.load
// CHECK-NEXT:        %[[GIVEN:.+]] = nvvm.shfl.sync idx %{{.+}}, %[[LOADED]], %c0_i32
// CHECK-NEXT:        %[[LOW:.+]] = arith.maxsi %[[GIVEN]], %[[ZERO:c0_i32.*]] : i32
// CHECK-NEXT:        %[[NEXT:.+]] = arith.minsi %[[LOW]], %[[ROWS]] : i32
// CHECK:             scf.yield %{{.+}}, %[[ZERO]], %[[NEXT]], %{{.+}} : i32, i32, i32, i32
// CHECK:         ^bb0(%{{.+}}: i32, %[[NUMBER:.+]]: i32, %{{.+}}: i32, %[[END:.+]]: i32, %{{.+}}: i32):
// CHECK:           %[[MATRIX:.+]] = arith.extui %[[NUMBER]] : i32 to i64
// CHECK:           arith.muli %[[MATRIX]], %{{.+}} : i64
// CHECK:           arith.cmpi {{.*}} %[[END]]
// CHECK:           llvm.store
#tv = #tile.tv<threads (4,8):(32,1), values (2,2,1):(16,8,128)>
!outs = memref<5x200x64xf32, strided<[?, 64, 1]>>
!own = memref<5x?x64xf32, strided<[?, 64, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: !outs, %ends: memref<5xi32>) {
  tile.launch @kernel grid(%ctas) threads(32) args(%d, %ends) : !outs, memref<5xi32>
  return
}
tile.kernel @kernel(%d: !outs, %ends: memref<5xi32>) {
  %groups = arith.constant 5 : index
  %rows = arith.constant 200 : index
  %columns = arith.constant 64 : index
  tile.work_tiles (%m, %n) of (%rows, %columns) by [16, 8] batch(%batch of %groups)
      groups(%g to %end of %ends : memref<5xi32>) order(<row>) persistent {
    %zero = sm.splat 0.0 : !sm.fragment<16x8xf32, #tv>
    %own = memref.subview %d[0, 0, 0] [5, %end, 64] [1, 1, 1] : !outs to !own
    %w = tile.view %own[%batch, %m, %n] : !own to !tile.view<16x8xf32>
    sm.store_global %zero to %w by "st.global.8" : !sm.fragment<16x8xf32, #tv>, !tile.view<16x8xf32>
  }
  tile.return
}
}
