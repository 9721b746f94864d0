// divide-k adds workspaces to a launch and keeps all else that the launch says.
// RUN: lowtide-opt %s -p divide-k | filecheck %s

// CHECK: tile.launch @k grid(%[[N:.+]]) threads(32) shared_memory(64) programmatic args(%{{.+}}, %{{.+}}, %{{.+}}) {tag}
!mat = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.level = "cta", tile.target = "sm_90a"} {
func.func @host(%d: !mat, %n: index) {
  tile.launch @k grid(%n) threads(32) shared_memory(64) programmatic args(%d) {tag} : !mat
  return
}
tile.kernel @k(%d: !mat) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %d, %c0 : !mat
  tile.work_tiles (%m, %c) of (%n, %n) by [32, 32] k(%k0 to %k1 of %n by 32) stream_k (%p of %q at %s) order(<row>) persistent {
    %acc = tile.splat 0.0 : !tile.tile<32x32xf32>
    tile.store %acc part(%p of %q at %s) into %d[%m, %c] {
    ^bb0(%x: f32):
      tile.yield %x : f32
    } : !tile.tile<32x32xf32>, !mat
  }
  tile.return
}
}
