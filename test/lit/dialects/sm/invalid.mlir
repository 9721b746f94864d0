// Every message of the sm dialect's verifiers and parsers.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{atoms needs three positive counts, for M, N and K [atom-counts]}}
module attributes {test.bad = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2]>} {}

// -----

// expected-error @below {{[atom-counts]}}
module attributes {test.bad = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 0]>} {}

// -----

// expected-error @below {{permutation needs three entries, for M, N and K, each an extent or a layout [permutation-entries]}}
module attributes {test.bad = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1], permutation [32, 32]>} {}

// -----

// expected-error @below {{[permutation-entries]}}
module attributes {test.bad = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1], permutation [32, 32, "k"]>} {}

// -----

// expected-error @below {{a ring needs at least one stage, not 0 [ring-stage-count]}}
func.func @f(%r: !sm.ring<0 x [memref<8x8xf16, #gpu.address_space<workgroup>>]>) { return }

// -----

// expected-error @below {{a ring's slots hold memrefs in shared memory (#gpu.address_space<workgroup>) [ring-slots-shared]}}
func.func @f(%r: !sm.ring<2 x [memref<8x8xf16>]>) { return }

// -----

// expected-error @below {{a fragment's tile has two positive extents [fragment-extents]}}
func.func @f(%x: !sm.fragment<8xf32, #tile.tv<threads 8:1, values 1:0>>) { return }

// -----

// expected-error @below {{a fragment's elements are integers or floats, not 'index' [fragment-elements]}}
func.func @f(%x: !sm.fragment<8x8xindex, #tile.tv<threads 8:1, values 8:8>>) { return }

// -----

// expected-error @below {{thread-value layout reaches element 71 of a tile of 64 [fragment-reach]}}
func.func @f(%x: !sm.fragment<8x8xf32, #tile.tv<threads 8:1, values 9:8>>) { return }

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.alloc' op result #0 must be memref in shared memory, but got 'memref<8x8xf16>'}}
  %s = sm.alloc : memref<8x8xf16>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x8xf16>) {
  %c0 = arith.constant 0 : index
  %w = tile.view %a[%c0, %c0] : memref<8x8xf16> to !tile.view<8x16xf16>
  %s = sm.alloc : memref<8x8xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.copy' op moves a tile of 8x16 to one of 8x8 [copy-shapes]}}
  sm.copy %w to %s : !tile.view<8x16xf16>, memref<8x8xf16, #gpu.address_space<workgroup>>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x8xf16>) {
  %c0 = arith.constant 0 : index
  %w = tile.view %a[%c0, %c0] : memref<8x8xf16> to !tile.view<8x8xf16>
  %s = sm.alloc : memref<8x8xf32, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.copy_async' op moves elements of 'f16' to a tile of 'f32' [copy-elements]}}
  sm.copy_async %w to %s : !tile.view<8x8xf16>, memref<8x8xf32, #gpu.address_space<workgroup>>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x8xf16>) {
  %c0 = arith.constant 0 : index
  %w = tile.view %a[%c0, %c0] : memref<8x8xf16> to !tile.view<8x8xf16>
  %s = sm.alloc : memref<8x8xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.cp_async' op thread-value layout reaches element 127 of a tile of 64 [view-reach]}}
  sm.cp_async %w to %s by <cp.async.16, #tile.tv<threads 16:1, values 8:16>> : !tile.view<8x8xf16>, memref<8x8xf16, #gpu.address_space<workgroup>>
  tile.return
}

// -----

tile.kernel @k(%a: memref<8x8xf16>) {
  %c0 = arith.constant 0 : index
  %w = tile.view %a[%c0, %c0] : memref<8x8xf16> to !tile.view<8x8xf16>
  %s = sm.alloc : memref<8x4xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{[copy-shapes]}}
  sm.cp_async %w to %s by <cp.async.16, #tile.tv<threads 8:1, values 8:8>> : !tile.view<8x8xf16>, memref<8x4xf16, #gpu.address_space<workgroup>>
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.cp_async_wait' op attribute 'pending' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  sm.cp_async_wait -1
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.ring' op has 1 buffers a slot but 2 offsets [ring-offsets]}}
  %ring = sm.ring at [0, 128] : !sm.ring<2 x [memref<8x8xf16, #gpu.address_space<workgroup>>]>
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.ring' op keeps buffer 1 of a slot, whose buffers are 0 to 0 [kept-buffer]}}
  %ring = sm.ring kept [1] : !sm.ring<2 x [memref<8x8xf16, #gpu.address_space<workgroup>>]>
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.ring' op keeps buffers of 3 slots, which must divide its 4 stages [kept-slots]}}
  %ring = sm.ring kept [0] of 3 : !sm.ring<4 x [memref<8x8xf16, #gpu.address_space<workgroup>>]>
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.ring' op shares what slots keep, but keeps nothing; leave out `of`, or say what is kept [shared-keeps]}}
  %ring = sm.ring of 2 : !sm.ring<4 x [memref<8x8xf16, #gpu.address_space<workgroup>>]>
  tile.return
}

// -----

!ring = !sm.ring<2 x [memref<8x8xf16, #gpu.address_space<workgroup>>]>
tile.kernel @k() {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  %slot, %a = sm.consumer_wait %ring[%c0, %c0] : !ring
  // expected-error @below {{'sm.producer_commit' op takes the slot that sm.producer_acquire gave, to write [slot-to-write]}}
  sm.producer_commit %ring, %slot : !ring, !sm.slot<read>
  tile.return
}

// -----

!ring = !sm.ring<2 x [memref<8x8xf16, #gpu.address_space<workgroup>>]>
tile.kernel @k() {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  %slot, %a = sm.producer_acquire %ring[%c0, %c0] : !ring
  // expected-error @below {{'sm.consumer_release' op takes the slot that sm.consumer_wait gave, to read [slot-to-read]}}
  sm.consumer_release %ring, %slot : !ring, !sm.slot<write>
  tile.return
}

// -----

tile.kernel @k() {
  %ring = sm.ring : !sm.ring<2 x [memref<8x8xf16, #gpu.address_space<workgroup>>]>
  %buffer = sm.alloc : memref<8x8xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.prefix' op needs 130 bytes but the buffer has 128 [prefix-fits]}}
  %p = sm.prefix %buffer : memref<8x8xf16, #gpu.address_space<workgroup>> to memref<5x13xf16, #gpu.address_space<workgroup>>
  tile.return
}

// -----

tile.kernel @k() {
  %buffer = sm.alloc : memref<8x8xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.prefix' op is a buffer of 'f32' in one of 'f16' [prefix-elements]}}
  %p = sm.prefix %buffer : memref<8x8xf16, #gpu.address_space<workgroup>> to memref<4x4xf32, #gpu.address_space<workgroup>>
  tile.return
}

// -----

tile.kernel @k() {
  %ring = sm.ring : !sm.ring<2 x [memref<8x8xf16, #gpu.address_space<workgroup>>]>
  // expected-error @below {{'sm.ring_reuse' op needs 260 bytes but the ring has 256 [ring-reuse-bytes]}}
  %s = sm.ring_reuse %ring : !sm.ring<2 x [memref<8x8xf16, #gpu.address_space<workgroup>>]> to memref<5x13xf32, #gpu.address_space<workgroup>>
  tile.return
}

// -----

tile.kernel @k() {
  %s = sm.alloc : memref<16x16xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.ldmatrix' op loads a fragment of 'bf16' from a buffer of 'f16' [loaded-elements]}}
  %f = sm.ldmatrix %s[0, 0] by "ldmatrix.x4" : memref<16x16xf16, #gpu.address_space<workgroup>> to !sm.fragment<16x16xbf16, #tile.tv<threads 32:1, values 8:32>>
  tile.return
}

// -----

tile.kernel @k() {
  %s = sm.alloc : memref<16x16xf32, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.ldmatrix' op moves 16-bit elements, or without trans 8-bit ones, not 'f32' [ldmatrix-elements]}}
  %f = sm.ldmatrix %s[0, 0] by "ldmatrix.x4" : memref<16x16xf32, #gpu.address_space<workgroup>> to !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
  tile.return
}

// -----

tile.kernel @k() {
  %s = sm.alloc : memref<16x16xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.ldmatrix' op reaches [8, 24) in dimension 1 of extent 16 [window-reach]}}
  %f = sm.ldmatrix %s[0, 8] by "ldmatrix.x4" : memref<16x16xf16, #gpu.address_space<workgroup>> to !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>
  tile.return
}

// -----

// With trans the window is the fragment's transpose.
tile.kernel @k() {
  %s = sm.alloc : memref<32x16xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{[window-reach]}}
  %f = sm.ldmatrix %s[0, 0] by "ldmatrix.x4.trans" trans : memref<32x16xf16, #gpu.address_space<workgroup>> to !sm.fragment<32x16xf16, #tile.tv<threads 32:1, values 16:32>>
  tile.return
}

// -----

tile.kernel @k() {
  %s = sm.alloc : memref<16x16xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.ldmatrix' op needs two offsets into two dimensions [window-offsets]}}
  %f = sm.ldmatrix %s[0] by "ldmatrix.x4" : memref<16x16xf16, #gpu.address_space<workgroup>> to !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>
  tile.return
}

// -----

tile.kernel @k() {
  %a = sm.splat 0.0 : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>
  %b = sm.splat 0.0 : !sm.fragment<8x32xf16, #tile.tv<threads 32:1, values 8:32>>
  %c = sm.splat 0.0 : !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
  // expected-error @below {{'sm.mma_sync' op K is 16 in A but 32 in B [mma-k]}}
  %d = sm.mma_sync %a, %b, %c by <mma.m16n8k16.f32.f16, atoms [1, 1, 1]> : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>, !sm.fragment<8x32xf16, #tile.tv<threads 32:1, values 8:32>>, !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
  tile.return
}

// -----

tile.kernel @k() {
  %a = sm.splat 0.0 : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>
  %c = sm.splat 0.0 : !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
  // expected-error @below {{'sm.mma_sync' op computes 16x16 but the accumulator is 16x8 [mma-extents]}}
  %d = sm.mma_sync %a, %a, %c by <mma.m16n8k16.f32.f16, atoms [1, 1, 1]> : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>, !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>, !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
  tile.return
}

// -----

tile.kernel @k() {
  %a = sm.splat 0.0 : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>
  %b = sm.splat 0.0 : !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
  %c = sm.splat 0.0 : !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
  // expected-error @below {{'sm.mma_sync' op elements of A and B must have as many bits [mma-elements]}}
  %d = sm.mma_sync %a, %b, %c by <mma.m16n8k16.f32.f16, atoms [1, 1, 1]> : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>, !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>, !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
  tile.return
}

// -----

tile.kernel @k() {
  %a = sm.splat 0.0 : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>
  // expected-error @below {{'sm.extract' op changes the element type [extract-elements]}}
  %b = sm.extract %a[0, 0] : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>> to !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
  tile.return
}

// -----

tile.kernel @k() {
  %a = sm.splat 0.0 : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>>
  // expected-error @below {{[window-reach]}}
  %b = sm.extract %a[12, 0] : !sm.fragment<16x16xf16, #tile.tv<threads 32:1, values 8:32>> to !sm.fragment<8x16xf16, #tile.tv<threads 32:1, values 4:32>>
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k() {
  %a = sm.splat 0.0 : !fragment
  // expected-error @below {{'sm.map' op has 1 inputs but its block takes 2 [compute-inputs]}}
  %b = sm.map %a : !fragment {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  } : !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k() {
  %a = sm.splat 0.0 : !fragment
  %s = sm.splat 0.0 : !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
  // expected-error @below {{'sm.map' op input 1 must have the result's shape and thread-value layout [compute-input-shape]}}
  %b = sm.map %a, %s : !fragment, !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>> {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  } : !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k() {
  %a = sm.splat 0.0 : !fragment
  // expected-error @below {{'sm.map' op block argument 0 must be 'f32' [compute-argument]}}
  %b = sm.map %a : !fragment {
  ^bb0(%x: f16):
    %y = arith.extf %x : f16 to f32
    tile.yield %y : f32
  } : !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k() {
  %a = sm.splat 0.0 : !fragment
  // expected-error @below {{[compute-yield]}}
  %b = sm.map %a : !fragment {
  ^bb0(%x: f32):
    tile.yield
  } : !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k() {
  %a = sm.splat 0.0 : !fragment
  %s = sm.alloc : memref<16x16xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{[copy-elements]}}
  sm.store_shared %a to %s by "st.shared.4" : !fragment, memref<16x16xf16, #gpu.address_space<workgroup>>
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k() {
  %s = sm.alloc : memref<16x8xf32, #gpu.address_space<workgroup>>
  // expected-error @below {{[copy-shapes]}}
  %a = sm.load_shared %s by "ld.shared.16" : memref<16x8xf32, #gpu.address_space<workgroup>> to !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k() {
  %s = sm.alloc : memref<16x32xf32, #gpu.address_space<workgroup>>
  // expected-error @below {{[window-reach]}}
  %a = sm.load_shared %s at [0, 24] by "ld.shared.16" : memref<16x32xf32, #gpu.address_space<workgroup>> to !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
tile.kernel @k() {
  %s = sm.alloc : memref<16x8xf32, #gpu.address_space<workgroup>>
  // expected-error @below {{[copy-shapes]}}
  %a = sm.load_shared %s by "ld.shared.4" trans : memref<16x8xf32, #gpu.address_space<workgroup>> to !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
tile.kernel @k(%m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %w = tile.view %m[%c0, %c0] : memref<?x?xf32> to !tile.view<16x8xf32>
  // expected-error @below {{[copy-shapes]}}
  %a = sm.load_global %w by "ld.global.4" trans : !tile.view<16x8xf32> to !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
tile.kernel @k() {
  %a = sm.splat 0.0 : !fragment
  // expected-error @below {{'sm.stack' op stacks tiles of 16x8, which do not make one of 24x8 [concat-tiles]}}
  %b = sm.stack %a : !fragment to !sm.fragment<24x8xf32, #tile.tv<threads 32:1, values 6:32>>
  tile.return
}

// -----

!fragment = !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
tile.kernel @k() {
  %a = sm.splat 0.0 : !fragment
  // expected-error @below {{'sm.stack' op changes the element type [concat-elements]}}
  %b = sm.stack %a : !fragment to !sm.fragment<32x8xf16, #tile.tv<threads 32:1, values 8:32>>
  tile.return
}

// -----

!fragment = !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
tile.kernel @k() {
  %a = sm.splat 0.0 : !fragment
  // expected-error @below {{[copy-shapes]}}
  %b = sm.sum_over_k %a by <mma.m16n8k16.f32.bf16, atoms [1, 1, 2]> : !fragment to !sm.fragment<8x16xf32, #tile.tv<threads 32:1, values 4:32>>
  tile.return
}

// -----

!fragment = !sm.fragment<16x8xf32, #tile.tv<threads 32:1, values 4:32>>
tile.kernel @k() {
  %s = sm.alloc : memref<16x8xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.load_shared' op loads a fragment of 'f32' from a buffer of 'f16' [scales-elements]}}
  %a = sm.load_shared %s at [0, 0] by "ld.shared.4" : memref<16x8xf16, #gpu.address_space<workgroup>> to !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k(%m: memref<?x?xf16>) {
  %c0 = arith.constant 0 : index
  %w = tile.view %m[%c0, %c0] : memref<?x?xf16> to !tile.view<16x16xf16>
  // expected-error @below {{[copy-elements]}}
  %a = sm.load_global %w by "ld.global.16" : !tile.view<16x16xf16> to !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k(%m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %w = tile.view %m[%c0, %c0] : memref<?x?xf32> to !tile.view<16x16xf32>
  // expected-error @below {{'sm.load_global' op is aligned or realigned, not both; drop one of the words [aligned-or-realigned]}}
  %a = sm.load_global %w by "ld.global.16" aligned realigned : !tile.view<16x16xf32> to !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<16x16xf32, #tile.tv<threads 32:1, values 8:32>>
tile.kernel @k(%m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %w = tile.view %m[%c0, %c0] : memref<?x?xf32> to !tile.view<8x16xf32>
  %a = sm.splat 0.0 : !fragment
  // expected-error @below {{[copy-shapes]}}
  sm.store_global %a to %w by "st.global.16" : !fragment, !tile.view<8x16xf32>
  tile.return
}

// -----

// expected-error @below {{expected ::lowtide::sm::StoreStart to be one of: all_sums, first_rows, next_tile}}
// expected-error @below {{failed to parse Sm_TimingAttr parameter 'stores'}}
func.func @timing() attributes {sm.timing = #sm.timing<stores = later>} {
  return
}
