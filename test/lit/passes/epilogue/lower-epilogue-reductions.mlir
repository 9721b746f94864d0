// lower-epilogue reduces each part: rows over all parts side by side, columns over all parts above each other.
// RUN: lowtide-opt %s -p lower-epilogue,cse | filecheck %s

#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!partials = memref<?x?xf32, strided<[?, 1]>>
!buffer = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!buffer, !buffer]>

module attributes {tile.level = "atoms", tile.target = "sm_80"} {

// CHECK-LABEL: tile.kernel @parts(
// CHECK-SAME:    %[[D:[^ :,]+]]: memref<?x?xbf16, strided<[?, 1]>>, %[[R:[^ :,]+]]: memref<?x?xf32, strided<[?, 1]>>, %[[C:[^ :,]+]]: memref<?x?xf32, strided<[?, 1]>>, %[[V:[^ :,]+]]: memref<?x?xf32, strided<[?, 1]>>, %[[T:[^ :,]+]]: memref<?xi32>
// CHECK:       %[[MAP:.+]]:4 = sm.map
// CHECK:       %[[R0:.+]] = sm.reduce row_sum %[[MAP]]#1 in %{{.+}} : !sm.fragment<32x16xf32
// CHECK:       %[[C0:.+]] = sm.reduce column_max %[[MAP]]#2 in
// CHECK:       %[[SLOT:.+]] = arith.divui %arg{{[0-9]+}}, %c32
// CHECK:       sm.store_reduced column_max %[[C0]] of !sm.fragment<32x16xf32, #{{.+}}> into %[[C]][%{{.+}}, %arg{{[0-9]+}}]
// CHECK:       %[[TARGETS:.+]] = tile.view per_row %[[T]][%arg{{[0-9]+}}] : memref<?xi32> to !tile.view<32x16xi32>
// CHECK:       %[[V0:.+]] = sm.reduce row_value %[[MAP]]#3 in %{{.+}} at %[[TARGETS]]
// CHECK-NOT:   sm.store_reduced row
// CHECK:       %[[NEXT:.+]]:4 = sm.map
// CHECK:       %[[R1:.+]] = sm.reduce row_sum %[[NEXT]]#1 in %{{.+}} into %[[R0]]
// CHECK:       sm.store_reduced row_sum %[[R1]] of !sm.fragment<32x16xf32, #{{.+}}> into %[[R]][
// CHECK:       sm.store_reduced column_max
// CHECK:       %[[V1:.+]] = sm.reduce row_value %[[NEXT]]#3 in %{{.+}} at %{{.+}} into %[[V0]]
// CHECK:       sm.store_reduced row_value %[[V1]]
tile.kernel @parts(%d: !mat, %r: !partials, %c: !partials, %v: !partials, %t: memref<?xi32>, %fa: !a, %fb: !b, %m: index,
                   %n: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32,
      results = [full bf16, row_sum f32, column_max f32, row_value f32], operands = [target i32]>,
    schedule = #tile.schedule<
  grid = <tile = [32, 32], scheduler = one_shot>, mainloop = <k = 16>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16]>,
  epilogue = <path = smem, math = registers, tile = [32, 16], swizzle = <1,3,3>>>} {
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  sm.cp_async_wait 0
  sm.barrier
  tile.store %acc into (%d, row_sum %r, column_max %c, row_value %v)[%m, %n] operands(target %t : memref<?xi32>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x, %x, %x : bf16, f32, f32, f32
  } : !c, !mat, !partials, !partials, !partials
  tile.return
}

// CHECK-LABEL: tile.kernel @columns(
// CHECK:       %[[FIRST:.+]]:2 = sm.map
// CHECK:       %[[C0:.+]] = sm.reduce column_sum %[[FIRST]]#1 in %{{.+}} : !sm.fragment<16x32xf32
// CHECK-NOT:   sm.store_reduced
// CHECK:       %[[LAST:.+]]:2 = sm.map
// CHECK:       %[[C1:.+]] = sm.reduce column_sum %[[LAST]]#1 in %{{.+}} into %[[C0]]
// CHECK:       %[[SLOT:.+]] = arith.divui %arg{{[0-9]+}}, %c32
// CHECK:       sm.store_reduced column_sum %[[C1]] of !sm.fragment<16x32xf32, #{{.+}}> into %{{.+}}[%[[SLOT]], %arg{{[0-9]+}}]
// CHECK-NOT:   sm.store_reduced
tile.kernel @columns(%d: !mat, %c: !partials, %fa: !a, %fb: !b, %m: index, %n: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16, column_sum f32], operands = []>,
    schedule = #tile.schedule<
  grid = <tile = [32, 32], scheduler = one_shot>, mainloop = <k = 16>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16]>,
  epilogue = <path = smem, math = registers, tile = [16, 32], swizzle = <1,3,3>>>} {
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !c
  %acc = sm.mma_sync %fa, %fb, %zero by #mma : !a, !b, !c
  sm.cp_async_wait 0
  sm.barrier
  tile.store %acc into (%d, column_sum %c)[%m, %n] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y, %x : bf16, f32
  } : !c, !mat, !partials
  tile.return
}
}
