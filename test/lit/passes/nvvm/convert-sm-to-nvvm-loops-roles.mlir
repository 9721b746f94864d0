// convert-sm-to-nvvm keeps the K loop of a role rolled where the K steps of a tile are as many as the ring's stages, and
// their matrix descriptors, which LLVM would work out once for all tiles, do not fit in registers beside the sums.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-DAG: #[[DISABLE:.+]] = #llvm.loop_unroll<disable = true>
// CHECK-DAG: #[[ROLLED:.+]] = #llvm.loop_annotation<unroll = #[[DISABLE]]>

// 192 sums, and 36 descriptors of two registers each, in 232 registers.
// CHECK-LABEL: gpu.func @as_many_steps_as_stages(
// CHECK-COUNT-8: nvvm.wgmma.mma_async
// CHECK:       } {llvm.loop_annotation = #[[ROLLED]]}
// CHECK-LABEL: gpu.func @more_steps(
// CHECK-NOT:   llvm.loop_annotation
// CHECK-LABEL: gpu.func @fewer_sums(
// CHECK-NOT:   llvm.loop_annotation
#layout_a = #tile.layout<(256,64):(64,1), swizzle<3,3,3>>
#layout_b = #tile.layout<(192,64):(64,1), swizzle<3,3,3>>
#layout_c = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#mma = #sm.tiled_mma<wgmma.m64n192k16.f32.bf16, atoms [2, 1, 1], permutation [128, 192, 16]>
#tall = #tile.tv<threads (4,8,8):(512,1,16), values ((2,2,24),2,1):((256,8,2048),128,49152)>
#low = #tile.tv<threads (4,8,8):(256,1,16), values ((2,2,24),1,1):((128,8,1024),128,24576)>
!a = memref<256x64xbf16, #layout_a, #gpu.address_space<workgroup>>
!b = memref<192x64xbf16, #layout_b, #gpu.address_space<workgroup>>
!c = memref<128x64xbf16, #layout_c, #gpu.address_space<workgroup>>
!sums = !sm.fragment<256x192xf32, #tall>
!fewer = !sm.fragment<128x192xf32, #low>
!ring = !sm.ring<3 x [!a, !b]>
!low_ring = !sm.ring<3 x [!c, !b]>
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%a: !mat, %n: index) {
  tile.launch @as_many_steps_as_stages grid(%n) threads(384) shared_memory(221232) args(%a) : !mat
  tile.launch @more_steps grid(%n) threads(384) shared_memory(221232) args(%a) : !mat
  tile.launch @fewer_sums grid(%n) threads(384) shared_memory(221232) args(%a) : !mat
  return
}
tile.kernel @as_many_steps_as_stages(%A: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %ring = sm.ring at [0, 98304] : !ring
  sm.roles {
    producer warps(4) registers(40) {
    }
    consumer warps(8) registers(232) {
      %zero = sm.splat 0.000000e+00 : !sums
      %a, %b = sm.ring_slot %ring[%c0] : !ring
      %first = sm.wgmma tn %a, %b, %zero by #mma : !a, !b, !sums -> !sm.pending<!sums>
      %last:2 = scf.for %i = %c1 to %c3 step %c1 iter_args(%acc = %first, %slot = %c1) -> (!sm.pending<!sums>, index) {
        %a_i, %b_i = sm.ring_slot %ring[%slot] : !ring
        %next = sm.wgmma tn %a_i, %b_i, %acc by #mma : !a, !b, !sm.pending<!sums> -> !sm.pending<!sums>
        %slot_after, %phase = sm.ring_advance %ring[%slot, %c0] : !ring
        scf.yield %next, %slot_after : !sm.pending<!sums>, index
      }
      %result, %retired = sm.mma_wait 0, %last#0 : !sm.pending<!sums> -> !sums
    }
  }
  tile.return
}
tile.kernel @more_steps(%A: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %ring = sm.ring at [0, 98304] : !ring
  sm.roles {
    producer warps(4) registers(40) {
    }
    consumer warps(8) registers(232) {
      %zero = sm.splat 0.000000e+00 : !sums
      %a, %b = sm.ring_slot %ring[%c0] : !ring
      %first = sm.wgmma tn %a, %b, %zero by #mma : !a, !b, !sums -> !sm.pending<!sums>
      %last:2 = scf.for %i = %c1 to %c4 step %c1 iter_args(%acc = %first, %slot = %c1) -> (!sm.pending<!sums>, index) {
        %a_i, %b_i = sm.ring_slot %ring[%slot] : !ring
        %next = sm.wgmma tn %a_i, %b_i, %acc by #mma : !a, !b, !sm.pending<!sums> -> !sm.pending<!sums>
        %slot_after, %phase = sm.ring_advance %ring[%slot, %c0] : !ring
        scf.yield %next, %slot_after : !sm.pending<!sums>, index
      }
      %result, %retired = sm.mma_wait 0, %last#0 : !sm.pending<!sums> -> !sums
    }
  }
  tile.return
}
tile.kernel @fewer_sums(%A: !mat) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %ring = sm.ring at [0, 98304] : !low_ring
  sm.roles {
    producer warps(4) registers(40) {
    }
    consumer warps(8) registers(232) {
      %zero = sm.splat 0.000000e+00 : !fewer
      %a, %b = sm.ring_slot %ring[%c0] : !low_ring
      %first = sm.wgmma tn %a, %b, %zero by #mma : !c, !b, !fewer -> !sm.pending<!fewer>
      %last:2 = scf.for %i = %c1 to %c3 step %c1 iter_args(%acc = %first, %slot = %c1) -> (!sm.pending<!fewer>, index) {
        %a_i, %b_i = sm.ring_slot %ring[%slot] : !low_ring
        %next = sm.wgmma tn %a_i, %b_i, %acc by #mma : !c, !b, !sm.pending<!fewer> -> !sm.pending<!fewer>
        %slot_after, %phase = sm.ring_advance %ring[%slot, %c0] : !low_ring
        scf.yield %next, %slot_after : !sm.pending<!fewer>, index
      }
      %result, %retired = sm.mma_wait 0, %last#0 : !sm.pending<!fewer> -> !fewer
    }
  }
  tile.return
}
}
