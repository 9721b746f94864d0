// bind-mma-atoms loads the bytes of packed weights and converts them; sums of groups are scaled as they are added.
// RUN: lowtide-opt %s -p bind-mma-atoms | filecheck %s
// RUN: lowtide-opt %s -p bind-mma-atoms,split-k-slices | filecheck %s --check-prefix=SLICES

#a = #tile.layout<(16,32):(32,1)>
#b = #tile.layout<(16,32):(32,1)>
#problem = #tile.problem<tn, a = bf16, b = ui4, acc = f32, results = [full f32], operands = [group_scale bf16], group = 32>
#schedule = #tile.schedule<
  grid = <tile = [16, 32], order = row, scheduler = one_shot>,
  mainloop = <k = 32, stages = 2, roles = single,
    a = <copy = cp.async.16, swizzle = <0,3,3>>, b = <copy = cp.async.16, swizzle = <0,4,3>>>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 2, 1], permutation = [16, #tile.layout<(8,2,2):(1,16,8)>, 16],
    fragment_buffers = 1, promote = per_step>,
  epilogue = <path = direct, math = registers, tile = [16, 32], swizzle = <0,3,3>>>
!as = memref<16x32xbf16, #a, #gpu.address_space<workgroup>>
!bs = memref<16x32xui8, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!as, !bs]>
module attributes {tile.level = "pipelined", tile.target = "sm_80"} {

// CHECK-LABEL: tile.kernel @weights
// CHECK:       %[[ZERO:.+]] = sm.splat 0.0
// CHECK:       scf.for {{.*}} iter_args(%[[C:.+]] = %[[ZERO]]) -> (!sm.fragment<16x32xf32, #[[TV:.+]]>)
// CHECK:         %[[SV:.+]] = tile.view per_column %{{.+}}[%{{.+}}, %{{.+}}]
// CHECK:         %[[S:.+]] = sm.load_global %[[SV]] by "ld.global.2" : !tile.view<16x32xbf16> to !sm.fragment<16x32xbf16, #[[TV]]>
// CHECK:         %[[FA:.+]] = sm.ldmatrix %{{.+}}[0, 0] by "ldmatrix.x4" :
// CHECK:         %[[P:.+]] = sm.load_shared %{{.+}} at [0, 0] by "ld.shared.8" : {{.*}} to !sm.fragment<16x32xui8, #{{.+}}>
// CHECK:         %[[FB:.+]] = sm.unpack_weights %[[P]] at 0 of ui4 : {{.*}} to !sm.fragment<32x32xbf16, #{{.+}}>
// CHECK:         %[[M:.+]] = sm.mma_sync %[[FA]], %[[FB]], %[[ZERO]] by #tiled_mma
// CHECK:         %[[SUM:.+]] = sm.map %[[M]], %[[C]], %[[S]]
// CHECK-NEXT:    ^bb0(%[[X:.+]]: f32, %[[Y:.+]]: f32, %[[F:.+]]: bf16):
// CHECK-NEXT:      %[[E:.+]] = arith.extf %[[F]] : bf16 to f32
// CHECK-NEXT:      %[[R:.+]] = math.fma %[[X]], %[[E]], %[[Y]] : f32
// CHECK-NEXT:      tile.yield %[[R]] : f32
// CHECK:         scf.yield %[[SUM]]

// The bytes of a block are loaded once for its two slices.
// SLICES-LABEL: tile.kernel @weights
// SLICES:         %[[P:.+]] = sm.load_shared %{{.+}} at [0, 0] by "ld.shared.8"
// SLICES-NEXT:    %[[F0:.+]] = sm.unpack_weights %[[P]] at 0 of ui4 : {{.*}} to !sm.fragment<32x16xbf16, #{{.+}}>
// SLICES-NEXT:    sm.mma_sync %{{.+}}, %[[F0]],
// SLICES-NOT:     sm.load_shared
// SLICES:         %[[F1:.+]] = sm.unpack_weights %[[P]] at 16 of ui4
// SLICES-NEXT:    sm.mma_sync %{{.+}}, %[[F1]],
// SLICES:         sm.map
tile.kernel @weights(%A: memref<16x64xbf16, strided<[?, 1]>>, %B: memref<16x64xui8, strided<[?, 1]>>,
                     %D: memref<16x32xf32, strided<[?, 1]>>, %s: memref<2x32xbf16, strided<[?, 1]>>)
    attributes {problem = #problem, schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %as = sm.alloc : !as
  %bs = sm.alloc : !bs
  %zero = tile.splat 0.0 : !tile.tile<16x32xf32>
  %c = scf.for %i = %c0 to %c2 step %c1 iter_args(%acc = %zero) -> (!tile.tile<16x32xf32>) {
    %sv = tile.view per_column %s[%i, %c0] : memref<2x32xbf16, strided<[?, 1]>> to !tile.view<16x32xbf16>
    %p = tile.mma tn %as, %bs weights(ui4), %zero : !as, !bs, !tile.tile<16x32xf32>
    %sum = tile.promote %p into %acc scaled(%sv : !tile.view<16x32xbf16>) : !tile.tile<16x32xf32>
    scf.yield %sum : !tile.tile<16x32xf32>
  }
  tile.store %c into %D[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile.tile<16x32xf32>, memref<16x32xf32, strided<[?, 1]>>
  tile.return
}
}
