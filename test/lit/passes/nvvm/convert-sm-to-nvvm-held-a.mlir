// convert-sm-to-nvvm: a wgmma of tf32 with A in registers, which goes on with sums that a wait has made readable.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// CHECK-LABEL: gpu.func @kernel(
// Four loads of single elements are the four registers of a k-slice: K is 128 bytes from row to row of the buffer.
// CHECK-COUNT-8: llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<3> -> vector<1xf32>
// CHECK:         %[[ZERO:.+]] = llvm.mlir.zero : !llvm.struct<(f32, f32, f32, f32)>
// CHECK:         nvvm.wgmma.fence.aligned
// CHECK:         %[[P:.+]] = sm.ptx_wgmma "wgmma.m64n8k8.f32.tf32" clears %[[ZERO]], (%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}), %{{.+}} : !llvm.struct<(f32, f32, f32, f32)>
// CHECK:         %[[Q:.+]] = sm.ptx_wgmma "wgmma.m64n8k8.f32.tf32" %[[P]], (%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}), %{{.+}} : !llvm.struct<(f32, f32, f32, f32)>
// CHECK-NEXT:    nvvm.wgmma.commit.group.sync.aligned
// CHECK:         %[[C:.+]] = sm.ptx_wgmma_wait 0, %[[Q]]
// The readable sums are registers again.
// CHECK-COUNT-4: llvm.insertvalue
// CHECK:         sm.ptx_wgmma "wgmma.m64n8k8.f32.tf32" %{{.+}}, (%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}), %{{.+}} : !llvm.struct<(f32, f32, f32, f32)>
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#held = #tile.tv<threads (4,8,4):(64,1,16), values ((2,2),1,2):((8,256),64,512)>
#mma = #sm.tiled_mma<wgmma.m64n8k8.f32.tf32, atoms [1, 1, 1], permutation [64, 8, 8]>
!out = memref<?x?xf32, strided<[?, 1]>>
!a = memref<16x64xtf32, #tile.layout<(16,(32,2)):(32,(1,512)), swizzle<3,2,3>>, #gpu.address_space<workgroup>>
!b = memref<8x16xtf32, #tile.layout<(8,16):(16,1), swizzle<2,2,3>>, #gpu.address_space<workgroup>>
!ring = !sm.ring<1 x [!a, !b]>
!fa = !sm.fragment<64x16xtf32, #held>
!acc = !sm.fragment<64x8xf32, #tv>
!pending = !sm.pending<!acc>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %d: !out) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(4608) args(%d) : !out
  return
}
tile.kernel @kernel(%d: !out) {
  %c0 = arith.constant 0 : index
  %ring = sm.ring at [0, 4096] : !ring
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      %zero = sm.splat 0.0 : !acc
      %as, %bs = sm.ring_slot %ring[%c0] : !ring
      %fa = sm.load_shared %as at [0, 0] by "ld.shared.4" trans : !a to !fa
      %p = sm.wgmma tn %fa, %bs, %zero by #mma : !fa, !b, !acc -> !pending
      %c, %first = sm.mma_wait 0, %p : !pending -> !acc
      %q = sm.wgmma tn %fa, %bs, %c by #mma : !fa, !b, !acc -> !pending
      %s, %last = sm.mma_wait 0, %q : !pending -> !acc
      %w = tile.view %d[%c0, %c0] : !out to !tile.view<64x8xf32>
      sm.store_global %s to %w by "st.global.8" : !acc, !tile.view<64x8xf32>
    }
  }
  tile.return
}
}
