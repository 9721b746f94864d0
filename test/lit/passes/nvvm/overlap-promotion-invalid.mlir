// overlap-promotion refuses loops without a head, and slots that do not follow by arithmetic.
// RUN: lowtide-opt %s -p overlap-promotion --split-input-file --verify-diagnostics

module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
gpu.func @kernel(%full: !llvm.ptr<3>, %scales: !llvm.ptr<3>, %a: i64, %b: i64, %steps: i32) kernel {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %ticks = arith.constant 10000000 : i32
  %none = arith.constant 0.0 : f32
  // expected-error @below {{overlap-promotion: multiplies before it waits for a slot; take promote = per_step [promotion-waits]}}
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %none, %slot = %c0, %phase = %c0) -> (f32, i32, i32) : i32 {
    %barrier = llvm.getelementptr %full[%slot] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
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
}
}
// -----
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
    // expected-error @below {{overlap-promotion: gives the next slot, but is no arithmetic on the slot of this step; take promote = per_step [promotion-next-slot]}}
    %next = llvm.load %scales : !llvm.ptr<3> -> i32
    %flipped = arith.xori %phase, %c1 : i32
    %next_phase = arith.select %last, %flipped, %phase : i32
    scf.yield %next_acc, %next, %next_phase : f32, i32, i32
  } {sm.timing = #sm.timing<slot = step_before>}
  gpu.return
}
}
}
