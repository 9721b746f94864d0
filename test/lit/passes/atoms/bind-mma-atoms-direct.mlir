// bind-mma-atoms loads fragments straight from windows of global memory where the schedule says so, and split-k-slices
// loads each slice from a window of its own.
// RUN: lowtide-opt %s -p bind-mma-atoms,split-k-slices | filecheck %s

// A thread holds two elements of every eight along K; the permutation makes four of them neighbours.
// CHECK-DAG: #[[A:.+]] = #tile.tv<threads (4,8):(64,1), values ((2,2,2),1,1):((16,8,32),16,64)>
// CHECK-DAG: #[[AT:.+]] = #tile.tv<threads (4,8):(32,1), values ((2,2,2),1,1):((16,8,128),16,256)>
// CHECK-LABEL: module attributes {tile.level = "atoms", tile.target = "sm_80"}

!mat = memref<?x?xbf16, strided<[?, 1]>>
#direct = #tile.schedule<mainloop = <a = <copy = ld.global.8>, b = <copy = ld.global.8>>,
    multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 8, #tile.layout<(2,4,2):(1,4,2)>]>>
#across = #tile.schedule<mainloop = <a = <copy = ld.global.2>, b = <copy = ld.global.4>>,
    multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 8, 16]>>
module attributes {tile.level = "pipelined", tile.target = "sm_80"} {
// CHECK-LABEL: tile.kernel @tn(
// CHECK:       scf.for %[[K:.+]] = %c0 to
// CHECK:         %[[A0:.+]] = tile.view %{{.+}}[%c0, %[[K]]] : {{.*}} to !tile.view<16x16xbf16>
// CHECK:         %[[FA0:.+]] = sm.load_global %[[A0]] by "ld.global.8" : !tile.view<16x16xbf16> to !sm.fragment<16x16xbf16, #[[A]]>
// CHECK:         sm.load_global %{{.+}} by "ld.global.8" : !tile.view<8x16xbf16> to
// CHECK:         %[[C1:.+]] = sm.mma_sync %[[FA0]],
// CHECK:         %[[NEXT:.+]] = arith.addi %[[K]], %c16
// CHECK:         tile.view %{{.+}}[%c0, %[[NEXT]]] : {{.*}} to !tile.view<16x16xbf16>
// CHECK:         sm.mma_sync {{.*}}, %[[C1]] by
// CHECK-NOT:     sm.barrier
tile.kernel @tn(%a: !mat, %b: !mat, %d: !mat, %k: index) attributes {schedule = #direct,
    problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16]>} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = tile.splat 0.0 : !tile.tile<16x8xf32>
  %acc = scf.for %i = %c0 to %k step %c32 iter_args(%c = %zero) -> (!tile.tile<16x8xf32>) {
    %at = tile.view %a[%c0, %i] : !mat to !tile.view<16x32xbf16>
    %bt = tile.view %b[%c0, %i] : !mat to !tile.view<8x32xbf16>
    %next = tile.mma tn %at, %bt, %c : !tile.view<16x32xbf16>, !tile.view<8x32xbf16>, !tile.tile<16x8xf32>
    scf.yield %next : !tile.tile<16x8xf32>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile.tile<16x8xf32>, !mat
  tile.return
}

// In `nn` A lies with K down its columns: its fragment is the transpose of the window.
// CHECK-LABEL: tile.kernel @nn(
// CHECK:         sm.load_global %{{.+}} by "ld.global.2" trans : !tile.view<16x16xbf16> to !sm.fragment<16x16xbf16, #[[AT]]>
// CHECK:         sm.load_global %{{.+}} by "ld.global.4" : !tile.view<8x16xbf16> to
// CHECK:         sm.mma_sync
tile.kernel @nn(%a: !mat, %b: !mat, %d: !mat, %k: index) attributes {schedule = #across,
    problem = #tile.problem<nn, a = bf16, b = bf16, acc = f32, results = [full bf16]>} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %zero = tile.splat 0.0 : !tile.tile<16x8xf32>
  %acc = scf.for %i = %c0 to %k step %c16 iter_args(%c = %zero) -> (!tile.tile<16x8xf32>) {
    %at = tile.view %a[%i, %c0] : !mat to !tile.view<16x16xbf16>
    %bt = tile.view %b[%c0, %i] : !mat to !tile.view<8x16xbf16>
    %next = tile.mma nn %at, %bt, %c : !tile.view<16x16xbf16>, !tile.view<8x16xbf16>, !tile.tile<16x8xf32>
    scf.yield %next : !tile.tile<16x8xf32>
  }
  tile.store %acc into %d[%c0, %c0] {
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } : !tile.tile<16x8xf32>, !mat
  tile.return
}
}
