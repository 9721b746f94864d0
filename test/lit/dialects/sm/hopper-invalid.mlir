// Every message of the verifiers of roles, mbarriers, TMA and wgmma.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

// Boxes: the rules of cuTensorMapEncodeTiled.
// expected-error @below {{a box has two to five sides of 1 to 256 elements [box-sides]}}
func.func @f(%x: !sm.tensor_map<64xbf16>) { return }

// -----

// expected-error @below {{[box-sides]}}
func.func @f(%x: !sm.tensor_map<257x64xbf16>) { return }

// -----

// expected-error @below {{[box-sides]}}
func.func @f(%x: !sm.tensor_map<0x64xbf16>) { return }

// -----

// expected-error @below {{[box-sides]}}
func.func @f(%x: !sm.tensor_map<1x1x1x2x64x64xbf16>) { return }

// -----

// expected-error @below {{the sides before panels, rows and columns are 1, or 2 and 1 for rows of two batches [box-outer-sides]}}
func.func @f(%x: !sm.tensor_map<2x2x64x64xbf16>) { return }

// -----

// expected-error @below {{a box's elements are whole bytes, not 'i4' [box-elements]}}
func.func @f(%x: !sm.tensor_map<8x32xi4>) { return }

// -----

// expected-error @below {{[box-elements]}}
func.func @f(%x: !sm.tensor_map<8x32xindex>) { return }

// -----

// expected-error @below {{a row of a box is 24 bytes; it must be a multiple of 16 [box-row]}}
func.func @f(%x: !sm.tensor_map<8x12xbf16>) { return }

// -----

// Swizzles: the unit in elements, the shift, the bits, the span.
// expected-error @below {{TMA swizzles units of 16 bytes: take <0…3, 3, 3> [box-swizzle]}}
func.func @f(%x: !sm.tensor_map<8x64xbf16, swizzle<3,4,3>>) { return }

// -----

// expected-error @below {{TMA swizzles units of 16 bytes: take <0…3, 2, 3> [box-swizzle]}}
func.func @f(%x: !sm.tensor_map<8x32xf32, swizzle<3,2,4>>) { return }

// -----

// expected-error @below {{TMA swizzles units of 16 bytes: take <0…3, 4, 3> [box-swizzle]}}
func.func @f(%x: !sm.tensor_map<8x128xi8, swizzle<4,4,4>>) { return }

// -----

// expected-error @below {{a row of a box is 128 bytes, more than the 64 that this swizzle permutes; take a narrower box [box-wide]}}
func.func @f(%x: !sm.tensor_map<8x64xbf16, swizzle<2,3,3>>) { return }

// -----

// expected-error @below {{needs at least one mbarrier, not 0 [mbarrier-count]}}
func.func @f(%x: !sm.mbarriers<0>) { return }

// -----

// Roles.
tile.kernel @k() {
  // expected-error @below {{'sm.roles' op knows the roles producer, copiers and consumer, not helper [role-name]}}
  sm.roles {
    helper warps(4) {
    }
  }
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.roles' op needs a number of instances, at least 1, for each role [role-instances]}}
  sm.roles {
    consumer warps(4) instances(0) {
    }
  }
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.role_instance' op is the number of an instance of a role; it stands in sm.roles [instance-in-roles]}}
  %i = sm.role_instance : index
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.roles' op role consumer has 6 warps; a role is made of warpgroups of four [role-warps]}}
  sm.roles {
    consumer warps(6) {
    }
  }
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{[role-warps]}}
  sm.roles {
    producer warps(0) {
    }
  }
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.roles' op role producer asks for 20 registers; setmaxnreg takes multiples of 8 from 24 to 256 [role-registers]}}
  sm.roles {
    producer warps(4) registers(20) {
    }
  }
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{[role-registers]}}
  sm.roles {
    producer warps(4) registers(16) {
    }
  }
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{[role-registers]}}
  sm.roles {
    producer warps(4) registers(264) {
    }
  }
  tile.return
}

// -----

tile.kernel @k() {
  // expected-error @below {{'sm.roles' op needs a name, a number of warps and of registers for each role [role-lists]}}
  "sm.roles"() <{names = ["producer"], registers = array<i64: 0>, warps = array<i64: 4>}> ({
    "tile.yield"() : () -> ()
  }, {
    "tile.yield"() : () -> ()
  }) : () -> ()
  tile.return
}

// -----

tile.kernel @k() {
  sm.roles {
    // expected-error @below {{custom op 'sm.roles' expected 'warps'}}
    producer {
    }
  }
  tile.return
}

// -----

