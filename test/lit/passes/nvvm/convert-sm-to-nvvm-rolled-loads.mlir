// convert-sm-to-nvvm: thread 0 runs the producer, and TMA loads take the address of shared memory as it is.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

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
#a = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
!out = memref<?x?xf32, strided<[?, 1]>>
!map = !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
!a = memref<128x64xbf16, #a, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %d: !out, %map: !map) {
  tile.launch @open grid(%ctas) threads(256) shared_memory(32784) args(%d, %map) : !out, !map
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
}
