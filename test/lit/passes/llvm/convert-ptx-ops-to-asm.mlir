// convert-ptx-ops-to-asm writes the instructions that nvvm lacks.
// RUN: lowtide-opt %s -p convert-ptx-ops-to-asm | filecheck %s

// Registers go in by number, as what comes out: nothing that reads them can move above the wait. Side effects keep it
// in its place.
// CHECK-LABEL: func.func @wait(
// CHECK-SAME:    %[[P:.+]]: !llvm.struct<(f32, f32, f32)>)
// CHECK:       %[[R0:.+]] = llvm.extractvalue %[[P]][0]
// CHECK:       %[[R1:.+]] = llvm.extractvalue %[[P]][1]
// CHECK:       %[[R2:.+]] = llvm.extractvalue %[[P]][2]
// CHECK:       %[[C:.+]] = llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;", "=f,=f,=f,0,1,2" %[[R0]], %[[R1]], %[[R2]] : (f32, f32, f32) -> !llvm.struct<(f32, f32, f32)>
// CHECK-NEXT:  return %[[C]]
// CHECK-NOT:   sm.ptx_
module attributes {tile.target = "sm_90a"} {
func.func @wait(%p: !llvm.struct<(f32, f32, f32)>) -> !llvm.struct<(f32, f32, f32)> {
  %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, f32, f32)>
  return %c : !llvm.struct<(f32, f32, f32)>
}

// Sums that nobody reads: this is no assembly, which LLVM may copy into both sides of a branch.
// CHECK-LABEL: func.func @unread(
// CHECK-NEXT:  nvvm.wgmma.wait.group.sync.aligned 0
// CHECK-NEXT:  return
func.func @unread(%p: !llvm.struct<(f32, f32)>) {
  %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, f32)>
  return
}

// Sums of integers are in registers of theirs.
// CHECK-LABEL: func.func @integers(
// CHECK:       llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;", "=r,=r,0,1" %{{.+}}, %{{.+}} : (i32, i32)
func.func @integers(%p: !llvm.struct<(i32, i32)>) -> !llvm.struct<(i32, i32)> {
  %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(i32, i32)>
  return %c : !llvm.struct<(i32, i32)>
}

// A in registers: its vector follows the accumulators, which are outputs alone where they are cleared.
// CHECK-LABEL: func.func @held(
// CHECK:       llvm.inline_asm has_side_effects "{\0A.reg .pred p;\0Asetp.ne.b32 p, 0, 0;\0Awgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, {$4, $5, $6, $7}, $8, p, 1, 1, 1;\0A}", "=f,=f,=f,=f,r,r,r,r,l"
// CHECK:       llvm.inline_asm has_side_effects "{\0A.reg .pred p;\0Asetp.ne.b32 p, 1, 0;\0Awgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, {$8, $9, $10, $11}, $12, p, 1, 1, 0;\0A}", "=f,=f,=f,=f,0,1,2,3,r,r,r,r,l"
func.func @held(%p: !llvm.struct<(f32, f32, f32, f32)>, %r: i32, %b: i64) -> !llvm.struct<(f32, f32, f32, f32)> {
  %q = sm.ptx_wgmma "wgmma.m64n8k16.f32.bf16" clears %p, (%r, %r, %r, %r), %b transposed : !llvm.struct<(f32, f32, f32, f32)>
  %s = sm.ptx_wgmma "wgmma.m64n8k16.f32.bf16" %q, (%r, %r, %r, %r), %b : !llvm.struct<(f32, f32, f32, f32)>
  return %s : !llvm.struct<(f32, f32, f32, f32)>
}

// Of tf32, B cannot be transposed, so no operand says whether it is.
// CHECK-LABEL: func.func @held_tf32(
// CHECK:       wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {$0, $1, $2, $3}, {$8, $9, $10, $11}, $12, p, 1, 1;\0A}",
func.func @held_tf32(%p: !llvm.struct<(f32, f32, f32, f32)>, %r: i32, %b: i64) -> !llvm.struct<(f32, f32, f32, f32)> {
  %q = sm.ptx_wgmma "wgmma.m64n8k8.f32.tf32" %p, (%r, %r, %r, %r), %b : !llvm.struct<(f32, f32, f32, f32)>
  return %q : !llvm.struct<(f32, f32, f32, f32)>
}

