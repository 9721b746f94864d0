// overlap-launches makes the launch programmatic, and lets a producer wait in its work tiles, after the arithmetic there. Other
// kernels wait before their roles or work tiles.
// RUN: lowtide-opt %s -p overlap-launches | filecheck %s

#programmatic = #tile.schedule<grid = <launch = programmatic>>
#serialized = #tile.schedule<grid = <launch = serialized>>
!part = memref<64x64xbf16, #tile.layout<(64,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {

// CHECK-LABEL: func.func @launches
// CHECK:       tile.launch @roles grid(%{{.+}}) threads(256) programmatic args(%{{.+}}) : index
// CHECK:       tile.launch @one_role grid(%{{.+}}) threads(128) programmatic args(%{{.+}}) : index
// CHECK:       tile.launch @in_order grid(%{{.+}}) threads(256) args()
// CHECK:       tile.launch @copy grid(%{{.+}}) threads(256) programmatic args(%{{.+}}, %{{.+}})
func.func @launches(%n: index, %m: memref<?x?xf32, strided<[?, 1]>>) {
  tile.launch @roles grid(%n) threads(256) args(%n) : index
  tile.launch @one_role grid(%n) threads(128) args(%n) : index
  tile.launch @in_order grid(%n) threads(256) args()
  tile.launch @copy grid(%n) threads(256) args(%m, %m) : memref<?x?xf32, strided<[?, 1]>>, memref<?x?xf32, strided<[?, 1]>>
  return
}

// CHECK-LABEL: tile.kernel @roles
// CHECK:       producer
// CHECK-NEXT:    tile.work_tiles
// CHECK-NEXT:      arith.subi
// CHECK-NEXT:      tile.grid_dependency_wait
// CHECK-NEXT:      tile.launch_dependents
// CHECK-NEXT:      sm.mbarrier_wait
// CHECK:       consumer
// CHECK-NEXT:    tile.work_tiles
// CHECK-NEXT:      sm.mbarrier_wait
tile.kernel @roles(%n: index) attributes {schedule = #programmatic} {
  %c0 = arith.constant 0 : index
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  sm.roles {
    producer warps(4) registers(0) {
      tile.work_tiles (%row, %column) of (%n, %n) by [64, 64] order(<row>) persistent {
        %rows = arith.subi %n, %row : index
        sm.mbarrier_wait %full[%rows, %c0] : !sm.mbarriers<2>
      }
    }
    consumer warps(4) registers(0) {
      tile.work_tiles (%row, %column) of (%n, %n) by [64, 64] order(<row>) persistent {
        sm.mbarrier_wait %full[%row, %c0] : !sm.mbarriers<2>
      }
    }
  }
  tile.return
}

// A consumer reads global memory before it waits for a load.
// CHECK-LABEL: tile.kernel @reads
// CHECK:       sm.mbarriers
// CHECK-NEXT:  tile.grid_dependency_wait
// CHECK-NEXT:  tile.launch_dependents
// CHECK-NEXT:  sm.roles
tile.kernel @reads(%n: index, %s: memref<?x?xf32, strided<[?, 1]>>) attributes {schedule = #programmatic} {
  %c0 = arith.constant 0 : index
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  sm.roles {
    producer warps(4) registers(0) {
      tile.work_tiles (%row, %column) of (%n, %n) by [64, 64] order(<row>) persistent {
      }
    }
    consumer warps(4) registers(0) {
      tile.work_tiles (%row, %column) of (%n, %n) by [64, 64] order(<row>) persistent {
        %view = tile.view %s[%row, %column] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<64x64xf32>
        sm.mbarrier_wait %full[%row, %c0] : !sm.mbarriers<2>
      }
    }
  }
  tile.return
}

// Consumers that load by TMA before they wait read global memory themselves.
// CHECK-LABEL: tile.kernel @loads
// CHECK:       sm.mbarriers
// CHECK-NEXT:  tile.grid_dependency_wait
// CHECK-NEXT:  tile.launch_dependents
// CHECK-NEXT:  sm.roles
tile.kernel @loads(%n: index, %map: !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>) attributes {schedule = #programmatic} {
  %c0 = arith.constant 0 : index
  %x = sm.alloc : !part
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<1>
  sm.roles {
    producer warps(4) registers(0) {
    }
    consumer warps(4) registers(0) {
      tile.work_tiles (%row, %column) of (%n, %n) by [64, 64] order(<row>) persistent {
        sm.mbarrier_arrive %full[%c0] expects 8192 : !sm.mbarriers<1>
        sm.tma_load %map[%row, %column] to %x signals %full[%c0] : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, !part, !sm.mbarriers<1>
        sm.mbarrier_wait %full[%c0, %c0] : !sm.mbarriers<1>
      }
    }
  }
  tile.return
}

// CHECK-LABEL: tile.kernel @copiers
// CHECK:       sm.mbarriers
// CHECK-NEXT:  tile.grid_dependency_wait
// CHECK-NEXT:  tile.launch_dependents
// CHECK-NEXT:  sm.roles
tile.kernel @copiers() attributes {schedule = #programmatic} {
  %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
  sm.roles {
    copiers warps(4) registers(0) {
    }
    consumer warps(4) registers(0) {
    }
  }
  tile.return
}

// CHECK-LABEL: tile.kernel @one_role
// CHECK:       tile.grid_dependency_wait
// CHECK-NEXT:  tile.launch_dependents
// CHECK-NEXT:  tile.work_tiles
tile.kernel @one_role(%n: index) attributes {schedule = #programmatic} {
  tile.work_tiles (%row, %column) of (%n, %n) by [64, 64] order(<row>) one_shot {
  }
  tile.return
}

// CHECK-LABEL: tile.kernel @in_order
// CHECK-NOT:   tile.grid_dependency_wait
tile.kernel @in_order() attributes {schedule = #serialized} {
  sm.roles {
    producer warps(4) registers(0) {
    }
    consumer warps(4) registers(0) {
    }
  }
  tile.return
}

// What copies matrices beside such a kernel waits too.
// CHECK-LABEL: tile.kernel @copy
// CHECK:       tile.grid_dependency_wait
// CHECK-NEXT:  tile.launch_dependents
// CHECK-NEXT:  tile.prepare
tile.kernel @copy(%s: memref<?x?xf32, strided<[?, 1]>>, %t: memref<?x?xf32, strided<[?, 1]>>) {
  tile.prepare %t from %s : memref<?x?xf32, strided<[?, 1]>> from memref<?x?xf32, strided<[?, 1]>>
  tile.return
}

// A kernel that finishes reductions waits before it reads anything.
// CHECK-LABEL: tile.kernel @finish
// CHECK-NEXT:  tile.grid_dependency_wait
// CHECK-NEXT:  tile.launch_dependents
// CHECK:       memref.load
// CHECK:       tile.finish
tile.kernel @finish(%d: memref<?xf32>, %partial: memref<?xf32>, %ends: memref<?xi32>) {
  %0 = arith.constant 0 : index
  %end = memref.load %ends[%0] : memref<?xi32>
  %length = arith.index_cast %end : i32 to index
  %rows = memref.subview %d[0] [%length] [1] : memref<?xf32> to memref<?xf32>
  tile.finish column_sum %rows from %partial : memref<?xf32> from memref<?xf32>
  tile.return
}
}
