// convert-sm-to-nvvm: a role that asks for no registers keeps those it has; a barrier in a role is one of its own threads;
// what loops and work tiles carry.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// The chain of branches names its roles.
// CHECK-LABEL: gpu.func @kernel(
// CHECK-NOT:     nvvm.maxnreg
// CHECK:       %[[TID:.+]] = nvvm.read.ptx.sreg.tid.x
// CHECK:       nvvm.barrier0
// CHECK:       scf.if
// CHECK-NOT:     nvvm.setmaxregister
// CHECK:       } else {
// CHECK-NOT:     nvvm.setmaxregister

// A role's loop is left to ptxas to unroll; work tiles hand their cursor from tile to tile, and on.
// CHECK:         %[[TILES:.+]] = scf.for %{{.+}} = %{{.+}} to %{{.+}} step %{{.+}} iter_args(%[[CURSOR:.+]] = %c7_i32{{.*}}) -> (i32)
// CHECK:           %[[NEXT:.+]] = scf.for %{{.+}} = %c0_i32{{.*}} to %c3_i32{{.*}} step %c1_i32{{.*}} iter_args(%[[AT:.+]] = %[[CURSOR]]) -> (i32)
// CHECK:             %[[STEP:.+]] = arith.addi %[[AT]], %c1_i32
// CHECK:             scf.yield %[[STEP]] : i32
// CHECK-NEXT:      }
// CHECK-NOT:       llvm.loop_annotation
// CHECK:           scf.yield %[[NEXT]] : i32
// CHECK:         arith.muli %[[TILES]], %[[TILES]]

// Barrier 0 is the whole CTA's; that of the consumers counts their 128 threads.
// CHECK:         nvvm.barrier id = %c2_i32{{.*}} number_of_threads = %c128_i32{{.*}}
// CHECK-NOT:     nvvm.barrier0
// CHECK:       } {roles = ["producer", "consumer"]}
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(0) args()
  tile.launch @single grid(%ctas) threads(32) shared_memory(0) args()
  tile.launch @instances grid(%ctas) threads(384) shared_memory(16384) args()
  return
}
tile.kernel @kernel() {
  sm.barrier
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %c7 = arith.constant 7 : index
      %last = tile.work_tiles (%m, %n) of (%c3, %c3) by [1, 1] order(<row>) persistent iter_args(%cursor = %c7) -> (index) {
        %next = scf.for %i = %c0 to %c3 step %c1 iter_args(%at = %cursor) -> (index) {
          %step = arith.addi %at, %c1 : index
          scf.yield %step : index
        }
        tile.yield %next : index
      }
      %use = arith.muli %last, %last : index
      sm.barrier
    }
  }
  tile.return
}

// Where the same threads copy and multiply, a loop stays rolled. A one-shot CTA's only tile takes the cursor and gives it.
// The kernel of a programmatic launch waits for the kernels before it.
// CHECK-LABEL: gpu.func @single(
// CHECK:       nvvm.griddepcontrol launch_dependents
// CHECK-NEXT:  nvvm.griddepcontrol wait
// CHECK:       %[[NEXT:.+]] = scf.for %{{.+}} = %c0_i32{{.*}} to %c3_i32{{.*}} step %c1_i32{{.*}} iter_args(%[[AT:.+]] = %c7_i32
// CHECK:         %[[STEP:.+]] = arith.addi %[[AT]], %c1_i32
// CHECK:         scf.yield %[[STEP]] : i32
// CHECK-NEXT:  } {llvm.loop_annotation = #{{.+}}}
// CHECK:       arith.muli %[[NEXT]], %[[NEXT]]
tile.kernel @single() {
  tile.launch_dependents
  tile.grid_dependency_wait
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c7 = arith.constant 7 : index
  %last = tile.work_tiles (%m, %n) of (%c3, %c3) by [3, 3] order(<row>) one_shot iter_args(%cursor = %c7) -> (index) {
    %next = scf.for %i = %c0 to %c3 step %c1 iter_args(%at = %cursor) -> (index) {
      %step = arith.addi %at, %c1 : index
      scf.yield %step : index
    }
    tile.yield %next : index
  }
  %use = arith.muli %last, %last : index
  tile.return
}

