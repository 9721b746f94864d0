// Ops of the division of K print as they are written here, and read back to themselves.
// RUN: lowtide-opt %s | lowtide-opt | filecheck %s
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt | filecheck %s

// CHECK: #[[SPLIT:.+]] = #tile.schedule<
// CHECK-NEXT:   grid = <scheduler = persistent, k_division = split(8)>>
// CHECK: test.division = [#tile.k_division<none>, #tile.k_division<split 3>, #tile.k_division<stream_k>, #tile.k_division<hybrid>, #tile.k_division<scatter 2>, #tile.k_division<tail 3>, #tile.k_division<scatter_tail 3>]
module attributes {
  tile.level = "cta", tile.target = "sm_80",
  test.division = [#tile.k_division<none>, #tile.k_division<split 3>, #tile.k_division<stream_k>, #tile.k_division<hybrid>, #tile.k_division<scatter 2>, #tile.k_division<tail 3>, #tile.k_division<scatter_tail 3>],
  test.schedule = #tile.schedule<grid = <k_division = split(8), scheduler = persistent>>
} {
// CHECK-LABEL: func.func @items(
func.func @items(%M: index, %N: index, %K: index, %d: memref<?x?xf32, strided<[?, 1]>>, %w: memref<?xf32>, %s: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  // CHECK: tile.work_tiles (%[[R:.+]], %[[C:.+]]) of (%{{.+}}, %{{.+}}) by [8, 16] k(%{{.+}} to %{{.+}} of %{{.+}} by 32) split 3 (%[[P:.+]] of %[[Q:.+]] at %[[S:.+]]) order(<row>) one_shot {
  tile.work_tiles (%m, %n) of (%M, %N) by [8, 16] k(%k0 to %k1 of %K by 32) split 3 (%part of %parts at %slot) order(<row>) one_shot {
    // CHECK: %[[ACC:.+]] = tile.splat
    %acc = tile.splat 0.0 : !tile.tile<8x16xf32>
    // CHECK: tile.store_partial %[[ACC]] into %{{.+}}[%[[P]]] : !tile.tile<8x16xf32>, memref<?xf32>
    tile.store_partial %acc into %w[%part] : !tile.tile<8x16xf32>, memref<?xf32>
    // CHECK: tile.store_partial %[[ACC]] into %{{.+}}[%[[P]]] shares 2 : !tile.tile<8x16xf32>, memref<?xf32>
    tile.store_partial %acc into %w[%part] shares 2 : !tile.tile<8x16xf32>, memref<?xf32>
    // CHECK: tile.sum_shares %{{.+}}[%[[S]]] count %[[Q]] share %[[P]] of 2 : memref<?xf32> to !tile.tile<8x8xf32>
    %share = tile.sum_shares %w[%slot] count %parts share %part of 2 : memref<?xf32> to !tile.tile<8x8xf32>
    // CHECK: tile.semaphore_arrive %{{.+}}[%[[S]]] : memref<?xi32>
    tile.semaphore_arrive %s[%slot] : memref<?xi32>
    // CHECK: tile.semaphore_wait %{{.+}}[%[[S]]] until %[[Q]] : memref<?xi32>
    tile.semaphore_wait %s[%slot] until %parts : memref<?xi32>
    // CHECK: tile.semaphore_wait %{{.+}}[%[[S]]] until %[[Q]] reset : memref<?xi32>
    tile.semaphore_wait %s[%slot] until %parts reset : memref<?xi32>
    // CHECK: tile.semaphore_leave %{{.+}}[%[[S]]] of %[[Q]] : memref<?xi32>
    tile.semaphore_leave %s[%slot] of %parts : memref<?xi32>
    // CHECK: tile.add_partials %[[ACC]], %{{.+}}[%[[S]]] count %[[Q]] : !tile.tile<8x16xf32>, memref<?xf32>
    %sum = tile.add_partials %acc, %w[%slot] count %parts : !tile.tile<8x16xf32>, memref<?xf32>
    // CHECK: tile.store %{{.+}} part(%[[P]] of %[[Q]] at %[[S]]) into %{{.+}}[%[[R]], %[[C]]] {
    tile.store %sum part(%part of %parts at %slot) into %d[%m, %n] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile.tile<8x16xf32>, memref<?x?xf32, strided<[?, 1]>>
  }
  // CHECK: tile.work_tiles ({{.*}}) of ({{.*}}) by [8, 16] k({{.*}} by 32) scatter 4 ({{.*}}) cluster [2, 1] order(<row>) persistent {
  tile.work_tiles (%m, %n) of (%M, %N) by [8, 16] k(%k0 to %k1 of %K by 32) scatter 4 (%part of %parts at %slot) cluster [2, 1] order(<row>) persistent {
  }
  // CHECK: tile.work_tiles ({{.*}}) of ({{.*}}) by [8, 16] k({{.*}} by 32) tail 3 ({{.*}}) cluster [1, 2] order(<row>) persistent {
  tile.work_tiles (%m, %n) of (%M, %N) by [8, 16] k(%k0 to %k1 of %K by 32) tail 3 (%part of %parts at %slot) cluster [1, 2] order(<row>) persistent {
  }
  // CHECK: tile.work_tiles ({{.*}}) of ({{.*}}) by [8, 16] k({{.*}} by 32) scatter_tail 2 ({{.*}}) order(<row>) persistent {
  tile.work_tiles (%m, %n) of (%M, %N) by [8, 16] k(%k0 to %k1 of %K by 32) scatter_tail 2 (%part of %parts at %slot) order(<row>) persistent {
  }
  // CHECK: tile.work_tiles ({{.*}}) of ({{.*}}) by [8, 16] k({{.*}} by 32) stream_k ({{.*}}) order(<grouped 2>) persistent iter_args(%[[T:.+]] = %{{.+}}) -> (index) {
  %r = tile.work_tiles (%m, %n) of (%M, %N) by [8, 16] k(%k0 to %k1 of %K by 32) stream_k (%part of %parts at %slot) order(<grouped 2>) persistent iter_args(%t = %c0) -> (index) {
    tile.yield %t : index
  }
  return
}
}
