// copy-stored-sums, in kernels that multiply by FMAs, copies sums that a loop returns before they are stored to global
// memory. It copies nothing else.
// RUN: lowtide-opt %s -p copy-stored-sums | filecheck %s

#fmas = #tile.schedule<grid = <tile = [64, 64]>, mainloop = <k = 8, stages = 2>, multiply = <atom = fma.m1n1k1>>
#others = #tile.schedule<grid = <tile = [64, 64]>, mainloop = <k = 8, stages = 2>>

module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @fmas
  // CHECK:         %[[SUMS:.*]]:2 = scf.for
  // CHECK:         %[[X:.*]] = vector.extract %[[SUMS]]#0[0]
  // CHECK-NEXT:    %[[COPY_X:.*]] = llvm.inline_asm "add.rn.f32 $0, $1, 0f80000000;", "=f,f" %[[X]] : (f32) -> f32
  // CHECK-NEXT:    %[[Y:.*]] = vector.extract %[[SUMS]]#0[1]
  // CHECK-NEXT:    %[[COPY_Y:.*]] = llvm.inline_asm "add.rn.f32 $0, $1, 0f80000000;", "=f,f" %[[Y]] : (f32) -> f32
  // CHECK-NEXT:    %[[COPIES:.*]] = vector.from_elements %[[COPY_X]], %[[COPY_Y]] : vector<2xf32>
  // CHECK-NEXT:    llvm.store %[[COPIES]], %{{.*}} : vector<2xf32>, !llvm.ptr<1>
  // Elements of several vectors:
  // CHECK:         %[[COLUMN:.*]] = vector.from_elements
  // CHECK-COUNT-2: llvm.inline_asm "add.rn.f32
  // CHECK-NOT:     llvm.store %[[COLUMN]]
  // No copies for stores to shared memory, nor of values that are computed from sums:
  // CHECK:         llvm.store %[[SUMS]]#1, %{{.*}} : vector<2xf32>, !llvm.ptr<3>
  // CHECK:         %[[TWICE:.*]] = arith.addf
  // CHECK-NEXT:    llvm.store %[[TWICE]], %{{.*}} : vector<2xf32>, !llvm.ptr<1>
  gpu.func @fmas(%n: i32, %p: !llvm.ptr<1>, %q: !llvm.ptr<3>, %c: vector<2xf32>) kernel attributes {schedule = #fmas} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %sums:2 = scf.for %i = %zero to %n step %one iter_args(%x = %c, %y = %c) -> (vector<2xf32>, vector<2xf32>) : i32 {
      %s = math.fma %c, %c, %x : vector<2xf32>
      %t = math.fma %c, %c, %y : vector<2xf32>
      scf.yield %s, %t : vector<2xf32>, vector<2xf32>
    }
    llvm.store %sums#0, %p : vector<2xf32>, !llvm.ptr<1>
    %x = vector.extract %sums#0[1] : f32 from vector<2xf32>
    %y = vector.extract %sums#1[1] : f32 from vector<2xf32>
    %column = vector.from_elements %x, %y : vector<2xf32>
    llvm.store %column, %p : vector<2xf32>, !llvm.ptr<1>
    llvm.store %sums#1, %q : vector<2xf32>, !llvm.ptr<3>
    %twice = arith.addf %sums#1, %sums#1 : vector<2xf32>
    llvm.store %twice, %p : vector<2xf32>, !llvm.ptr<1>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @others
  // CHECK-NOT:     llvm.inline_asm
  gpu.func @others(%n: i32, %p: !llvm.ptr<1>, %c: vector<2xf32>) kernel attributes {schedule = #others} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %sum = scf.for %i = %zero to %n step %one iter_args(%x = %c) -> (vector<2xf32>) : i32 {
      scf.yield %x : vector<2xf32>
    }
    llvm.store %sum, %p : vector<2xf32>, !llvm.ptr<1>
    gpu.return
  }
}
}