// Two instances of a role are one program: its threads, barriers, buffers and tiles follow from the instance's number.
// CHECK-LABEL: gpu.func @instances(
// CHECK:       %[[TID:.+]] = nvvm.read.ptx.sreg.tid.x
// CHECK:       } else {
// CHECK:         nvvm.setmaxregister increase 232
// CHECK:         %[[ROLE:.+]] = arith.subi %[[TID]], %c128_i32
// CHECK:         %[[INSTANCE:.+]] = arith.shrui %[[ROLE]], %c7_i32
// CHECK:         %[[OWN:.+]] = arith.andi %[[ROLE]], %c127_i32

// Buffers of 1536 bytes lie 2048 apart.
// CHECK:         %[[AT:.+]] = arith.shli %[[INSTANCE]], %c11_i32
// CHECK:         llvm.getelementptr %{{.+}}[%[[AT]]] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8

// Barriers 2 and 3 are those of the instances, of 128 threads each.
// CHECK:         %[[BARRIER:.+]] = arith.addi %[[INSTANCE]], %c2_i32
// CHECK:         nvvm.barrier id = %[[BARRIER]] number_of_threads = %c128_i32

// The cursor is advanced by a number of slots: quotient and remainder of the ring's three.
// CHECK:         %[[SUM:.+]] = arith.addi %[[INSTANCE]], %c1_i32
// CHECK:         %[[ROUNDS:.+]] = arith.divui %[[SUM]], %c3_i32
// CHECK:         %[[PASSED:.+]] = arith.muli %[[ROUNDS]], %c3_i32
// CHECK:         %[[SLOT:.+]] = arith.subi %[[SUM]], %[[PASSED]]
// CHECK:         %[[PHASES:.+]] = arith.addi %[[ROUNDS]], %c1_i32
// CHECK:         %[[PHASE:.+]] = arith.andi %[[PHASES]], %c1_i32

// Of the CTA's tiles every second one, from its own on.
// CHECK:         %[[CTA:.+]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK:         %[[CTAS:.+]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK:         %[[SKIPPED:.+]] = arith.muli %[[INSTANCE]], %[[CTAS]]
// CHECK:         %[[FIRST:.+]] = arith.addi %[[CTA]], %[[SKIPPED]]
// CHECK:         %[[STEP:.+]] = arith.shli %[[CTAS]], %c1_i32
// CHECK:         scf.for %{{.+}} = %[[FIRST]] to %{{.+}} step %[[STEP]]
tile.kernel @instances() {
  %ring = sm.ring at [4096] : !sm.ring<3 x [memref<32x24xbf16, #tile.layout<(32,24):(24,1)>, #gpu.address_space<workgroup>>]>
  sm.roles {
    producer warps(4) registers(40) {
    }
    consumer warps(4) instances(2) registers(232) {
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %scratch = sm.alloc at 0 : memref<32x24xbf16, #tile.layout<(32,24):(24,1)>, #gpu.address_space<workgroup>>
      sm.barrier
      %instance = sm.role_instance : index
      %slot, %phase = sm.ring_advance %ring[%c1, %c1] by %instance : !sm.ring<3 x [memref<32x24xbf16, #tile.layout<(32,24):(24,1)>, #gpu.address_space<workgroup>>]>
      %last:2 = tile.work_tiles (%m, %n) of (%c3, %c3) by [1, 1] order(<row>) persistent in_turn iter_args(%s = %slot, %p = %phase) -> (index, index) {
        tile.yield %p, %s : index, index
      }
    }
  }
  tile.return
}
}
