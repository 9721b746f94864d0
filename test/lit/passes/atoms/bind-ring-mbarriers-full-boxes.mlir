// bind-ring: boxes are full, and their bytes known, if every tile is whole, if a tile may lie outside of the matrix, or if
// a box is not one panel of all rows of a tile.
// RUN: lowtide-opt %s -p bind-ring | filecheck %s

// M and N divide into tiles.
// CHECK-LABEL: tile.kernel @multiples(
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       expects 9216 :
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       tile.return

// In a cluster, a CTA may have no tile of its own.
// CHECK-LABEL: tile.kernel @cluster(
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       expects 10240 :
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       tile.return

// A half tile may begin after the last row; the whole tiles before the tail do not.
// CHECK-LABEL: tile.kernel @tail_halves(
// CHECK:       tile.work_tiles {{.*}} part(full_waves)
// CHECK:         expects 0 plus
// CHECK:         sm.tma_load {{.*}} rows(
// CHECK:         sm.tma_load {{.*}} rows(
// CHECK:       tile.work_tiles {{.*}} part(tail_halves)
// CHECK:         expects 9216 :
// CHECK-NOT:     {{tma_load .* rows\(}}
// CHECK:       tile.return

// A group of rows ends inside of a tile, and another B begins there.
// CHECK-LABEL: tile.kernel @groups(
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       expects 9216 :
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       tile.return

// All panels of A are one box; those of B are one each.
// CHECK-LABEL: tile.kernel @panels(
// CHECK:       expects 8192 plus
// CHECK:       sm.tma_load %{{.+}}[%{{.+}}, %c0] to {{.*}} !sm.tensor_map<1x64x64xbf16,
// CHECK:       sm.tma_load %{{.+}}[%{{.+}}, %c0] rows(

// Rows of a slot that are not those of a tile.
// CHECK-LABEL: tile.kernel @other_rows(
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       expects 9216 :
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       tile.return

