// --check-level holds the module to the level that it names.
// RUN: lowtide-opt %s --split-input-file > %t.out
// RUN: not lowtide-opt %s --split-input-file --check-level 2>&1 | filecheck %s

// CHECK: check-level.mlir:10:3: error: sm.copy does not belong in device code at level pipelined; it lives from smem to smem: the step to pipelined should have replaced it
module attributes {tile.level = "pipelined"} {
tile.kernel @k(%w: !tile.view<8x8xf16>) {
  %s = sm.alloc : memref<8x8xf16, #gpu.address_space<workgroup>>
  // The op that the message is about:
  sm.copy %w to %s : !tile.view<8x8xf16>, memref<8x8xf16, #gpu.address_space<workgroup>>
  tile.return
}
}

// -----

// CHECK: sm.barrier does not belong in device code at level cta; it lives from smem to epilogue
module attributes {tile.level = "cta"} {
tile.kernel @k() {
  sm.barrier
  tile.return
}
}

// -----

// CHECK: the module lacks tile.level; it names the level of the IR, e.g. tile.level = "cta"
module {}