// mbarriers, TMA.
tile.kernel @k() {
  // expected-error @below {{attribute 'arrivals' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %full = sm.mbarriers arrivals(0) : !sm.mbarriers<2>
  tile.return
}

// -----

func.func @f(%a: memref<64xbf16>) {
  // expected-error @below {{'sm.tensor_map' op maps matrices, not 'memref<64xbf16>' [map-of-matrices]}}
  %map = sm.tensor_map %a : memref<64xbf16> to !sm.tensor_map<8x64xbf16>
  return
}

// -----

func.func @f(%a: memref<64x64xf16>) {
  // expected-error @below {{'sm.tensor_map' op maps boxes of 'bf16' onto a matrix of 'f16' [map-elements]}}
  %map = sm.tensor_map %a : memref<64x64xf16> to !sm.tensor_map<8x64xbf16>
  return
}

// -----

tile.kernel @k(%map: !sm.tensor_map<16x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<24x64xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.tma_load' op moves boxes of 16x64, which do not tile the buffer's 24x64 [moved-boxes]}}
  sm.tma_load %map[%i, %i] to %s signals %full[%i] : !sm.tensor_map<16x64xbf16>, memref<24x64xbf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @k(%map: !sm.tensor_map<2x16x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<16x64xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{[moved-boxes]}}
  sm.tma_load %map[%i, %i] to %s signals %full[%i] : !sm.tensor_map<2x16x64xbf16>, memref<16x64xbf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @k(%map: !sm.tensor_map<8x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<8x64xf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.tma_load' op moves elements of 'bf16' to a tile of 'f16' [moved-elements]}}
  sm.tma_load %map[%i, %i] to %s signals %full[%i] : !sm.tensor_map<8x64xbf16>, memref<8x64xf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @k(%map: !sm.tensor_map<8x64xbf16, swizzle<3,3,3>>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<8x64xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.tma_load' op the tensor map swizzles 3 bits, the buffer's layout 0 [moved-swizzle]}}
  sm.tma_load %map[%i, %i] to %s signals %full[%i] : !sm.tensor_map<8x64xbf16, swizzle<3,3,3>>, memref<8x64xbf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @k(%map: !sm.tensor_map<8x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
  // expected-error @below {{[moved-swizzle]}}
  sm.tma_load %map[%i, %i] to %s signals %full[%i] : !sm.tensor_map<8x64xbf16>, memref<8x64xbf16, #tile.layout<(8,64):(64,1), swizzle<3,3,3>>, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

// wgmma and its wait.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: !b, %c: !acc) {
  // expected-error @below {{'sm.wgmma' op must yield the pending form of its accumulator [wgmma-pending]}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : !a, !b, !acc -> !sm.pending<!sm.fragment<64x8xf16, #tv>>
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: memref<8x32xbf16, #gpu.address_space<workgroup>>, %c: !acc) {
  // expected-error @below {{'sm.wgmma' op K is 64 in A but 32 in B [wgmma-k]}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : !a, memref<8x32xbf16, #gpu.address_space<workgroup>>, !acc -> !pending
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: memref<4096xbf16, #gpu.address_space<workgroup>>, %bs: !b, %c: !acc) {
  // expected-error @below {{'sm.wgmma' op A and B must have two dimensions [wgmma-dimensions]}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : memref<4096xbf16, #gpu.address_space<workgroup>>, !b, !acc -> !pending
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!fa = !sm.fragment<64x64xbf16, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,4):((64,8,512),64,1024)>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
tile.kernel @k(%fa: !fa, %bs: !b, %c: !acc) {
  // expected-error @below {{'sm.wgmma' op takes an A in registers as M×K of 16-bit elements or tf32, in the layouts tn and tt [wgmma-held-a]}}
  %p = sm.wgmma nn %fa, %bs, %c by #mma : !fa, !b, !acc -> !sm.pending<!acc>
  tile.return
}

// -----

