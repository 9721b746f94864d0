// convert-sm-to-nvvm: partial results are reduced among lanes, each of which keeps half of its lines in a step.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>
!values = !sm.fragment<64x16xf32, #tv>
!held = !sm.fragment<128x4xf32, #tile.tv<threads 128:1, values 4:128>>
!partials = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %p: !partials) {
  tile.launch @kernel grid(%ctas) threads(128) shared_memory(4096) args(%p) : !partials
  return
}

// A thread has four columns: 0, 1, 8 and 9 from its first one on. Eight lanes have the same ones. In the first step a
// lane keeps the first two or the last two, in the second step one of them. The last step is among lanes with the same.
// CHECK-LABEL: gpu.func @kernel(
// CHECK:       %[[BIT:.+]] = arith.andi %[[TID:.+]], %c4_i32
// CHECK-NEXT:  %[[SECOND:.+]] = arith.cmpi ne, %[[BIT]], %c0_i32
// CHECK-NEXT:  %[[KEPT:.+]] = arith.select %[[SECOND]], %[[C8:.+]], %[[C0:.+]] : f32
// CHECK-NEXT:  %[[GIVEN:.+]] = arith.select %[[SECOND]], %[[C0]], %[[C8]] : f32
// CHECK:       %[[GOT:.+]] = nvvm.shfl.sync bfly %{{.+}}, %[[GIVEN]], %c4_i32
// CHECK-NEXT:  arith.addf %[[KEPT]], %[[GOT]]
// CHECK-COUNT-3: nvvm.shfl.sync bfly
// CHECK-NOT:   nvvm.shfl.sync
// CHECK:       arith.andi %[[TID]], %c16_i32
// CHECK:       llvm.store %{{.+}}, %{{.+}} {alignment = 4 : i64} : f32
// CHECK-NOT:   llvm.store
tile.kernel @kernel(%p: !partials) {
  %c0 = arith.constant 0 : index
  %scratch = sm.alloc at 0 : memref<64x16xf32, #tile.layout<(64,16):(16,1)>, #gpu.address_space<workgroup>>
  %x = sm.load_shared %scratch by "ld.shared.8" : memref<64x16xf32, #tile.layout<(64,16):(16,1)>, #gpu.address_space<workgroup>> to !values
  %w = tile.view %p[%c0, %c0] : !partials to !tile.view<64x16xf32>
  %r = sm.reduce column_sum %x in %w : !values, !tile.view<64x16xf32>, !held
  sm.store_reduced column_sum %r of !values into %p[%c0, %c0] : !held, !partials
  tile.return
}
}
