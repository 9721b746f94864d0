"""A product of groups of rows, written by hand at level cta: D[rows of g] = A[rows of g] · B[g]ᵀ.

The device array `ends` says where the groups end. Rows of a tile after the end of its group are loaded and not stored:
the store sees D as if it ended there.
"""

_TEMPLATE = """
#problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full f32]>
#schedule = #tile.schedule<{schedule}>
!matrix = memref<?x?xbf16, strided<[?, 1]>>
!matrices = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!result = memref<?x?xf32, strided<[?, 1]>>
!ends = memref<?xi32>
!acc = !tile.tile<{rows}x32xf32>
module attributes {{tile.level = "cta", tile.target = "{target}"}} {{
  func.func @gemm(%a: !matrix {{tile.name = "a"}}, %b: !matrices {{tile.name = "b"}}, %d: !result {{tile.name = "d"}},
                  %ends: !ends {{tile.name = "ends"}}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %rows = arith.constant {rows} : index
    %c32 = arith.constant 32 : index
    %M = memref.dim %d, %c0 : !result
    %N = memref.dim %d, %c1 : !result
    %groups = memref.dim %ends, %c0 : !ends
    // Each group has at most one tile that is not full, so that there are no more rows of tiles than these.
    %full = arith.ceildivsi %M, %rows : index
    %high = arith.addi %full, %groups : index
    %wide = arith.ceildivsi %N, %c32 : index
    %tiles = arith.muli %high, %wide : index
    %sms = tile.sm_count : index
    %ctas = arith.minsi %tiles, %sms : index
    tile.launch @gemm_kernel grid(%ctas) threads({threads}) args(%a, %b, %d, %ends) : !matrix, !matrices, !result, !ends
    return
  }}
  tile.kernel @gemm_kernel(%a: !matrix, %b: !matrices, %d: !result, %ends: !ends)
      attributes {{problem = #problem, schedule = #schedule}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %step = arith.constant {step} : index
    %M = memref.dim %d, %c0 : !result
    %N = memref.dim %d, %c1 : !result
    %K = memref.dim %a, %c1 : !matrix
    tile.work_tiles (%m, %n) of (%M, %N) by [{rows}, 32] groups(%g to %rows_end of %ends : !ends) order({order})
        persistent {{
      %zero = tile.splat 0.0 : !acc
      %sum = scf.for %k = %c0 to %K step %step iter_args(%c = %zero) -> (!acc) {{
        %at = tile.view %a[%m, %k] : !matrix to !tile.view<{rows}x{step}xbf16>
        %bt = tile.view %b[%g, %n, %k] : !matrices to !tile.view<32x{step}xbf16>
        %c2 = tile.mma tn %at, %bt, %c : !tile.view<{rows}x{step}xbf16>, !tile.view<32x{step}xbf16>, !acc
        scf.yield %c2 : !acc
      }}
      %counted = memref.subview %d[0, 0] [%rows_end, %N] [1, 1] : !result to !result
      tile.store %sum into %counted[%m, %n] {{
      ^bb0(%x: f32):
        tile.yield %x : f32
      }} : !acc, !result
    }}
    tile.return
  }}
}}
"""

_SCHEDULES = {
    "sm_80": """
  grid = <tile = [32, 32], order = {order}, scheduler = persistent>,
  mainloop = <k = 32, stages = 3, roles = single,
    a = <copy = cp.async.16, swizzle = <2,3,3>, pack = none>,
    b = <copy = cp.async.16, swizzle = <2,3,3>, pack = none>>,
  multiply = <atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 2>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <2,2,3>, pack = none>""",
    "sm_90a": """
  grid = <tile = [64, 32], order = {order}, scheduler = persistent>,
  mainloop = <k = 64, stages = 3, roles = cooperative(1), registers = [0, 0],
    a = <copy = tma, swizzle = <3,3,3>, pack = none>,
    b = <copy = tma, swizzle = <3,3,3>, pack = none>>,
  multiply = <atom = wgmma.m64n32k16, atoms = [1, 1, 1], permutation = [64, 32, 16], fragment_buffers = 1>,
  epilogue = <path = direct, math = registers, tile = [64, 32], swizzle = <0,3,3>, pack = none>""",
}


def grouped(target: str, order: str = "row") -> str:
    """The module, for a target."""
    rows, step, threads = (32, 32, 128) if target == "sm_80" else (64, 64, 256)
    return _TEMPLATE.format(
        schedule=_SCHEDULES[target].format(order=order),
        order=f"<{order}>".replace("(", " ").replace(")", ""),
        target=target,
        rows=rows,
        step=step,
        threads=threads,
    )
