// peel-first-loads writes out the loads of the first K steps of a CTA's first tile, without a loop and without waits.
// RUN: lowtide-opt %s -p peel-first-loads,canonicalize,cse | filecheck %s

// CHECK: #[[UNROLL:.*]] = #llvm.loop_unroll<disable = true>
// CHECK: #loop_annotation = #llvm.loop_annotation<unroll = #[[UNROLL]]>

#schedule = #tile.schedule<grid = <tile = [128, 256], scheduler = persistent>, mainloop = <k = 64, stages = 3, roles = cooperative(2)>>
#pairs = #tile.schedule<grid = <tile = [128, 256], cluster = [2, 1], scheduler = persistent>, mainloop = <k = 64, stages = 3, roles = cooperative(2)>>
#low = #tile.schedule<grid = <tile = [192, 192], scheduler = persistent>, mainloop = <k = 64, stages = 3, agents = <producer = <warps = 4, registers = 32>, consumer = <warps = 12, instances = 1>>>>
module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
// A ring of three slots: two K steps are written out, each under the condition that K has it. Other tiles keep the
// loop.
// CHECK-LABEL: gpu.func @run_time_steps
// CHECK-SAME:    (%{{.*}}: i32, %[[STEPS:.*]]: i32)
// CHECK-DAG:     %[[FULL:.*]] = llvm.mlir.zero : !llvm.ptr<3>
// CHECK-DAG:     %[[CTA:.*]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK:         scf.for %[[TILE:.*]] = %[[CTA]] to %{{.*}} step %{{.*}} iter_args(%[[SLOT:.*]] = %c0_i32, %[[PHASE:.*]] = %c0_i32)
// CHECK:           %[[FIRST:.*]] = arith.cmpi eq, %[[TILE]], %[[CTA]]
// CHECK:           scf.if %[[FIRST]] -> (i32, i32) {
// CHECK:             %[[FEW:.*]] = arith.minsi %[[STEPS]], %c2_i32
// CHECK:             %[[N:.*]] = arith.maxsi %[[FEW]], %c0_i32
// CHECK:             %[[ONE:.*]] = arith.cmpi sgt, %[[N]], %c0_i32
// CHECK-NEXT:        scf.if %[[ONE]] {
// CHECK-NEXT:          nvvm.mbarrier.arrive.expect_tx %[[FULL]],
// CHECK-NEXT:          nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}} box[%c0_i32, %[[TILE]]]
// CHECK-NEXT:          %[[TWO:.*]] = arith.cmpi sgt, %[[N]], %c1_i32
// CHECK-NEXT:          scf.if %[[TWO]] {
// CHECK-NEXT:            %[[SECOND:.*]] = llvm.getelementptr %[[FULL]][8]
// CHECK-NEXT:            nvvm.mbarrier.arrive.expect_tx %[[SECOND]],
// CHECK-NEXT:            nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}} box[%c1_i32, %[[TILE]]]
// CHECK-NEXT:          }
// CHECK-NEXT:        }
// CHECK-NEXT:        scf.for %{{.*}} = %[[N]] to %[[STEPS]] step %c1_i32 iter_args(%{{.*}} = %[[N]], %{{.*}} = %[[PHASE]])
// CHECK:               nvvm.mbarrier.try_wait.parity
// CHECK:           } else {
// CHECK-NEXT:        scf.for %{{.*}} = %c0_i32 to %[[STEPS]] step %c1_i32 iter_args(%{{.*}} = %[[SLOT]], %{{.*}} = %[[PHASE]])
// CHECK:               nvvm.mbarrier.try_wait.parity
// CHECK-NOT:       scf.for
gpu.func @run_time_steps(%tiles: i32, %steps: i32) kernel attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %ticks = arith.constant 1000 : i32
  %full = llvm.mlir.zero : !llvm.ptr<3>
  %empty = llvm.getelementptr %full[24] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %map = llvm.mlir.zero : !llvm.ptr
  %to = llvm.mlir.zero : !llvm.ptr<7>
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
  %0:2 = scf.for %tile = %cta to %tiles step %ctas iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
    %1:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%slot = %s, %phase = %p) -> (i32, i32) : i32 {
      %parity = arith.xori %phase, %c1 : i32
      %offset = arith.shli %slot, %c3 : i32
      %own_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.try_wait.parity %own_empty, %parity, %ticks : !llvm.ptr<3>, i32, i32
      %own_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.arrive.expect_tx %own_full, %ticks : !llvm.ptr<3>, i32
      nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %own_full, box[%k, %tile] : !llvm.ptr<7>, !llvm.ptr
      %next = arith.addi %slot, %c1 : i32
      %is_last = arith.cmpi eq, %next, %c3 : i32
      %next_slot = arith.select %is_last, %c0, %next : i32
      %next_phase = arith.select %is_last, %parity, %phase : i32
      scf.yield %next_slot, %next_phase : i32, i32
    }
    scf.yield %1#0, %1#1 : i32, i32
  }
  gpu.return
}
// Steps that are known to exist have no condition. LLVM may not unroll the loop over the three others.
// CHECK-LABEL: gpu.func @known_steps
// CHECK:           scf.if %{{.*}} -> (i32, i32) {
// CHECK-NEXT:        nvvm.mbarrier.arrive.expect_tx
// CHECK-NEXT:        nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}} box[%c0_i32,
// CHECK-NEXT:        llvm.getelementptr
// CHECK-NEXT:        nvvm.mbarrier.arrive.expect_tx
// CHECK-NEXT:        nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}} box[%c1_i32,
// CHECK-NEXT:        scf.for %{{.*}} = %c2_i32 to %c5_i32 step %c1_i32 iter_args(%{{.*}} = %c2_i32,
// CHECK:             } {llvm.loop_annotation = #loop_annotation}
// CHECK:           } else {
// CHECK-NOT:         loop_annotation
// CHECK:             scf.yield
gpu.func @known_steps(%tiles: i32, %steps: i32) kernel attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %ticks = arith.constant 1000 : i32
  %full = llvm.mlir.zero : !llvm.ptr<3>
  %empty = llvm.getelementptr %full[24] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %map = llvm.mlir.zero : !llvm.ptr
  %to = llvm.mlir.zero : !llvm.ptr<7>
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
  %0:2 = scf.for %tile = %cta to %tiles step %ctas iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
    %1:2 = scf.for %k = %c0 to %c5 step %c1 iter_args(%slot = %s, %phase = %p) -> (i32, i32) : i32 {
      %parity = arith.xori %phase, %c1 : i32
      %offset = arith.shli %slot, %c3 : i32
      %own_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.try_wait.parity %own_empty, %parity, %ticks : !llvm.ptr<3>, i32, i32
      %own_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.arrive.expect_tx %own_full, %ticks : !llvm.ptr<3>, i32
      nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %own_full, box[%k, %tile] : !llvm.ptr<7>, !llvm.ptr
      %next = arith.addi %slot, %c1 : i32
      %is_last = arith.cmpi eq, %next, %c3 : i32
      %next_slot = arith.select %is_last, %c0, %next : i32
      %next_phase = arith.select %is_last, %parity, %phase : i32
      scf.yield %next_slot, %next_phase : i32, i32
    }
    scf.yield %1#0, %1#1 : i32, i32
  }
  gpu.return
}
// It may unroll a loop over 17 others, which it does not do completely.
// CHECK-LABEL: gpu.func @many_steps
// CHECK-NOT:       loop_annotation
// CHECK:           scf.for %{{.*}} = %c2_i32 to %c19_i32
// CHECK-NOT:       loop_annotation
// CHECK:           } else {
gpu.func @many_steps(%tiles: i32, %steps: i32) kernel attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c19 = arith.constant 19 : i32
  %ticks = arith.constant 1000 : i32
  %full = llvm.mlir.zero : !llvm.ptr<3>
  %empty = llvm.getelementptr %full[24] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %map = llvm.mlir.zero : !llvm.ptr
  %to = llvm.mlir.zero : !llvm.ptr<7>
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
  %0:2 = scf.for %tile = %cta to %tiles step %ctas iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
    %1:2 = scf.for %k = %c0 to %c19 step %c1 iter_args(%slot = %s, %phase = %p) -> (i32, i32) : i32 {
      %parity = arith.xori %phase, %c1 : i32
      %offset = arith.shli %slot, %c3 : i32
      %own_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.try_wait.parity %own_empty, %parity, %ticks : !llvm.ptr<3>, i32, i32
      %own_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.arrive.expect_tx %own_full, %ticks : !llvm.ptr<3>, i32
      nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %own_full, box[%k, %tile] : !llvm.ptr<7>, !llvm.ptr
      %next = arith.addi %slot, %c1 : i32
      %is_last = arith.cmpi eq, %next, %c3 : i32
      %next_slot = arith.select %is_last, %c0, %next : i32
      %next_phase = arith.select %is_last, %parity, %phase : i32
      scf.yield %next_slot, %next_phase : i32, i32
    }
    scf.yield %1#0, %1#1 : i32, i32
  }
  gpu.return
}
// A CTA of one tile has no loop over tiles, so only the loop over K is left.
// CHECK-LABEL: gpu.func @one_tile
// CHECK-COUNT-2: nvvm.mbarrier.arrive.expect_tx
// CHECK:         scf.for %{{.*}} = %c2_i32 to %c5_i32
// CHECK-NOT:     scf.for
gpu.func @one_tile(%tiles: i32, %steps: i32) kernel attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %ticks = arith.constant 1000 : i32
  %full = llvm.mlir.zero : !llvm.ptr<3>
  %empty = llvm.getelementptr %full[24] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %map = llvm.mlir.zero : !llvm.ptr
  %to = llvm.mlir.zero : !llvm.ptr<7>
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
  %1:2 = scf.for %k = %c0 to %c5 step %c1 iter_args(%slot = %c0, %phase = %c0) -> (i32, i32) : i32 {
    %parity = arith.xori %phase, %c1 : i32
    %offset = arith.shli %slot, %c3 : i32
    %own_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
    nvvm.mbarrier.try_wait.parity %own_empty, %parity, %ticks : !llvm.ptr<3>, i32, i32
    %own_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
    nvvm.mbarrier.arrive.expect_tx %own_full, %ticks : !llvm.ptr<3>, i32
    nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %own_full, box[%k, %cta] : !llvm.ptr<7>, !llvm.ptr
    %next = arith.addi %slot, %c1 : i32
    %is_last = arith.cmpi eq, %next, %c3 : i32
    %next_slot = arith.select %is_last, %c0, %next : i32
    %next_phase = arith.select %is_last, %parity, %phase : i32
    scf.yield %next_slot, %next_phase : i32, i32
  }
  gpu.return
}
// In clusters the loop stays as it is.
// CHECK-LABEL: gpu.func @clusters
// CHECK:         scf.for
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      arith.xori
// CHECK-COUNT-1:   nvvm.mbarrier.arrive.expect_tx
// CHECK-NOT:       nvvm.mbarrier.arrive.expect_tx
gpu.func @clusters(%tiles: i32, %steps: i32) kernel attributes {schedule = #pairs} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %ticks = arith.constant 1000 : i32
  %full = llvm.mlir.zero : !llvm.ptr<3>
  %empty = llvm.getelementptr %full[24] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %map = llvm.mlir.zero : !llvm.ptr
  %to = llvm.mlir.zero : !llvm.ptr<7>
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
  %0:2 = scf.for %tile = %cta to %tiles step %ctas iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
    %1:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%slot = %s, %phase = %p) -> (i32, i32) : i32 {
      %parity = arith.xori %phase, %c1 : i32
      %offset = arith.shli %slot, %c3 : i32
      %own_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.try_wait.parity %own_empty, %parity, %ticks : !llvm.ptr<3>, i32, i32
      %own_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.arrive.expect_tx %own_full, %ticks : !llvm.ptr<3>, i32
      nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %own_full, box[%k, %tile] : !llvm.ptr<7>, !llvm.ptr
      %next = arith.addi %slot, %c1 : i32
      %is_last = arith.cmpi eq, %next, %c3 : i32
      %next_slot = arith.select %is_last, %c0, %next : i32
      %next_phase = arith.select %is_last, %parity, %phase : i32
      scf.yield %next_slot, %next_phase : i32, i32
    }
    scf.yield %1#0, %1#1 : i32, i32
  }
  gpu.return
}
// With a producer of few registers it does, too.
// CHECK-LABEL: gpu.func @few_registers
// CHECK:         scf.for
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      arith.xori
// CHECK-COUNT-1:   nvvm.mbarrier.arrive.expect_tx
// CHECK-NOT:       nvvm.mbarrier.arrive.expect_tx
gpu.func @few_registers(%tiles: i32, %steps: i32) kernel attributes {schedule = #low} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %ticks = arith.constant 1000 : i32
  %full = llvm.mlir.zero : !llvm.ptr<3>
  %empty = llvm.getelementptr %full[24] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %map = llvm.mlir.zero : !llvm.ptr
  %to = llvm.mlir.zero : !llvm.ptr<7>
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
  %0:2 = scf.for %tile = %cta to %tiles step %ctas iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
    %1:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%slot = %s, %phase = %p) -> (i32, i32) : i32 {
      %parity = arith.xori %phase, %c1 : i32
      %offset = arith.shli %slot, %c3 : i32
      %own_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.try_wait.parity %own_empty, %parity, %ticks : !llvm.ptr<3>, i32, i32
      %own_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.arrive.expect_tx %own_full, %ticks : !llvm.ptr<3>, i32
      nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %own_full, box[%k, %tile] : !llvm.ptr<7>, !llvm.ptr
      %next = arith.addi %slot, %c1 : i32
      %is_last = arith.cmpi eq, %next, %c3 : i32
      %next_slot = arith.select %is_last, %c0, %next : i32
      %next_phase = arith.select %is_last, %parity, %phase : i32
      scf.yield %next_slot, %next_phase : i32, i32
    }
    scf.yield %1#0, %1#1 : i32, i32
  }
  gpu.return
}
// A loop that begins with another slot than 0 stays, too: its slots may be full.
// CHECK-LABEL: gpu.func @another_slot
// CHECK:         scf.for
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      arith.xori
// CHECK-COUNT-1:   nvvm.mbarrier.arrive.expect_tx
// CHECK-NOT:       nvvm.mbarrier.arrive.expect_tx
gpu.func @another_slot(%tiles: i32, %steps: i32) kernel attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %ticks = arith.constant 1000 : i32
  %full = llvm.mlir.zero : !llvm.ptr<3>
  %empty = llvm.getelementptr %full[24] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %map = llvm.mlir.zero : !llvm.ptr
  %to = llvm.mlir.zero : !llvm.ptr<7>
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
  %0:2 = scf.for %tile = %cta to %tiles step %ctas iter_args(%s = %c1, %p = %c0) -> (i32, i32) : i32 {
    %1:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%slot = %s, %phase = %p) -> (i32, i32) : i32 {
      %parity = arith.xori %phase, %c1 : i32
      %offset = arith.shli %slot, %c3 : i32
      %own_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.try_wait.parity %own_empty, %parity, %ticks : !llvm.ptr<3>, i32, i32
      %own_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      nvvm.mbarrier.arrive.expect_tx %own_full, %ticks : !llvm.ptr<3>, i32
      nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %own_full, box[%k, %tile] : !llvm.ptr<7>, !llvm.ptr
      %next = arith.addi %slot, %c1 : i32
      %is_last = arith.cmpi eq, %next, %c3 : i32
      %next_slot = arith.select %is_last, %c0, %next : i32
      %next_phase = arith.select %is_last, %parity, %phase : i32
      scf.yield %next_slot, %next_phase : i32, i32
    }
    scf.yield %1#0, %1#1 : i32, i32
  }
  gpu.return
}
// A loop over tiles within another loop stays, too: when it starts again, its slots may be full.
// CHECK-LABEL: gpu.func @rounds
// CHECK:         scf.for
// CHECK-NEXT:    scf.for
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      arith.xori
// CHECK-COUNT-1:   nvvm.mbarrier.arrive.expect_tx
// CHECK-NOT:       nvvm.mbarrier.arrive.expect_tx
gpu.func @rounds(%tiles: i32, %steps: i32) kernel attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %ticks = arith.constant 1000 : i32
  %full = llvm.mlir.zero : !llvm.ptr<3>
  %empty = llvm.getelementptr %full[24] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %map = llvm.mlir.zero : !llvm.ptr
  %to = llvm.mlir.zero : !llvm.ptr<7>
  %cta = nvvm.read.ptx.sreg.ctaid.x : i32
  %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
  scf.for %round = %c0 to %steps step %c1 : i32 {
    %0:2 = scf.for %tile = %cta to %tiles step %ctas iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      %1:2 = scf.for %k = %c0 to %steps step %c1 iter_args(%slot = %s, %phase = %p) -> (i32, i32) : i32 {
        %parity = arith.xori %phase, %c1 : i32
        %offset = arith.shli %slot, %c3 : i32
        %own_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
        nvvm.mbarrier.try_wait.parity %own_empty, %parity, %ticks : !llvm.ptr<3>, i32, i32
        %own_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
        nvvm.mbarrier.arrive.expect_tx %own_full, %ticks : !llvm.ptr<3>, i32
        nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %own_full, box[%k, %tile] : !llvm.ptr<7>, !llvm.ptr
        %next = arith.addi %slot, %c1 : i32
        %is_last = arith.cmpi eq, %next, %c3 : i32
        %next_slot = arith.select %is_last, %c0, %next : i32
        %next_phase = arith.select %is_last, %parity, %phase : i32
        scf.yield %next_slot, %next_phase : i32, i32
      }
      scf.yield %1#0, %1#1 : i32, i32
    }
  }
  gpu.return
}
}
}