// CHECK-LABEL: func.func @masks(
// CHECK:       llvm.inline_asm "lop3.b32 $0, $1, 0xf000f, 0x43004300, 0xea;", "=r,r" %{{.+}} : (i32) -> i32
// CHECK:       llvm.inline_asm "lop3.b32 $0, $1, 0x800080, 0x43004300, 0xae;", "=r,r" %{{.+}} : (i32) -> i32
func.func @masks(%x: i32) -> (i32, i32) {
  %y = sm.ptx_mask_or %x, 983055, 1124090624 : i32
  %z = sm.ptx_mask_or inverted %x, 8388736, 1124090624 : i32
  return %y, %z : i32, i32
}

// Tensor maps in shared memory: 32-bit addresses there; PTX wants numbers of types and modes as immediates.
// CHECK-LABEL: func.func @maps(
// CHECK:       llvm.inline_asm has_side_effects "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [$0], 1, $1;", "r,r,~{memory}" %{{.+}}, %{{.+}} : (i32, i32) -> ()
// CHECK:       llvm.inline_asm has_side_effects "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [$0], $1;", "r,l,~{memory}" %{{.+}}, %{{.+}} : (i32, i64) -> ()
// CHECK:       llvm.inline_asm has_side_effects "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [$0], 10;", "r,~{memory}" %{{.+}} : (i32) -> ()
// CHECK:       llvm.inline_asm has_side_effects "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [$0], [$1], 128;", "l,r,~{memory}" %{{.+}}, %{{.+}} : (i64, i32) -> ()
func.func @maps(%p: !llvm.ptr<3>, %g: !llvm.ptr<1>, %x: i32, %y: i64) {
  sm.ptx_replace_map %p "global_dim" dim 1 value %x : !llvm.ptr<3>, i32
  sm.ptx_replace_map %p "global_address" value %y : !llvm.ptr<3>, i64
  sm.ptx_replace_map %p "elemtype" immediate 10 : !llvm.ptr<3>
  sm.ptx_copy_map %p to %g : !llvm.ptr<3>, !llvm.ptr<1>
  return
}

// The number of groups that may stay in flight is the instruction's. A single output comes without a struct.
// CHECK-LABEL: func.func @in_flight(
// CHECK:       %[[R:.+]] = llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 2;", "=f,0" %{{.+}} : (f32) -> f32
// CHECK:       %[[C:.+]] = llvm.insertvalue %[[R]], %{{.+}}[0]
// CHECK-NEXT:  return %[[C]]
func.func @in_flight(%p: !llvm.struct<(f32)>) -> !llvm.struct<(f32)> {
  %c = sm.ptx_wgmma_wait 2, %p : !llvm.struct<(f32)>
  return %c : !llvm.struct<(f32)>
}

