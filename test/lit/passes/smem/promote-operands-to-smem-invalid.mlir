// promote-operands-to-smem takes windows of global memory only.
// RUN: lowtide-opt %s -p promote-operands-to-smem --verify-diagnostics

!mat = memref<?x?xbf16, strided<[?, 1]>>
!buffer = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
tile.kernel @promoted_already(%a: !mat) {
  %c0 = arith.constant 0 : index
  %zero = tile.splat 0.0 : !tile.tile<32x32xf32>
  %at = tile.view %a[%c0, %c0] : !mat to !tile.view<32x16xbf16>
  %bs = sm.alloc : !buffer
  // expected-error @below {{promote-operands-to-smem: operand B is memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>, not a window of global memory [promoted-window]}}
  %acc = tile.mma tn %at, %bs, %zero : !tile.view<32x16xbf16>, !buffer, !tile.tile<32x32xf32>
  tile.return
}
}
