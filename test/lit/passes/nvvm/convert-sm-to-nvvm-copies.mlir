// convert-sm-to-nvvm: the addresses of cp.async and ldmatrix, and what cp.async asks before it reads past an edge.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm,cse | filecheck %s

!rows = memref<32x32xbf16, #tile.layout<(32,32):(32,1), swizzle<2,3,3>>, #gpu.address_space<workgroup>>
!columns = memref<16x32xbf16, #tile.layout<(16,32):(32,1), swizzle<2,3,3>>, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!rows, !columns]>
#copy = #sm.tiled_copy<cp.async.16, #tile.tv<threads (4,8):(256,1), values (8,2,1):(32,16,1024)>>
#copy8 = #sm.tiled_copy<cp.async.8, #tile.tv<threads (8,4):(128,1), values (4,8,1):(32,4,1024)>>
!window = !tile.view<32x32xbf16>
!mat = memref<?x?xbf16, strided<[?, 1]>>
module attributes {tile.target = "sm_80"} {
func.func @host(%inside: memref<96x64xbf16>, %whole: memref<100x72xbf16>, %odd: memref<100x70xbf16>, %dynamic: !mat, %ctas: index) {
  tile.launch @inside grid(%ctas) threads(32) shared_memory(2048) args(%inside) : memref<96x64xbf16>
  tile.launch @whole_runs grid(%ctas) threads(32) shared_memory(2048) args(%whole) : memref<100x72xbf16>
  tile.launch @odd grid(%ctas) threads(32) shared_memory(2048) args(%odd) : memref<100x70xbf16>
  tile.launch @dynamic grid(%ctas) threads(32) shared_memory(2048) args(%dynamic) : !mat
  tile.launch @ldmatrix grid(%ctas) threads(32) shared_memory(12288) args()
  return
}
// A static extent that the tile divides: a window at a work tile's origin lies inside, so there is no check. The thread's
// address in shared memory is swizzled once; its second row is a constant further on. Rows times the 64-bit stride.
// CHECK-LABEL: gpu.func @inside(
// CHECK-SAME:    %[[A:.+]]: !llvm.ptr<1>, %[[LDA:.+]]: i64) kernel
// CHECK:       %[[SMEM:.+]] = llvm.mlir.addressof @shared_memory : !llvm.ptr<3>
// CHECK-NOT:   arith.cmpi
// CHECK:       %[[S:.+]] = llvm.getelementptr %[[SMEM]][1024] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK:       arith.xori
// CHECK-NOT:   arith.xori
// CHECK:       %[[ROWS:.+]] = arith.muli %{{.+}}, %[[LDA]] : i64
// CHECK:       %[[INDEX:.+]] = arith.addi %[[ROWS]], %{{.+}} : i64
// CHECK:       %[[FROM:.+]] = llvm.getelementptr %[[A]][%[[INDEX]]] : {{.*}}, bf16
// CHECK:       %[[TO:.+]] = llvm.getelementptr %[[S]][%{{.+}}] : {{.*}}, i8
// CHECK:       nvvm.cp.async.shared.global %[[TO]], %[[FROM]], 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
// CHECK:       %[[TO2:.+]] = llvm.getelementptr %[[TO]][1024] : {{.*}}, i8
// CHECK:       nvvm.cp.async.shared.global %[[TO2]], %{{.+}}, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>

// A window that runs ahead may start past the edge, but never straddles it: one check for the whole window, zero bytes
// where it is outside.
// CHECK:       %[[EXISTS:.+]] = arith.cmpi ult, %{{.+}}, %c64
// CHECK-NOT:   arith.cmpi
// CHECK:       %[[SIZE:.+]] = arith.select %[[EXISTS]], %c16{{.*}}, %c0
// CHECK:       nvvm.cp.async.shared.global %[[TO]], %{{.+}}, 16, cache = cg, %[[SIZE]] : !llvm.ptr<3>, !llvm.ptr<1>, i32
// CHECK:       nvvm.cp.async.shared.global %[[TO2]], %{{.+}}, 16, cache = cg, %[[SIZE]]
// CHECK:       nvvm.cp.async.commit.group
// CHECK-NEXT:  nvvm.cp.async.wait.group 1
// CHECK-NEXT:  nvvm.barrier0
tile.kernel @inside(%a: memref<96x64xbf16>) {
  %c96 = arith.constant 96 : index
  %c64 = arith.constant 64 : index
  %c32 = arith.constant 32 : index
  %s = sm.alloc at 1024 : !rows
  tile.work_tiles (%i, %j) of (%c96, %c64) by [32, 32] order(<row>) one_shot {
    %v = tile.view %a[%i, %j] : memref<96x64xbf16> to !window
    sm.cp_async %v to %s by #copy : !window, !rows
    %k = arith.muli %j, %c32 : index
    %w = tile.view %a[%i, %k] : memref<96x64xbf16> to !window
    sm.cp_async %w to %s by #copy : !window, !rows
    sm.cp_async_commit
    sm.cp_async_wait 1
    sm.barrier
  }
  tile.return
}

// Extents that the tile does not divide: rows and columns are asked for each copy. 72 columns are whole runs of eight, so a
// copy is made whole or not at all.
// CHECK-LABEL: gpu.func @whole_runs(
// CHECK-NOT:   arith.minui
// CHECK:       %[[ROW_EXISTS:.+]] = arith.cmpi ult, %{{.+}}, %c100
// CHECK:       %[[COLUMN_EXISTS:.+]] = arith.cmpi ult, %{{.+}}, %c72
// CHECK:       %[[BOTH:.+]] = arith.andi %[[ROW_EXISTS]], %[[COLUMN_EXISTS]]
// CHECK:       %[[SIZE:.+]] = arith.select %[[BOTH]], %c16{{.*}}, %c0
// CHECK:       nvvm.cp.async.shared.global %{{.+}}, %{{.+}}, 16, cache = cg, %[[SIZE]]
// CHECK-NOT:   arith.minui
tile.kernel @whole_runs(%a: memref<100x72xbf16>) {
  %c100 = arith.constant 100 : index
  %c72 = arith.constant 72 : index
  %s = sm.alloc at 0 : !rows
  tile.work_tiles (%i, %j) of (%c100, %c72) by [32, 32] order(<row>) one_shot {
    %v = tile.view %a[%i, %j] : memref<100x72xbf16> to !window
    sm.cp_async %v to %s by #copy : !window, !rows
  }
  tile.return
}

// 70 columns are not: the last copy of a row is short, and the hardware fills in zeros. Eight bytes go through L1.
// CHECK-LABEL: gpu.func @odd(
// CHECK:       %[[BOTH:.+]] = arith.andi %{{.+}}, %{{.+}} : i1
// CHECK:       %[[LEFT:.+]] = arith.subi %c70{{.*}}, %[[COLUMN:.+]] : i32
// CHECK:       %[[LEFT_BYTES:.+]] = arith.shli %[[LEFT]], %c1
// CHECK:       %[[SHORT:.+]] = arith.minui %[[LEFT_BYTES]], %c8
// CHECK:       %[[SIZE:.+]] = arith.select %[[BOTH]], %[[SHORT]], %c0
// CHECK:       nvvm.cp.async.shared.global %[[TO:.+]], %{{.+}}, 8, cache = ca, %[[SIZE]]

// Four rows on, a bit of the swizzle changes: an xor of the thread's part, and the constant that is left.
// CHECK:       %[[MOVED:.+]] = arith.xori %{{.+}}, %c16
// CHECK:       %[[MOVED_BYTES:.+]] = arith.shli %[[MOVED]], %c1
// CHECK:       %[[TO4:.+]] = llvm.getelementptr %{{.+}}[%[[MOVED_BYTES]]]
// CHECK:       %[[TO4B:.+]] = llvm.getelementptr %[[TO4]][256]
// CHECK:       nvvm.cp.async.shared.global %[[TO4B]],
tile.kernel @odd(%a: memref<100x70xbf16>) {
  %c100 = arith.constant 100 : index
  %c70 = arith.constant 70 : index
  %s = sm.alloc at 0 : !rows
  tile.work_tiles (%i, %j) of (%c100, %c70) by [32, 32] order(<row>) one_shot {
    %v = tile.view %a[%i, %j] : memref<100x70xbf16> to !window
    sm.cp_async %v to %s by #copy8 : !window, !rows
  }
  tile.return
}

// Extents known at run time: the same, against the kernel's arguments.
// CHECK-LABEL: gpu.func @dynamic(
// CHECK-SAME:    %{{.+}}: !llvm.ptr<1>, %{{.+}}: i64, %[[M:.+]]: i32, %[[N:.+]]: i32) kernel
// CHECK:       %[[ROW_EXISTS:.+]] = arith.cmpi ult, %{{.+}}, %[[M]]
// CHECK:       %[[COLUMN_EXISTS:.+]] = arith.cmpi ult, %[[COLUMN:.+]], %[[N]]
// CHECK:       %[[BOTH:.+]] = arith.andi %[[ROW_EXISTS]], %[[COLUMN_EXISTS]]
// CHECK:       %[[LEFT:.+]] = arith.subi %[[N]], %[[COLUMN]]
// CHECK:       %[[LEFT_BYTES:.+]] = arith.shli %[[LEFT]], %c1
// CHECK:       %[[SHORT:.+]] = arith.minui %[[LEFT_BYTES]], %c16
// CHECK:       %[[SIZE:.+]] = arith.select %[[BOTH]], %[[SHORT]], %c0
// CHECK:       nvvm.cp.async.shared.global %{{.+}}, %{{.+}}, 16, cache = cg, %[[SIZE]]
tile.kernel @dynamic(%a: !mat) {
  %c0 = arith.constant 0 : index
  %s = sm.alloc at 0 : !rows
  %m = memref.dim %a, %c0 : !mat
  tile.work_tiles (%i, %j) of (%m, %m) by [32, 32] order(<row>) one_shot {
    %v = tile.view %a[%i, %j] : !mat to !window
    sm.cp_async %v to %s by #copy : !window, !rows
  }
  tile.return
}

// The ring's cursor wraps after the last slot. Stages of A are 2048 bytes apart, those of B 1024 from byte 6144 on.
// CHECK-LABEL: gpu.func @ldmatrix(
// CHECK:       %[[SMEM:.+]] = llvm.mlir.addressof @shared_memory
// CHECK:       %[[BS:.+]] = llvm.getelementptr %[[SMEM]][6144]
// CHECK:       scf.for %[[I:.+]] = %c0
// CHECK:       %[[NEXT:.+]] = arith.addi %[[I]], %c1
// CHECK:       %[[LAST:.+]] = arith.cmpi eq, %[[NEXT]], %c3
// CHECK:       %[[SLOT:.+]] = arith.select %[[LAST]], %c0{{.*}}, %[[NEXT]]
// CHECK:       %[[A_STAGE:.+]] = arith.shli %[[SLOT]], %c11
// CHECK:       %[[A:.+]] = llvm.getelementptr %[[SMEM]][%[[A_STAGE]]]
// CHECK:       %[[B_STAGE:.+]] = arith.shli %[[SLOT]], %c10
// CHECK:       %[[B:.+]] = llvm.getelementptr %[[BS]][%[[B_STAGE]]]

// A: each lane addresses a row. The second k-slice, 16 columns on, is an xor of the swizzled offset; the lower 16 rows
// are a constant further on.
// CHECK:       %[[SLICE:.+]] = arith.xori %{{.+}}, %c16
// CHECK:       %[[BYTES:.+]] = arith.shli %[[SLICE]], %c1
// CHECK:       %[[UPPER:.+]] = llvm.getelementptr %[[A]][%[[BYTES]]]
// CHECK:       nvvm.ldmatrix %[[UPPER]] {{.*}} layout = #nvvm.mma_layout<row>, num = 4 : i32, {{.*}} -> !llvm.struct<(i32, i32, i32, i32)>
// CHECK:       %[[LOWER:.+]] = llvm.getelementptr %[[UPPER]][1024]
// CHECK:       nvvm.ldmatrix %[[LOWER]]

// B has K down its rows: transposed.
// CHECK:       %[[LEFT:.+]] = llvm.getelementptr %[[B]][
// CHECK:       nvvm.ldmatrix %[[LEFT]] {{.*}} layout = #nvvm.mma_layout<col>, num = 4 : i32

// An atom of fewer matrices is an instruction of fewer.
// CHECK:       nvvm.ldmatrix %{{.+}} {{.*}} layout = #nvvm.mma_layout<row>, num = 2 : i32, {{.*}} -> !llvm.struct<(i32, i32)>
tile.kernel @ldmatrix() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ring = sm.ring at [0, 6144] : !ring
  scf.for %j = %c0 to %c1 step %c1 {
    %i, %p = sm.ring_advance %ring[%j, %c0] : !ring
    %a, %b = sm.ring_slot %ring[%i] : !ring
    %f = sm.ldmatrix %a[0, 16] by "ldmatrix.x4" : !rows to !sm.fragment<32x16xbf16, #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>>
    %g = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" trans : !columns to !sm.fragment<32x16xbf16, #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>>
    %h = sm.ldmatrix %a[0, 0] by "ldmatrix.x2" : !rows to !sm.fragment<8x16xbf16, #tile.tv<threads (4,8):(16,1), values ((2,2),1,1):((8,64),8,128)>>
  }
  tile.return
}
}
