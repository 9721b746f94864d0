// verify-registers takes a kernel whose roles share the registers that its CTA enters with, and changes nothing.
// RUN: lowtide-opt %s -p verify-registers --split-input-file | filecheck %s

// 128 × 40 + 256 × 232 = 384 × 168.
// CHECK-LABEL: gpu.func @kernel
// CHECK:       nvvm.setmaxregister decrease 40
// CHECK:       nvvm.setmaxregister increase 232
module attributes {tile.target = "sm_90a"} {
func.func @host() {
  %c1 = arith.constant 1 : index
  tile.launch @kernel grid(%c1) threads(384) shared_memory(0) args()
  return
}
gpu.module @kernels {
  gpu.func @kernel() kernel attributes { known_block_size = array<i32: 384, 1, 1>, nvvm.maxnreg = 168 : i32, nvvm.minctasm = 1 : i32} {
    %c128 = arith.constant 128 : i32
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %producer = arith.cmpi ult, %tid, %c128 : i32
    scf.if %producer {
      nvvm.setmaxregister decrease 40
    } else {
      nvvm.setmaxregister increase 232
    } {roles = ["producer", "consumer"]}
    gpu.return
  }
}
}
// -----

// Left out, the registers at entry are an even share. 256 threads have 256 each, of which a thread addresses 255.
// CHECK-LABEL: gpu.func @kernel
module attributes {tile.target = "sm_90a"} {
func.func @host() {
  %c1 = arith.constant 1 : index
  tile.launch @kernel grid(%c1) threads(384) shared_memory(0) args()
  return
}
gpu.module @kernels {
  gpu.func @kernel() kernel attributes { known_block_size = array<i32: 384, 1, 1>, nvvm.minctasm = 1 : i32} {
    %c128 = arith.constant 128 : i32
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %producer = arith.cmpi ult, %tid, %c128 : i32
    scf.if %producer {
      nvvm.setmaxregister decrease 40
    } else {
      nvvm.setmaxregister increase 232
    } {roles = ["producer", "consumer"]}
    gpu.return
  }
}
}
// -----

// CHECK-LABEL: gpu.func @kernel
module attributes {tile.target = "sm_90a"} {
func.func @host() {
  %c1 = arith.constant 1 : index
  tile.launch @kernel grid(%c1) threads(256) shared_memory(0) args()
  return
}
gpu.module @kernels {
  gpu.func @kernel() kernel attributes { known_block_size = array<i32: 256, 1, 1>, nvvm.maxnreg = 255 : i32, nvvm.minctasm = 1 : i32} {
    %c128 = arith.constant 128 : i32
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %producer = arith.cmpi ult, %tid, %c128 : i32
    scf.if %producer {
      nvvm.setmaxregister decrease 40
    } else {
      nvvm.setmaxregister increase 256
    } {roles = ["producer", "consumer"]}
    gpu.return
  }
}
}
// -----

// Without setmaxregister the size of a CTA may stay open.
// CHECK-LABEL: gpu.func @plain
module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
  gpu.func @plain() kernel {
    gpu.return
  }
}
}
