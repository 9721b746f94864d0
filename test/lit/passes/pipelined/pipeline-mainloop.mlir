// pipeline-mainloop makes a ring of the two buffers of a K loop, with copies running stages - 1 steps ahead.
// RUN: lowtide-opt %s -p pipeline-mainloop | filecheck %s

// CHECK: !ring = !sm.ring<4 x [memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>, memref<64x32xbf16, #layout1, #gpu.address_space<workgroup>>]>
// CHECK: !ring1 = !sm.ring<2 x [memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>, memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>]>
// CHECK: !ring2 = !sm.ring<3 x [memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>, memref<32x32xbf16, #layout, #gpu.address_space<workgroup>>]>
// CHECK-LABEL: module attributes {tile.level = "pipelined", tile.target = "sm_80"}
// CHECK-LABEL: tile.kernel @four_stages(
// CHECK-SAME:    %[[A:.+]]: memref<?x?xbf16, {{.*}}>, %[[B:.+]]: memref<?x?xbf16, {{.*}}>, %[[M:.+]]: index, %[[K:.+]]: index)

// The ring stands at the kernel's start in place of the buffers.
// CHECK:       %[[RING:.+]] = sm.ring : !ring
// CHECK-NOT:   sm.alloc
// CHECK-NOT:   sm.copy %
// CHECK-NOT:   sm.barrier

// Prologue: three of the four slots are filled, from the first on.
// CHECK:       %[[WRITE:.+]]:2 = scf.for %[[STEP:.+]] = %c0{{.*}} to %c3{{.*}} step %c1{{.*}} iter_args(%[[W:.+]] = %c0{{.*}}, %[[WP:.+]] = %c0{{.*}})
// CHECK-NEXT:    %[[EMPTY:.+]], %[[AS:.+]], %[[BS:.+]] = sm.producer_acquire %[[RING]][%[[W]], %[[WP]]] : !ring
// CHECK:         %[[AT:.+]] = arith.muli %[[STEP]], %c32
// CHECK:         %[[AV:.+]] = tile.view %[[A]][%[[M]], %[[AT]]]
// CHECK:         sm.copy_async %[[AV]] to %[[AS]] :
// CHECK:         %[[BV:.+]] = tile.view %[[B]][%c0, %[[AT]]]
// CHECK:         sm.copy_async %[[BV]] to %[[BS]] :
// CHECK-NEXT:    sm.producer_commit %[[RING]], %[[EMPTY]]
// CHECK:         %[[W2:.+]], %[[WP2:.+]] = sm.ring_advance %[[RING]][%[[W]], %[[WP]]]
// CHECK:         scf.yield %[[W2]], %[[WP2]] : index, index

// Main loop, one round for each K step: wait for a slot, refill the one that the round before released, multiply.
// CHECK:       %[[STEPS:.+]] = arith.ceildivsi %[[K]], %c32
// CHECK:       %[[SUM:.+]]:5 = scf.for %[[I:.+]] = %c0{{.*}} to %[[STEPS]] step %c1{{.*}} iter_args(%[[ACC:.+]] = %{{.+}}, %[[R:.+]] = %c0{{.*}}, %[[RP:.+]] = %c0{{.*}}, %[[W:.+]] = %[[WRITE]]#0, %[[WP:.+]] = %[[WRITE]]#1)
// CHECK-NEXT:    %[[FULL:.+]], %[[FA:.+]], %[[FB:.+]] = sm.consumer_wait %[[RING]][%[[R]], %[[RP]]] : !ring
// CHECK:         %[[AHEAD:.+]] = arith.addi %[[I]], %c3
// CHECK:         %[[EMPTY:.+]], %[[EA:.+]], %[[EB:.+]] = sm.producer_acquire %[[RING]][%[[W]], %[[WP]]] : !ring
// CHECK:         %[[AT:.+]] = arith.muli %[[AHEAD]], %c32
// CHECK:         tile.view %[[A]][%[[M]], %[[AT]]]
// CHECK:         sm.copy_async %{{.+}} to %[[EA]] :
// CHECK:         tile.view %[[B]][%c0, %[[AT]]]
// CHECK:         sm.copy_async %{{.+}} to %[[EB]] :
// CHECK-NEXT:    sm.producer_commit %[[RING]], %[[EMPTY]]
// CHECK:         %[[NEXT:.+]] = tile.mma tn %[[FA]], %[[FB]], %[[ACC]]
// CHECK:         sm.consumer_release %[[RING]], %[[FULL]]
// CHECK:         %[[R2:.+]], %[[RP2:.+]] = sm.ring_advance %[[RING]][%[[R]], %[[RP]]]
// CHECK:         %[[W2:.+]], %[[WP2:.+]] = sm.ring_advance %[[RING]][%[[W]], %[[WP]]]
// CHECK:         scf.yield %[[NEXT]], %[[R2]], %[[RP2]], %[[W2]], %[[WP2]]

