// The forms of the tile dialect that kernels with roles use: what a loop over work tiles carries, fields of a schedule.
// RUN: lowtide-opt %s > %t.once && lowtide-opt %t.once > %t.twice && diff %t.once %t.twice
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt > %t.generic && diff %t.once %t.generic
// RUN: filecheck %s < %t.once

// Roles and registers; problems, with operands of their epilogue and without.
// CHECK-DAG: #[[PLAIN:.+]] = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>
// CHECK-DAG: #[[EMPTY:.+]] = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], operands = [full f32], empty = [n, k], swapped, fast>
// CHECK-DAG: #[[OPERANDS:.+]] = #tile.problem<nt, a = f16, b = f16, acc = f16, results = [full f32], operands = [per_column bf16, scalar f32]>
// CHECK: #[[COOPERATIVE:.+]] = #tile.schedule<
// CHECK-NEXT:   mainloop = <stages = 4,
// CHECK-NEXT:     agents = <producer = <warps = 4, registers = 40>, consumer = <warps = 8, instances = 1, registers = 232>>>,
// CHECK-NEXT:   multiply = <fragment_buffers = 1>>
// CHECK: module attributes {test.cooperative = #[[COOPERATIVE]], test.empty = #[[EMPTY]], test.operands = #[[OPERANDS]], test.plain = #[[PLAIN]]}
module attributes {
  test.cooperative = #tile.schedule<mainloop = <stages = 4, roles = cooperative(2), registers = [40, 232]>,
                                    multiply = <fragment_buffers = 1>>,
  test.empty = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], operands = [full f32], empty = [n, k], swapped, fast>,
  test.plain = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
  test.operands = #tile.problem<nt, a = f16, b = f16, acc = f16, results = [full f32], operands = [per_column bf16, scalar f32]>
} {

// What is carried: one value, several of several types, none. Only where something is carried is the yield printed.
// CHECK-LABEL: tile.kernel @carried
tile.kernel @carried(%M: index, %N: index, %x: f32, %counter: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[ONE:.+]] = tile.work_tiles (%{{.+}}, %{{.+}}) of (%{{.+}}, %{{.+}}) by [128, 256] order(<grouped 16>) persistent iter_args(%[[S:.+]] = %c0) -> (index) {
  // CHECK-NEXT:  %[[NEXT:.+]] = arith.addi %[[S]], %{{.+}} : index
  // CHECK-NEXT:  tile.yield %[[NEXT]] : index
  // CHECK-NEXT: }
  %slot = tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] order(<grouped 16>) persistent iter_args(%s = %c0) -> (index) {
    %next = arith.addi %s, %m : index
    tile.yield %next : index
  }
  // CHECK: %{{.+}}:2 = tile.work_tiles {{.*}} order(<row>) one_shot iter_args(%[[T:.+]] = %[[ONE]], %[[Y:.+]] = %{{.+}}) -> (index, f32) {
  // CHECK-NEXT:  tile.yield %[[T]], %[[Y]] : index, f32
  %both:2 = tile.work_tiles (%m, %n) of (%M, %N) by [64, 8] order(<row>) one_shot iter_args(%t = %slot, %y = %x) -> (index, f32) {
    tile.yield %t, %y : index, f32
  }
  // CHECK: tile.work_tiles (%{{.+}}, %{{.+}}) of (%{{.+}}, %{{.+}}) by [64, 8] order(<column>) persistent {
  // CHECK-NEXT: }
  tile.work_tiles (%m, %n) of (%M, %N) by [64, 8] order(<column>) persistent {
  }
  // CHECK: tile.work_tiles {{.*}} by [64, 8] order(<row>) persistent part(full_waves) {
  // CHECK-NEXT: tile.await_wave %{{.+}} : memref<?xi32>
  tile.work_tiles (%m, %n) of (%M, %N) by [64, 8] order(<row>) persistent part(full_waves) {
    tile.await_wave %counter : memref<?xi32>
  }
  // CHECK: tile.work_tiles {{.*}} persistent {
  // CHECK-NEXT: %[[NEXT_M:.+]], %{{.+}} = tile.next_work_tile
  // CHECK-NEXT: %[[LATER_M:.+]], %{{.+}} = tile.next_work_tile ahead 2
  // CHECK-NEXT: arith.addi %[[NEXT_M]], %[[LATER_M]]
  tile.work_tiles (%m, %n) of (%M, %N) by [64, 8] order(<column>) persistent {
    %next_m, %next_n = tile.next_work_tile
    %later_m, %later_n = tile.next_work_tile ahead 2
    %use = arith.addi %next_m, %later_m : index
  }
  // CHECK: tile.work_tiles {{.*}} order(<row>) persistent part(tail_halves) iter_args(%{{.+}} = %{{.+}}) -> (index) {
  %after = tile.work_tiles (%m, %n) of (%M, %N) by [32, 8] order(<row>) persistent part(tail_halves) iter_args(%t = %slot) -> (index) {
    tile.yield %t : index
  }
  tile.return
}
}
