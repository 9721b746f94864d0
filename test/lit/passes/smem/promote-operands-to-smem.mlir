// promote-operands-to-smem gives each operand of tile.mma a buffer in shared memory, filled in every K step.
// RUN: lowtide-opt %s -p promote-operands-to-smem | filecheck %s

// CHECK-DAG:   #[[LA:.+]] = #tile.layout<(32,16):(16,1)>
// CHECK-DAG:   #[[LB:.+]] = #tile.layout<(64,16):(16,1)>
// CHECK-LABEL: module attributes {tile.level = "smem", tile.target = "sm_80"}
// CHECK-LABEL: tile.kernel @one_k_step

// The buffers are made once, at the kernel's start, row-major, each of its window's shape.
// CHECK:       %[[BS:.+]] = sm.alloc : memref<64x16xbf16, #[[LB]], #gpu.address_space<workgroup>>
// CHECK:       %[[AS:.+]] = sm.alloc : memref<32x16xbf16, #[[LA]], #gpu.address_space<workgroup>>

// All threads fill them before any reads; all have read before they are filled again.
// CHECK:       scf.for {{.*}} iter_args(%[[ACC:.+]] = %{{.+}})
// CHECK:         %[[AT:.+]] = tile.view
// CHECK:         %[[BT:.+]] = tile.view
// CHECK:         sm.copy %[[AT]] to %[[AS]]
// CHECK-NEXT:    sm.copy %[[BT]] to %[[BS]]
// CHECK-NEXT:    sm.barrier
// CHECK:         %[[NEXT:.+]] = tile.mma tn %[[AS]], %[[BS]], %[[ACC]]
// CHECK:         sm.barrier
// CHECK-NEXT:    scf.yield %[[NEXT]]
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_80"} {
tile.kernel @one_k_step(%a: !mat, %b: !mat, %k: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile.tile<32x64xf32>
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> !tile.tile<32x64xf32> {
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x16xbf16>
    %bt = tile.view %b[%c0, %i] : !mat to !tile.view<64x16xbf16>
    %next = tile.mma tn %at, %bt, %c : !tile.view<32x16xbf16>, !tile.view<64x16xbf16>, !tile.tile<32x64xf32>
    scf.yield %next : !tile.tile<32x64xf32>
  }
  tile.return
}

// Operands stay as they lie in global memory: in `nt` a stage has K as its rows.
// CHECK-LABEL: tile.kernel @other_layout
// CHECK-DAG:   sm.alloc : memref<16x32xbf16,
// CHECK-DAG:   sm.alloc : memref<16x64xbf16,
tile.kernel @other_layout(%a: !mat, %b: !mat) {
  %c0 = arith.constant 0 : index
  %zero = tile.splat 0.0 : !tile.tile<32x64xf32>
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<16x32xbf16>
  %bt = tile.view %b[%c0, %c0] : !mat to !tile.view<16x64xbf16>
  %acc = tile.mma nt %at, %bt, %zero : !tile.view<16x32xbf16>, !tile.view<16x64xbf16>, !tile.tile<32x64xf32>
  tile.return
}
}