// The ring is drained before anything else happens; the accumulator goes on from the new loop.
// CHECK:       sm.producer_tail %[[RING]] : !ring
// CHECK-NEXT:  tile.store %[[SUM]]#0 into
#a = #tile.layout<(32,32):(32,1), swizzle<2,3,3>>
#b = #tile.layout<(64,32):(32,1), swizzle<2,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!a = memref<32x32xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<64x32xbf16, #b, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x64xf32>
module attributes {tile.level = "pipelined", tile.target = "sm_80"} {
tile.kernel @four_stages(%a: !mat, %b: !mat, %m: index, %k: index) attributes {schedule = #tile.schedule<mainloop = <stages = 4>>} {
  %bs = sm.alloc : !b
  %as = sm.alloc : !a
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c32 iter_args(%c = %zero) -> !tile {
    %at = tile.view %a[%m, %i] : !mat to !tile.view<32x32xbf16>
    %bt = tile.view %b[%c0, %i] : !mat to !tile.view<64x32xbf16>
    sm.copy %at to %as : !tile.view<32x32xbf16>, !a
    sm.copy %bt to %bs : !tile.view<64x32xbf16>, !b
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
    sm.barrier
    scf.yield %next : !tile
  }
  tile.store %acc into %a[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile, !mat
  tile.return
}

// Two stages: one slot is filled ahead. K = 40 takes two steps; the copy of a third, past K, only zero-fills its slot.
// CHECK-LABEL: tile.kernel @two_stages
// CHECK:       sm.ring : !ring1
// CHECK:       scf.for {{.*}} to %c1{{.*}} step
// CHECK:       sm.producer_acquire
// CHECK:       scf.for {{.*}} to %c2{{.*}} step
// CHECK:       sm.consumer_wait
tile.kernel @two_stages(%a: !mat) attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %bs = sm.alloc : !a
  %as = sm.alloc : !a
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c40 = arith.constant 40 : index
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc = scf.for %i = %c0 to %c40 step %c32 iter_args(%c = %zero) -> !tile.tile<32x32xf32> {
    %at = tile.view %a[%i, %c0] : !mat to !tile.view<32x32xbf16>
    sm.copy %at to %as : !tile.view<32x32xbf16>, !a
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !a
    sm.barrier
    %next = tile.mma nt %as, %bs, %c : !a, !a, !tile.tile<32x32xf32>
    sm.barrier
    scf.yield %next : !tile.tile<32x32xf32>
  }
  tile.return
}

// b.load = once: B is copied in the prologue and, in the first tile, where slots are filled for the first time.
// CHECK-LABEL: tile.kernel @kept
// CHECK:       sm.ring kept [1] : !ring2
// CHECK:       tile.work_tiles {{.*}} iter_args(%[[FILL:.+]] = %c2
// CHECK:         scf.for {{.*}} to %[[FILL]]
// CHECK-COUNT-2:   sm.copy_async
// CHECK:         %[[FIRST:.+]] = arith.cmpi ne, %[[FILL]], %c0
// CHECK:         scf.for
// CHECK:           %[[AHEAD:.+]] = arith.addi %{{.+}}, %c2
// CHECK:           %{{.+}}, %[[TO_A:.+]], %[[TO_B:.+]] = sm.producer_acquire
// CHECK-NOT:       to %[[TO_B]]
// CHECK:           sm.copy_async %{{.+}} to %[[TO_A]]
// CHECK:           %[[HERE:.+]] = arith.cmpi slt, %[[AHEAD]], %c3
// CHECK:           %[[BOTH:.+]] = arith.andi %[[FIRST]], %[[HERE]]
// CHECK:           scf.if %[[BOTH]] {
// CHECK:             sm.copy_async %{{.+}} to %[[TO_B]]
// CHECK-NEXT:      }
// CHECK-NEXT:      sm.producer_commit
tile.kernel @kept(%a: !mat, %m: index)
    attributes {schedule = #tile.schedule<mainloop = <stages = 3, prologue = once, b = <load = once>>>} {
  %bs = sm.alloc : !a
  %as = sm.alloc : !a
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c90 = arith.constant 90 : index
  tile.work_tiles (%i, %j) of (%m, %c32) by [32, 32] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
    %acc = scf.for %l = %c0 to %c90 step %c32 iter_args(%c = %zero) -> !tile.tile<32x32xf32> {
      %at = tile.view %a[%i, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %at to %as : !tile.view<32x32xbf16>, !a
      %bt = tile.view %a[%j, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %bt to %bs : !tile.view<32x32xbf16>, !a
      sm.barrier
      %next = tile.mma tn %as, %bs, %c : !a, !a, !tile.tile<32x32xf32>
      sm.barrier
      scf.yield %next : !tile.tile<32x32xf32>
    }
    tile.store %acc into %a[%i, %j] {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to bf16
      tile.yield %y : bf16
    } : !tile.tile<32x32xf32>, !mat
  }
  tile.return
}

// Six slots for three K steps: slots share B in threes, and the ring runs ahead by two tiles. The prologue fills slots of
// this tile, with B, and of the next one.
// CHECK-LABEL: tile.kernel @kept_deeper
// CHECK:       sm.ring kept [1] of 3 : !ring{{.*}}
// CHECK:       tile.work_tiles (%[[M:.+]], %{{.+}}) of {{.*}} iter_args(%[[FILL:.+]] = %c3{{.*}}, %[[FILL_NEXT:.+]] = %c2{{.*}}, %[[R:.+]] = %c0{{.*}}, %[[RP:.+]] = %c0{{.*}}, %[[W:.+]] = %c0{{.*}}, %[[WP:.+]] = %c0
// CHECK:         %[[HERE:.+]]:2 = scf.for {{.*}} to %[[FILL]]
// CHECK-COUNT-2:   sm.copy_async
// CHECK:         %[[NEXT:.+]], %{{.+}} = tile.next_work_tile
// CHECK:         %[[LATER:.+]], %{{.+}} = tile.next_work_tile ahead 2
// CHECK:         %[[THERE:.+]]:2 = scf.for {{.*}} to %[[FILL_NEXT]] step %{{.+}} iter_args(%{{.+}} = %[[HERE]]#0, %{{.+}} = %[[HERE]]#1)
// CHECK:           tile.view %{{.+}}[%[[NEXT]], %{{.+}}]
// CHECK-NEXT:      sm.copy_async
// CHECK-NEXT:      sm.producer_commit
// CHECK:         %[[READ:.+]] = arith.divui %[[R]], %c3
// CHECK:         %[[WRITE:.+]] = arith.divui %[[THERE]]#0, %c3
// CHECK:         scf.for
// CHECK:           %[[AHEAD:.+]] = arith.addi %{{.+}}, %c5
// CHECK:           %[[PAST:.+]] = arith.cmpi sge, %[[AHEAD]], %c3
// CHECK:           %[[AT:.+]] = arith.select %[[PAST]], %[[NEXT]], %[[M]]
// CHECK:           %[[PAST_NEXT:.+]] = arith.cmpi sge, %[[AHEAD]], %c6
// CHECK:           %[[AT_LATER:.+]] = arith.select %[[PAST_NEXT]], %[[LATER]], %[[AT]]
// CHECK:           tile.view %{{.+}}[%[[AT_LATER]], %{{.+}}]
// CHECK:         tile.yield %c0{{.*}}, %c0{{.*}}, %{{.+}}#1
tile.kernel @kept_deeper(%a: !mat, %m: index)
    attributes {schedule = #tile.schedule<mainloop = <stages = 6, prologue = once, b = <load = once>>>} {
  %bs = sm.alloc : !a
  %as = sm.alloc : !a
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c90 = arith.constant 90 : index
  tile.work_tiles (%i, %j) of (%m, %c32) by [32, 32] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
    %acc = scf.for %l = %c0 to %c90 step %c32 iter_args(%c = %zero) -> !tile.tile<32x32xf32> {
      %at = tile.view %a[%i, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %at to %as : !tile.view<32x32xbf16>, !a
      %bt = tile.view %a[%j, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %bt to %bs : !tile.view<32x32xbf16>, !a
      sm.barrier
      %next = tile.mma tn %as, %bs, %c : !a, !a, !tile.tile<32x32xf32>
      sm.barrier
      scf.yield %next : !tile.tile<32x32xf32>
    }
    tile.store %acc into %a[%i, %j] {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to bf16
      tile.yield %y : bf16
    } : !tile.tile<32x32xf32>, !mat
  }
  tile.return
}

// prologue = once: the ring, its cursors and the trips of the prologue go from tile to tile. Past the last K step of a
// tile come the first ones of the next, so there are at least as many steps as run ahead.
// CHECK-LABEL: tile.kernel @once
// CHECK:       %[[RING:.+]] = sm.ring : !ring2
// CHECK:       tile.work_tiles (%[[M:.+]], %[[N:.+]]) of {{.*}} persistent iter_args(%[[FILL:.+]] = %c2{{.*}}, %[[R:.+]] = %c0{{.*}}, %[[RP:.+]] = %c0{{.*}}, %[[W:.+]] = %c0{{.*}}, %[[WP:.+]] = %c0{{.*}})
// CHECK:         %[[WRITE:.+]]:2 = scf.for %{{.+}} = %c0{{.*}} to %[[FILL]] step %c1{{.*}} iter_args(%{{.+}} = %[[W]], %{{.+}} = %[[WP]])
// CHECK:           tile.view %{{.+}}[%[[M]], %{{.+}}]
// CHECK:         %[[NEXT_M:.+]], %[[NEXT_N:.+]] = tile.next_work_tile
// CHECK:         %[[STEPS:.+]] = arith.maxsi %{{.+}}, %c2
// CHECK:         %[[SUM:.+]]:5 = scf.for %[[I:.+]] = %c0{{.*}} to %[[STEPS]] step %c1{{.*}} iter_args(%{{.+}} = %{{.+}}, %{{.+}} = %[[R]], %{{.+}} = %[[RP]], %{{.+}} = %[[WRITE]]#0, %{{.+}} = %[[WRITE]]#1)
// CHECK:           %[[AHEAD:.+]] = arith.addi %[[I]], %c2
// CHECK:           %[[PAST:.+]] = arith.cmpi sge, %[[AHEAD]], %[[STEPS]]
// CHECK:           %[[OVER:.+]] = arith.subi %[[AHEAD]], %[[STEPS]]
// CHECK:           %[[STEP:.+]] = arith.select %[[PAST]], %[[OVER]], %[[AHEAD]]
// CHECK-DAG:       %[[AT_M:.+]] = arith.select %[[PAST]], %[[NEXT_M]], %[[M]]
// CHECK-DAG:       %[[AT_N:.+]] = arith.select %[[PAST]], %[[NEXT_N]], %[[N]]
// CHECK:           %[[AT_K:.+]] = arith.muli %[[STEP]], %c32
// CHECK:           tile.view %{{.+}}[%[[AT_M]], %[[AT_K]]]
// CHECK:           tile.view %{{.+}}[%[[AT_N]], %{{.+}}]
// CHECK-NOT:     sm.producer_tail
// CHECK:         tile.store %[[SUM]]#0
// CHECK:         tile.yield %c0{{.*}}, %[[SUM]]#1, %[[SUM]]#2, %[[SUM]]#3, %[[SUM]]#4
// CHECK:       sm.producer_tail %[[RING]]
tile.kernel @once(%a: !mat, %m: index, %k: index)
    attributes {schedule = #tile.schedule<mainloop = <stages = 3, prologue = once>>} {
  %bs = sm.alloc : !a
  %as = sm.alloc : !a
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  tile.work_tiles (%i, %j) of (%m, %m) by [32, 32] order(<row>) persistent {
    %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
    %acc = scf.for %l = %c0 to %k step %c32 iter_args(%c = %zero) -> !tile.tile<32x32xf32> {
      %at = tile.view %a[%i, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %at to %as : !tile.view<32x32xbf16>, !a
      %bt = tile.view %a[%j, %l] : !mat to !tile.view<32x32xbf16>
      sm.copy %bt to %bs : !tile.view<32x32xbf16>, !a
      sm.barrier
      %next = tile.mma tn %as, %bs, %c : !a, !a, !tile.tile<32x32xf32>
      sm.barrier
      scf.yield %next : !tile.tile<32x32xf32>
    }
    tile.store %acc into %a[%i, %j] {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to bf16
      tile.yield %y : bf16
    } : !tile.tile<32x32xf32>, !mat
  }
  tile.return
}

// A loop may begin elsewhere, take steps that are known at run time, and carry more than the accumulator. Copies take
// only what they read.
// CHECK-LABEL: tile.kernel @any_loop(
// CHECK-SAME:    %[[A:[^ ]+]]: {{.*}}, %[[FROM:[^ ]+]]: index, %[[TO:[^ ]+]]: index, %[[BY:[^ ]+]]: index)
// CHECK:         scf.for %[[S:.+]] = %c0{{.*}} to %c1{{.*}} step
// CHECK:           %[[OFFSET:.+]] = arith.muli %[[S]], %[[BY]]
// CHECK:           %[[K:.+]] = arith.addi %[[FROM]], %[[OFFSET]]
// CHECK-NOT:       arith.muli %[[K]]
// CHECK:           tile.view %[[A]][%c0{{.*}}, %[[K]]]
// CHECK:         %[[RANGE:.+]] = arith.subi %[[TO]], %[[FROM]]
// CHECK:         %[[STEPS:.+]] = arith.ceildivsi %[[RANGE]], %[[BY]]
// CHECK:         scf.for %[[I:.+]] = %c0{{.*}} to %[[STEPS]] step %{{.+}} iter_args(%{{.+}} = %{{.+}}, %{{.+}} = %c0{{.*}}, %[[R:.+]] = %c0{{.*}}, %[[RP:.+]] = %c0
// CHECK:           %[[OFFSET:.+]] = arith.muli %[[I]], %[[BY]]
// CHECK:           %[[K:.+]] = arith.addi %[[FROM]], %[[OFFSET]]
// CHECK:           sm.consumer_wait %{{.+}}[%[[R]], %[[RP]]]
// CHECK:           %[[SUM:.+]] = tile.mma
// CHECK:           %[[TWICE:.+]] = arith.muli %[[K]], %c2
// CHECK:           scf.yield %[[SUM]], %[[TWICE]],
tile.kernel @any_loop(%a: !mat, %from: index, %to: index, %by: index)
    attributes {schedule = #tile.schedule<mainloop = <stages = 2>>} {
  %bs = sm.alloc : !a
  %as = sm.alloc : !a
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %acc:2 = scf.for %i = %from to %to step %by iter_args(%c = %zero, %last = %c0) -> (!tile.tile<32x32xf32>, index) {
    %twice = arith.muli %i, %c2 : index
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<32x32xbf16>
    sm.copy %at to %as : !tile.view<32x32xbf16>, !a
    sm.copy %at to %bs : !tile.view<32x32xbf16>, !a
    sm.barrier
    %next = tile.mma tn %as, %bs, %c : !a, !a, !tile.tile<32x32xf32>
    sm.barrier
    scf.yield %next, %twice : !tile.tile<32x32xf32>, index
  }
  tile.return
}
}
