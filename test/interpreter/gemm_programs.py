"""One small GEMM, D = A · Bᵀ + bias, written by hand at each level from problem to epilogue.

CTA tile 32x32x32, four warps, a ring of three stages. Tests plant faults by replacing a line (`edited`).
"""

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue")

_ALIASES = """
#smem = #tile.layout<(32,32):(32,1), swizzle<2,3,3>>
#tv_a = #tile.tv<threads (4,8,2,2):(64,1,16,0), values ((2,2,2),1,1):((32,8,256),32,512)>
#tv_b = #tile.tv<threads (4,8,2,2):(64,1,0,8), values ((2,2),2,1):((32,256),16,512)>
#tv_c = #tile.tv<threads (4,8,2,2):(64,1,16,256), values ((2,2),1,2):((32,8),32,512)>
#tv_rows = #tile.tv<threads (4,32):(256,1), values (8,1,1):(32,32,1024)>
#copy = #sm.tiled_copy<cp.async.16, #tv_rows>
#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1]>
!matrix = memref<?x?xbf16, strided<[?, 1]>>
!vector = memref<?xbf16>
!window = !tile.view<32x32xbf16>
!acc = !tile.tile<32x32xf32>
!buffer = memref<32x32xbf16, #smem, #gpu.address_space<workgroup>>
!ring = !sm.ring<3 x [!buffer, !buffer]>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!d = !sm.fragment<32x32xbf16, #tv_c>
!rows = !sm.fragment<32x32xbf16, #tv_rows>
"""

_EPILOGUE = """{
      ^bb0(%x: f32, %bias_n: bf16):
        %0 = arith.extf %bias_n : bf16 to f32
        %1 = arith.addf %x, %0 : f32
        %2 = arith.truncf %1 : f32 to bf16
        tile.yield %2 : bf16
      }"""

_PROBLEM = f"""
  func.func @gemm(%a: !matrix, %b: !matrix, %d: !matrix, %bias: !vector) {{
    tile.gemm tn %a, %b into %d acc(f32) operands(per_column %bias : !vector) {_EPILOGUE} : !matrix, !matrix, !matrix
    return
  }}
"""

_KERNEL = """
  func.func @gemm(%a: !matrix, %b: !matrix, %d: !matrix, %bias: !vector)
      attributes {{tile.problem =
        #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], operands = [per_column bf16]>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %K = memref.dim %a, %c1 : !matrix
    %KB = memref.dim %b, %c1 : !matrix
    %agree = arith.cmpi eq, %K, %KB : index
    cf.assert %agree, "K differs in A and B"
    %M = memref.dim %a, %c0 : !matrix
    %N = memref.dim %b, %c0 : !matrix
    %tiles_m = arith.ceildivui %M, %c32 : index
    %tiles_n = arith.ceildivui %N, %c32 : index
    %tiles = arith.muli %tiles_m, %tiles_n : index
    %sms = tile.sm_count : index
    %ctas = arith.minui %tiles, %sms : index
    tile.launch @kernel grid(%ctas) threads(128) args(%a, %b, %d, %bias) : !matrix, !matrix, !matrix, !vector
    return
  }}
  tile.kernel @kernel(%a: !matrix, %b: !matrix, %d: !matrix, %bias: !vector) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %M = memref.dim %a, %c0 : !matrix
    %N = memref.dim %b, %c0 : !matrix
    %K = memref.dim %a, %c1 : !matrix
{buffers}
    tile.work_tiles (%m, %n) of (%M, %N) by [32, 32] order(<grouped 2>) persistent {{
{mainloop}
{store}
    }}
    tile.return
  }}
"""

_STORE = f"""
      tile.store %sum into %d[%m, %n] operands(per_column %bias : !vector) {_EPILOGUE} : VALUE, !matrix
"""

_CTA = """
      %zero = tile.splat 0.0 : !acc
      %sum = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!acc) {
        %at = tile.view %a[%m, %k] : !matrix to !window
        %bt = tile.view %b[%n, %k] : !matrix to !window
        %c2 = tile.mma tn %at, %bt, %c : !window, !window, !acc
        scf.yield %c2 : !acc
      }
"""

_SMEM_BUFFERS = """
    %as = sm.alloc : !buffer
    %bs = sm.alloc : !buffer
"""

_SMEM = """
      %zero = tile.splat 0.0 : !acc
      %sum = scf.for %k = %c0 to %K step %c32 iter_args(%c = %zero) -> (!acc) {
        %at = tile.view %a[%m, %k] : !matrix to !window
        %bt = tile.view %b[%n, %k] : !matrix to !window
        sm.copy %at to %as : !window, !buffer
        sm.copy %bt to %bs : !window, !buffer
        sm.barrier // full
        %c2 = tile.mma tn %as, %bs, %c : !buffer, !buffer, !acc
        sm.barrier // empty
        scf.yield %c2 : !acc
      }
"""

_RING = """
    %ring = sm.ring : !ring
"""

_FILL_PIPELINED = """
        %at{n} = tile.view %a[%m, {k}] : !matrix to !window
        %bt{n} = tile.view %b[%n, {k}] : !matrix to !window
        %write{n}, %as{n}, %bs{n} = sm.producer_acquire %ring[%w, %wp] : !ring
        sm.copy_async %at{n} to %as{n} : !window, !buffer
        sm.copy_async %bt{n} to %bs{n} : !window, !buffer
        sm.producer_commit %ring, %write{n} : !ring, !sm.slot<write>
        %w2, %wp2 = sm.ring_advance %ring[%w, %wp] : !ring
"""