// Stores with a cache operator: the bits in registers of 32, or of 16 for one element; memory is told of it.
// CHECK-LABEL: func.func @stores(
// CHECK-SAME:    %[[V8:[^:]+]]: vector<8xbf16>, %[[V2:[^:]+]]: vector<2xf32>, %[[V1:[^:]+]]: vector<2xf16>, %[[X:[^:]+]]: f32, %[[H:[^:]+]]: bf16, %{{[^:]+}}: i8, %[[P:[^:]+]]: !llvm.ptr<1>)
// CHECK:       %[[A:.+]] = llvm.ptrtoint %[[P]] : !llvm.ptr<1> to i64
// CHECK:       %[[B:.+]] = llvm.bitcast %[[V8]] : vector<8xbf16> to vector<4xi32>
// CHECK:       %[[R0:.+]] = vector.extract %[[B]][0]
// CHECK:       %[[R1:.+]] = vector.extract %[[B]][1]
// CHECK:       %[[R2:.+]] = vector.extract %[[B]][2]
// CHECK:       %[[R3:.+]] = vector.extract %[[B]][3]
// CHECK:       llvm.inline_asm has_side_effects "st.global.cs.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,~{memory}" %[[A]], %[[R0]], %[[R1]], %[[R2]], %[[R3]] : (i64, i32, i32, i32, i32) -> ()
// CHECK:       llvm.bitcast %[[V2]] : vector<2xf32> to vector<2xi32>
// CHECK:       llvm.inline_asm has_side_effects "st.global.wt.v2.b32 [$0], {$1, $2};", "l,r,r,~{memory}"
// CHECK:       %[[PAIR:.+]] = llvm.bitcast %[[V1]] : vector<2xf16> to i32
// CHECK:       llvm.inline_asm has_side_effects "st.global.cs.b32 [$0], $1;", "l,r,~{memory}" %{{.+}}, %[[PAIR]] : (i64, i32) -> ()
// CHECK:       llvm.bitcast %[[X]] : f32 to i32
// CHECK:       llvm.inline_asm has_side_effects "st.global.wt.b32 [$0], $1;"
// CHECK:       %[[HALF:.+]] = llvm.bitcast %[[H]] : bf16 to i16
// CHECK:       llvm.inline_asm has_side_effects "st.global.cs.b16 [$0], $1;", "l,h,~{memory}" %{{.+}}, %[[HALF]] : (i64, i16) -> ()
// CHECK:       %[[BYTE:.+]] = llvm.zext %{{.+}} : i8 to i16
// CHECK:       llvm.inline_asm has_side_effects "st.global.wt.b8 [$0], $1;", "l,h,~{memory}" %{{.+}}, %[[BYTE]] : (i64, i16) -> ()
// CHECK-NOT:   sm.ptx_
func.func @stores(%v8: vector<8xbf16>, %v2: vector<2xf32>, %v1: vector<2xf16>, %x: f32, %h: bf16, %b: i8, %p: !llvm.ptr<1>) {
  sm.ptx_store streaming %v8 to %p : vector<8xbf16>, !llvm.ptr<1>
  sm.ptx_store write_through %v2 to %p : vector<2xf32>, !llvm.ptr<1>
  sm.ptx_store streaming %v1 to %p : vector<2xf16>, !llvm.ptr<1>
  sm.ptx_store write_through %x to %p : f32, !llvm.ptr<1>
  sm.ptx_store streaming %h to %p : bf16, !llvm.ptr<1>
  sm.ptx_store write_through %b to %p : i8, !llvm.ptr<1>
  return
}

// Two values in one register, which is read by its own lane.
// CHECK-LABEL: func.func @pair(
// CHECK-SAME:    %[[P:.+]]: i32)
// CHECK-DAG:   %[[ALL:.+]] = llvm.mlir.constant(-1 : i32)
// CHECK-DAG:   %[[OWN:.+]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG:   %[[LAST:.+]] = llvm.mlir.constant(31 : i32)
// CHECK:       nvvm.shfl.sync bfly %[[ALL]], %[[P]], %[[OWN]], %[[LAST]] : i32 -> i32
func.func @pair(%p: i32) -> i32 {
  %kept = sm.ptx_keep_pair %p : i32
  return %kept : i32
}

// Semaphores: an addition that releases, a loop of loads that acquire, and an addition that wraps to zero.
// CHECK-LABEL: func.func @semaphores(
// CHECK:       llvm.inline_asm has_side_effects "red.release.gpu.global.add.s32 [$0], 1;", "l,~{memory}" %{{.+}} : (i64) -> ()
// CHECK:       llvm.inline_asm has_side_effects "{{.*}}ld.acquire.gpu.global.s32 found, [$0];{{.*}}@again bra AGAIN;{{.*}}", "l,r,~{memory}" %{{.+}}, %{{.+}} : (i64, i32) -> ()
// CHECK:       llvm.inline_asm has_side_effects "red.relaxed.gpu.global.inc.u32 [$0], $1;", "l,r,~{memory}" %{{.+}}, %{{.+}} : (i64, i32) -> ()
func.func @semaphores(%p: !llvm.ptr<1>, %n: i32) {
  sm.ptx_semaphore_arrive %p : !llvm.ptr<1>
  sm.ptx_semaphore_wait %p until %n : !llvm.ptr<1>
  sm.ptx_semaphore_leave %p limit %n : !llvm.ptr<1>
  return
}

