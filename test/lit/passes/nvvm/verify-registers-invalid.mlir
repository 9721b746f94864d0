// verify-registers refuses what roles ask for by setmaxregister and their CTA does not have.
// RUN: lowtide-opt %s -p verify-registers --split-input-file --verify-diagnostics

// ptxas must know the threads.
module attributes {tile.target = "sm_90a"} {
func.func @host() {
  %c1 = arith.constant 1 : index
  tile.launch @kernel grid(%c1) threads(384) shared_memory(0) args()
  return
}
gpu.module @kernels {
  // expected-error @below {{verify-registers: changes its registers by nvvm.setmaxregister but does not say how many threads it has, so that ptxas would ignore it (C7508); give it known_block_size = array<i32: 384, 1, 1> [block-size-unknown]}}
  gpu.func @kernel() kernel attributes { nvvm.maxnreg = 168 : i32, nvvm.minctasm = 1 : i32} {
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

module attributes {tile.target = "sm_90a"} {
func.func @host() {
  %c1 = arith.constant 1 : index
  // expected-error @below {{verify-registers: launches 256 threads per CTA, but its kernel's known_block_size has 384; take 384 [known-block-size]}}
  tile.launch @kernel grid(%c1) threads(256) shared_memory(0) args()
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

// What an SM has is shared by all.
module attributes {tile.target = "sm_90a"} {
func.func @host() {
  %c1 = arith.constant 1 : index
  tile.launch @kernel grid(%c1) threads(384) shared_memory(0) args()
  return
}
gpu.module @kernels {
  // expected-error @below {{verify-registers: enters with 176 registers per thread (nvvm.maxnreg), but 384 threads share the 65536 of an SM; take at most 168 [registers-at-entry]}}
  gpu.func @kernel() kernel attributes { known_block_size = array<i32: 384, 1, 1>, nvvm.maxnreg = 176 : i32, nvvm.minctasm = 1 : i32} {
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

// The roles' sum: beyond it, the last to ask waits for ever.
module attributes {tile.target = "sm_90a"} {
func.func @host() {
  %c1 = arith.constant 1 : index
  tile.launch @kernel grid(%c1) threads(384) shared_memory(0) args()
  return
}
gpu.module @kernels {
  // expected-error @below {{verify-registers: asks for 66560 registers by nvvm.setmaxregister (128 threads × 40 + 256 threads × 240), but enters with 64512 (384 × 168), so that the last to ask would wait forever; take at most 232 in place of 240 [register-sum]}}
  gpu.func @kernel() kernel attributes { known_block_size = array<i32: 384, 1, 1>, nvvm.maxnreg = 168 : i32, nvvm.minctasm = 1 : i32} {
    %c128 = arith.constant 128 : i32
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %producer = arith.cmpi ult, %tid, %c128 : i32
    scf.if %producer {
      nvvm.setmaxregister decrease 40
    } else {
      nvvm.setmaxregister increase 240
    } {roles = ["producer", "consumer"]}
    gpu.return
  }
}
}
// -----

module attributes {tile.target = "sm_90a"} {
func.func @host() {
  %c1 = arith.constant 1 : index
  tile.launch @kernel grid(%c1) threads(384) shared_memory(0) args()
  return
}
gpu.module @kernels {
  // expected-error @below {{verify-registers: asks for 64512 registers by nvvm.setmaxregister (128 threads × 40 + 256 threads × 232), but enters with 61440 (384 × 160), so that the last to ask would wait forever; take at most 216 in place of 232 [register-sum]}}
  gpu.func @kernel() kernel attributes { known_block_size = array<i32: 384, 1, 1>, nvvm.maxnreg = 160 : i32, nvvm.minctasm = 1 : i32} {
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

// The direction of each change.
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
      // expected-error @below {{verify-registers: asks for 160 registers per thread, which enters with 168: that is no increase; take at least 168 [register-change]}}
      nvvm.setmaxregister increase 160
    } {roles = ["producer", "consumer"]}
    gpu.return
  }
}
}
// -----

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
      // expected-error @below {{verify-registers: asks for 176 registers per thread, which enters with 168: that is no decrease; take at most 168 [register-change]}}
      nvvm.setmaxregister decrease 176
    } else {
      nvvm.setmaxregister increase 232
    } {roles = ["producer", "consumer"]}
    gpu.return
  }
}
}
// -----

// Who asks must be seen.
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
    %producer = arith.trunci %tid : i32 to i1
    // expected-error @below {{verify-registers: must compare the thread's index with a constant number of whole warps to split roles [role-bound]}}
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

// One of the two warpgroups of the role would ask by two of its warps.
module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
  gpu.func @kernel() kernel attributes { known_block_size = array<i32: 384, 1, 1>, nvvm.maxnreg = 168 : i32, nvvm.minctasm = 1 : i32} {
    %c128 = arith.constant 128 : i32
    %c192 = arith.constant 192 : i32
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %producer = arith.cmpi ult, %tid, %c192 : i32
    scf.if %producer {
      // expected-error @below {{verify-registers: is executed by the threads 0 to 191, but all 128 threads of a warpgroup must execute it together (.aligned); split the roles between warpgroups [aligned-warpgroup]}}
      nvvm.setmaxregister decrease 40
    } {roles = ["producer", "consumer"]}
    gpu.return
  }
}
}
// -----

// Two warps of a warpgroup ask for other registers than the others.
module attributes {tile.target = "sm_90a"} {
gpu.module @kernels {
  gpu.func @kernel() kernel attributes { known_block_size = array<i32: 384, 1, 1>, nvvm.maxnreg = 168 : i32, nvvm.minctasm = 1 : i32} {
    %c128 = arith.constant 128 : i32
    %c192 = arith.constant 192 : i32
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %producer = arith.cmpi ult, %tid, %c128 : i32
    scf.if %producer {
      nvvm.setmaxregister decrease 40
    } else {
      %some = arith.cmpi ult, %tid, %c192 : i32
      scf.if %some {
        // expected-error @below {{verify-registers: is in a branch that belongs to no role, but all four warps of a warpgroup must execute it together (.aligned); move it to the beginning of its role [aligned-branch]}}
        nvvm.setmaxregister increase 232
      } else {
        nvvm.setmaxregister increase 224
      }
    } {roles = ["producer", "consumer"]}
    gpu.return
  }
}
}
