// stamp-agents gives a kernel a buffer, in which the first thread of each agent stores four pairs of clock and timer for a
// work tile. It acts only where the host function asks for it.
// RUN: lowtide-opt %s -p stamp-agents --split-input-file | filecheck %s

#roles = #tile.schedule<grid = <tile = [128, 256], scheduler = persistent>, mainloop = <k = 64, stages = 4, roles = cooperative(2)>>
module attributes {tile.target = "sm_90a"} {
// A CTA has 2 agents, 64 tiles of each, and of a tile 4 stamps of 2 words and the SM.
// CHECK-LABEL: func.func @host
// CHECK:         %[[WORDS:.*]] = arith.muli %[[GRID:.*]], %c1152
// CHECK:         %[[BUFFER:.*]] = tile.workspace %[[WORDS]] : memref<?xi32>
// CHECK:         %[[ADDRESS:.*]] = memref.extract_aligned_pointer_as_index %[[BUFFER]]
// CHECK:         tile.launch @kernel grid(%[[GRID]]) threads(384) args(%{{.*}}, %[[ADDRESS]]) : i32, index
func.func @host(%grid: index, %x: i32) attributes {tile.stamps} {
  tile.launch @kernel grid(%grid) threads(384) args(%x) : i32
  return
}
gpu.module @kernels {
  // CHECK:       gpu.func @kernel(%{{.*}}: i32, %[[STAMPS:.*]]: !llvm.ptr<1>)
  gpu.func @kernel(%items: i32) kernel attributes {known_block_size = array<i32: 384, 1, 1>, schedule = #roles} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c128 = arith.constant 128 : i32
    %bar = llvm.mlir.zero : !llvm.ptr<3>
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %is_producer = arith.cmpi ult, %tid, %c128 : i32
    scf.if %is_producer {
      %is_first = arith.cmpi eq, %tid, %c0 : i32
      scf.if %is_first {
        %cta = nvvm.read.ptx.sreg.ctaid.x : i32
        // The producer is one thread. It stores its first two stamps behind the wait for earlier kernels.
        // CHECK:         scf.for %[[ITEM:.*]] = %[[CTA:.*]] to %{{.*}} step %[[STEP:.*]] : i32
        // CHECK-NEXT:      %[[CLOCK:.*]] = nvvm.read.ptx.sreg.clock : i32
        // CHECK-NEXT:      %[[TIMER:.*]] = nvvm.read.ptx.sreg.globaltimer.lo : i32
        // CHECK-NEXT:      nvvm.griddepcontrol wait
        // CHECK-NEXT:      nvvm.read.ptx.sreg.clock
        // CHECK:           %[[SINCE:.*]] = arith.subi %[[ITEM]], %[[CTA]]
        // CHECK:           %[[TILE:.*]] = arith.divui %[[SINCE]], %[[STEP]]
        // CHECK:           %[[KEPT:.*]] = arith.cmpi ult, %[[TILE]], %c64
        // CHECK:           %[[STORES:.*]] = arith.andi %{{.*}}, %[[KEPT]]
        // CHECK:           scf.if %[[STORES]] {
        // CHECK:             %[[SM:.*]] = nvvm.read.ptx.sreg.smid : i32
        // CHECK:             llvm.store %[[CLOCK]], %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<1>
        // CHECK:             llvm.store %[[TIMER]], %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<1>
        // CHECK-COUNT-2:     llvm.store
        // CHECK:             llvm.store %[[SM]], %
        // CHECK-NOT:         llvm.store
        // CHECK:           scf.for
        %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
        scf.for %item = %cta to %items step %ctas : i32 {
          nvvm.griddepcontrol wait
          scf.for %k = %c0 to %items step %c1 : i32 {
            %map = llvm.mlir.zero : !llvm.ptr
            %to = llvm.mlir.zero : !llvm.ptr<7>
            nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %map, %bar, box[%k, %item] : !llvm.ptr<7>, !llvm.ptr
          }
          // CHECK-COUNT-2:   nvvm.read.ptx.sreg.clock
          // CHECK-COUNT-4:   llvm.store
        }
      }
    } else {
      %cta = nvvm.read.ptx.sreg.ctaid.x : i32
      // The consumer waits for no data here, so its first stamps are stored behind its products.
      // CHECK:       } else {
      // CHECK:         scf.for
      // CHECK-NEXT:      nvvm.read.ptx.sreg.clock
      // CHECK-NEXT:      nvvm.read.ptx.sreg.globaltimer.lo
      // CHECK-NEXT:      nvvm.read.ptx.sreg.clock
      // CHECK-NOT:       llvm.store
      // CHECK:           nvvm.wgmma.wait.group.sync.aligned 0
      // CHECK:           %[[OWN:.*]] = arith.subi %{{.*}}, %c128
      // CHECK:           arith.andi %[[OWN]], %c255
      // CHECK-COUNT-7:   llvm.store
      // CHECK:           nvvm.barrier0
      // CHECK-COUNT-2:   llvm.store
      scf.for %item = %cta to %items step %c1 : i32 {
        nvvm.wgmma.fence.aligned
        nvvm.wgmma.wait.group.sync.aligned 0
        nvvm.barrier0
      }
    } {roles = ["producer", "consumer"]}
    gpu.return
  }
}
}