// A wave: the counter wraps to zero by itself, and the loop of loads is bounded. Braces keep its labels apart.
// CHECK-LABEL: func.func @wave(
// CHECK-SAME:    %[[COUNTER:.+]]: !llvm.ptr<1>, %[[TILES:.+]]: i32, %[[CTAS:.+]]: i32)
// CHECK:       %[[ADDRESS:.+]] = llvm.ptrtoint %[[COUNTER]] : !llvm.ptr<1> to i64
// CHECK-NEXT:  llvm.inline_asm has_side_effects "{{{.*}}atom.relaxed.gpu.global.inc.u32 own, [$0], last;{{.*}}polls, 64;{{.*}}ld.relaxed.gpu.global.u32 seen, [$0];{{.*}}}", "l,r,r,~{memory}" %[[ADDRESS]], %[[TILES]], %[[CTAS]] : (i64, i32, i32) -> ()
// CHECK-NOT:   sm.ptx_await_wave
func.func @wave(%counter: !llvm.ptr<1>, %tiles: i32, %ctas: i32) {
  sm.ptx_await_wave %counter tiles(%tiles) ctas(%ctas) : !llvm.ptr<1>
  return
}

// An arrival: loads that acquire at the scope of the system, and, for TMA, a fence behind them. Whoever is late first sets
// the status.
// CHECK-LABEL: func.func @arrival(
// CHECK-SAME:    %[[FLAG:.+]]: !llvm.ptr<1>, %[[STATUS:.+]]: !llvm.ptr<1>, %[[EPOCH:.+]]: i32, %[[LIMIT:.+]]: i32, %[[SHARD:.+]]: i32)
// CHECK:       %[[F:.+]] = llvm.ptrtoint %[[FLAG]] : !llvm.ptr<1> to i64
// CHECK:       %[[S:.+]] = llvm.ptrtoint %[[STATUS]] : !llvm.ptr<1> to i64
// CHECK-NEXT:  %[[LATE:.+]] = llvm.inline_asm has_side_effects "{{{.*}}ld.acquire.sys.global.b32 seen, [$1];{{.*}}atom.relaxed.sys.global.cas.b32 old, [$4], 0, 1;{{.*}}}\0Afence.proxy.async;", "=&r,l,r,r,l,r,~{memory}" %[[F]], %[[EPOCH]], %[[LIMIT]], %[[S]], %[[SHARD]]
// CHECK-NEXT:  llvm.trunc %[[LATE]] : i32 to i1
// CHECK:       llvm.inline_asm has_side_effects "{{{.*}}ld.acquire.sys.global.b32{{.*}}}", "=&r,
// CHECK:       llvm.inline_asm has_side_effects "ld.relaxed.sys.global.b32 $0, [$1];", "=r,l,~{memory}"
func.func @arrival(%flag: !llvm.ptr<1>, %status: !llvm.ptr<1>, %epoch: i32, %limit: i32, %shard: i32) -> (i1, i1, i32) {
  %0 = sm.ptx_await_arrival %flag reaches(%epoch) within(%limit) else(%status, %shard) for_tma : !llvm.ptr<1>
  %1 = sm.ptx_await_arrival %flag reaches(%epoch) within(%limit) else(%status, %shard) : !llvm.ptr<1>
  %2 = sm.ptx_read_status %status : !llvm.ptr<1>
  return %0, %1, %2 : i1, i1, i32
}

// The count of a CTA, and the flag that the last one sets.
// CHECK-LABEL: func.func @tell(
// CHECK:       llvm.inline_asm has_side_effects "{{{.*}}atom.acq_rel.gpu.global.inc.u32 before, [$0], $1;{{.*}}@is_last st.release.sys.global.b32 [$2], $3;{{.*}}}", "l,r,l,r,~{memory}"
func.func @tell(%counter: !llvm.ptr<1>, %last: i32, %flag: !llvm.ptr<1>, %epoch: i32) {
  sm.ptx_tell_last %counter limit %last then %flag, %epoch : !llvm.ptr<1>
  return
}

// Rounding to a type that is stored with more bits.
// CHECK-LABEL: func.func @round(
// CHECK:       llvm.inline_asm "cvt.rna.tf32.f32 $0, $1;", "=f,f" %{{.+}} : (f32) -> f32
func.func @round(%x: f32) -> f32 {
  %y = sm.ptx_round %x to tf32 : f32
  return %y : f32
}
}