// Slots that also have scales.
// CHECK-LABEL: tile.kernel @scales(
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       expects 9472 :
// CHECK-NOT:   {{zero_rows|plus|tma_load .* rows\(}}
// CHECK:       tile.return
#a = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#a128 = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#b = #tile.layout<(8,64):(64,1), swizzle<3,3,3>>
#b16 = #tile.layout<(16,64):(64,1), swizzle<3,3,3>>
!mat = memref<?x?xbf16, strided<[?, 1]>>
!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!ends = memref<?xi32>
!factors = memref<?x?xf32, strided<[?, 1]>>
!rs = memref<1x64xf32, #tile.layout<(1,64):(64,1)>, #gpu.address_space<workgroup>>
!a = memref<64x64xbf16, #a, #gpu.address_space<workgroup>>
!a128 = memref<128x64xbf16, #a128, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #b, #gpu.address_space<workgroup>>
!b16 = memref<16x64xbf16, #b16, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!a, !b]>
!scaled = !sm.ring<2 x [!a, !b, !rs]>
!ring16 = !sm.ring<2 x [!a, !b16]>
!ring128 = !sm.ring<2 x [!a128, !b]>
module attributes {tile.target = "sm_90a"} {
func.func @host_multiples(%a: !mat, %b: !mat, %n: index) {
  tile.launch @multiples grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @multiples(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %M = arith.constant 192 : index
  %N = arith.constant 40 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%M, %N) by [64, 8] order(<row>) persistent {
        %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
        %at = tile.view %a[%m, %c0] : !mat to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%t, %c0] : !mat to !tile.view<8x64xbf16>
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
func.func @host_cluster(%a: !mat, %b: !mat, %n: index) {
  tile.launch @cluster grid(%n) threads(256) cluster [2, 1] args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @cluster(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<grid = <cluster = [2, 1]>, mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring16
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%n, %n) by [64, 16] cluster [2, 1] order(<row>) persistent {
        %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring16
        %at = tile.view %a[%m, %c0] : !mat to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%t, %c0] : !mat to !tile.view<16x64xbf16>
        sm.copy_async %bt to %bs : !tile.view<16x64xbf16>, !b16
        sm.producer_commit %ring, %slot : !ring16, !sm.slot<write>
      }
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring16
    }
  }
  tile.return
}
func.func @host_tail_halves(%a: !mat, %b: !mat, %n: index) {
  tile.launch @tail_halves grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @tail_halves(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring128
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%n, %n) by [128, 8] order(<row>) persistent part(full_waves) {
        %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring128
        %at = tile.view %a[%m, %c0] : !mat to !tile.view<128x64xbf16>
        sm.copy_async %at to %as : !tile.view<128x64xbf16>, !a128
        %bt = tile.view %b[%t, %c0] : !mat to !tile.view<8x64xbf16>
        sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
        sm.producer_commit %ring, %slot : !ring128, !sm.slot<write>
      }
      tile.work_tiles (%m, %t) of (%n, %n) by [64, 8] order(<row>) persistent part(tail_halves) {
        %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring128
        %at = tile.view %a[%m, %c0] : !mat to !tile.view<64x64xbf16>
        %half = sm.prefix %as : !a128 to !a
        sm.copy_async %at to %half : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%t, %c0] : !mat to !tile.view<8x64xbf16>
        sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
        sm.producer_commit %ring, %slot : !ring128, !sm.slot<write>
      }
    }
    consumer warps(4) {
      %full, %fa, %fb = sm.consumer_wait %ring[%c0, %c0] : !ring128
    }
  }
  tile.return
}
func.func @host_groups(%a: !mat, %b: !mats, %n: index, %ends: !ends) {
  tile.launch @groups grid(%n) threads(256) args(%a, %b, %n, %ends) : !mat, !mats, index, !ends
  return
}
tile.kernel @groups(%a: !mat, %b: !mats, %n: index, %ends: !ends) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%n, %n) by [64, 8] groups(%g to %end of %ends : !ends) order(<row>) persistent {
        %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
        %at = tile.view %a[%m, %c0] : !mat to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%g, %t, %c0] : !mats to !tile.view<8x64xbf16>
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
func.func @host_panels(%a: !mat, %b: !mat, %n: index) {
  tile.launch @panels grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @panels(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1), a = <copy = tma.3d>, b = <copy = tma>>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%n, %n) by [64, 8] order(<row>) persistent {
        %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
        %at = tile.view %a[%m, %c0] : !mat to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%t, %c0] : !mat to !tile.view<8x64xbf16>
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
func.func @host_other_rows(%a: !mat, %b: !mat, %n: index) {
  tile.launch @other_rows grid(%n) threads(256) args(%a, %b, %n) : !mat, !mat, index
  return
}
tile.kernel @other_rows(%a: !mat, %b: !mat, %n: index) attributes {schedule = #tile.schedule<mainloop = <roles = cooperative(1)>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%n, %n) by [128, 16] order(<row>) persistent {
        %slot, %as, %bs = sm.producer_acquire %ring[%c0, %c0] : !ring
        %at = tile.view %a[%m, %c0] : !mat to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%t, %c0] : !mat to !tile.view<8x64xbf16>
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
func.func @host_scales(%a: !mat, %b: !mat, %n: index, %s: !factors) {
  tile.launch @scales grid(%n) threads(256) args(%a, %b, %n, %s) : !mat, !mat, index, !factors
  return
}
tile.kernel @scales(%a: !mat, %b: !mat, %n: index, %s: !factors) attributes {
    schedule = #tile.schedule<mainloop = <roles = cooperative(1), scales = staged>>} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !scaled
  sm.roles {
    producer warps(4) {
      tile.work_tiles (%m, %t) of (%n, %n) by [64, 8] order(<row>) persistent {
        %slot, %as, %bs, %rs = sm.producer_acquire %ring[%c0, %c0] : !scaled
        %at = tile.view %a[%m, %c0] : !mat to !tile.view<64x64xbf16>
        sm.copy_async %at to %as : !tile.view<64x64xbf16>, !a
        %bt = tile.view %b[%t, %c0] : !mat to !tile.view<8x64xbf16>
        sm.copy_async %bt to %bs : !tile.view<8x64xbf16>, !b
        %st = tile.view %s[%c0, %m] : !factors to !tile.view<1x64xf32>
        sm.copy_async %st to %rs : !tile.view<1x64xf32>, !rs
        sm.producer_commit %ring, %slot : !scaled, !sm.slot<write>
      }
    }
    consumer warps(4) {
      %full, %fa, %fb, %fs = sm.consumer_wait %ring[%c0, %c0] : !scaled
    }
  }
  tile.return
}
}
