// bind-ring: TMA loads only the rows that the last tiles have. A tile takes the map of full boxes, or that of the last
// ones, and the slot expects the bytes of its rows. If threads read the slots, all slots begin with zeros in the rows that
// the last boxes lack. wgmma may read anything there.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// M is open: the map of the last boxes has (M + 63) mod 64 + 1 rows. N is 5, less than a tile: one map, of 5 rows.
// CHECK-LABEL: func.func @host(
// CHECK-SAME:    %[[A:.+]]: memref<?x?xbf16, {{.*}}>, %[[B:.+]]: memref<5x?xbf16,
// CHECK:       %[[M:.+]] = memref.dim %[[A]], %c0
// CHECK:       %[[UP:.+]] = arith.addi %[[M]], %c63
// CHECK:       %[[REST:.+]] = arith.remui %[[UP]], %c64
// CHECK:       %[[LAST:.+]] = arith.addi %[[REST]], %c1
// CHECK:       %[[AL:.+]] = sm.tensor_map %[[A]] rows(%[[LAST]]) : {{.*}} to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK-NEXT:  %[[AF:.+]] = sm.tensor_map %[[A]] : {{.*}} to !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK:       %[[BL:.+]] = sm.tensor_map %[[B]] rows(%{{.+}}) : {{.*}} to !sm.tensor_map<8x64xbf16, swizzle<3,3,3>>
// CHECK-NOT:   = sm.tensor_map %
// CHECK:       tile.launch @kernel {{.*}} args(%[[A]], %[[B]], %{{.+}}, %[[AL]], %[[AF]], %[[BL]])

// CHECK-LABEL: tile.kernel @kernel(
// CHECK-SAME:    %[[AL:[^ ]+]]: !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, %[[AF:[^ ]+]]: !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, %[[BL:[^ ]+]]: !sm.tensor_map<8x64xbf16,

// The zeros come before a barrier, and before the ring is filled.
// CHECK:       %[[RING:.+]] = sm.ring : !ring
// CHECK:       %[[M:.+]] = memref.dim
// CHECK:       %[[UP:.+]] = arith.addi %[[M]], %c63
// CHECK:       %[[REST:.+]] = arith.remui %[[UP]], %c64
// CHECK:       %[[ZA:.+]] = arith.addi %[[REST]], %c1
// CHECK:       sm.zero_rows %[[RING]] from(%[[ZA]], %{{.+}}) : !ring
// CHECK-NEXT:  sm.barrier
// CHECK-NEXT:  %[[FULL:.+]] = sm.mbarriers arrivals(1)

// Once for each tile, before its K steps: min(M - m, 64) rows of 128 bytes.
// CHECK:       producer warps(4) {
// CHECK-NEXT:    tile.work_tiles (%[[TM:.+]], %[[TN:.+]]) of
// CHECK:           %[[BR:.+]] = arith.minui %{{.+}}, %c8
// CHECK:           %[[BB:.+]] = arith.muli %[[BR]], %c128
// CHECK:           %[[LEFT:.+]] = arith.subi %[[M]], %[[TM]]
// CHECK:           %[[AR:.+]] = arith.minui %[[LEFT]], %c64
// CHECK:           %[[IS:.+]] = arith.cmpi ult, %[[AR]], %c64
// CHECK:           %[[MAP:.+]] = arith.select %[[IS]], %[[AL]], %[[AF]] : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// CHECK:           %[[AB:.+]] = arith.muli %[[AR]], %c128
// CHECK:           scf.for
// CHECK-NOT:         arith.minui
// CHECK:             %[[BYTES:.+]] = arith.addi %[[AB]], %[[BB]]
// CHECK-NEXT:        sm.mbarrier_arrive %[[FULL]][%{{.+}}] expects 0 plus %[[BYTES]]
// CHECK:             sm.tma_load %[[MAP]][%[[TM]], %{{.+}}] rows(%[[AR]]) to %{{.+}} signals %[[FULL]][
// CHECK:             sm.tma_load %[[BL]][%[[TN]], %{{.+}}] rows(%[[BR]]) to %{{.+}} signals %[[FULL]][

