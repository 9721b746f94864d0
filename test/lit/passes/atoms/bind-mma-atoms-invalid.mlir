// bind-mma-atoms takes the main loop as pipeline-mainloop leaves it, and a tiled mma that the target has.
// RUN: lowtide-opt %s -p bind-mma-atoms --split-input-file --verify-diagnostics

// Which tiled mma is for choose-schedule to say.
!mat = memref<?x?xf32, strided<[?, 1]>>
!a = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{[schedule-open]}}
tile.kernel @kernel(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1]>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
    scf.yield %next : !tile
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !mat
  tile.return
}
}
// -----

// An atom that no target has.
!mat = memref<?x?xf32, strided<[?, 1]>>
!a = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<multiply = <atom = mma.m16n8k32, atoms = [1, 1, 1], permutation = [16, 16, 32]>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    // expected-error-re @below {{bind-mma-atoms: unknown mma atom 'mma.m16n8k32.f32.bf16'{{.*}}[unknown-atom]}}
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
    scf.yield %next : !tile
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !mat
  tile.return
}
}
// -----

// A tile that the tiled mma does not cover evenly.
!mat = memref<?x?xf32, strided<[?, 1]>>
!a = memref<24x16xbf16, #tile.layout<(24,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<24x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16]>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    // expected-error @below {{bind-mma-atoms: operand c: the tile's m = 24 is not a multiple of the tiled MMA's 16; nearest is 32 [tiled-mma-divides]}}
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
    scf.yield %next : !tile
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !mat
  tile.return
}
}
// -----

// An accumulator that nothing here can turn into a fragment.
!mat = memref<?x?xf32, strided<[?, 1]>>
!a = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%as: !a, %bs: !b, %d: !mat, %k: index, %given: !tile) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16]>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %given) -> (!tile) {
    // expected-error @below {{bind-mma-atoms: needs an accumulator that starts from tile.splat [mma-starts-zero]}}
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
    scf.yield %next : !tile
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !mat
  tile.return
}
}
// -----

// An accumulator that does not go round with the loop.
!mat = memref<?x?xf32, strided<[?, 1]>>
!a = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16]>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    // expected-error @below {{bind-mma-atoms: needs an accumulator that its loop carries [mma-carried]}}
    %next = tile.mma tn %as, %bs, %zero : !a, !b, !tile
    scf.yield %next : !tile
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !mat
  tile.return
}
}
// -----

// A use that takes no fragment.
!mat = memref<?x?xf32, strided<[?, 1]>>
!a = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16]>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
    scf.yield %next : !tile
  }
  // expected-error @below {{bind-mma-atoms: uses the accumulator; only tile.store and the exchange of partial sums may [accumulator-used]}}
  %more = tile.mma tn %as, %bs, %acc : !a, !b, !tile
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !mat
  tile.return
}
}
// -----

// No loop.
!mat = memref<?x?xf32, strided<[?, 1]>>
!a = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
tile.kernel @kernel(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>,
    schedule = #tile.schedule<multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16]>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  // expected-error @below {{bind-mma-atoms: must stand in the K loop, an scf.for; it stands in tile.kernel [main-loop]}}
  %acc = tile.mma tn %as, %bs, %zero : !a, !b, !tile
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : !tile, !mat
  tile.return
}
}
// -----

// No store to say what D is.
!mat = memref<?x?xf32, strided<[?, 1]>>
!a = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!tile = !tile.tile<32x32xf32>
module attributes {tile.target = "sm_80"} {
// expected-error @below {{bind-mma-atoms: has no problem; write #tile.problem beside its schedule, or lower again from level problem [no-problem]}}
tile.kernel @kernel(%as: !a, %bs: !b, %d: !mat, %k: index) attributes {
    schedule = #tile.schedule<multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16]>>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile) {
    %next = tile.mma tn %as, %bs, %c : !a, !b, !tile
    scf.yield %next : !tile
  }
  tile.return
}
}
