// convert-sm-to-nvvm: the part of the tiles that each of two loops takes follows from the tiles and the CTAs of the
// launch, and a prefix of a buffer starts where the buffer does.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

// 3·5 tiles of 64 × 8. The last tiles mod CTAs are split if they are at most half of the CTAs.
// CHECK-LABEL: gpu.func @parts(
// CHECK:       %[[CTA:.+]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK:       %[[CTAS:.+]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK:       %[[OVER:.+]] = arith.remui %c15{{.*}}, %[[CTAS]]
// CHECK:       %[[HALF:.+]] = arith.shrui %[[CTAS]], %c1
// CHECK:       %[[SPLITS:.+]] = arith.cmpi ule, %[[OVER]], %[[HALF]]
// CHECK:       %[[BEFORE:.+]] = arith.subi %c15{{.*}}, %[[OVER]]
// CHECK:       %[[UNSPLIT:.+]] = arith.select %[[SPLITS]], %[[BEFORE]], %c15
// CHECK:       %[[LAST:.+]] = scf.for %[[T:.+]] = %[[CTA]] to %[[UNSPLIT]] step

// Half h is the upper or lower half of tile unsplit + h / 2, in the order of whole tiles.
// CHECK:       %[[UNSPLIT:.+]] = arith.select
// CHECK:       %[[LEFT:.+]] = arith.subi %c15{{.*}}, %[[UNSPLIT]]
// CHECK:       %[[HALVES:.+]] = arith.shli %[[LEFT]], %c1
// CHECK:       scf.for %[[H:.+]] = %{{.+}} to %[[HALVES]] step {{.*}} iter_args(%{{.+}} = %[[LAST]])
// CHECK:         %[[PAIR:.+]] = arith.shrui %[[H]], %c1
// CHECK:         %[[TILE:.+]] = arith.addi %[[PAIR]], %[[UNSPLIT]]
// CHECK:         %[[WHICH:.+]] = arith.andi %[[H]], %c1
// CHECK:         %[[ROW:.+]] = arith.divui %[[TILE]], %c5
// CHECK:         %[[TWICE:.+]] = arith.shli %[[ROW]], %c1
// CHECK:         %[[PLACE:.+]] = arith.addi %[[TWICE]], %[[WHICH]]
// CHECK:         arith.shli %[[PLACE]], %c5
module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
func.func @host(%ctas: index) {
  tile.launch @parts grid(%ctas) threads(32) shared_memory(0) args(%ctas) : index
  return
}
tile.kernel @parts(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = arith.constant 150 : index
  %columns = arith.constant 40 : index
  %s = tile.work_tiles (%i, %j) of (%rows, %columns) by [64, 8] order(<row>) persistent part(full_waves) iter_args(%t = %c0) -> (index) {
    %u = arith.addi %t, %c1 : index
    tile.yield %u : index
  }
  %e = tile.work_tiles (%i, %j) of (%rows, %columns) by [32, 8] order(<row>) persistent part(tail_halves) iter_args(%t = %s) -> (index) {
    %u = arith.addi %t, %i : index
    tile.yield %u : index
  }
  tile.return
}
}
