// store-first-rows refuses loops over K that are not as bind-wgmma leaves them, and a first part of more rows than are
// complete first.
// RUN: lowtide-opt %s -p store-first-rows --split-input-file --verify-diagnostics

// K is known at run time.
#layout = #tile.layout<(64,16):(16,1), swizzle<1,3,3>>
#layout1 = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#layout2 = #tile.layout<(16,64):(64,1), swizzle<3,3,3>>
#tiled_mma = #sm.tiled_mma<wgmma.m64n16k16.f32.bf16, atoms [1, 1, 1], permutation [64, 16, 16]>
#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,2),2,1):((128,8,1024),64,2048)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>
!pending = !sm.pending<!sm.fragment<128x16xf32, #tv>>
!ring = !sm.ring<2 x [memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>]>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
  tile.kernel @rows(%A: memref<256x192xbf16, strided<[?, 1]>>, %K: index, %B: memref<64x192xbf16, strided<[?, 1]>>, %D: memref<256x64xbf16, strided<[?, 1]>>, %tensor_map: !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>, %tensor_map_0: !sm.tensor_map<16x64xbf16, swizzle<3,3,3>>, %tensor_map_1: !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>, epilogue = <start = first_rows>>} {
    %0 = sm.alloc : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
    %1 = sm.alloc : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
    %c256 = arith.constant 256 : index
    %c64 = arith.constant 64 : index
    %ring = sm.ring : !ring
    %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
    %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
    sm.roles {
      producer warps(4) {
      }
      consumer warps(4) {
        %c0 = arith.constant 0 : index
        %2:2 = tile.work_tiles (%m, %n) of (%c256, %c64) by [128, 16] order(<row>) persistent iter_args(%arg0 = %c0, %arg1 = %c0) -> (index, index) {
          %c3 = arith.constant 3 : index
          %c1 = arith.constant 1 : index
          %3 = sm.splat 0.000000e+00 : !sm.fragment<128x16xf32, #tv>
          sm.mbarrier_wait %full[%arg0, %arg1] : !sm.mbarriers<2>
          %a, %b = sm.ring_slot %ring[%arg0] : !ring
          %4 = sm.wgmma tn %a, %b, %3 by #tiled_mma : memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>, !sm.fragment<128x16xf32, #tv> -> !pending
          %index, %phase = sm.ring_advance %ring[%arg0, %arg1] : !ring
          // expected-error @below {{store-first-rows: must wait for the group of the step before in each of its steps, from 1 to a known one [first-rows-loop]}}
          %5:4 = scf.for %arg2 = %c1 to %K step %c1 iter_args(%arg3 = %4, %arg4 = %arg0, %arg5 = %index, %arg6 = %phase) -> (!pending, index, index, index) {
            sm.mbarrier_wait %full[%arg5, %arg6] : !sm.mbarriers<2>
            %a_3, %b_4 = sm.ring_slot %ring[%arg5] : !ring
            %11 = sm.wgmma tn %a_3, %b_4, %arg3 by #tiled_mma : memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>, !pending -> !pending
            %result_5, %retired_6 = sm.mma_wait 1, %11 : !pending -> !pending
            sm.mbarrier_arrive %empty[%arg4] after %retired_6 : !sm.mbarriers<2>
            %index_7, %phase_8 = sm.ring_advance %ring[%arg5, %arg6] : !ring
            scf.yield %result_5, %arg5, %index_7, %phase_8 : !pending, index, index, index
          } {sm.timing = #sm.timing<stores = first_rows>}
          %result, %retired = sm.mma_wait 0, %5#0 : !pending -> !sm.fragment<128x16xf32, #tv>
          sm.mbarrier_arrive %empty[%5#1] after %retired : !sm.mbarriers<2>
          %6 = sm.extract %result[0, 0] : !sm.fragment<128x16xf32, #tv> to !sm.fragment<64x16xf32, #tv1>
          %7 = sm.map %6 : !sm.fragment<64x16xf32, #tv1> {
          ^bb0(%arg2: f32):
            %11 = arith.truncf %arg2 : f32 to bf16
            tile.yield %11 : bf16
          } : !sm.fragment<64x16xbf16, #tv1>
          sm.tma_store_wait read 1
          sm.barrier warpgroup
          sm.store_shared %7 to %0 by "stmatrix.x4" : !sm.fragment<64x16xbf16, #tv1>, memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
          sm.fence_proxy_async
          sm.barrier warpgroup
          sm.tma_store %0 to %tensor_map_1[%m, %n] : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>, !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
          %8 = sm.extract %result[64, 0] : !sm.fragment<128x16xf32, #tv> to !sm.fragment<64x16xf32, #tv1>
          %c64_2 = arith.constant 64 : index
          %9 = arith.addi %m, %c64_2 : index
          %10 = sm.map %8 : !sm.fragment<64x16xf32, #tv1> {
          ^bb0(%arg2: f32):
            %11 = arith.truncf %arg2 : f32 to bf16
            tile.yield %11 : bf16
          } : !sm.fragment<64x16xbf16, #tv1>
          sm.tma_store_wait read 1
          sm.barrier warpgroup
          sm.store_shared %10 to %1 by "stmatrix.x4" : !sm.fragment<64x16xbf16, #tv1>, memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
          sm.fence_proxy_async
          sm.barrier warpgroup
          sm.tma_store %1 to %tensor_map_1[%9, %n] : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>, !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
          tile.yield %5#2, %5#3 : index, index
        }
        sm.tma_store_wait read 0
      }
    }
    tile.return
  }
}
// -----

