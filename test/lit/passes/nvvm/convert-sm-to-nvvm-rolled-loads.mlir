// convert-sm-to-nvvm: thread 0 runs the producer, and TMA loads take the address of shared memory directly. In
// clusters, the producer's loop over a known K is not unrolled.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-DAG: #[[DISABLE:.+]] = #llvm.loop_unroll<disable = true>
// CHECK-DAG: #[[ROLLED:.+]] = #llvm.loop_annotation<unroll = #[[DISABLE]]>

// CHECK-LABEL: gpu.func @open(
// CHECK:       %[[TID:.+]] = nvvm.read.ptx.sreg.tid.x
// CHECK:       %[[ROLE:.+]] = arith.cmpi ult, %[[TID]], %c128_i32{{.*}} : i32
// CHECK-NEXT:  scf.if %[[ROLE]] {
// CHECK-NEXT:    %[[ONE:.+]] = arith.cmpi eq, %[[TID]], %c0_i32{{.*}} : i32
// CHECK-NEXT:    scf.if %[[ONE]] {
// CHECK-NEXT:      scf.for
// CHECK-NEXT:        %[[NUMBER:.+]] = llvm.ptrtoint %{{.+}} : !llvm.ptr<3> to i64
// CHECK-NEXT:        %[[TO:.+]] = llvm.inttoptr %[[NUMBER]] : i64 to !llvm.ptr<7>
// CHECK-NEXT:        nvvm.cp.async.bulk.tensor.shared.cluster.global %[[TO]]
// CHECK-LABEL: gpu.func @known(
// CHECK-NOT:   llvm.loop_annotation
// CHECK-LABEL: gpu.func @in_cluster(
// CHECK:       nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK:       } {llvm.loop_annotation = #[[ROLLED]]}
#a = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!map = !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
!a = memref<128x64xbf16, #a, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %d: !out, %map: !map) {
  tile.launch @open grid(%ctas) threads(256) shared_memory(32784) args(%d, %map) : !out, !map
  tile.launch @known grid(%ctas) threads(256) shared_memory(32784) args(%d, %map) : !out, !map
  tile.launch @in_cluster grid(%ctas) threads(256) cluster [2, 1] shared_memory(32784) args(%d, %map) : !out, !map
  return
}
tile.kernel @open(%d: !out, %map: !map) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %k = memref.dim %d, %c0 : !out
  %ring = sm.ring at [0] : !ring
  %full = sm.mbarriers arrivals(1) at 32768 : !sm.mbarriers<2>
  sm.roles {
    producer warps(4) {
      scf.for %at = %c0 to %k step %c64 {
        %as = sm.ring_slot %ring[%c0] : !ring
        sm.tma_load %map[%c0, %at] to %as signals %full[%c0] : !map, !a, !sm.mbarriers<2>
      }
    }
    consumer warps(4) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
tile.kernel @known(%d: !out, %map: !map) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c512 = arith.constant 512 : index
  %rows = memref.dim %d, %c0 : !out
  %ring = sm.ring at [0] : !ring
  %full = sm.mbarriers arrivals(1) at 32768 : !sm.mbarriers<2>
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %n) of (%rows, %rows) by [128, 128] order(<row>) persistent {
        scf.for %at = %c0 to %c512 step %c64 {
          %as = sm.ring_slot %ring[%c0] : !ring
          sm.tma_load %map[%m, %at] to %as signals %full[%c0] : !map, !a, !sm.mbarriers<2>
        }
      }
    }
    consumer warps(4) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
tile.kernel @in_cluster(%d: !out, %map: !map) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c512 = arith.constant 512 : index
  %rows = memref.dim %d, %c0 : !out
  %ring = sm.ring at [0] : !ring
  %full = sm.mbarriers arrivals(1) at 32768 : !sm.mbarriers<2>
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %n) of (%rows, %rows) by [128, 128] cluster [2, 1] order(<row>) persistent {
        scf.for %at = %c0 to %c512 step %c64 {
          %as = sm.ring_slot %ring[%c0] : !ring
          sm.tma_load %map[%m, %at] to %as signals %full[%c0] : !map, !a, !sm.mbarriers<2>
        }
      }
    }
    consumer warps(4) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
}
