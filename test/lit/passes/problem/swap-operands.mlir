// A and B change places, and with them tt and nn, per_row and per_column; D and full operands are seen the other way
// round. What is not swapped by the schedule stays, and so does what is swapped already.
// RUN: lowtide-opt %s -p swap-operands > %t.once && lowtide-opt %t.once -p swap-operands > %t.twice && diff %t.once %t.twice
// RUN: filecheck %s < %t.once

#swapped = #tile.schedule<grid = <operands = swapped>>
#as_given = #tile.schedule<grid = <operands = as_given>>
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  // CHECK-LABEL: func.func @columns
  // CHECK-SAME:    (%[[A:.+]]: memref<?x64xbf16, strided<[?, 1]>>, %[[B:.+]]: memref<64x300xbf16, strided<[?, 1]>>, %[[D:.+]]: memref<300x?xbf16, strided<[?, 1]>>, %[[BIAS:.+]]: memref<300xbf16>, %[[C:.+]]: memref<300x?xf32, strided<[?, 1]>>)
  // CHECK-NEXT:  tile.gemm nn %[[B]], %[[A]] into %[[D]] swapped acc(f32) operands(per_row %[[BIAS]] : memref<300xbf16>, full %[[C]] : memref<300x?xf32, strided<[?, 1]>>) schedule(#{{.+}}) {
  // CHECK-NEXT:  ^bb0(%[[X:.+]]: f32, %[[Y:.+]]: bf16, %[[Z:.+]]: f32):
  // CHECK-NEXT:    arith.addf %[[X]], %[[Z]] : f32
  // CHECK:       } : memref<64x300xbf16, strided<[?, 1]>>, memref<?x64xbf16, strided<[?, 1]>>, memref<300x?xbf16, strided<[?, 1]>>
  func.func @columns(%a: memref<?x64xbf16, strided<[?, 1]>>, %b: memref<64x300xbf16, strided<[?, 1]>>,
                     %d: memref<?x300xbf16, strided<[1, ?]>>, %bias: memref<300xbf16>,
                     %c: memref<?x300xf32, strided<[1, ?]>>) {
    tile.gemm tt %a, %b into %d acc(f32)
        operands(per_column %bias : memref<300xbf16>, full %c : memref<?x300xf32, strided<[1, ?]>>) schedule(#swapped) {
    ^bb0(%x: f32, %y: bf16, %z: f32):
      %0 = arith.addf %x, %z : f32
      %1 = arith.truncf %0 : f32 to bf16
      tile.yield %1 : bf16
    } : memref<?x64xbf16, strided<[?, 1]>>, memref<64x300xbf16, strided<[?, 1]>>, memref<?x300xbf16, strided<[1, ?]>>
    return
  }

  // The batch stays first. A full operand that all products share has no batch.
  // CHECK-LABEL: func.func @batch
  // CHECK-SAME:    %[[D:[^:]+]]: memref<5x300x?xbf16, strided<[?, ?, 1]>>, %[[C:[^:]+]]: memref<300x?xf32, strided<[?, 1]>>)
  // CHECK-NEXT:  tile.gemm nn %{{.+}}, %{{.+}} into %[[D]] swapped acc(f32) operands(full %[[C]] : memref<300x?xf32, strided<[?, 1]>>)
  func.func @batch(%a: memref<5x?x64xbf16, strided<[?, ?, 1]>>, %b: memref<5x64x300xbf16, strided<[?, ?, 1]>>,
                   %d: memref<5x?x300xbf16, strided<[?, 1, ?]>>, %c: memref<?x300xf32, strided<[1, ?]>>) {
    tile.gemm tt %a, %b into %d acc(f32) operands(full %c : memref<?x300xf32, strided<[1, ?]>>) schedule(#swapped) {
    ^bb0(%x: f32, %z: f32):
      %0 = arith.addf %x, %z : f32
      %1 = arith.truncf %0 : f32 to bf16
      tile.yield %1 : bf16
    } : memref<5x?x64xbf16, strided<[?, ?, 1]>>, memref<5x64x300xbf16, strided<[?, ?, 1]>>,
        memref<5x?x300xbf16, strided<[?, 1, ?]>>
    return
  }

  // Packed weights become A, and their scales stay as they lie.
  // CHECK-LABEL: func.func @weights
  // CHECK-NEXT:  tile.gemm tt %arg1, %arg0 into %arg2 swapped acc(f32) weights(si4) group(64) operands(group_scale %arg3 : memref<?x?xbf16, strided<[?, 1]>>)
  func.func @weights(%a: memref<?x?xbf16, strided<[?, 1]>>, %b: memref<?x?xui8, strided<[?, 1]>>,
                     %d: memref<?x?xbf16, strided<[?, 1]>>, %s: memref<?x?xbf16, strided<[?, 1]>>) {
    tile.gemm nn %a, %b into %d acc(f32) weights(si4) group(64)
        operands(group_scale %s : memref<?x?xbf16, strided<[?, 1]>>) schedule(#swapped) {
    ^bb0(%x: f32):
      %0 = arith.truncf %x : f32 to bf16
      tile.yield %0 : bf16
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xui8, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    return
  }

  // CHECK-LABEL: func.func @rows
  // CHECK-SAME:    %arg2: memref<?x?xbf16, strided<[1, ?]>>)
  // CHECK-NEXT:  tile.gemm nt %arg1, %arg0 into %arg2 swapped acc(f32)
  func.func @rows(%a: memref<?x?xbf16, strided<[?, 1]>>, %b: memref<?x?xbf16, strided<[?, 1]>>,
                  %d: memref<?x?xbf16, strided<[?, 1]>>) {
    tile.gemm nt %a, %b into %d acc(f32) schedule(#swapped) {
    ^bb0(%x: f32):
      %0 = arith.truncf %x : f32 to bf16
      tile.yield %0 : bf16
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    return
  }

  // CHECK-LABEL: func.func @stays
  // CHECK-NEXT:  tile.gemm tn %{{.+}}, %{{.+}} into %{{.+}} acc(f32)
  func.func @stays(%a: memref<?x?xbf16, strided<[?, 1]>>, %b: memref<?x?xbf16, strided<[?, 1]>>,
                   %d: memref<?x?xbf16, strided<[?, 1]>>) {
    tile.gemm tn %a, %b into %d acc(f32) schedule(#as_given) {
    ^bb0(%x: f32):
      %0 = arith.truncf %x : f32 to bf16
      tile.yield %0 : bf16
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    return
  }
}
