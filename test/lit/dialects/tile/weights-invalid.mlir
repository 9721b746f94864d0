// What ops refuse of packed weights.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!a = memref<?x?xbf16, strided<[?, 1]>>
!bytes = memref<?x?xui8, strided<[?, 1]>>
func.func @no_scales(%a: !a, %b: !bytes, %d: !a) {
  // expected-error @below {{has one group_scale operand where it has groups, and only there [one-group-scale]}}
  tile.gemm tn %a, %b into %d acc(f32) weights(si4) group(128) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !a, !bytes, !a
  return
}
// -----

!a = memref<?x?xbf16, strided<[?, 1]>>
func.func @unpacked(%a: !a, %b: !a, %d: !a) {
  // expected-error @below {{packed weights lie in ui8 and become f16 or bf16, not in 'bf16' to become 'bf16' [weight-bytes]}}
  tile.gemm tn %a, %b into %d acc(f32) weights(si8) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !a, !a, !a
  return
}
// -----

!a = memref<?x?xbf16, strided<[?, 1]>>
!bytes = memref<?x?xui8, strided<[?, 1]>>
func.func @layout(%a: !a, %b: !bytes, %d: !a) {
  // expected-error @below {{packed weights have K contiguous, and are one matrix, or one for each group of rows: take tn or nn, and no batch [weights-matrix]}}
  tile.gemm tt %a, %b into %d acc(f32) weights(si8) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !a, !bytes, !a
  return
}
// -----

