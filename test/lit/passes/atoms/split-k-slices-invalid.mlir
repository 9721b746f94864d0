// split-k-slices loads each slice anew, so it must see where operands are loaded from.
// RUN: lowtide-opt %s -p split-k-slices --split-input-file --verify-diagnostics

#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1]>
#tv_a = #tile.tv<threads (4,8):(32,1), values ((2,2,2),1,2):((16,8,128),16,256)>
#tv_b = #tile.tv<threads (4,8):(16,1), values ((2,2),1,2):((8,64),8,128)>
#tv_c = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
!a = !sm.fragment<16x32xbf16, #tv_a>
!b = !sm.fragment<8x32xbf16, #tv_b>
!c = !sm.fragment<16x8xf32, #tv_c>
!buffer = memref<8x32xbf16, #tile.layout<(8,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @argument(%fa: !a, %bs: !buffer) {
  %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x4" : !buffer to !b
  %c = sm.splat 0.0 : !c
  // expected-error @below {{split-k-slices: operand A must come from sm.ldmatrix, sm.load_shared or sm.load_global [sliced-operand]}}
  %c1 = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
  tile.return
}
}
// -----

#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1]>
#tv_a = #tile.tv<threads (4,8):(32,1), values ((2,2,2),1,2):((16,8,128),16,256)>
#tv_b = #tile.tv<threads (4,8):(16,1), values ((2,2),1,2):((8,64),8,128)>
#tv_c = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
!a = !sm.fragment<16x32xbf16, #tv_a>
!b = !sm.fragment<8x32xbf16, #tv_b>
!c = !sm.fragment<16x8xf32, #tv_c>
!buffer = memref<16x32xbf16, #tile.layout<(16,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @made_here(%as: !buffer) {
  %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" : !buffer to !a
  %fb = sm.splat 1.0 : !b
  %c = sm.splat 0.0 : !c
  // expected-error @below {{[sliced-operand]}}
  %c1 = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
  tile.return
}
}
// -----

// Slices are as deep as the tiled mma, and a tile holds whole ones.
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1]>
#tv_a = #tile.tv<threads (4,8):(32,1), values ((2,2,2),1,1):((16,8,128),16,256)>
#tv_b = #tile.tv<threads (4,8):(16,1), values ((2,2),1,1):((8,64),8,128)>
#tv_c = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
!a = !sm.fragment<16x24xbf16, #tv_a>
!b = !sm.fragment<8x24xbf16, #tv_b>
!c = !sm.fragment<16x8xf32, #tv_c>
!as = memref<16x24xbf16, #tile.layout<(16,24):(24,1)>, #gpu.address_space<workgroup>>
!bs = memref<8x24xbf16, #tile.layout<(8,24):(24,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @half_a_slice(%as: !as, %bs: !bs) {
  %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" : !as to !a
  %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x4" : !bs to !b
  %c = sm.splat 0.0 : !c
  // expected-error @below {{split-k-slices: K = 24 is not a multiple of 16, one step of the tiled mma [slice-depth]}}
  %c1 = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
  tile.return
}
}
// -----

#mma = #sm.tiled_mma<mma.m16n8k99.f32.bf16, atoms [1, 1, 1]>
#tv_a = #tile.tv<threads (4,8):(32,1), values ((2,2,2),1,2):((16,8,128),16,256)>
#tv_b = #tile.tv<threads (4,8):(16,1), values ((2,2),1,2):((8,64),8,128)>
#tv_c = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
!a = !sm.fragment<16x32xbf16, #tv_a>
!b = !sm.fragment<8x32xbf16, #tv_b>
!c = !sm.fragment<16x8xf32, #tv_c>
!as = memref<16x32xbf16, #tile.layout<(16,32):(32,1)>, #gpu.address_space<workgroup>>
!bs = memref<8x32xbf16, #tile.layout<(8,32):(32,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @unknown_atom(%as: !as, %bs: !bs) {
  %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" : !as to !a
  %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x4" : !bs to !b
  %c = sm.splat 0.0 : !c
  // expected-error @below {{[unknown-atom]}}
  %c1 = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
  tile.return
}
}
