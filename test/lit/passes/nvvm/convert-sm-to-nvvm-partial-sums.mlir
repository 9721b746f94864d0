// convert-sm-to-nvvm writes partial sums as vectors of 16 bytes, neighbouring threads side by side, and lets one thread
// signal and wait for the others of its CTA. Slots are added in a loop, which is unrolled only if a thread can hold the
// registers of several.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK: #[[DISABLE:.+]] = #llvm.loop_unroll<disable = true>
// CHECK: #[[ROLLED:.+]] = #llvm.loop_annotation<unroll = #[[DISABLE]]>

#tv = #tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>
#wide_tv = #tile.tv<threads (4,8):(32,1), values (2,2,8):(16,8,128)>
!c = !sm.fragment<16x8xf32, #tv>
!wide = !sm.fragment<16x64xf32, #wide_tv>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {
func.func @host(%w: memref<?xf32>, %s: memref<?xi32>, %n: index) {
  tile.launch @k grid(%n) threads(32) shared_memory(0) args(%w, %s) : memref<?xf32>, memref<?xi32>
  tile.launch @wide grid(%n) threads(32) shared_memory(0) args(%w, %s) : memref<?xf32>, memref<?xi32>
  return
}
// CHECK-LABEL: gpu.func @k(
// CHECK-SAME:    %[[W:[^:]+]]: !llvm.ptr<1>, %{{[^:]+}}: i32, %[[S:[^:]+]]: !llvm.ptr<1>, %{{[^:]+}}: i32)
tile.kernel @k(%w: memref<?xf32>, %s: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %count = memref.dim %s, %c0 : memref<?xi32>
  %first = arith.cmpi eq, %count, %c1 : index
  %acc = sm.splat 0.0 : !c
  // CHECK: scf.if
  scf.if %first {
    // Register 0 of thread t lies 16·t bytes into the slot.
    // CHECK: %[[TID:.+]] = arith.shli %{{.+}}, %c4_i32
    // CHECK: %[[AT:.+]] = llvm.getelementptr %{{.+}}[%[[TID]]] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
    // CHECK: llvm.store %{{.+}}, %[[AT]] {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    tile.store_partial %acc into %w[%c1] : !c, memref<?xf32>
    // CHECK: nvvm.barrier0
    // CHECK: scf.if
    // CHECK:   sm.ptx_semaphore_arrive
    tile.semaphore_arrive %s[%c0] : memref<?xi32>
  } else {
    // CHECK: scf.if
    // CHECK:   sm.ptx_semaphore_wait %[[SEM:.+]] until
    // CHECK:   llvm.store %c0_i32, %[[SEM]] {alignment = 4 : i64} : i32
    // CHECK: nvvm.barrier0
    tile.semaphore_wait %s[%c0] until %c1 reset : memref<?xi32>
    // CHECK: %[[LAST:.+]] = arith.subi %{{.+}}, %c1_i32
    // CHECK: sm.ptx_semaphore_leave %{{.+}} limit %[[LAST]] : !llvm.ptr<1>
    tile.semaphore_leave %s[%c0] of %count : memref<?xi32>
    // CHECK: scf.for
    // CHECK:   %[[X:.+]] = llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    // CHECK:   arith.addf %{{.+}}, %[[X]] : vector<4xf32>
    // CHECK-NOT: llvm.loop_annotation
    %sum = tile.add_partials %acc, %w[%c1] count %count : !c, memref<?xf32>
  }
  tile.return
}
// 32 registers of sums, and as many for each slot.
// CHECK-LABEL: gpu.func @wide(
// CHECK:       scf.for
// CHECK:       } {llvm.loop_annotation = #[[ROLLED]]}
tile.kernel @wide(%w: memref<?xf32>, %s: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %count = memref.dim %s, %c0 : memref<?xi32>
  %acc = sm.splat 0.0 : !wide
  %sum = tile.add_partials %acc, %w[%c1] count %count : !wide, memref<?xf32>
  tile.return
}
}