!a = memref<8x192xbf16, strided<[?, 1]>>
!bytes = memref<8x192xui8, strided<[?, 1]>>
!d = memref<8x16xbf16, strided<[?, 1]>>
func.func @group(%a: !a, %b: !bytes, %d: !d, %s: memref<?x?xf32, strided<[?, 1]>>) {
  // expected-error @below {{groups of 128 must be of 32 times a number, and divide K [weight-groups]}}
  tile.gemm tn %a, %b into %d acc(f32) weights(si4) group(128)
      operands(group_scale %s : memref<?x?xf32, strided<[?, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !a, !bytes, !d
  return
}
// -----

func.func @bits(%a: !tile.view<16x64xbf16>, %b: !tile.view<64x64xui8>, %c: !tile.tile<16x64xf32>) {
  // expected-error @below {{weights have 4 or 8 bits, those of 'bf16' have not [weight-bits]}}
  %0 = tile.mma tn %a, %b weights(bf16), %c : !tile.view<16x64xbf16>, !tile.view<64x64xui8>, !tile.tile<16x64xf32>
  return
}
// -----

func.func @rows(%a: !tile.view<16x64xbf16>, %b: !tile.view<64x64xui8>, %c: !tile.tile<16x64xf32>) {
  // expected-error @below {{[tile-mma-extents]}}
  %0 = tile.mma tn %a, %b weights(si4), %c : !tile.view<16x64xbf16>, !tile.view<64x64xui8>, !tile.tile<16x64xf32>
  return
}
// -----

func.func @scale(%s: !tile.view<16x32xf32>, %c: !tile.tile<16x64xf32>) {
  // expected-error @below {{scales by a window of another shape than that of the sums [promoted-factors]}}
  %0 = tile.promote %c into %c scaled(%s : !tile.view<16x32xf32>) : !tile.tile<16x64xf32>
  return
}
// -----

func.func @integers(%s: !tile.view<16x64xf32>, %c: !tile.tile<16x64xi32>) {
  // expected-error @below {{scales floats by floats [promoted-floats]}}
  %0 = tile.promote %c into %c scaled(%s : !tile.view<16x64xf32>) : !tile.tile<16x64xi32>
  return
}
// -----

#tv = #tile.tv<threads (4,8):(64,1), values (8):(8)>
#tv_b = #tile.tv<threads (4,8):(32,1), values ((2,2),2):((16,128),8)>
func.func @beyond(%p: !sm.fragment<8x32xui8, #tv>) {
  // expected-error @below {{reaches K 33 of 32 [unpacked-reach]}}
  %f = sm.unpack_weights %p at 17 of si4 : !sm.fragment<8x32xui8, #tv> to !sm.fragment<16x16xbf16, #tv_b>
  return
}
// -----

#tv = #tile.tv<threads (4,8):(64,1), values (8):(8)>
#tv_b = #tile.tv<threads (4,8):(32,1), values ((2,2),2):((16,128),8)>
func.func @half(%p: !sm.fragment<8x32xui8, #tv>) {
  // expected-error @below {{makes 16 rows of 8 rows of bytes [unpacked-rows]}}
  %f = sm.unpack_weights %p at 0 of si8 : !sm.fragment<8x32xui8, #tv> to !sm.fragment<16x16xbf16, #tv_b>
  return
}
// -----

!a = memref<?x?xbf16, strided<[?, 1]>>
!bytes = memref<?x?xui8, strided<[?, 1]>>
func.func @zeros_alone(%a: !a, %b: !bytes, %d: !a) {
  // expected-error @below {{has at most one group_zero operand, where it has groups [one-group-zero]}}
  tile.gemm tn %a, %b into %d acc(f32) weights(si8) operands(group_zero %b : !bytes) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !a, !bytes, !a
  return
}
// -----

func.func @zeros(%a: !tile.view<16x64xbf16>, %b: !tile.view<64x64xui8>, %z: !tile.view<16x64xui8>, %c: !tile.tile<16x64xf32>) {
  // expected-error @below {{zero points are a window of as many rows and columns as the packed weights have [zero-points-window]}}
  %0 = tile.mma tn %a, %b weights(ui8 less %z : !tile.view<16x64xui8>), %c : !tile.view<16x64xbf16>, !tile.view<64x64xui8>, !tile.tile<16x64xf32>
  return
}
// -----

!a = memref<?x?xbf16, strided<[?, 1]>>
!bytes = memref<?x?xui8, strided<[?, 1]>>
func.func @not_swapped(%a: !a, %b: !bytes, %d: !a) {
  // expected-error @below {{packed weights are B, or A where the operands are swapped [weights-operand]}}
  tile.gemm tn %b, %a into %d acc(f32) weights(si8) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !bytes, !a, !a
  return
}
// -----

!a = memref<?x?xbf16, strided<[?, 1]>>
!bytes = memref<?x?xui8, strided<[?, 1]>>
tile.kernel @turned(%b: !bytes, %a: !a) {
  %c0 = arith.constant 0 : index
  %zero = tile.splat 0.0 : !tile.tile<64x16xf32>
  %bv = tile.view %b[%c0, %c0] : !bytes to !tile.view<32x64xui8>
  %av = tile.view %a[%c0, %c0] : !a to !tile.view<16x32xbf16>
  // expected-error @below {{packed weights have K contiguous; take tn or tt [tile-mma-weights]}}
  %c = tile.mma nn %bv, %av weights(si8), %zero : !tile.view<32x64xui8>, !tile.view<16x32xbf16>, !tile.tile<64x16xf32>
  tile.return
}
// -----

func.func @infinities(%a: !tile.view<16x64xbf16>, %b: !tile.view<64x64xui8>, %c: !tile.tile<16x64xf32>) {
  // expected-error @below {{weights of floats are of f8E4M3FN, which has no infinity, not of 'f8E5M2' [weight-floats]}}
  %0 = tile.mma tn %a, %b weights(f8E5M2), %c : !tile.view<16x64xbf16>, !tile.view<64x64xui8>, !tile.tile<16x64xf32>
  return
}
// -----

func.func @zeros_of_floats(%a: !tile.view<16x64xbf16>, %b: !tile.view<64x64xui8>, %z: !tile.view<64x64xui8>, %c: !tile.tile<16x64xf32>) {
  // expected-error @below {{weights of 'f8E4M3FN' have no zero points, which are those of integers [float-zero-points]}}
  %0 = tile.mma tn %a, %b weights(f8E4M3FN less %z : !tile.view<64x64xui8>), %c : !tile.view<16x64xbf16>, !tile.view<64x64xui8>, !tile.tile<16x64xf32>
  return
}
// -----

!a = memref<?x?xbf16, strided<[?, 1]>>
!bytes = memref<?x?xui8, strided<[?, 1]>>
func.func @gemm_zeros_of_floats(%a: !a, %b: !bytes, %d: !a) {
  // expected-error @below {{[float-zero-points]}}
  tile.gemm tn %a, %b into %d acc(f32) weights(f8E4M3FN) group(64) operands(group_scale %a : !a, group_zero %b : !bytes) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !a, !bytes, !a
  return
}
// -----

#tv = #tile.tv<threads (4,8):(64,1), values (8):(8)>
#tv_b = #tile.tv<threads (4,8):(16,1), values (2,2):(8,64)>
func.func @unpack_zeros_of_floats(%p: !sm.fragment<8x32xui8, #tv>, %z: !sm.fragment<8x32xui8, #tv>) {
  // expected-error @below {{[float-zero-points]}}
  %f = sm.unpack_weights %p at 0 of f8E4M3FN less %z : !sm.fragment<8x32xui8, #tv> : !sm.fragment<8x32xui8, #tv> to !sm.fragment<8x16xbf16, #tv_b>
  return
}
