// An extent of 0 becomes one that is known at run time, and the problem names it, so that callers can check it. Constants
// elsewhere stay.
// RUN: lowtide-opt %s -p tile-to-ctas | filecheck %s

// CHECK:       #[[PROBLEM:.+]] = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], operands = [per_row bf16], empty = [m, k]>
// CHECK:       func.func @gemm(%[[A:.+]]: memref<?x?xbf16, strided<[?, 1]>>, %{{.+}}: memref<40x?xbf16, strided<[?, 1]>>, %{{.+}}: memref<?x40xbf16, strided<[?, 1]>>, %{{.+}}: memref<?xbf16>) attributes {tile.problem = #[[PROBLEM]]}
// CHECK:         cf.assert %{{.+}}, "A and B must have the same K"
// CHECK:       tile.kernel @gemm_kernel(%A: memref<?x?xbf16, strided<[?, 1]>>
// CHECK-SAME:    problem = #[[PROBLEM]]
module attributes {tile.level = "problem", tile.target = "sm_80"} {
  func.func @gemm(%a: memref<0x0xbf16, strided<[?, 1]>>, %b: memref<40x0xbf16, strided<[?, 1]>>,
                  %d: memref<0x40xbf16, strided<[?, 1]>>, %bias: memref<0xbf16>) {
    tile.gemm tn %a, %b into %d acc(f32) operands(per_row %bias : memref<0xbf16>) schedule(#tile.schedule<
        grid = <tile = [64, 64], order = row, scheduler = one_shot>, mainloop = <k = 32>,
        multiply = <atoms = [1, 1, 1]>>) {
    ^bb0(%acc: f32, %bias_m: bf16):
      tile.yield %bias_m : bf16
    } : memref<0x0xbf16, strided<[?, 1]>>, memref<40x0xbf16, strided<[?, 1]>>, memref<0x40xbf16, strided<[?, 1]>>
    return
  }
}
