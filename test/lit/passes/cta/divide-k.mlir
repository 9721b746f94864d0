// divide-k lets part 0 of a tile add the partial sums that the other parts leave in a workspace, and store the tile.
// RUN: lowtide-opt %s -p tile-to-ctas,divide-k,canonicalize,cse --split-input-file | filecheck %s

// A workspace with a slot for each work item, and a semaphore for each slot; at most as many parts as K has steps.
// CHECK-LABEL: func.func @split(
// CHECK:       %[[STEPS:.+]] = arith.ceildivsi %{{.+}}, %c16
// CHECK:       %[[PARTS:.+]] = arith.minsi %[[STEPS]], %c3
// CHECK:       %[[ITEMS:.+]] = arith.muli %{{.+}}, %[[PARTS]]
// CHECK:       %[[ELEMENTS:.+]] = arith.muli %[[ITEMS]], %c2048
// CHECK:       %[[PARTIALS:.+]] = tile.workspace %[[ELEMENTS]] : memref<?xf32>
// CHECK:       %[[SEMAPHORES:.+]] = tile.workspace %[[ITEMS]] zeroed : memref<?xi32>
// CHECK:       tile.launch @split_kernel grid(%[[ITEMS]]) threads(64) args(%{{.+}}, %{{.+}}, %{{.+}}, %[[PARTIALS]], %[[SEMAPHORES]])

// CHECK-LABEL: tile.kernel @split_kernel(
// CHECK-SAME:    %[[D:[^ :]+]]: memref<?x?xbf16, strided<[?, 1]>>, %[[W:[^ :]+]]: memref<?xf32>, %[[S:[^ :]+]]: memref<?xi32>)
// CHECK:       tile.work_tiles (%[[R:.+]], %[[C:.+]]) of ({{.*}}) by [32, 64] k(%[[K0:.+]] to %[[K1:.+]] of {{.*}} by 16) split 3 (%[[PART:.+]] of %[[N:.+]] at %[[SLOT:.+]]) order(<row>) one_shot {
// CHECK:         %[[ACC:.+]] = scf.for %{{.+}} = %[[K0]] to %[[K1]] step %c16
// CHECK:         %[[FIRST:.+]] = arith.cmpi eq, %[[PART]], %c0
// CHECK:         scf.if %[[FIRST]] {
// CHECK:           %[[OTHERS:.+]] = arith.subi %[[N]], %c1
// CHECK:           %[[SHARED:.+]] = arith.cmpi ugt, %[[N]], %c1
// CHECK:           scf.if %[[SHARED]] {
// CHECK:             tile.semaphore_wait %[[S]][%[[SLOT]]] until %[[OTHERS]] reset
// CHECK:           %[[NEXT:.+]] = arith.addi %[[SLOT]], %c1
// CHECK:           %[[SUM:.+]] = tile.add_partials %[[ACC]], %[[W]][%[[NEXT]]] count %[[OTHERS]]
// CHECK:           tile.store %[[SUM]] into %[[D]][%[[R]], %[[C]]] {
// CHECK:         } else {
// CHECK:           %[[OWN:.+]] = arith.addi %[[SLOT]], %[[PART]]
// CHECK:           tile.store_partial %[[ACC]] into %[[W]][%[[OWN]]]
// CHECK:           tile.semaphore_arrive %[[S]][%[[SLOT]]]
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @split(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
  grid = <tile = [32, 64], order = row, scheduler = one_shot, k_division = split(3)>,
  mainloop = <k = 16>, multiply = <atoms = [1, 2, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
// -----

// In shares of all steps, a slot for each CTA is enough; there are no more CTAs than steps.
// CHECK-LABEL: func.func @stream(
// CHECK:       %[[SMS:.+]] = tile.sm_count
// CHECK:       %[[CTAS:.+]] = arith.minsi %{{.+}}, %{{.+}}
// CHECK:       %[[ELEMENTS:.+]] = arith.muli %[[CTAS]], %c1024
// CHECK:       tile.workspace %[[ELEMENTS]] : memref<?xf32>
// CHECK:       tile.workspace %[[CTAS]] zeroed : memref<?xi32>
// CHECK:       tile.launch @stream_kernel grid(%[[CTAS]])
// CHECK:       tile.work_tiles ({{.*}}) of (%c100, %c65) by [32, 32] k(%k0 to %k1 of %c40 by 16) stream_k ({{.*}}) order(<row>) persistent {
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @stream(%a: memref<100x40xf16>, %b: memref<65x40xf16>, %d: memref<100x65xf16>) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = persistent, k_division = stream_k>,
  mainloop = <k = 16, stages = 2, roles = single>, multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = direct, math = registers, tile = [32, 32]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<100x40xf16>, memref<65x40xf16>, memref<100x65xf16>
  return
}
}
// -----

// Of a tail fewer tiles than CTAs are shared, each by three CTAs: so many slots for each CTA.
// CHECK-LABEL: func.func @tail(
// CHECK:       %[[SMS:.+]] = tile.sm_count
// CHECK:       %[[CTAS:.+]] = arith.minsi %{{.+}}, %{{.+}}
// CHECK:       %[[SLOTS:.+]] = arith.muli %[[CTAS]], %c3 :
// CHECK:       %[[ELEMENTS:.+]] = arith.muli %[[CTAS]], %c3072 :
// CHECK:       tile.workspace %[[ELEMENTS]] : memref<?xf32>
// CHECK:       tile.workspace %[[SLOTS]] zeroed : memref<?xi32>
// CHECK:       tile.launch @tail_kernel grid(%[[CTAS]])
// CHECK:       tile.work_tiles ({{.*}}) of (%c100, %c65) by [32, 32] k(%k0 to %k1 of %c80 by 16) tail 3 ({{.*}}) order(<row>) persistent {
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @tail(%a: memref<100x80xf16>, %b: memref<65x80xf16>, %d: memref<100x65xf16>) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = persistent, k_division = tail(3)>,
  mainloop = <k = 16, stages = 2, roles = single>, multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = direct, math = registers, tile = [32, 32]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : memref<100x80xf16>, memref<65x80xf16>, memref<100x65xf16>
  return
}
}
// -----

