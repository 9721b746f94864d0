// convert-sm-to-nvvm, of scales of blocks: a thread loads each scale that it needs once, and the products of two of them
// are computed after the wait, for a fused multiply-add of each element.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// Two rows of a block of 64, eight apart; rows beyond the last one read the last one's scale.
// CHECK-LABEL: gpu.func @kernel
// CHECK:         %[[ROW:.+]] = arith.minui %{{.+}}, %{{.+}} : i32
// CHECK:         %[[S0:.+]] = llvm.load %{{.+}} : !llvm.ptr<1> -> f32
// CHECK:         arith.minui
// CHECK:         %[[S8:.+]] = llvm.load %{{.+}} : !llvm.ptr<1> -> f32
// All eight columns lie in one block of 128.
// CHECK:         %[[T:.+]] = llvm.load %{{.+}} : !llvm.ptr<1> -> f32
// CHECK-NOT:     llvm.load
// CHECK:         nvvm.wgmma.mma_async
// CHECK-NOT:     arith.mulf
// CHECK:         sm.ptx_wgmma_wait 0
// CHECK:         %[[P0:.+]] = arith.mulf %[[S0]], %[[T]] : f32
// CHECK-NEXT:    %[[P8:.+]] = arith.mulf %[[S8]], %[[T]] : f32
// CHECK-NEXT:    %[[FACTORS:.+]] = vector.from_elements %[[P0]], %[[P0]], %[[P8]], %[[P8]] : vector<4xf32>
// CHECK-NEXT:    math.fma %{{.+}}, %[[FACTORS]], %{{.+}} : vector<4xf32>
// CHECK-NOT:     arith.addf
!a = memref<64x64xf8E4M3FN, #tile.layout<(64,64):(64,1), swizzle<2,4,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xf8E5M2, #tile.layout<(8,64):(64,1), swizzle<2,4,3>>, #gpu.address_space<workgroup>>
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
!acc = !sm.fragment<64x8xf32, #tv>
!d = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: !d, %sa: !d, %sb: !d, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(32768) args(%d, %sa, %sb) : !d, !d, !d
  tile.launch @overlapped grid(%ctas) threads(256) shared_memory(32768) args(%d, %sa, %sb) : !d, !d, !d
  return
}
tile.kernel @kernel(%d: !d, %sa: !d, %sb: !d) {
  %c0 = arith.constant 0 : index
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  %c1 = arith.constant 1 : index
  %m = memref.dim %d, %c0 : !d
  %n = memref.dim %d, %c1 : !d
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      tile.work_tiles (%row, %column) of (%m, %n) by [64, 8] order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc
        %s = sm.load_scales row_scale %sa[%row, %c0] : !d to !acc
        %t = sm.load_scales column_block_scale %sb[%column, %c0] : !d to !acc
        %sum, %done = sm.wgmma_promote tn %as, %bs into %zero scaled(%s : !acc, %t : !acc) by <wgmma.m64n8k32.f32.e4m3.e5m2, atoms [1, 1, 1]> : !a, !b, !acc
        %window = tile.view %d[%row, %column] : !d to !tile.view<64x8xf32>
        sm.store_global %sum to %window by "st.global.8" : !acc, !tile.view<64x8xf32>
      }
    }
  }
  tile.return
}

// Where steps overlap they are computed while the products are in flight, and kept from being moved behind the wait.
// CHECK-LABEL: gpu.func @overlapped
// CHECK:         nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:    %[[F0:.+]] = arith.mulf %{{.+}}, %{{.+}} : f32
// CHECK-NEXT:    %[[F8:.+]] = arith.mulf
// CHECK:         %[[KEPT:.+]] = sm.ptx_wgmma_wait 1, %{{.+}} : !llvm.struct<(f32, f32)>
// CHECK:         llvm.extractvalue %[[KEPT]][0]
// CHECK:         sm.ptx_wgmma_wait 0
// CHECK-NOT:     arith.mulf
// CHECK:         math.fma
tile.kernel @overlapped(%d: !d, %sa: !d, %sb: !d) {
  %c0 = arith.constant 0 : index
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  %c1 = arith.constant 1 : index
  %m = memref.dim %d, %c0 : !d
  %n = memref.dim %d, %c1 : !d
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      tile.work_tiles (%row, %column) of (%m, %n) by [64, 8] order(<row>) persistent {
        %zero = sm.splat 0.0 : !acc
        %s = sm.load_scales row_scale %sa[%row, %c0] : !d to !acc
        %t = sm.load_scales column_block_scale %sb[%column, %c0] : !d to !acc
        %sum = scf.for %i = %c0 to %m step %c1 iter_args(%acc = %zero) -> (!acc) {
          %next, %done = sm.wgmma_promote tn %as, %bs into %acc scaled(%s : !acc, %t : !acc) by <wgmma.m64n8k32.f32.e4m3.e5m2, atoms [1, 1, 1]> : !a, !b, !acc
          scf.yield %next : !acc
        } {sm.timing = #sm.timing<slot = step_before>}
        %window = tile.view %d[%row, %column] : !d to !tile.view<64x8xf32>
        sm.store_global %sum to %window by "st.global.8" : !acc, !tile.view<64x8xf32>
      }
    }
  }
  tile.return
}
}
