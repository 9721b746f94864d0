// verify-mbarriers takes arrivals and bytes that the roles and the copies bear out, and changes nothing.
// RUN: lowtide-opt %s --target sm_90a -p verify-mbarriers | filecheck %s

#layout = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
!tile = memref<64x64xbf16, #layout, #gpu.address_space<workgroup>>
!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
// Two boxes of 8192 bytes a slot; one thread of the producer arrives, and one of each of two consumer warpgroups. The
// consumer arrives at two places, one after the other: once a phase.
// CHECK-LABEL: tile.kernel @kernel
// CHECK:       sm.mbarriers arrivals(1) : !sm.mbarriers<2>
// CHECK:       sm.mbarriers arrivals(2) : !sm.mbarriers<2>
// CHECK:       sm.mbarrier_arrive %{{.+}}[%{{.+}}] expects 16384
tile.kernel @kernel(%a: !map, %b: !map) {
  %ring = sm.ring : !sm.ring<2 x [!tile, !tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      scf.for %i = %c0 to %c1 step %c1 {
        sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
        sm.mbarrier_arrive %full[%c0] expects 16384 : !sm.mbarriers<2>
        %x, %y = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile, !tile]>
        sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
        sm.tma_load %b[%c0, %c0] to %y signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
      }
    }
    consumer warps(8) registers(0) {
      scf.for %i = %c0 to %c1 step %c1 {
        sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
        sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
      }
      sm.mbarrier_arrive %empty[%c1] : !sm.mbarriers<2>
    }
  }
  tile.return
}

// Consumers that start loads themselves arrive, wait and arrive again, each warpgroup with the bytes of its rows. Both
// loads of a phase stand behind its arrival.
// CHECK-LABEL: tile.kernel @own_loads
// CHECK:       sm.mbarriers arrivals(2) : !sm.mbarriers<1>
!both = memref<128x64xbf16, #tile.layout<(128,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
tile.kernel @own_loads(%a: !map, %b: !map) {
  %x = sm.alloc : !both
  %y = sm.alloc : !both
  %full = sm.mbarriers arrivals(2) : !sm.mbarriers<1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
    }
    consumer warps(8) registers(0) {
      sm.mbarrier_arrive %full[%c0] expects 16384 : !sm.mbarriers<1>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !both, !sm.mbarriers<1>
      sm.tma_load %b[%c0, %c0] to %y signals %full[%c0] : !map, !both, !sm.mbarriers<1>
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<1>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<1>
      sm.tma_load %a[%c0, %c1] to %x signals %full[%c0] : !map, !both, !sm.mbarriers<1>
      sm.mbarrier_wait %full[%c0, %c1] : !sm.mbarriers<1>
    }
  }
  tile.return
}

// Without roles nothing is counted.
tile.kernel @no_roles() {
  %c0 = arith.constant 0 : index
  %full = sm.mbarriers arrivals(7) : !sm.mbarriers<2>
  sm.mbarrier_arrive %full[%c0] : !sm.mbarriers<2>
  tile.return
}

// wgmma reads a slot until a wait has retired it.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
// CHECK-LABEL: tile.kernel @released
// CHECK:       %{{.+}}, %[[RETIRED:.+]] = sm.mma_wait 0
// CHECK-NEXT:  sm.mbarrier_arrive %{{.+}}[%{{.+}}] after %[[RETIRED]] : !sm.mbarriers<2>
tile.kernel @released(%x: !map, %a: !a, %b: !b) {
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<2>
      sm.tma_load %x[%c0, %c0] to %a signals %full[%c0] : !map, !a, !sm.mbarriers<2>
    }
    consumer warps(4) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      %zero = sm.splat 0.0 : !acc
      %p = sm.wgmma tn %a, %b, %zero by #mma : !a, !b, !acc -> !pending
      %c, %retired = sm.mma_wait 0, %p : !pending -> !acc
      sm.mbarrier_arrive %empty[%c0] after %retired : !sm.mbarriers<2>
    }
  }
  tile.return
}

// The bytes of loads with `rows` are a run-time value, added to the bytes of full boxes, which are 0 if all loads have
// `rows`.
// CHECK-LABEL: tile.kernel @some_rows(
// CHECK:       sm.mbarrier_arrive %{{.+}}[%{{.+}}] expects 8192 plus %{{.+}} : !sm.mbarriers<2>
// CHECK:       sm.mbarrier_arrive %{{.+}}[%{{.+}}] expects 0 plus %{{.+}} : !sm.mbarriers<2>
tile.kernel @some_rows(%a: !map, %b: !map, %rows: index, %bytes: index) {
  %ring = sm.ring : !sm.ring<2 x [!tile, !tile]>
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %empty = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  sm.roles {
    producer warps(4) registers(0) {
      sm.mbarrier_wait %empty[%c0, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c0] expects 8192 plus %bytes : !sm.mbarriers<2>
      %x, %y = sm.ring_slot %ring[%c0] : !sm.ring<2 x [!tile, !tile]>
      sm.tma_load %a[%c0, %c0] to %x signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
      sm.tma_load %b[%c0, %c0] rows(%rows) to %y signals %full[%c0] : !map, !tile, !sm.mbarriers<2>
      sm.mbarrier_wait %empty[%c1, %c1] : !sm.mbarriers<2>
      sm.mbarrier_arrive %full[%c1] expects 0 plus %bytes : !sm.mbarriers<2>
      %z, %w = sm.ring_slot %ring[%c1] : !sm.ring<2 x [!tile, !tile]>
      sm.tma_load %a[%c0, %c0] rows(%rows) to %z signals %full[%c1] : !map, !tile, !sm.mbarriers<2>
    }
    consumer warps(4) registers(0) {
      sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<2>
      sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>
    }
  }
  tile.return
}