// The letters say which dimension is K.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x32xbf16, #gpu.address_space<workgroup>>
!b = memref<64x8xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: !b, %c: !acc) {
  // expected-error @below {{[wgmma-k]}}
  %p = sm.wgmma tt %as, %bs, %c by #mma : !a, !b, !acc -> !pending
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x32xbf16, #gpu.address_space<workgroup>>
!b = memref<64x8xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: !b, %c: !acc) {
  // expected-error @below {{'sm.wgmma' op computes 32x8 but the accumulator is 64x8 [wgmma-extents]}}
  %q = sm.wgmma nt %as, %bs, %c by #mma : !a, !b, !acc -> !pending
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: memref<128x64xbf16, #gpu.address_space<workgroup>>, %bs: !b, %c: !acc) {
  // expected-error @below {{[wgmma-extents]}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : memref<128x64xbf16, #gpu.address_space<workgroup>>, !b, !acc -> !pending
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: memref<16x64xbf16, #gpu.address_space<workgroup>>, %c: !acc) {
  // expected-error @below {{[wgmma-extents]}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : !a, memref<16x64xbf16, #gpu.address_space<workgroup>>, !acc -> !pending
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: memref<8x64xf32, #gpu.address_space<workgroup>>, %c: !acc) {
  // expected-error @below {{'sm.wgmma_promote' op elements of A and B must have as many bits [wgmma-elements]}}
  %sum, %done = sm.wgmma_promote tn %as, %bs into %c by #mma : !a, memref<8x64xf32, #gpu.address_space<workgroup>>, !acc
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: memref<8x64xf32, #gpu.address_space<workgroup>>, %c: !acc) {
  // expected-error @below {{[wgmma-elements]}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : !a, memref<8x64xf32, #gpu.address_space<workgroup>>, !acc -> !pending
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: memref<64x64xbf16>, %bs: !b, %c: !acc) {
  // expected-error @below {{'sm.wgmma' op operand #0 must be memref in shared memory or A tile held in registers, each thread's part given by a thread-value layout, but got 'memref<64x64xbf16>'}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : memref<64x64xbf16>, !b, !acc -> !pending
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%p: !pending) {
  // expected-error @below {{'sm.mma_wait' op must yield its own accumulator [wait-accumulator]}}
  %c, %retired = sm.mma_wait 0, %p : !pending -> !sm.fragment<64x8xf16, #tv>
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%p: !pending) {
  // expected-error @below {{'sm.mma_wait' op makes the accumulator readable exactly when no group stays in flight [wait-readable]}}
  %c, %retired = sm.mma_wait 0, %p : !pending -> !pending
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%p: !pending) {
  // expected-error @below {{[wait-readable]}}
  %c, %retired = sm.mma_wait 1, %p : !pending -> !acc
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%p: !pending) {
  // expected-error @below {{attribute 'pending' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %q, %retired = sm.mma_wait -1, %p : !pending -> !pending
  tile.return
}

// -----

func.func @f(%p: !llvm.struct<(f32)>) {
  // expected-error @below {{attribute 'pending' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %c = sm.ptx_wgmma_wait -1, %p : !llvm.struct<(f32)>
  return
}

// -----

// A pending accumulator has one user.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: !b, %c: !acc) {
  // expected-error @below {{accumulates in registers that are in flight, so the pending result has one user, not 2; read what sm.mma_wait makes of it [pending-one-user]}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : !a, !b, !acc -> !pending
  // expected-note @below {{used here}}
  %q = sm.wgmma tn %as, %bs, %p by #mma : !a, !b, !pending -> !pending
  // expected-note @below {{used here}}
  %d, %retired = sm.mma_wait 0, %p : !pending -> !acc
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: !b, %p: !pending) {
  // expected-error @below {{[pending-one-user]}}
  %q, %retired = sm.mma_wait 1, %p : !pending -> !pending
  // expected-note @below {{used here}}
  %c, %retired_0 = sm.mma_wait 0, %q : !pending -> !acc
  // expected-note @below {{used here}}
  %d, %retired_1 = sm.mma_wait 0, %q : !pending -> !acc
  tile.return
}

// -----

// Inside a loop that carries it.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: !b, %c: !acc) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-error @below {{[pending-one-user]}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : !a, !b, !acc -> !pending
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%x = %p) -> (!pending) {
    // expected-note @below {{used here}}
    %y = sm.wgmma tn %as, %bs, %x by #mma : !a, !b, !pending -> !pending
    // expected-note @below {{used here}}
    %d, %retired = sm.mma_wait 0, %x : !pending -> !acc
    scf.yield %y : !pending
  }
  %e, %retired = sm.mma_wait 0, %r : !pending -> !acc
  tile.return
}

// -----

// After the loop that carries it.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
tile.kernel @k(%as: !a, %bs: !b, %p: !pending) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%x = %p) -> (!pending) {
    // expected-error @below {{[pending-one-user]}}
    %y = sm.wgmma tn %as, %bs, %x by #mma : !a, !b, !pending -> !pending
    scf.yield %y : !pending
  }
  // expected-note @below {{used here}}
  %s = scf.for %i = %c0 to %c4 step %c1 iter_args(%x = %r) -> (!pending) {
    scf.yield %x : !pending
  }
  // expected-note @below {{used here}}
  %d, %retired = sm.mma_wait 0, %r : !pending -> !acc
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<64x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
func.func @f(%as: !a, %bs: !b, %c: !acc) -> !pending {
  // expected-error @below {{'sm.wgmma' op is pending in func.return; only sm.wgmma, sm.mma_wait and loops that carry it take what is in flight [pending-user]}}
  %p = sm.wgmma tn %as, %bs, %c by #mma : !a, !b, !acc -> !pending
  return %p : !pending
}

