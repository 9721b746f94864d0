// overlap-promotion: the head of a K step, which waits for a slot and reads it, stands in the step before.
// RUN: lowtide-opt %s -p overlap-promotion | filecheck %s

// CHECK-LABEL: gpu.func @kernel(
// CHECK-SAME:    %[[FULL:.+]]: !llvm.ptr<3>, %[[SCALES:.+]]: !llvm.ptr<3>, %[[A:.+]]: i64, %[[B:.+]]: i64, %[[STEPS:.+]]: i32)

// The head of the first step, if there is one. What the products read of it is handed to them.
// CHECK:         %[[SOME:.+]] = arith.cmpi slt, %c0_i32, %[[STEPS]] : i32
// CHECK-NEXT:    %[[FIRST:.+]]:2 = scf.if %[[SOME]] -> (f32, i64) {
// CHECK-NEXT:      %[[BARRIER:.+]] = llvm.getelementptr %[[FULL]][%c0_i32]
// CHECK-NEXT:      nvvm.mbarrier.try_wait.parity %[[BARRIER]], %c0_i32,
// CHECK-NEXT:      %[[AT:.+]] = llvm.getelementptr %[[SCALES]][%c0_i32]
// CHECK-NEXT:      %[[SCALE:.+]] = llvm.load %[[AT]]
// CHECK:           %[[OWN:.+]] = arith.addi %[[A]],
// CHECK:           scf.yield %[[SCALE]], %[[OWN]] : f32, i64
// CHECK-NEXT:    } else {
// CHECK:           llvm.mlir.undef
// CHECK:         }

// Products of what was handed on; a constant is not.
// CHECK:         scf.for %[[I:.+]] = %c0_i32 to %[[STEPS]] step %c1_i32 iter_args(%[[ACC:.+]] = %cst, %[[SLOT:.+]] = %c0_i32, %[[PHASE:.+]] = %c0_i32, %[[SCALED:.+]] = %[[FIRST]]#0, %[[DESCRIPTOR:.+]] = %[[FIRST]]#1)
// CHECK-NEXT:      %[[ZERO:.+]] = llvm.mlir.zero
// CHECK-NEXT:      nvvm.wgmma.fence.aligned
// CHECK-NEXT:      %[[PRODUCT:.+]] = nvvm.wgmma.mma_async %[[DESCRIPTOR]], %[[B]], %[[ZERO]],
// CHECK-NEXT:      nvvm.wgmma.commit.group.sync.aligned

// The next slot, and the head of the step after this one, if there is one, before the wait for the products.
// CHECK:           %[[LAST:.+]] = arith.cmpi eq,
// CHECK-NEXT:      %[[NEXT:.+]] = arith.select %[[LAST]], %c0_i32,
// CHECK:           %[[NEXT_PHASE:.+]] = arith.select %[[LAST]], %{{.+}}, %[[PHASE]] : i32
// CHECK-NEXT:      %[[I1:.+]] = arith.addi %[[I]], %c1_i32 : i32
// CHECK-NEXT:      %[[MORE:.+]] = arith.cmpi slt, %[[I1]], %[[STEPS]] : i32
// CHECK-NEXT:      %[[HANDED:.+]]:2 = scf.if %[[MORE]] -> (f32, i64) {
// CHECK-NEXT:        %[[NEXT_BARRIER:.+]] = llvm.getelementptr %[[FULL]][%[[NEXT]]]
// CHECK-NEXT:        nvvm.mbarrier.try_wait.parity %[[NEXT_BARRIER]], %[[NEXT_PHASE]],
// CHECK:             llvm.load
// CHECK:           } else {
// CHECK:           }
// CHECK-NEXT:      %[[DONE:.+]] = sm.ptx_wgmma_wait 0, %[[PRODUCT]]
// CHECK:           %[[SUM:.+]] = math.fma %{{.+}}, %[[SCALED]], %[[ACC]] : f32
// CHECK-NEXT:      scf.yield %[[SUM]], %[[NEXT]], %[[NEXT_PHASE]], %[[HANDED]]#0, %[[HANDED]]#1

// The first of a known number of steps needs no branch.
// CHECK-LABEL: gpu.func @known(
// CHECK-NOT:     scf.if
// CHECK:         nvvm.mbarrier.try_wait.parity
// CHECK-NOT:     scf.if
// CHECK:         scf.for

