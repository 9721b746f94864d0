// bind-wgmma refuses what wgmma cannot compute, and loops that it cannot keep one group of in flight.
// RUN: lowtide-opt %s -p bind-wgmma --split-input-file --verify-diagnostics

// Rows that are no whole blocks of 64 for each consumer.
#a = #tile.layout<(96,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<96x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<96x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      // expected-error @below {{bind-wgmma: operand c: the tile's m = 96 is not a multiple of the tiled MMA's 64; nearest is 128 [tiled-mma-divides]}}
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// A target without wgmma.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90"} {
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      // expected-error-re @below {{bind-wgmma: sm_90 has no wgmma.m64n8k16.f32.bf16; it has mma.m16n8k8.f32.f16, mma.m16n8k16.f32.f16{{.*}}[target-mma]}}
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// An atom that nobody knows.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n12k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      // expected-error @below {{[unknown-atom]}}
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// A permutation that is no multiple of the atoms.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [32, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      // expected-error @below {{bind-wgmma: permutation of m has extent 32, which the 1 atoms of 64 do not divide; nearest is 64 [permutation-divides]}}
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// No store that says what the kernel computes.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
// expected-error @below {{[no-problem]}}
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.return
}
}
// -----

// A loop that does more.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{bind-wgmma: must wait, multiply, release and advance, as pipeline-mainloop leaves it [wgmma-loop]}}
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      sm.barrier
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// A loop that does it in another order.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{[wgmma-loop]}}
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// A loop that counts otherwise.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{bind-wgmma: must count its K steps from 0 by 1: the first is taken out of it [wgmma-steps]}}
  %sum:3 = scf.for %i = %c1 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// And in other steps.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{[wgmma-steps]}}
  %sum:3 = scf.for %i = %c0 to %steps step %steps iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// An accumulator that starts from something else: a value,
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %steps: index, %start: !tile) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{bind-wgmma: must start from tile.splat 0.0: wgmma clears its accumulators [wgmma-clears]}}
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %start, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// or another number.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %steps: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring : !ring
  %zero = tile.splat 1.0 : !tile
  // expected-error @below {{[wgmma-clears]}}
  %sum:3 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %r = %c0, %rp = %c0) -> (!tile, index, index) {
      %full, %as, %bs = sm.consumer_wait %ring[%r, %rp] : !ring
      %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
      sm.consumer_release %ring, %full : !ring, !sm.slot<read>
      %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
      scf.yield %next, %r2, %rp2 : !tile, index, index
  }
  tile.store %sum#0 into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
// -----

// No loop.
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!tile = !tile.tile<64x8xf32>
module attributes {tile.target = "sm_90a"} {
tile.kernel @kernel(%d: !out, %as: !a, %bs: !b, %c0: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<
  mainloop = <roles = cooperative(1)>,
  multiply = <atom = wgmma.m64n8k16, atoms = [1, 1, 1], permutation = [64, 8, 16]>>} {
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{[main-loop]}}
  %acc = tile.mma tn %as, %bs, %zero : !a, !b, !tile
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !out
  tile.return
}
}