// -----

!fragment = !sm.fragment<128x8xf32, #tile.tv<threads 32:1, values 32:32>>
tile.kernel @k(%x: memref<1x64xf32, #gpu.address_space<workgroup>>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'sm.load_scales' op loads scales of blocks, not of the kind per_row [scales-kind-of-blocks]}}
  %s = sm.load_scales per_row %x[%c0, %c0] : memref<1x64xf32, #gpu.address_space<workgroup>> to !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<128x8xf32, #tile.tv<threads 32:1, values 32:32>>
tile.kernel @k(%x: memref<1x64xf32, #gpu.address_space<workgroup>>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'sm.load_scales' op needs a matrix, or a buffer, with the scales of 128 rows, not 'memref<1x64xf32, #gpu.address_space<workgroup>>' [scales-buffer]}}
  %s = sm.load_scales row_scale %x[%c0, %c0] : memref<1x64xf32, #gpu.address_space<workgroup>> to !fragment
  tile.return
}

// -----

!fragment = !sm.fragment<128x8xf32, #tile.tv<threads 32:1, values 32:32>>
tile.kernel @k(%x: memref<1x128xf16, #gpu.address_space<workgroup>>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'sm.load_scales' op loads a fragment of 'f32' from scales of 'f16' [scales-of-blocks-elements]}}
  %s = sm.load_scales row_scale %x[%c0, %c0] : memref<1x128xf16, #gpu.address_space<workgroup>> to !fragment
  tile.return
}

// -----

// A load with `rows` needs one box for each panel, with all rows of the tile, and no multicast.
tile.kernel @fewer_rows_in_the_type(%map: !sm.tensor_map<16x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<32x64xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{'sm.tma_load' op has `rows`; then the map must have one box for each panel, with as many rows as the tile, and the load must not be a multicast [rows-of-boxes]}}
  sm.tma_load %map[%i, %i] rows(%i) to %s signals %full[%i] : !sm.tensor_map<16x64xbf16>, memref<32x64xbf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @panels_in_a_box(%map: !sm.tensor_map<2x16x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<16x128xbf16, #tile.layout<(16,(64,2)):(64,(1,1024))>, #gpu.address_space<workgroup>>
  // expected-error @below {{[rows-of-boxes]}}
  sm.tma_load %map[%i, %i] rows(%i) to %s signals %full[%i] : !sm.tensor_map<2x16x64xbf16>, memref<16x128xbf16, #tile.layout<(16,(64,2)):(64,(1,1024))>, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @panels_in_a_box_of_a_batch(%map: !sm.tensor_map<1x1x16x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<16x64xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{[rows-of-boxes]}}
  sm.tma_load %map[%i, %i, %i] rows(%i) to %s signals %full[%i] : !sm.tensor_map<1x1x16x64xbf16>, memref<16x64xbf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @no_matrix_of_a_batch(%map: !sm.tensor_map<16x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<16x64xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{[rows-of-boxes]}}
  sm.tma_load %map[%i, %i, %i] rows(%i) to %s signals %full[%i] : !sm.tensor_map<16x64xbf16>, memref<16x64xbf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @shared_with_other_ctas(%map: !sm.tensor_map<16x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<16x64xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{[rows-of-boxes]}}
  sm.tma_load %map[%i, %i] rows(%i) to %s signals %full[%i] multicast(row) : !sm.tensor_map<16x64xbf16>, memref<16x64xbf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @wider_than_the_buffer(%map: !sm.tensor_map<16x64xbf16>, %full: !sm.mbarriers<2>, %i: index) {
  %s = sm.alloc : memref<16x32xbf16, #gpu.address_space<workgroup>>
  // expected-error @below {{[moved-boxes]}}
  sm.tma_load %map[%i, %i] rows(%i) to %s signals %full[%i] : !sm.tensor_map<16x64xbf16>, memref<16x32xbf16, #gpu.address_space<workgroup>>, !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @plus_nothing(%x: !sm.mbarriers<2>, %bytes: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'sm.mbarrier_arrive' op has `plus` without `expects`; if there are no other bytes, write expects 0 plus … [plus-bytes]}}
  sm.mbarrier_arrive %x[%c0] plus %bytes : !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @plus_at_other_ctas(%x: !sm.mbarriers<2>, %bytes: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[bytes-of-other-ctas]}}
  sm.mbarrier_arrive %x[%c0] expects 0 plus %bytes to(row) : !sm.mbarriers<2>
  tile.return
}

// -----

tile.kernel @plus_of_each_warp(%x: !sm.mbarriers<2>, %bytes: index) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{[bytes-each-warp]}}
  sm.mbarrier_arrive %x[%c0] each_warp expects 0 plus %bytes : !sm.mbarriers<2>
  tile.return
}

