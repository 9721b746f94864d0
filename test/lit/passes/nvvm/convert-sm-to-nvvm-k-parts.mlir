// convert-sm-to-nvvm: K in parts. If a tile has all of them, which is usual, divisions are by constants and the loop over
// partial sums has a constant end; otherwise the count is a run-time value.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,canonicalize | filecheck %s --check-prefix FOLDED

// K is open: min(steps, 4) parts. Both branches give the item: tile, begin and end of K, part, parts and slot.
// CHECK-LABEL: gpu.func @open(
// CHECK:       %[[UP:.+]] = arith.addi %{{.+}}, %c31
// CHECK:       %[[STEPS:.+]] = arith.shrui %[[UP]], %c5
// CHECK:       %[[PARTS:.+]] = arith.minui %[[STEPS]], %c4
// CHECK:       scf.for %[[I:.+]] =
// CHECK:         %[[ALL:.+]] = arith.cmpi eq, %[[PARTS]], %c4
// CHECK:         %[[ITEM:.+]]:6 = scf.if %[[ALL]] -> (i32, i32, i32, i32, i32, i32) {
// CHECK-NOT:       {{divui|remui}}
// CHECK:           %[[TILE:.+]] = arith.shrui %[[I]], %c2
// CHECK:           arith.shrui %[[STEPS]], %c2
// CHECK:           arith.andi %[[STEPS]], %c3
// CHECK-NOT:       {{divui|remui}}
// CHECK:           scf.yield %[[TILE]], %{{.+}}, %{{.+}}, %{{.+}}, %c4{{.*}}, %{{.+}} : i32
// CHECK:         } else {
// CHECK:           %[[TILE:.+]] = arith.divui %[[I]], %[[PARTS]]
// CHECK:           arith.remui %[[I]], %[[PARTS]]
// CHECK:           arith.divui %[[STEPS]], %[[PARTS]]
// CHECK:           arith.remui %[[STEPS]], %[[PARTS]]
// CHECK:           scf.yield %[[TILE]], %{{.+}}, %{{.+}}, %{{.+}}, %[[PARTS]], %{{.+}} : i32
// CHECK:         }

// Part 0 adds the other parts: three of them, or as many as there are.
// CHECK:         %[[OTHERS:.+]] = arith.subi %[[ITEM]]#4, %c1
// CHECK:         %[[USUAL:.+]] = arith.cmpi eq, %[[OTHERS]], %c3
// CHECK:         scf.if %[[USUAL]] -> (vector<4xf32>) {
// CHECK:           %[[SUM:.+]] = scf.for %{{.+}} = %c0{{.*}} to %c3{{.*}} step %c1
// CHECK:             llvm.load
// CHECK:           scf.yield %[[SUM]]
// CHECK:         } else {
// CHECK:           %[[SUM:.+]] = scf.for %{{.+}} = %c0{{.*}} to %[[OTHERS]] step %c1
// CHECK:             llvm.load
// CHECK:           scf.yield %[[SUM]]

// K is 128: four steps of 32, one for each part. There is one case.
// FOLDED-LABEL: gpu.func @known(
// FOLDED-NOT:   {{divui|remui}}
// FOLDED:       scf.for
// FOLDED-NOT:     scf.if
// FOLDED:         scf.for %{{.+}} = %c0{{.*}} to %c3{{.*}} step %c1
// FOLDED-NOT:     {{scf.for|scf.if}}
// FOLDED:       gpu.return

// A range of K that begins where CTAs do: how many parts a tile has is not known.
// CHECK-LABEL: gpu.func @shares(
// CHECK:         scf.for %{{.+}} = %c0{{.*}} to %{{.+}} step %c1{{.*}} iter_args({{.*}}) -> (vector<4xf32>)
// CHECK-NOT:     scf.for {{.*}} -> (vector<4xf32>)
// CHECK:       gpu.return

// The host has checked that each of the 4 parts of a scatter has a step: only the tiles of a round are a run-time divisor.
// CHECK-LABEL: gpu.func @scatter(
// CHECK-NOT:   arith.minui %{{.+}}, %c4
// CHECK:       %[[MOST:.+]] = arith.shrui %{{.+}}, %c2
// CHECK:       scf.for
// CHECK:         %[[HERE:.+]] = arith.minui %{{.+}}, %[[MOST]]
// CHECK:         arith.divui %{{.+}}, %[[HERE]]
// CHECK-NOT:     {{divui|remui}}
// CHECK:         scf.for %{{.+}} = %c0{{.*}} to %c3{{.*}} step %c1
// CHECK:       gpu.return
#tv = #tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>
!c = !sm.fragment<16x8xf32, #tv>
!w = memref<?xf32>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {
func.func @host(%w: !w, %n: index) {
  tile.launch @open grid(%n) threads(32) shared_memory(0) args(%w) : !w
  tile.launch @known grid(%n) threads(32) shared_memory(0) args(%w) : !w
  tile.launch @shares grid(%n) threads(32) shared_memory(0) args(%w) : !w
  tile.launch @scatter grid(%n) threads(32) shared_memory(0) args(%w) : !w
  return
}
tile.kernel @open(%w: !w) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %K = memref.dim %w, %c0 : !w
  %c64 = arith.constant 64 : index
  tile.work_tiles (%i, %j) of (%c64, %c64) by [16, 8] k(%k0 to %k1 of %K by 32) split 4 (%p of %q at %s) order(<row>) persistent {
    %acc = sm.splat 0.0 : !c
    %others = arith.subi %q, %c1 : index
    %sum = tile.add_partials %acc, %w[%s] count %others : !c, !w
    tile.store_partial %sum into %w[%p] : !c, !w
  }
  tile.return
}
tile.kernel @known(%w: !w) {
  %c1 = arith.constant 1 : index
  %K = arith.constant 128 : index
  %c64 = arith.constant 64 : index
  tile.work_tiles (%i, %j) of (%c64, %c64) by [16, 8] k(%k0 to %k1 of %K by 32) split 4 (%p of %q at %s) order(<row>) persistent {
    %acc = sm.splat 0.0 : !c
    %others = arith.subi %q, %c1 : index
    %sum = tile.add_partials %acc, %w[%s] count %others : !c, !w
    tile.store_partial %sum into %w[%p] : !c, !w
  }
  tile.return
}
tile.kernel @shares(%w: !w) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %K = memref.dim %w, %c0 : !w
  %c64 = arith.constant 64 : index
  tile.work_tiles (%i, %j) of (%c64, %c64) by [16, 8] k(%k0 to %k1 of %K by 32) stream_k (%p of %q at %s) order(<row>) persistent {
    %acc = sm.splat 0.0 : !c
    %others = arith.subi %q, %c1 : index
    %sum = tile.add_partials %acc, %w[%s] count %others : !c, !w
    tile.store_partial %sum into %w[%p] : !c, !w
  }
  tile.return
}tile.kernel @scatter(%w: !w) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %K = memref.dim %w, %c0 : !w
  %c64 = arith.constant 64 : index
  tile.work_tiles (%i, %j) of (%c64, %c64) by [16, 8] k(%k0 to %k1 of %K by 32) scatter 4 (%p of %q at %s) order(<row>) persistent {
    %acc = sm.splat 0.0 : !c
    %others = arith.subi %q, %c1 : index
    %sum = tile.add_partials %acc, %w[%s] count %others : !c, !w
    tile.store_partial %sum into %w[%p] : !c, !w
  }
  tile.return
}
}