// One K step.
#layout = #tile.layout<(64,16):(16,1), swizzle<1,3,3>>
#layout1 = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#layout2 = #tile.layout<(16,64):(64,1), swizzle<3,3,3>>
#tiled_mma = #sm.tiled_mma<wgmma.m64n16k16.f32.bf16, atoms [1, 1, 1], permutation [64, 16, 16]>
#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,2),2,1):((128,8,1024),64,2048)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>
!pending = !sm.pending<!sm.fragment<128x16xf32, #tv>>
!ring = !sm.ring<2 x [memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>]>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
  tile.kernel @rows(%A: memref<256x192xbf16, strided<[?, 1]>>, %B: memref<64x192xbf16, strided<[?, 1]>>, %D: memref<256x64xbf16, strided<[?, 1]>>, %tensor_map: !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>, %tensor_map_0: !sm.tensor_map<16x64xbf16, swizzle<3,3,3>>, %tensor_map_1: !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>, epilogue = <start = first_rows>>} {
    %0 = sm.alloc : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
    %1 = sm.alloc : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
    %c256 = arith.constant 256 : index
    %c64 = arith.constant 64 : index
    %ring = sm.ring : !ring
    %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
    %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
    sm.roles {
      producer warps(4) {
      }
      consumer warps(4) {
        %c0 = arith.constant 0 : index
        %2:2 = tile.work_tiles (%m, %n) of (%c256, %c64) by [128, 16] order(<row>) persistent iter_args(%arg0 = %c0, %arg1 = %c0) -> (index, index) {
          %c3 = arith.constant 1 : index
          %c1 = arith.constant 1 : index
          %3 = sm.splat 0.000000e+00 : !sm.fragment<128x16xf32, #tv>
          sm.mbarrier_wait %full[%arg0, %arg1] : !sm.mbarriers<2>
          %a, %b = sm.ring_slot %ring[%arg0] : !ring
          %4 = sm.wgmma tn %a, %b, %3 by #tiled_mma : memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>, !sm.fragment<128x16xf32, #tv> -> !pending
          %index, %phase = sm.ring_advance %ring[%arg0, %arg1] : !ring
          // expected-error @below {{[first-rows-loop]}}
          %5:4 = scf.for %arg2 = %c1 to %c3 step %c1 iter_args(%arg3 = %4, %arg4 = %arg0, %arg5 = %index, %arg6 = %phase) -> (!pending, index, index, index) {
            sm.mbarrier_wait %full[%arg5, %arg6] : !sm.mbarriers<2>
            %a_3, %b_4 = sm.ring_slot %ring[%arg5] : !ring
            %11 = sm.wgmma tn %a_3, %b_4, %arg3 by #tiled_mma : memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>, !pending -> !pending
            %result_5, %retired_6 = sm.mma_wait 1, %11 : !pending -> !pending
            sm.mbarrier_arrive %empty[%arg4] after %retired_6 : !sm.mbarriers<2>
            %index_7, %phase_8 = sm.ring_advance %ring[%arg5, %arg6] : !ring
            scf.yield %result_5, %arg5, %index_7, %phase_8 : !pending, index, index, index
          } {sm.timing = #sm.timing<stores = first_rows>}
          %result, %retired = sm.mma_wait 0, %5#0 : !pending -> !sm.fragment<128x16xf32, #tv>
          sm.mbarrier_arrive %empty[%5#1] after %retired : !sm.mbarriers<2>
          %6 = sm.extract %result[0, 0] : !sm.fragment<128x16xf32, #tv> to !sm.fragment<64x16xf32, #tv1>
          %7 = sm.map %6 : !sm.fragment<64x16xf32, #tv1> {
          ^bb0(%arg2: f32):
            %11 = arith.truncf %arg2 : f32 to bf16
            tile.yield %11 : bf16
          } : !sm.fragment<64x16xbf16, #tv1>
          sm.tma_store_wait read 1
          sm.barrier warpgroup
          sm.store_shared %7 to %0 by "stmatrix.x4" : !sm.fragment<64x16xbf16, #tv1>, memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
          sm.fence_proxy_async
          sm.barrier warpgroup
          sm.tma_store %0 to %tensor_map_1[%m, %n] : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>, !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
          %8 = sm.extract %result[64, 0] : !sm.fragment<128x16xf32, #tv> to !sm.fragment<64x16xf32, #tv1>
          %c64_2 = arith.constant 64 : index
          %9 = arith.addi %m, %c64_2 : index
          %10 = sm.map %8 : !sm.fragment<64x16xf32, #tv1> {
          ^bb0(%arg2: f32):
            %11 = arith.truncf %arg2 : f32 to bf16
            tile.yield %11 : bf16
          } : !sm.fragment<64x16xbf16, #tv1>
          sm.tma_store_wait read 1
          sm.barrier warpgroup
          sm.store_shared %10 to %1 by "stmatrix.x4" : !sm.fragment<64x16xbf16, #tv1>, memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
          sm.fence_proxy_async
          sm.barrier warpgroup
          sm.tma_store %1 to %tensor_map_1[%9, %n] : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>, !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
          tile.yield %5#2, %5#3 : index, index
        }
        sm.tma_store_wait read 0
      }
    }
    tile.return
  }
}
// -----

