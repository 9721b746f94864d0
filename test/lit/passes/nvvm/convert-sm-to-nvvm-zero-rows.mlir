// convert-sm-to-nvvm: all threads store zeros of 16 bytes to the last rows of each panel of a ring, in a loop that is not
// unrolled; loads of some rows expect bytes that are known at run time, by a map that is chosen then.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK: #[[DISABLE:.+]] = #llvm.loop_unroll<disable = true>
// CHECK: #[[ROLLED:.+]] = #llvm.loop_annotation<unroll = #[[DISABLE]]>

// CHECK-LABEL: gpu.func @kernel(
// CHECK-SAME:    %[[ROWS:[^ ]+]]: i32, %[[LAST:[^ ]+]]: !llvm.ptr, %[[WHOLE:[^ ]+]]: !llvm.ptr)

// Rows of A are 128 bytes of one of two panels of 64 rows, 2¹³ bytes, in each of two slots: from rows·128 on, four panels,
// by 256 threads. All rows of B are loaded.
// CHECK:       %[[SMEM:.+]] = llvm.mlir.addressof @shared_memory
// CHECK:       %[[TID:.+]] = nvvm.read.ptx.sreg.tid.x
// CHECK:       %[[ZEROS:.+]] = arith.constant dense<0> : vector<4xi32>
// CHECK:       %[[BEGIN:.+]] = arith.shli %[[ROWS]], %c7
// CHECK:       %[[OWN:.+]] = arith.shli %[[TID]], %c4
// CHECK:       %[[FIRST:.+]] = arith.addi %[[BEGIN]], %[[OWN]]
// CHECK:       scf.for %[[OFFSET:.+]] = %[[FIRST]] to %c8192{{.*}} step %c4096
// CHECK:         %[[START:.+]] = llvm.getelementptr %[[SMEM]][%[[OFFSET]]] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
// CHECK:         llvm.store %[[ZEROS]], %[[START]] {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK:         %[[SECOND:.+]] = llvm.getelementptr %[[START]][8192] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK:         llvm.store %[[ZEROS]], %[[SECOND]] {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK-COUNT-2: llvm.store %[[ZEROS]],
// CHECK:       } {llvm.loop_annotation = #[[ROLLED]]}
// CHECK-NOT:   llvm.store
// CHECK:       nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>
// CHECK:       nvvm.barrier0

// CHECK:       %[[MAP:.+]] = arith.select %{{.+}}, %[[LAST]], %[[WHOLE]] : !llvm.ptr
// CHECK:       %[[BYTES:.+]] = arith.addi %{{.+}}, %c2048{{.*}} : i32
// CHECK:       nvvm.mbarrier.arrive.expect_tx %{{.+}}, %[[BYTES]]
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.+}}, %[[MAP]], %{{.+}}, box[
#a = #tile.layout<(64,(64,2)):(64,(1,4096)), swizzle<3,3,3>>
#b = #tile.layout<(8,(64,2)):(64,(1,512)), swizzle<3,3,3>>
!a = memref<64x128xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x128xbf16, #b, #gpu.address_space<workgroup>>
!rows = memref<?xi32>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
!ring = !sm.ring<2 x [!a, !b]>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%n: index, %s: !rows, %last: !map, %whole: !map) {
  tile.launch @kernel grid(%n) threads(256) shared_memory(36928) args(%s, %last, %whole) : !rows, !map, !map
  return
}
tile.kernel @kernel(%s: !rows, %last: !map, %whole: !map) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %c256 = arith.constant 256 : index
  %rows = memref.dim %s, %c0 : !rows
  %ring = sm.ring at [0, 32768] : !ring
  sm.zero_rows %ring from(%rows, %c8) : !ring
  sm.barrier
  %full = sm.mbarriers arrivals(1) at 36864 : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) at 36880 : !sm.mbarriers<2>
  sm.roles {
    producer warps(4) {
      %is = arith.cmpi ult, %rows, %c64 : index
      %map = arith.select %is, %last, %whole : !map
      %bytes = arith.muli %rows, %c256 : index
      sm.mbarrier_arrive %full[%c0] expects 2048 plus %bytes : !sm.mbarriers<2>
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      sm.tma_load %map[%c0, %c0] rows(%rows) to %as signals %full[%c0] : !map, !a, !sm.mbarriers<2>
    }
    consumer warps(4) {
    }
  }
  tile.return
}
}