_PIPELINED = f"""
      %zero = tile.splat 0.0 : !acc
      %w0, %wp0 = scf.for %k = %c0 to %c64 step %c32 iter_args(%w = %c0, %wp = %c0) -> (index, index) {{
{_FILL_PIPELINED.format(n="0", k="%k")}
        scf.yield %w2, %wp2 : index, index
      }}
      %sum, %w1, %wp1, %r1, %rp1 = scf.for %k = %c0 to %K step %c32
          iter_args(%c = %zero, %w = %w0, %wp = %wp0, %r = %c0, %rp = %c0) -> (!acc, index, index, index, index) {{
        %read, %ar, %br = sm.consumer_wait %ring[%r, %rp] : !ring
        %ahead = arith.addi %k, %c64 : index
{_FILL_PIPELINED.format(n="1", k="%ahead")}
        %c2 = tile.mma tn %ar, %br, %c : !buffer, !buffer, !acc
        sm.consumer_release %ring, %read : !ring, !sm.slot<read>
        %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
        scf.yield %c2, %w2, %wp2, %r2, %rp2 : !acc, index, index, index, index
      }}
      sm.producer_tail %ring : !ring
"""

_FILL_ATOMS = """
        %at{n} = tile.view %a[%m, {k}] : !matrix to !window
        %bt{n} = tile.view %b[%n, {k}] : !matrix to !window
        %as{n}, %bs{n} = sm.ring_slot %ring[%w] : !ring
        sm.cp_async %at{n} to %as{n} by #copy : !window, !buffer
        sm.cp_async %bt{n} to %bs{n} by #copy : !window, !buffer
        sm.cp_async_commit
        %w2, %wp2 = sm.ring_advance %ring[%w, %wp] : !ring
"""

_ATOMS = f"""
      %zero = sm.splat 0.0 : !c
      %w0, %wp0 = scf.for %k = %c0 to %c64 step %c32 iter_args(%w = %c0, %wp = %c0) -> (index, index) {{
{_FILL_ATOMS.format(n="0", k="%k")}
        scf.yield %w2, %wp2 : index, index
      }}
      %sum, %w1, %wp1, %r1, %rp1 = scf.for %k = %c0 to %K step %c32
          iter_args(%c = %zero, %w = %w0, %wp = %wp0, %r = %c0, %rp = %c0) -> (!c, index, index, index, index) {{
        sm.cp_async_wait 1
        sm.barrier // full
        %ar, %br = sm.ring_slot %ring[%r] : !ring
        %ahead = arith.addi %k, %c64 : index
{_FILL_ATOMS.format(n="1", k="%ahead")}
        %a0 = sm.ldmatrix %ar[0, 0] by "ldmatrix.x4" : !buffer to !a
        %b0 = sm.ldmatrix %br[0, 0] by "ldmatrix.x4" : !buffer to !b
        %half = sm.mma_sync %a0, %b0, %c by #mma : !a, !b, !c
        %a1 = sm.ldmatrix %ar[0, 16] by "ldmatrix.x4" : !buffer to !a
        %b1 = sm.ldmatrix %br[0, 16] by "ldmatrix.x4" : !buffer to !b
        %c2 = sm.mma_sync %a1, %b1, %half by #mma : !a, !b, !c
        %r2, %rp2 = sm.ring_advance %ring[%r, %rp] : !ring
        scf.yield %c2, %w2, %wp2, %r2, %rp2 : !c, index, index, index, index
      }}
      sm.cp_async_wait 0
      sm.barrier // drained
"""

_SCRATCH = """
    %ring = sm.ring : !ring
    %scratch = sm.ring_reuse %ring : !ring to !buffer
"""

_STORE_ROWS = """
      %bias_t = tile.view per_column %bias[%n] : !vector to !window
      %bias_f = sm.load_global %bias_t by "ld.global.4" : !window to !d
      %y = sm.map %sum, %bias_f : !c, !d {
      ^bb0(%x: f32, %bias_n: bf16):
        %0 = arith.extf %bias_n : bf16 to f32
        %1 = arith.addf %x, %0 : f32
        %2 = arith.truncf %1 : f32 to bf16
        tile.yield %2 : bf16
      } : !d
      sm.store_shared %y to %scratch by "st.shared.4" : !d, !buffer
      sm.barrier // staged
      %row = sm.load_shared %scratch by "ld.shared.16" : !buffer to !rows
      %dt = tile.view %d[%m, %n] : !matrix to !window
      sm.store_global %row to %dt by "st.global.16" : !rows, !window
      sm.barrier // stored
"""


def program(level: str) -> str:
    """The GEMM at a level from problem to epilogue."""
    parts = {
        "cta": ("", _CTA, _STORE.replace("VALUE", "!acc")),
        "smem": (_SMEM_BUFFERS, _SMEM, _STORE.replace("VALUE", "!acc")),
        "pipelined": (_RING, _PIPELINED, _STORE.replace("VALUE", "!acc")),
        "atoms": (_RING, _ATOMS, _STORE.replace("VALUE", "!c")),
        "epilogue": (_SCRATCH, _ATOMS, _STORE_ROWS),
    }
    body = _PROBLEM
    if level != "problem":
        buffers, mainloop, store = parts[level]
        body = _KERNEL.format(buffers=buffers, mainloop=mainloop, store=store)
    return f'{_ALIASES}\nmodule attributes {{tile.level = "{level}", tile.target = "sm_80"}} {{{body}}}\n'


def edited(level: str, *replacements: tuple[str, str]) -> str:
    """The program with the first of each `old`, which must stand there, replaced by its `new`."""
    text = program(level)
    for old, new in replacements:
        assert old in text, f"{old!r} does not stand in the program of level {level}"
        text = text.replace(old, new, 1)
    return text
