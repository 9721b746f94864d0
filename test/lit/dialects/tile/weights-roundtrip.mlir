// What packed weights add to the ops of both dialects prints as written here and reads back to itself.
// RUN: lowtide-opt %s > %t.once && lowtide-opt %t.once > %t.twice && diff %t.once %t.twice
// RUN: lowtide-opt %s | filecheck %s

!a = memref<?x?xbf16, strided<[?, 1]>>
!bytes = memref<?x?xui8, strided<[?, 1]>>
#problem = #tile.problem<tn, a = bf16, b = si4, acc = f32, results = [full bf16], operands = [group_scale f32], group = 128>
#tv = #tile.tv<threads (4,8):(64,1), values (8):(8)>
#tv_b = #tile.tv<threads (4,8):(32,1), values ((2,2),2):((16,128),8)>
#tv_of8 = #tile.tv<threads (4,8):(16,1), values (2,2):(8,64)>

// CHECK: #problem = #tile.problem<tn, a = bf16, b = si4, acc = f32, results = [full bf16], operands = [group_scale f32], group = 128>
// CHECK-LABEL: func.func @gemm
// CHECK: tile.gemm tn %{{.*}}, %{{.*}} into %{{.*}} acc(f32) weights(si4) group(128) operands(group_scale %{{.*}} : memref<?x?xf32, strided<[?, 1]>>) {
// CHECK-NEXT: ^bb0(%acc: f32):
func.func @gemm(%a: !a, %b: !bytes, %d: !a, %s: memref<?x?xf32, strided<[?, 1]>>) {
  tile.gemm tn %a, %b into %d acc(f32) weights(si4) group(128)
      operands(group_scale %s : memref<?x?xf32, strided<[?, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !a, !bytes, !a
  return
}

// Where the operands are swapped the weights are A.
// CHECK-LABEL: func.func @swapped
// CHECK: tile.gemm tn %{{.*}}, %{{.*}} into %{{.*}} swapped acc(f32) weights(si4) group(128)
func.func @swapped(%a: !a, %b: !bytes, %d: memref<?x?xbf16, strided<[1, ?]>>, %s: memref<?x?xf32, strided<[?, 1]>>) {
  tile.gemm tn %b, %a into %d swapped acc(f32) weights(si4) group(128)
      operands(group_scale %s : memref<?x?xf32, strided<[?, 1]>>) {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !bytes, !a, memref<?x?xbf16, strided<[1, ?]>>
  return
}

// CHECK-LABEL: tile.kernel @windows
// CHECK: tile.mma tn %{{.*}}, %{{.*}} weights(si4), %{{.*}} : !tile.view<16x64xbf16>, !tile.view<32x64xui8>, !tile.tile<16x64xf32>
// CHECK: tile.mma tn %{{.*}}, %{{.*}} weights(si4 less %{{.*}} : !tile.view<64x64xsi8>), %{{.*}} : !tile.view<16x64xbf16>
// CHECK: tile.mma tn %{{.*}}, %{{.*}} weights(f8E4M3FN), %{{.*}} : !tile.view<16x64xbf16>, !tile.view<64x64xui8>, !tile.tile<16x64xf32>
// CHECK: tile.promote %{{.*}} into %{{.*}} scaled(%{{.*}} : !tile.view<16x64xf32>) : !tile.tile<16x64xf32>
tile.kernel @windows(%a: !a, %b: !bytes, %s: memref<?x?xf32, strided<[?, 1]>>,
                     %z: memref<?x?xsi8, strided<[?, 1]>>) attributes {problem = #problem} {
  %c0 = arith.constant 0 : index
  %zero = tile.splat 0.0 : !tile.tile<16x64xf32>
  %av = tile.view %a[%c0, %c0] : !a to !tile.view<16x64xbf16>
  %bv = tile.view %b[%c0, %c0] : !bytes to !tile.view<32x64xui8>
  %sv = tile.view per_column %s[%c0, %c0] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<16x64xf32>
  %p = tile.mma tn %av, %bv weights(si4), %zero : !tile.view<16x64xbf16>, !tile.view<32x64xui8>, !tile.tile<16x64xf32>
  %zv = tile.view per_row %z[%c0, %c0] : memref<?x?xsi8, strided<[?, 1]>> to !tile.view<64x64xsi8>
  %q = tile.mma tn %av, %bv weights(si4 less %zv : !tile.view<64x64xsi8>), %zero : !tile.view<16x64xbf16>, !tile.view<32x64xui8>, !tile.tile<16x64xf32>
  %ev = tile.view %b[%c0, %c0] : !bytes to !tile.view<64x64xui8>
  %e = tile.mma tn %av, %ev weights(f8E4M3FN), %zero : !tile.view<16x64xbf16>, !tile.view<64x64xui8>, !tile.tile<16x64xf32>
  %c = tile.promote %p into %zero scaled(%sv : !tile.view<16x64xf32>) : !tile.tile<16x64xf32>
  // CHECK: tile.mma tn %{{.*}}, %{{.*}} weights(si4 less %{{.*}} : !tile.view<64x64xsi8>), %{{.*}} : !tile.view<32x64xui8>, !tile.view<16x64xbf16>, !tile.tile<64x16xf32>
  %turned = tile.splat 0.0 : !tile.tile<64x16xf32>
  %t = tile.mma tn %bv, %av weights(si4 less %zv : !tile.view<64x64xsi8>), %turned : !tile.view<32x64xui8>, !tile.view<16x64xbf16>, !tile.tile<64x16xf32>
  tile.return
}

// CHECK-LABEL: func.func @fragments
// CHECK: sm.unpack_weights %{{.*}} at 16 of si4 : !sm.fragment<8x32xui8, #{{.*}}> to !sm.fragment<16x16xbf16, #{{.*}}>
func.func @fragments(%p: !sm.fragment<8x32xui8, #tv>) {
  %f = sm.unpack_weights %p at 16 of si4 : !sm.fragment<8x32xui8, #tv> to !sm.fragment<16x16xbf16, #tv_b>
  // CHECK: sm.unpack_weights %{{.*}} at 0 of f8E4M3FN : !sm.fragment<8x32xui8, #{{.*}}> to !sm.fragment<8x16xbf16, #{{.*}}>
  %g = sm.unpack_weights %p at 0 of f8E4M3FN : !sm.fragment<8x32xui8, #tv> to !sm.fragment<8x16xbf16, #tv_of8>
  return
}