// A first part of all rows.
#layout = #tile.layout<(64,16):(16,1), swizzle<1,3,3>>
#layout1 = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#layout2 = #tile.layout<(16,64):(64,1), swizzle<3,3,3>>
#tiled_mma = #sm.tiled_mma<wgmma.m64n16k16.f32.bf16, atoms [1, 1, 1], permutation [64, 16, 16]>
#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,2),2,1):((128,8,1024),64,2048)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>
!pending = !sm.pending<!sm.fragment<128x16xf32, #tv>>
!ring = !sm.ring<2 x [memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>]>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
  tile.kernel @rows(%A: memref<256x192xbf16, strided<[?, 1]>>, %B: memref<64x192xbf16, strided<[?, 1]>>, %D: memref<256x64xbf16, strided<[?, 1]>>, %tensor_map: !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>, %tensor_map_0: !sm.tensor_map<16x64xbf16, swizzle<3,3,3>>, %tensor_map_1: !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>, epilogue = <start = first_rows>>} {
    %0 = sm.alloc : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
    %1 = sm.alloc : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
    %c256 = arith.constant 256 : index
    %c64 = arith.constant 64 : index
    %ring = sm.ring : !ring
    %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
    %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
    sm.roles {
      producer warps(4) {
      }
      consumer warps(4) {
        %c0 = arith.constant 0 : index
        %2:2 = tile.work_tiles (%m, %n) of (%c256, %c64) by [128, 16] order(<row>) persistent iter_args(%arg0 = %c0, %arg1 = %c0) -> (index, index) {
          %c3 = arith.constant 3 : index
          %c1 = arith.constant 1 : index
          %3 = sm.splat 0.000000e+00 : !sm.fragment<128x16xf32, #tv>
          sm.mbarrier_wait %full[%arg0, %arg1] : !sm.mbarriers<2>
          %a, %b = sm.ring_slot %ring[%arg0] : !ring
          %4 = sm.wgmma tn %a, %b, %3 by #tiled_mma : memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>, !sm.fragment<128x16xf32, #tv> -> !pending
          %index, %phase = sm.ring_advance %ring[%arg0, %arg1] : !ring
          %5:4 = scf.for %arg2 = %c1 to %c3 step %c1 iter_args(%arg3 = %4, %arg4 = %arg0, %arg5 = %index, %arg6 = %phase) -> (!pending, index, index, index) {
            sm.mbarrier_wait %full[%arg5, %arg6] : !sm.mbarriers<2>
            %a_3, %b_4 = sm.ring_slot %ring[%arg5] : !ring
            %11 = sm.wgmma tn %a_3, %b_4, %arg3 by #tiled_mma : memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>, !pending -> !pending
            %result_5, %retired_6 = sm.mma_wait 1, %11 : !pending -> !pending
            sm.mbarrier_arrive %empty[%arg4] after %retired_6 : !sm.mbarriers<2>
            %index_7, %phase_8 = sm.ring_advance %ring[%arg5, %arg6] : !ring
            scf.yield %result_5, %arg5, %index_7, %phase_8 : !pending, index, index, index
          } {sm.timing = #sm.timing<stores = first_rows>}
          %result, %retired = sm.mma_wait 0, %5#0 : !pending -> !sm.fragment<128x16xf32, #tv>
          sm.mbarrier_arrive %empty[%5#1] after %retired : !sm.mbarriers<2>
          // expected-error @below {{store-first-rows: reads more than the 64 rows whose sums are complete first [first-rows-reads]}}
          %wide = sm.extract %result[0, 0] : !sm.fragment<128x16xf32, #tv> to !sm.fragment<128x16xf32, #tv>
          %6 = sm.extract %result[0, 0] : !sm.fragment<128x16xf32, #tv> to !sm.fragment<64x16xf32, #tv1>
          %7 = sm.map %6 : !sm.fragment<64x16xf32, #tv1> {
          ^bb0(%arg2: f32):
            %11 = arith.truncf %arg2 : f32 to bf16
            tile.yield %11 : bf16
          } : !sm.fragment<64x16xbf16, #tv1>
          sm.tma_store_wait read 1
          sm.barrier warpgroup
          sm.store_shared %7 to %0 by "stmatrix.x4" : !sm.fragment<64x16xbf16, #tv1>, memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
          sm.fence_proxy_async
          sm.barrier warpgroup
          sm.tma_store %0 to %tensor_map_1[%m, %n] : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>, !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
          %8 = sm.extract %result[64, 0] : !sm.fragment<128x16xf32, #tv> to !sm.fragment<64x16xf32, #tv1>
          %c64_2 = arith.constant 64 : index
          %9 = arith.addi %m, %c64_2 : index
          %10 = sm.map %8 : !sm.fragment<64x16xf32, #tv1> {
          ^bb0(%arg2: f32):
            %11 = arith.truncf %arg2 : f32 to bf16
            tile.yield %11 : bf16
          } : !sm.fragment<64x16xbf16, #tv1>
          sm.tma_store_wait read 1
          sm.barrier warpgroup
          sm.store_shared %10 to %1 by "stmatrix.x4" : !sm.fragment<64x16xbf16, #tv1>, memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
          sm.fence_proxy_async
          sm.barrier warpgroup
          sm.tma_store %1 to %tensor_map_1[%9, %n] : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>, !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>
          tile.yield %5#2, %5#3 : index, index
        }
        sm.tma_store_wait read 0
      }
    }
    tile.return
  }
}
// -----