// A tile of the last wave is shared: each part adds half of its columns; any other is stored whole.
// CHECK-LABEL: func.func @scatter_tail(
// CHECK:       cf.assert
// CHECK:       tile.launch @scatter_tail_kernel {{.*}} cooperative
// CHECK:       tile.work_tiles (%[[R:.+]], %[[C:.+]]) of ({{.*}}) by [32, 32] k({{.*}} by 16) scatter_tail 2 (%[[PART:.+]] of %[[N:.+]] at %[[SLOT:.+]]) order(<row>) persistent {
// CHECK:         %[[ACC:.+]] = scf.for
// CHECK:         %[[SHARED:.+]] = arith.cmpi ugt, %[[N]], %{{.+}}
// CHECK:         scf.if %[[SHARED]] {
// CHECK:           tile.store_partial %[[ACC]] into %[[W:.+]][%{{.+}}] shares 2
// CHECK:           tile.semaphore_arrive %[[S:.+]][%[[SLOT]]]
// CHECK:           tile.semaphore_wait %[[S]][%[[SLOT]]] until %[[N]] : memref<?xi32>
// CHECK:           tile.semaphore_leave %[[S]][%[[SLOT]]]
// CHECK:           %[[SUM:.+]] = tile.sum_shares %[[W]][%[[SLOT]]] count %{{.+}} share %[[PART]] of 2 : memref<?xf32> to !tile.tile<32x16xf32>
// CHECK:           %[[AT:.+]] = arith.addi %[[C]], %{{.+}}
// CHECK:           tile.store %[[SUM]] into %{{.+}}[%[[R]], %[[AT]]] {
// CHECK:         } else {
// CHECK:           tile.store %[[ACC]] into %{{.+}}[%[[R]], %[[C]]] {
!of_k = memref<100x?xf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
func.func @scatter_tail(%a: !of_k, %b: !of_k, %d: memref<100x100xf16>) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = persistent, k_division = scatter_tail(2)>,
  mainloop = <k = 16, stages = 2, roles = single>, multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = direct, math = registers, tile = [32, 32]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    tile.yield %y : f16
  } : !of_k, !of_k, memref<100x100xf16>
  return
}
}
// -----

// Every part adds half of the columns. Each tile of a super-tile has slots of its own; the launch is cooperative.
// CHECK-LABEL: func.func @scatter(
// CHECK:       %[[SUPERS:.+]] = arith.muli %{{.+}}, %{{.+}}
// CHECK:       %[[TILES:.+]] = arith.muli %[[SUPERS]], %c2
// CHECK:       %[[SLOTS:.+]] = arith.muli %[[TILES]], %{{.+}}
// CHECK:       tile.workspace %[[SLOTS]] zeroed : memref<?xi32>
// CHECK:       tile.launch @scatter_kernel {{.*}} cluster [2, 1] cooperative
// CHECK:       tile.work_tiles (%[[R:.+]], %[[C:.+]]) of ({{.*}}) by [64, 32] k({{.*}} by 64) scatter 2 (%[[PART:.+]] of %[[N:.+]] at %[[SLOT:.+]]) cluster [2, 1] order(<row>) persistent {
// CHECK:         %[[ACC:.+]] = scf.for
// CHECK:         %[[OWN:.+]] = arith.addi %[[SLOT]], %[[PART]]
// CHECK:         tile.store_partial %[[ACC]] into %[[W:.+]][%[[OWN]]] shares 2
// CHECK:         tile.semaphore_arrive %[[S:.+]][%[[SLOT]]]
// CHECK:         tile.semaphore_wait %[[S]][%[[SLOT]]] until %[[N]] : memref<?xi32>
// CHECK:         %[[TWICE:.+]] = arith.muli %[[N]], %c2
// CHECK:         tile.semaphore_leave %[[S]][%[[SLOT]]] of %[[TWICE]]
// CHECK:         %[[SUM:.+]] = tile.sum_shares %[[W]][%[[SLOT]]] count %c2 share %[[PART]] of 2 : memref<?xf32> to !tile.tile<64x16xf32>
// CHECK:         %[[FIRST:.+]] = arith.muli %[[PART]], %c16
// CHECK:         %[[COLUMN:.+]] = arith.addi %[[C]], %[[FIRST]]
// CHECK:         tile.store %[[SUM]] into %{{.+}}[%[[R]], %[[COLUMN]]] {
// CHECK-NOT:     tile.semaphore_wait
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "problem", tile.target = "sm_90a"} {
func.func @scatter(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<
  grid = <tile = [64, 32], cluster = [2, 1], order = row, scheduler = persistent, k_division = scatter(2)>,
  mainloop = <k = 64, stages = 2, roles = cooperative(1)>, multiply = <atoms = [1, 1, 1]>,
  epilogue = <path = direct, math = registers, tile = [64, 32]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !mat, !mat, !mat
  return
}
}
