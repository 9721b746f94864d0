// promote-operands-to-smem takes windows of global memory only, and scales of the kernel's arguments.
// RUN: lowtide-opt %s -p promote-operands-to-smem --split-input-file --verify-diagnostics

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

// -----

!mat = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!scales = memref<?x?xf32, strided<[?, 1]>>
!a = !tile.view<64x128xf8E4M3FN>
!b = !tile.view<8x128xf8E4M3FN>
!tile = !tile.tile<64x8xf32>
!window = !tile.view<64x8xf32>
#schedule = #tile.schedule<mainloop = <k = 128, roles = cooperative(1), scales = staged>>
module attributes {tile.target = "sm_90a"} {
tile.kernel @staged_already(%a: !mat, %b: !mat, %sa: !scales, %sb: !scales) attributes {schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %zero = tile.splat 0.0 : !tile
  %at = tile.view %a[%c0, %c0] : !mat to !a
  %bt = tile.view %b[%c0, %c0] : !mat to !b
  %own = sm.alloc : memref<1x64xf32, #tile.layout<(1,64):(64,1)>, #gpu.address_space<workgroup>>
  %p = tile.mma tn %at, %bt, %zero : !a, !b, !tile
  %rows = tile.view row_scale %own[%c0, %c0] : memref<1x64xf32, #tile.layout<(1,64):(64,1)>, #gpu.address_space<workgroup>> to !window
  %columns = tile.view column_block_scale %sb[%c0, %c0] : !scales to !window
  // expected-error @below {{promote-operands-to-smem: a scale must be a window of a kernel argument; take one at the K of the step}}
  %sum = tile.promote %p into %zero block_scaled(%rows : !window, %columns : !window) : !tile
  tile.return
}
}