// Other loops stay as they are.
// CHECK-LABEL: gpu.func @per_step(
// CHECK-NOT:     nvvm.mbarrier
// CHECK:         scf.for
// CHECK:           nvvm.mbarrier.try_wait.parity
// CHECK-NOT:       nvvm.mbarrier
module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
gpu.func @kernel(%full: !llvm.ptr<3>, %scales: !llvm.ptr<3>, %a: i64, %b: i64, %steps: i32) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %ticks = arith.constant 10000000 : i32
  %none = arith.constant 0.0 : f32
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %none, %slot = %c0, %phase = %c0) -> (f32, i32, i32) : i32 {
    %barrier = llvm.getelementptr %full[%slot] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
    nvvm.mbarrier.try_wait.parity %barrier, %phase, %ticks : !llvm.ptr<3>, i32, i32
    %at = llvm.getelementptr %scales[%slot] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %scale = llvm.load %at : !llvm.ptr<3> -> f32
    %offset = arith.extui %slot : i32 to i64
    %own = arith.addi %a, %offset : i64
    %zero = llvm.mlir.zero : !llvm.struct<(f32, f32, f32, f32)>
    nvvm.wgmma.fence.aligned
    %product = nvvm.wgmma.mma_async %own, %b, %zero, <m = 64, n = 8, k = 32>, D[<f32>, <zero>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
    nvvm.wgmma.commit.group.sync.aligned
    %done = sm.ptx_wgmma_wait 0, %product : !llvm.struct<(f32, f32, f32, f32)>
    %one = llvm.extractvalue %done[0] : !llvm.struct<(f32, f32, f32, f32)>
    %next_acc = math.fma %one, %scale, %acc : f32
    %after = arith.addi %slot, %c1 : i32
    %last = arith.cmpi eq, %after, %c4 : i32
    %next = arith.select %last, %c0, %after : i32
    %flipped = arith.xori %phase, %c1 : i32
    %next_phase = arith.select %last, %flipped, %phase : i32
    scf.yield %next_acc, %next, %next_phase : f32, i32, i32
  } {sm.timing = #sm.timing<slot = step_before>}
  gpu.return
}

gpu.func @known(%full: !llvm.ptr<3>, %scales: !llvm.ptr<3>, %a: i64, %b: i64, %steps: i32) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %ticks = arith.constant 10000000 : i32
  %none = arith.constant 0.0 : f32
  %sum:3 = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %none, %slot = %c0, %phase = %c0) -> (f32, i32, i32) : i32 {
    %barrier = llvm.getelementptr %full[%slot] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
    nvvm.mbarrier.try_wait.parity %barrier, %phase, %ticks : !llvm.ptr<3>, i32, i32
    %at = llvm.getelementptr %scales[%slot] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %scale = llvm.load %at : !llvm.ptr<3> -> f32
    %offset = arith.extui %slot : i32 to i64
    %own = arith.addi %a, %offset : i64
    %zero = llvm.mlir.zero : !llvm.struct<(f32, f32, f32, f32)>
    nvvm.wgmma.fence.aligned
    %product = nvvm.wgmma.mma_async %own, %b, %zero, <m = 64, n = 8, k = 32>, D[<f32>, <zero>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
    nvvm.wgmma.commit.group.sync.aligned
    %done = sm.ptx_wgmma_wait 0, %product : !llvm.struct<(f32, f32, f32, f32)>
    %one = llvm.extractvalue %done[0] : !llvm.struct<(f32, f32, f32, f32)>
    %next_acc = math.fma %one, %scale, %acc : f32
    %after = arith.addi %slot, %c1 : i32
    %last = arith.cmpi eq, %after, %c4 : i32
    %next = arith.select %last, %c0, %after : i32
    %flipped = arith.xori %phase, %c1 : i32
    %next_phase = arith.select %last, %flipped, %phase : i32
    scf.yield %next_acc, %next, %next_phase : f32, i32, i32
  } {sm.timing = #sm.timing<slot = step_before>}
  gpu.return
}

gpu.func @per_step(%full: !llvm.ptr<3>, %scales: !llvm.ptr<3>, %a: i64, %b: i64, %steps: i32) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %ticks = arith.constant 10000000 : i32
  %none = arith.constant 0.0 : f32
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %none, %slot = %c0, %phase = %c0) -> (f32, i32, i32) : i32 {
    %barrier = llvm.getelementptr %full[%slot] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
    nvvm.mbarrier.try_wait.parity %barrier, %phase, %ticks : !llvm.ptr<3>, i32, i32
    %at = llvm.getelementptr %scales[%slot] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %scale = llvm.load %at : !llvm.ptr<3> -> f32
    %offset = arith.extui %slot : i32 to i64
    %own = arith.addi %a, %offset : i64
    %zero = llvm.mlir.zero : !llvm.struct<(f32, f32, f32, f32)>
    nvvm.wgmma.fence.aligned
    %product = nvvm.wgmma.mma_async %own, %b, %zero, <m = 64, n = 8, k = 32>, D[<f32>, <zero>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
    nvvm.wgmma.commit.group.sync.aligned
    %done = sm.ptx_wgmma_wait 0, %product : !llvm.struct<(f32, f32, f32, f32)>
    %one = llvm.extractvalue %done[0] : !llvm.struct<(f32, f32, f32, f32)>
    %next_acc = math.fma %one, %scale, %acc : f32
    %after = arith.addi %slot, %c1 : i32
    %last = arith.cmpi eq, %after, %c4 : i32
    %next = arith.select %last, %c0, %after : i32
    %flipped = arith.xori %phase, %c1 : i32
    %next_phase = arith.select %last, %flipped, %phase : i32
    scf.yield %next_acc, %next, %next_phase : f32, i32, i32
  }
  gpu.return
}
}
}