// N divides into tiles: its boxes are full, and their bytes are known. Rows of two panels are 256 bytes.
// CHECK-LABEL: func.func @host_multiple(
// CHECK-COUNT-3: = sm.tensor_map %
// CHECK-NOT:     = sm.tensor_map %
// CHECK-LABEL: tile.kernel @multiple(
// CHECK-NOT:   sm.zero_rows
// CHECK:       tile.work_tiles
// CHECK:         %[[AR:.+]] = arith.minui %{{.+}}, %c64
// CHECK:         %[[AB:.+]] = arith.muli %[[AR]], %c256
// CHECK:         sm.mbarrier_arrive %{{.+}}[%c0] expects 2048 plus %[[AB]]
// CHECK:         sm.tma_load %{{.+}} rows(%[[AR]]) to
// CHECK:         sm.tma_load %{{.+}}[%{{.+}}, %c0] to

// In a batch, the maps have one more dimension.
// CHECK-LABEL: func.func @host_batch(
// CHECK:       sm.tensor_map %{{.+}} rows(%{{.+}}) : memref<?x?x?xbf16, {{.*}}> to !sm.tensor_map<1x64x64xbf16, swizzle<3,3,3>>
// CHECK-LABEL: tile.kernel @batch(
// CHECK:         sm.tma_load %{{.+}}[%[[BATCH:.+]], %{{.+}}, %c0] rows(%{{.+}}) to %{{.+}} : !sm.tensor_map<1x64x64xbf16,
// CHECK:         sm.tma_load %{{.+}}[%[[BATCH]], %{{.+}}, %c0] rows(%{{.+}}) to
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#a2 = #tile.layout<(64,(64,2)):(64,(1,4096)), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
#fa = #tile.tv<threads (4,8):(32,1), values ((2,2,2)):((16,8,128))>
#b2 = #tile.layout<(8,(64,2)):(64,(1,512)), swizzle<3,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!few = memref<5x?xbf16, strided<[?, 1]>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!a2 = memref<64x128xbf16, #a2, #gpu.address_space<workgroup>>
!b2 = memref<8x128xbf16, #b2, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!ring2 = !sm.ring<2 x [!a2, !b2]>
module attributes {tile.target = "sm_90a"} {
func.func @host(%a: !mat, %b: !few, %n: index) {
  tile.launch @kernel grid(%n) threads(256) args(%a, %b, %n) : !mat, !few, index
  return
}
tile.kernel @kernel(%a: !mat, %b: !few, %n: index) attributes {
    schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %N = arith.constant 5 : index
  %ring = sm.ring : !ring
  %M = memref.dim %a, %c0 : !mat
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%M, %N) by [64, 8] order(<row>) persistent {
        scf.for %k = %c0 to %n step %c1 {
          %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
          %at = tile.view %a[%m, %k] : !mat to !tile.view<64x64xbf16>
          sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
          %bt = tile.view %b[%t, %k] : !few to !tile.view<8x64xbf16>
          sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
          sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
        }
      }
    }
    consumer warps(4) {
      %full, %ra, %rb = sm.consumer_wait %ring[%c0, %c0] : !ring
      %read = sm.ldmatrix %ra[0, 0] by "ldmatrix.x4" : !a to !sm.fragment<16x16xbf16, #fa>
    }
  }
  tile.return
}
func.func @host_multiple(%a: !mat, %b: !mat, %n: index) {
  tile.launch @multiple grid(%n) threads(256) args(%a, %b) : !mat, !mat
  return
}
tile.kernel @multiple(%a: !mat, %b: !mat) attributes {
    schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %N = arith.constant 40 : index
  %ring = sm.ring : !ring2
  %M = memref.dim %a, %c0 : !mat
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%M, %N) by [64, 8] order(<row>) persistent {
        %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring2
        %at = tile.view %a[%m, %c0] : !mat to !tile.view<64x128xbf16>
        sm.copy_async %at to %as : !tile.view<64x128xbf16>, !a2
        %bt = tile.view %b[%t, %c0] : !mat to !tile.view<8x128xbf16>
        sm.copy_async %bt to %bs : !tile.view<8x128xbf16>, !b2
        sm.producer_commit %ring, %slot : !ring2, !sm.slot<write>
      }
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring2
    }
  }
  tile.return
}
func.func @host_batch(%a: !mats, %b: !mats, %n: index) {
  tile.launch @batch grid(%n) threads(256) args(%a, %b, %n) : !mats, !mats, index
  return
}
tile.kernel @batch(%a: !mats, %b: !mats, %n: index) attributes {
    schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%n, %n) by [64, 8] batch(%z of %n) order(<row>) persistent {
        %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
        %at = tile.view %a[%z, %m, %c0] : !mats to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%z, %t, %c0] : !mats to !tile.view<8x64xbf16>
        sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
        sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
      }
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring
    }
  }
  tile.return
}
}
