// The ops of stores print as written here and read back to themselves: TMA stores, what orders them, cache operators.
// RUN: lowtide-opt %s > %t.once && lowtide-opt %t.once > %t.twice && diff %t.once %t.twice
// RUN: lowtide-opt %s --mlir-print-op-generic | lowtide-opt > %t.generic && diff %t.once %t.generic
// RUN: filecheck %s < %t.once

!map = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
!columns = memref<128x72xbf16, #tile.layout<((64,2),72):((1,4608),64), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!buffer = memref<128x128xbf16, #tile.layout<(128,(64,2)):(64,(1,8192)), swizzle<3,3,3>>, #gpu.address_space<workgroup>>
!y = !sm.fragment<64x16xbf16, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,2),1,1):((64,8,512),64,1024)>>

// CHECK-LABEL: tile.kernel @tma
tile.kernel @tma(%map: !map, %m: index, %n: index) {
  // CHECK: %[[BUFFER:.+]] = sm.alloc
  %buffer = sm.alloc : !buffer
  // CHECK-NEXT: sm.tma_store_wait read 1
  sm.tma_store_wait read 1
  // CHECK-NEXT: sm.barrier warpgroup
  sm.barrier warpgroup
  // CHECK-NEXT: sm.fence_proxy_async
  sm.fence_proxy_async
  // CHECK-NEXT: sm.barrier{{$}}
  sm.barrier
  // CHECK-NEXT: sm.tma_store %[[BUFFER]] to %{{.+}}[%{{.+}}, %{{.+}}] : memref<128x128xbf16, #{{.+}}, #gpu.address_space<workgroup>>, !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
  sm.tma_store %buffer to %map[%m, %n] : !buffer, !map
  // CHECK-NEXT: sm.tma_store %[[BUFFER]] to %{{.+}}[%{{.+}}, %{{.+}}] cache(evict_first) :
  sm.tma_store %buffer to %map[%m, %n] cache(evict_first) : !buffer, !map
  // CHECK-NEXT: sm.tma_store %[[BUFFER]] to %{{.+}}[%{{.+}}, %{{.+}}] cache(evict_last) {test.note} :
  sm.tma_store %buffer to %map[%m, %n] cache(evict_last) {test.note} : !buffer, !map
  // CHECK-NEXT: sm.tma_store_wait 0
  sm.tma_store_wait 0
  tile.return
}

// Boxes of a buffer by columns have its columns first.
// CHECK-LABEL: tile.kernel @columns
tile.kernel @columns(%map: !sm.tensor_map<24x64xbf16, swizzle<3,3,3>>, %m: index, %n: index) {
  %buffer = sm.alloc : !columns
  // CHECK: sm.tma_store %{{.+}} to %{{.+}}[%{{.+}}, %{{.+}}] : memref<128x72xbf16, #{{.+}}, #gpu.address_space<workgroup>>, !sm.tensor_map<24x64xbf16, swizzle<3,3,3>>
  sm.tma_store %buffer to %map[%m, %n] : !columns, !sm.tensor_map<24x64xbf16, swizzle<3,3,3>>
  tile.return
}

// CHECK-LABEL: tile.kernel @fragments
tile.kernel @fragments(%y: !y, %d: !tile.view<64x16xbf16>) {
  %buffer = sm.alloc : memref<64x16xbf16, #gpu.address_space<workgroup>>
  // CHECK: sm.store_shared %{{.+}} to %{{.+}} by "stmatrix.x4" :
  sm.store_shared %y to %buffer by "stmatrix.x4" : !y, memref<64x16xbf16, #gpu.address_space<workgroup>>
  // CHECK-NEXT: sm.store_global %{{.+}} to %{{.+}} by "st.global.4" cache(streaming) :
  sm.store_global %y to %d by "st.global.4" cache(streaming) : !y, !tile.view<64x16xbf16>
  // CHECK-NEXT: sm.store_global %{{.+}} to %{{.+}} by "st.global.4" cache(write_through) :
  sm.store_global %y to %d by "st.global.4" cache(write_through) : !y, !tile.view<64x16xbf16>
  tile.return
}

// CHECK-LABEL: func.func @ptx
func.func @ptx(%v: vector<8xbf16>, %x: f32, %p: !llvm.ptr<1>, %tiles: i32, %ctas: i32) {
  // CHECK-NEXT: sm.ptx_semaphore_arrive %{{.+}} : !llvm.ptr<1>
  sm.ptx_semaphore_arrive %p : !llvm.ptr<1>
  // CHECK-NEXT: %[[TWO:.+]] = arith.constant 2 : i32
  %two = arith.constant 2 : i32
  // CHECK-NEXT: sm.ptx_semaphore_wait %{{.+}} until %[[TWO]] : !llvm.ptr<1>
  sm.ptx_semaphore_wait %p until %two : !llvm.ptr<1>
  // CHECK-NEXT: sm.ptx_semaphore_leave %{{.+}} limit %[[TWO]] : !llvm.ptr<1>
  sm.ptx_semaphore_leave %p limit %two : !llvm.ptr<1>
  // CHECK-NEXT: sm.ptx_store streaming %{{.+}} to %{{.+}} : vector<8xbf16>, !llvm.ptr<1>
  sm.ptx_store streaming %v to %p : vector<8xbf16>, !llvm.ptr<1>
  // CHECK-NEXT: sm.ptx_await_wave %{{.+}} tiles(%{{.+}}) ctas(%{{.+}}) : !llvm.ptr<1>
  sm.ptx_await_wave %p tiles(%tiles) ctas(%ctas) : !llvm.ptr<1>
  // CHECK-NEXT: %{{.+}} = sm.ptx_keep_pair %{{.+}} : i32
  %kept = sm.ptx_keep_pair %tiles : i32
  // CHECK-NEXT: %{{.+}} = sm.ptx_round %{{.+}} to tf32 : f32
  %rounded = sm.ptx_round %x to tf32 : f32
  // CHECK-NEXT: sm.ptx_store write_through %{{.+}} to %{{.+}} : f32, !llvm.ptr<1>
  sm.ptx_store write_through %x to %p : f32, !llvm.ptr<1>
  return
}
