// convert-sm-to-nvvm, of 8-bit floats: sums that are promoted, one block of 64 rows after the other, and what is stored.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// Each block has a group of its own, which clears its accumulators and is waited for; its sums are added.
// CHECK-LABEL: gpu.func @kernel
// CHECK:         %[[ZERO:.+]] = llvm.mlir.zero : !llvm.struct<(f32, f32, f32, f32)>
// CHECK:         nvvm.wgmma.fence.aligned
// CHECK-NEXT:    %[[FIRST:.+]] = nvvm.wgmma.mma_async %{{.+}}, %{{.+}}, %[[ZERO]], <m = 64, n = 8, k = 32>, D[<f32>, <zero>], A[<e4m3>, <one>, <row>], B[<e5m2>, <one>, <col>]
// CHECK:         %[[LAST:.+]] = nvvm.wgmma.mma_async %{{.+}}, %{{.+}}, %[[FIRST]], <m = 64, n = 8, k = 32>, D[<f32>, <one>]
// CHECK-NEXT:    nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:    %[[DONE:.+]] = sm.ptx_wgmma_wait 0, %[[LAST]]
// CHECK:         %[[PART:.+]] = vector.from_elements
// CHECK-NEXT:    arith.addf %{{.+}}, %[[PART]]
// CHECK:         nvvm.wgmma.fence.aligned
// CHECK:         nvvm.wgmma.mma_async {{.*}} D[<f32>, <zero>]
// CHECK:         sm.ptx_wgmma_wait 0
// CHECK:         arith.addf
// CHECK-NOT:     nvvm.wgmma

// Two floats at a time become bytes, the first in the lower half, and four of them are stored at once.
// CHECK:         %[[X0:.+]] = vector.extract %[[V:.+]][0] : f32 from vector<4xf32>
// CHECK:         %[[X1:.+]] = vector.extract %[[V]][1] : f32 from vector<4xf32>
// CHECK:         nvvm.convert.f32x2.to.f8x2 %[[X1]], %[[X0]] {{.*}}satfinite{{.*}} : i16{{ ?}}(f8E4M3FN)
// CHECK:         %[[PAIRS:.+]] = vector.from_elements %{{.+}}, %{{.+}} : vector<2xi16>
// CHECK:         llvm.bitcast %[[PAIRS]] : vector<2xi16> to vector<4xi8>
!a = memref<128x64xf8E4M3FN, #tile.layout<(128,64):(64,1), swizzle<2,4,3>>, #gpu.address_space<workgroup>>
!b = memref<8x64xf8E5M2, #tile.layout<(8,64):(64,1), swizzle<2,4,3>>, #gpu.address_space<workgroup>>
#tv = #tile.tv<threads (4,8,4):(256,1,16), values ((2,2,1),2,1):((128,8,1024),64,1024)>
!acc = !sm.fragment<128x8xf32, #tv>
!d = memref<?x?xf8E4M3FN, strided<[?, 1]>>
#rows = #tile.tv<threads (2,64):(512,1), values (4,2):(128,64)>
module attributes {tile.target = "sm_90a"} {
func.func @host(%d: !d, %ctas: index) {
  tile.launch @kernel grid(%ctas) threads(256) shared_memory(32768) args(%d) : !d
  return
}
tile.kernel @kernel(%d: !d) {
  %c0 = arith.constant 0 : index
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 16384 : !b
  sm.roles {
    producer warps(4) {
    }
    consumer warps(4) {
      %zero = sm.splat 2.0 : !acc
      %sum, %done = sm.wgmma_promote tn %as, %bs into %zero by <wgmma.m64n8k32.f32.e4m3.e5m2, atoms [1, 1, 1]> : !a, !b, !acc
      %e = sm.splat 1.0 : !sm.fragment<128x8xf32, #rows>
      %n = sm.map %e : !sm.fragment<128x8xf32, #rows> {
      ^bb0(%x: f32):
        %y = arith.truncf %x : f32 to f8E4M3FN
        tile.yield %y : f8E4M3FN
      } : !sm.fragment<128x8xf8E4M3FN, #rows>
      %window = tile.view %d[%c0, %c0] : !d to !tile.view<128x8xf8E4M3FN>
      sm.store_global %n to %window by "st.global.4" : !sm.fragment<128x8xf8E4M3FN, #rows>, !tile.view<128x8xf8E4M3FN>
    }
  }
  tile.return
}
}