// Parts that no TMA store takes.
#layout = #tile.layout<(64,16):(16,1), swizzle<1,3,3>>
#layout1 = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#layout2 = #tile.layout<(16,64):(64,1), swizzle<3,3,3>>
#tiled_mma = #sm.tiled_mma<wgmma.m64n16k16.f32.bf16, atoms [1, 1, 1], permutation [64, 16, 16]>
#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,2),2,1):((128,8,1024),64,2048)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>
!pending = !sm.pending<!sm.fragment<128x16xf32, #tv>>
!ring = !sm.ring<2 x [memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>]>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
  tile.kernel @rows(%A: memref<256x192xbf16, strided<[?, 1]>>, %B: memref<64x192xbf16, strided<[?, 1]>>, %D: memref<256x64xbf16, strided<[?, 1]>>, %tensor_map: !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>, %tensor_map_0: !sm.tensor_map<16x64xbf16, swizzle<3,3,3>>, %tensor_map_1: !sm.tensor_map<64x16xbf16, swizzle<1,3,3>>) attributes {schedule = #tile.schedule<mainloop = <stages = 2, roles = cooperative(1)>, epilogue = <start = first_rows>>} {
    %0 = sm.alloc : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
    %1 = sm.alloc : memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
    %c256 = arith.constant 256 : index
    %c64 = arith.constant 64 : index
    %ring = sm.ring : !ring
    %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
    %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
    sm.roles {
      producer warps(4) {
      }
      consumer warps(4) {
        %c0 = arith.constant 0 : index
        %2:2 = tile.work_tiles (%m, %n) of (%c256, %c64) by [128, 16] order(<row>) persistent iter_args(%arg0 = %c0, %arg1 = %c0) -> (index, index) {
          %c3 = arith.constant 3 : index
          %c1 = arith.constant 1 : index
          %3 = sm.splat 0.000000e+00 : !sm.fragment<128x16xf32, #tv>
          sm.mbarrier_wait %full[%arg0, %arg1] : !sm.mbarriers<2>
          %a, %b = sm.ring_slot %ring[%arg0] : !ring
          %4 = sm.wgmma tn %a, %b, %3 by #tiled_mma : memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>, !sm.fragment<128x16xf32, #tv> -> !pending
          %index, %phase = sm.ring_advance %ring[%arg0, %arg1] : !ring
          %5:4 = scf.for %arg2 = %c1 to %c3 step %c1 iter_args(%arg3 = %4, %arg4 = %arg0, %arg5 = %index, %arg6 = %phase) -> (!pending, index, index, index) {
            sm.mbarrier_wait %full[%arg5, %arg6] : !sm.mbarriers<2>
            %a_3, %b_4 = sm.ring_slot %ring[%arg5] : !ring
            %11 = sm.wgmma tn %a_3, %b_4, %arg3 by #tiled_mma : memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>, memref<16x64xbf16, #layout2, #gpu.address_space<workgroup>>, !pending -> !pending
            %result_5, %retired_6 = sm.mma_wait 1, %11 : !pending -> !pending
            sm.mbarrier_arrive %empty[%arg4] after %retired_6 : !sm.mbarriers<2>
            %index_7, %phase_8 = sm.ring_advance %ring[%arg5, %arg6] : !ring
            scf.yield %result_5, %arg5, %index_7, %phase_8 : !pending, index, index, index
          } {sm.timing = #sm.timing<stores = first_rows>}
          // expected-error @below {{store-first-rows: must be followed by stores by TMA of the parts of the tile}}
          %result, %retired = sm.mma_wait 0, %5#0 : !pending -> !sm.fragment<128x16xf32, #tv>
          sm.mbarrier_arrive %empty[%5#1] after %retired : !sm.mbarriers<2>
          %6 = sm.extract %result[0, 0] : !sm.fragment<128x16xf32, #tv> to !sm.fragment<64x16xf32, #tv1>
          %7 = sm.map %6 : !sm.fragment<64x16xf32, #tv1> {
          ^bb0(%arg2: f32):
            %11 = arith.truncf %arg2 : f32 to bf16
            tile.yield %11 : bf16
          } : !sm.fragment<64x16xbf16, #tv1>
          sm.tma_store_wait read 1
          sm.barrier warpgroup
          sm.store_shared %7 to %0 by "stmatrix.x4" : !sm.fragment<64x16xbf16, #tv1>, memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
          sm.fence_proxy_async
          sm.barrier warpgroup
          %8 = sm.extract %result[64, 0] : !sm.fragment<128x16xf32, #tv> to !sm.fragment<64x16xf32, #tv1>
          %c64_2 = arith.constant 64 : index
          %9 = arith.addi %m, %c64_2 : index
          %10 = sm.map %8 : !sm.fragment<64x16xf32, #tv1> {
          ^bb0(%arg2: f32):
            %11 = arith.truncf %arg2 : f32 to bf16
            tile.yield %11 : bf16
          } : !sm.fragment<64x16xbf16, #tv1>
          sm.tma_store_wait read 1
          sm.barrier warpgroup
          sm.store_shared %10 to %1 by "stmatrix.x4" : !sm.fragment<64x16xbf16, #tv1>, memref<64x16xbf16, #layout, #gpu.address_space<workgroup>>
          sm.fence_proxy_async
          sm.barrier warpgroup
          tile.yield %5#2, %5#3 : index, index
        }
        sm.tma_store_wait read 0
      }
    }
    tile.return
  }
}