// -----

// One agent, one tile for each CTA, and no loop over tiles.
#single = #tile.schedule<grid = <tile = [64, 64], scheduler = one_shot>, mainloop = <k = 32, stages = 3, roles = single>>
module attributes {tile.target = "sm_80"} {
// CHECK-LABEL: func.func @host
// CHECK:         arith.muli %{{.*}}, %c9
func.func @host(%grid: index) attributes {tile.stamps} {
  tile.launch @kernel grid(%grid) threads(128) args()
  return
}
gpu.module @kernels {
  // CHECK:       gpu.func @kernel
  // CHECK:         %[[TID:.*]] = nvvm.read.ptx.sreg.tid.x
  // CHECK:         %[[LANE:.*]] = arith.andi %[[TID]], %c127
  // CHECK:         %[[FIRST:.*]] = arith.cmpi eq, %[[LANE]], %c0
  // CHECK:         scf.if %[[FIRST]]
  // CHECK-COUNT-9: llvm.store
  // CHECK-NOT:     llvm.store
  gpu.func @kernel() kernel attributes {known_block_size = array<i32: 128, 1, 1>, schedule = #single} {
    nvvm.wgmma.fence.aligned
    nvvm.barrier0
    gpu.return
  }
}
}

// -----

// The tiles of a second loop, as of a tail in halves, are numbered behind those of the first.
#halves = #tile.schedule<grid = <tile = [64, 64], scheduler = persistent>, mainloop = <k = 32, stages = 3, roles = single>>
module attributes {tile.target = "sm_80"} {
func.func @host(%grid: index, %x: i32) attributes {tile.stamps} {
  tile.launch @halves_kernel grid(%grid) threads(128) args(%x) : i32
  return
}
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @halves_kernel
  // CHECK-SAME:    (%[[ITEMS:.*]]: i32, %
  gpu.func @halves_kernel(%items: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, schedule = #halves} {
    %cta = nvvm.read.ptx.sreg.ctaid.x : i32
    %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
    // CHECK:     scf.for
    // CHECK:       %[[FIRST:.*]] = arith.divui
    // CHECK:       arith.cmpi ult, %[[FIRST]], %c64
    scf.for %item = %cta to %items step %ctas : i32 {
      nvvm.wgmma.fence.aligned
      nvvm.barrier0
    }
    // CHECK:     scf.for
    // CHECK:       %[[OWN:.*]] = arith.divui
    // CHECK:       %[[AHEAD:.*]] = arith.divui
    // CHECK:       %[[ANY:.*]] = arith.cmpi ult, %{{.*}}, %[[ITEMS]]
    // CHECK:       %[[BEFORE:.*]] = arith.select %[[ANY]], %[[AHEAD]], %c0
    // CHECK:       %[[NUMBER:.*]] = arith.addi %[[OWN]], %[[BEFORE]]
    // CHECK:       arith.cmpi ult, %[[NUMBER]], %c64
    scf.for %half = %cta to %ctas step %ctas : i32 {
      nvvm.wgmma.fence.aligned
      nvvm.barrier0
    }
    gpu.return
  }
}
}

// -----

// With groups a loop carries the number of the tile, and another condition ends it.
#groups = #tile.schedule<grid = <tile = [64, 64], scheduler = persistent>, mainloop = <k = 32, stages = 3, roles = single>>
module attributes {tile.target = "sm_80"} {
func.func @host(%grid: index, %x: i1) attributes {tile.stamps} {
  tile.launch @groups_kernel grid(%grid) threads(128) args(%x) : i1
  return
}
gpu.module @kernels {
  // CHECK-LABEL: gpu.func @groups_kernel
  gpu.func @groups_kernel(%more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>, schedule = #groups} {
    %cta = nvvm.read.ptx.sreg.ctaid.x : i32
    %ctas = nvvm.read.ptx.sreg.nctaid.x : i32
    // CHECK:       } do {
    // CHECK-NEXT:  ^bb0(%[[ITEM:.*]]: i32):
    // CHECK:         nvvm.read.ptx.sreg.clock
    // CHECK:         %[[SINCE:.*]] = arith.subi %[[ITEM]], %
    // CHECK:         %[[NUMBER:.*]] = arith.divui %[[SINCE]]
    // CHECK:         arith.cmpi ult, %[[NUMBER]], %c64
    scf.while (%item = %cta) : (i32) -> i32 {
      scf.condition(%more) %item : i32
    } do {
    ^bb0(%item: i32):
      %next = arith.addi %item, %ctas : i32
      nvvm.wgmma.fence.aligned
      scf.yield %next : i32
    }
    gpu.return
  }
}
}

// -----

// Without the attribute nothing changes.
#single = #tile.schedule<grid = <tile = [64, 64]>>
module attributes {tile.target = "sm_80"} {
// CHECK-LABEL: func.func @host
// CHECK-NOT:     tile.workspace
// CHECK-NOT:     nvvm.read
func.func @host(%grid: index) {
  tile.launch @kernel grid(%grid) threads(128) args()
  return
}
gpu.module @kernels {
  gpu.func @kernel() kernel attributes {known_block_size = array<i32: 128, 1, 1>, schedule = #single} {
    nvvm.wgmma.fence.aligned
    gpu.return
  }
}
}