// -----

!fragment = !sm.fragment<128x8xf32, #tile.tv<threads 32:1, values 32:32>>
tile.kernel @k(%x: !sm.mbarriers<2>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'sm.mbarrier_arrive' op expects bytes as often as there are warps; let one thread expect them [bytes-each-warp]}}
  sm.mbarrier_arrive %x[%c0] each_warp expects 64 : !sm.mbarriers<2>
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
tile.kernel @k(%p: !sm.pending<!sm.fragment<128x8xf32, #tv>>) {
  // expected-error @below {{'sm.mma_wait_rows' op makes rows readable of '!sm.fragment<128x8xf32, #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>>', not '!sm.fragment<64x8xf16, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>>' [wait-rows-shape]}}
  %top, %rest = sm.mma_wait_rows 1, %p : !sm.pending<!sm.fragment<128x8xf32, #tv>> -> !sm.fragment<64x8xf16, #tv1>
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
tile.kernel @k(%p: !sm.pending<!sm.fragment<128x8xf32, #tv>>) {
  // expected-error @below {{'sm.mma_wait_rows' op makes 128 of 128 rows readable, and leaves none pending; take sm.mma_wait 0 [wait-rows-count]}}
  %top, %rest = sm.mma_wait_rows 1, %p : !sm.pending<!sm.fragment<128x8xf32, #tv>> -> !sm.fragment<128x8xf32, #tv>
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
tile.kernel @k(%p: !sm.pending<!sm.fragment<128x8xf32, #tv>>) {
  // expected-error @below {{attribute 'pending' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %top, %rest = sm.mma_wait_rows 0, %p : !sm.pending<!sm.fragment<128x8xf32, #tv>> -> !sm.fragment<64x8xf32, #tv1>
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<128x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!pending = !sm.pending<!sm.fragment<128x8xf32, #tv>>
tile.kernel @two_users(%a: !a, %b: !b, %p: !pending) {
  %q = sm.wgmma tn %a, %b, %p by #mma row_groups : !a, !b, !pending -> !pending
  // expected-error @below {{[pending-one-user]}}
  %top, %rest = sm.mma_wait_rows 1, %q : !pending -> !sm.fragment<64x8xf32, #tv1>
  // expected-note @below {{used here}}
  %c, %retired = sm.mma_wait 0, %rest : !pending -> !sm.fragment<128x8xf32, #tv>
  // expected-note @below {{used here}}
  %d, %last = sm.mma_wait 0, %rest : !pending -> !sm.fragment<128x8xf32, #tv>
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<128x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!pending = !sm.pending<!sm.fragment<128x8xf32, #tv>>
tile.kernel @one_group(%a: !a, %b: !b, %p: !pending) {
  %q = sm.wgmma tn %a, %b, %p by #mma : !a, !b, !pending -> !pending
  %r, %retired = sm.mma_wait 1, %q : !pending -> !pending
  // expected-error @below {{'sm.mma_wait_rows' op takes accumulators of one group; let an sm.wgmma with row_groups give them [wait-rows-group]}}
  %top, %rest = sm.mma_wait_rows 1, %r : !pending -> !sm.fragment<64x8xf32, #tv1>
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
#tv1 = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k16.f32.bf16, atoms [1, 1, 1]>
!a = memref<128x64xbf16, #gpu.address_space<workgroup>>
!b = memref<8x64xbf16, #gpu.address_space<workgroup>>
!pending = !sm.pending<!sm.fragment<128x8xf32, #tv>>
tile.kernel @goes_on(%a: !a, %b: !b, %p: !pending) {
  %q = sm.wgmma tn %a, %b, %p by #mma row_groups : !a, !b, !pending -> !pending
  // expected-error @below {{'sm.mma_wait_rows' op leaves rows pending, which only sm.mma_wait 0 takes, not sm.wgmma [wait-rows-left]}}
  %top, %rest = sm.mma_wait_rows 1, %q : !pending -> !sm.fragment<64x8xf32, #tv1>
  %next = sm.wgmma tn %a, %b, %rest by #mma : !a, !b, !pending -> !pending
  tile.return
}
