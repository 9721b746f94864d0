"""One small GEMM for sm_90a, D = A · Bᵀ + bias, by roles, written by hand at each level from pipelined to epilogue.

CTA tile 128x64x64, a ring of two stages, one producer and two consumer warpgroups, persistent. Level `wgmma` stands
between pipelined and atoms: products are bound, the ring's verbs are not yet. Tests plant faults by replacing a line
(`edited`).
"""

LEVELS = ("pipelined", "wgmma", "atoms", "epilogue")

_ALIASES = """
#smem = #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
#smem_b = #tile.layout<(64,64):(64,1), swizzle<3,3,3>>
#plain = #tile.layout<(128,64):(64,1)>
#tv_c = #tile.tv<threads (4,8,4,2):(256,1,16,64), values (2,2,8):(128,8,1024)>
#tv_rows = #tile.tv<threads (8,32):(1024,1), values (8,4):(128,32)>
#mma = #sm.tiled_mma<wgmma.m64n64k16.f32.bf16, atoms [2, 1, 1]>
!matrix = memref<?x?xbf16, strided<[?, 1]>>
!vector = memref<?xbf16>
!window_a = !tile.view<128x64xbf16>
!window_b = !tile.view<64x64xbf16>
!acc = !tile.tile<128x64xf32>
!buffer_a = memref<128x64xbf16, #smem, #gpu.address_space<workgroup>>
!buffer_b = memref<64x64xbf16, #smem_b, #gpu.address_space<workgroup>>
!scratch = memref<128x64xbf16, #plain, #gpu.address_space<workgroup>>
!ring = !sm.ring<2 x [!buffer_a, !buffer_b]>
!map_a = !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
!map_b = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
!c = !sm.fragment<128x64xf32, #tv_c>
!d = !sm.fragment<128x64xbf16, #tv_c>
!rows = !sm.fragment<128x64xbf16, #tv_rows>
!pending = !sm.pending<!c>
"""

_EPILOGUE = """{
        ^bb0(%x: f32, %bias_n: bf16):
          %0 = arith.extf %bias_n : bf16 to f32
          %1 = arith.addf %x, %0 : f32
          %2 = arith.truncf %1 : f32 to bf16
          tile.yield %2 : bf16
        }"""

_MODULE = """
  func.func @gemm(%a: !matrix, %b: !matrix, %d: !matrix, %bias: !vector) {{
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %M = memref.dim %a, %c0 : !matrix
    %N = memref.dim %b, %c0 : !matrix
    %tiles_m = arith.ceildivui %M, %c128 : index
    %tiles_n = arith.ceildivui %N, %c64 : index
    %tiles = arith.muli %tiles_m, %tiles_n : index
    %sms = tile.sm_count : index
    %ctas = arith.minui %tiles, %sms : index
{host}
    return
  }}
  tile.kernel @kernel({arguments}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %M = memref.dim %a, %c0 : !matrix
    %N = memref.dim %b, %c0 : !matrix
    %K = memref.dim %a, %c1 : !matrix
    %ring = sm.ring : !ring
{buffers}
    sm.roles {{
      producer warps(4) registers(40) {{
        %w0, %wp0 = tile.work_tiles (%m, %n) of (%M, %N) by [128, 64] order(<row>) persistent
            iter_args(%w1 = %c0, %wp1 = %c0) -> (index, index) {{
          %w2, %wp2 = scf.for %k = %c0 to %K step %c64 iter_args(%w = %w1, %wp = %wp1) -> (index, index) {{
{fill}
            %w3, %wp3 = sm.ring_advance %ring[%w, %wp] : !ring // producer
            scf.yield %w3, %wp3 : index, index
          }}
          tile.yield %w2, %wp2 : index, index
        }}
{tail}
      }}
      consumer warps(8) registers(232) {{
        %r0, %rp0 = tile.work_tiles (%m, %n) of (%M, %N) by [128, 64] order(<row>) persistent
            iter_args(%r1 = %c0, %rp1 = %c0) -> (index, index) {{
{mainloop}
{store}
          tile.yield %r2, %rp2 : index, index
        }}
      }}
    }}
    tile.return
  }}
"""

_ARGUMENTS = "%a: !matrix, %b: !matrix, %d: !matrix, %bias: !vector"
_MAP_ARGUMENTS = f"{_ARGUMENTS}, %map_a: !map_a, %map_b: !map_b"

_LAUNCH = """
    tile.launch @kernel grid(%ctas) threads(384) args(%a, %b, %d, %bias) : !matrix, !matrix, !matrix, !vector
"""

_LAUNCH_MAPS = """
    %map_a = sm.tensor_map %a : !matrix to !map_a
    %map_b = sm.tensor_map %b : !matrix to !map_b
    tile.launch @kernel grid(%ctas) threads(384) args(%a, %b, %d, %bias, %map_a, %map_b)
        : !matrix, !matrix, !matrix, !vector, !map_a, !map_b
"""

_FILL = """
            %at = tile.view %a[%m, %k] : !matrix to !window_a
            %bt = tile.view %b[%n, %k] : !matrix to !window_b
            %write, %as, %bs = sm.producer_acquire %ring[%w, %wp] : !ring
            sm.copy_async %at to %as : !window_a, !buffer_a
            sm.copy_async %bt to %bs : !window_b, !buffer_b
            sm.producer_commit %ring, %write : !ring, !sm.slot<write>
"""

_TAIL = """
        sm.producer_tail %ring : !ring
"""

_MAINLOOP = """
          %zero = tile.splat 0.0 : !acc
          %sum, %r2, %rp2 = scf.for %k = %c0 to %K step %c64 iter_args(%c = %zero, %r = %r1, %rp = %rp1)
              -> (!acc, index, index) {
            %read, %ar, %br = sm.consumer_wait %ring[%r, %rp] : !ring
            %c2 = tile.mma tn %ar, %br, %c : !buffer_a, !buffer_b, !acc
            sm.consumer_release %ring, %read : !ring, !sm.slot<read>
            %r3, %rp3 = sm.ring_advance %ring[%r, %rp] : !ring // consumer
            scf.yield %c2, %r3, %rp3 : !acc, index, index
          }
"""

_MAINLOOP_WGMMA = """
          %zero = sm.splat 0.0 : !c
          %sum, %r2, %rp2 = scf.for %k = %c0 to %K step %c64 iter_args(%c = %zero, %r = %r1, %rp = %rp1)
              -> (!c, index, index) {
            %read, %ar, %br = sm.consumer_wait %ring[%r, %rp] : !ring
            %p = sm.wgmma tn %ar, %br, %c by #mma : !buffer_a, !buffer_b, !c -> !pending
            %c2, %retired = sm.mma_wait 0, %p : !pending -> !c
            sm.consumer_release %ring, %read after %retired : !ring, !sm.slot<read>
            %r3, %rp3 = sm.ring_advance %ring[%r, %rp] : !ring // consumer
            scf.yield %c2, %r3, %rp3 : !c, index, index
          }
"""

_MBARRIERS = """
    %full = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
    %empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>
"""

_FILL_TMA = """
            %as, %bs = sm.ring_slot %ring[%w] : !ring
            %before = arith.subi %c1, %wp : index
            sm.mbarrier_wait %empty[%w, %before] : !sm.mbarriers<2>
            sm.mbarrier_arrive %full[%w] expects 24576 : !sm.mbarriers<2>
            sm.tma_load %map_a[%m, %k] to %as signals %full[%w] : !map_a, !buffer_a, !sm.mbarriers<2>
            sm.tma_load %map_b[%n, %k] to %bs signals %full[%w] : !map_b, !buffer_b, !sm.mbarriers<2>
"""

# The accumulator stays pending over an iteration; a slot is released once the next product has been started.
_MAINLOOP_MBARRIERS = """
          %zero = sm.splat 0.0 : !c
          %a0, %b0 = sm.ring_slot %ring[%r1] : !ring
          sm.mbarrier_wait %full[%r1, %rp1] : !sm.mbarriers<2> // first
          %p0 = sm.wgmma tn %a0, %b0, %zero by #mma : !buffer_a, !buffer_b, !c -> !pending
          %rn, %rpn = sm.ring_advance %ring[%r1, %rp1] : !ring
          %last, %r2, %rp2, %before_last = scf.for %k = %c64 to %K step %c64
              iter_args(%p = %p0, %r = %rn, %rp = %rpn, %previous = %r1) -> (!pending, index, index, index) {
            %ar, %br = sm.ring_slot %ring[%r] : !ring
            sm.mbarrier_wait %full[%r, %rp] : !sm.mbarriers<2> // next
            %p1 = sm.wgmma tn %ar, %br, %p by #mma : !buffer_a, !buffer_b, !pending -> !pending
            %p2, %retired = sm.mma_wait 1, %p1 : !pending -> !pending
            sm.mbarrier_arrive %empty[%previous] after %retired : !sm.mbarriers<2> // next
            %r3, %rp3 = sm.ring_advance %ring[%r, %rp] : !ring // consumer
            scf.yield %p2, %r3, %rp3, %r : !pending, index, index, index
          }
          %sum, %done = sm.mma_wait 0, %last : !pending -> !c
          sm.mbarrier_arrive %empty[%before_last] after %done : !sm.mbarriers<2> // last
"""

_STORE = f"""
          tile.store %sum into %d[%m, %n] operands(per_column %bias : !vector) {_EPILOGUE} : VALUE, !matrix
"""

_STORE_ROWS = """
          %bias_t = tile.view per_column %bias[%n] : !vector to !window_a
          %bias_f = sm.load_global %bias_t by "ld.global.4" : !window_a to !d
          %y = sm.map %sum, %bias_f : !c, !d {
          ^bb0(%x: f32, %bias_n: bf16):
            %0 = arith.extf %bias_n : bf16 to f32
            %1 = arith.addf %x, %0 : f32
            %2 = arith.truncf %1 : f32 to bf16
            tile.yield %2 : bf16
          } : !d
          sm.store_shared %y to %scratch by "st.shared.4" : !d, !scratch
          sm.barrier // staged
          %row = sm.load_shared %scratch by "ld.shared.16" : !scratch to !rows
          %dt = tile.view %d[%m, %n] : !matrix to !window_a
          sm.store_global %row to %dt by "st.global.16" : !rows, !window_a
          sm.barrier // stored
"""

_PLACED = (
    ("sm.ring :", "sm.ring at [0, 32768] :"),
    ("arrivals(1) :", "arrivals(1) at 65536 :"),
    ("arrivals(2) :", "arrivals(2) at 65552 :"),
    ("threads(384)", "threads(384) shared_memory(65568)"),
)


def program(level: str) -> str:
    """The GEMM at one of LEVELS."""
    early = {"fill": _FILL, "tail": _TAIL, "host": _LAUNCH, "arguments": _ARGUMENTS, "buffers": ""}
    late = {
        "fill": _FILL_TMA,
        "tail": "",
        "host": _LAUNCH_MAPS,
        "arguments": _MAP_ARGUMENTS,
        "buffers": _MBARRIERS,
        "mainloop": _MAINLOOP_MBARRIERS,
    }
    parts = {
        "pipelined": {**early, "mainloop": _MAINLOOP, "store": _STORE.replace("VALUE", "!acc")},
        "wgmma": {**early, "mainloop": _MAINLOOP_WGMMA, "store": _STORE.replace("VALUE", "!c")},
        "atoms": {**late, "store": _STORE.replace("VALUE", "!c")},
        "epilogue": {
            **late,
            "buffers": f"{_MBARRIERS}    %scratch = sm.alloc at 49152 : !scratch\n",
            "store": _STORE_ROWS,
        },
    }
    body = _MODULE.format(**parts[level])
    if level == "epilogue":
        for old, new in _PLACED:
            body = body.replace(old, new, 1)
    name = "pipelined" if level == "wgmma" else level
    return f'{_ALIASES}\nmodule attributes {{tile.level = "{name}", tile.target = "sm_90a"}} {{{body}}}\n'


def edited(level: str, *replacements: tuple[str, str]) -> str:
    """The program with the first of each `old`, which must stand there, replaced by its `new`."""
    text = program(level)
    for old, new in replacements:
        assert old in text, f"{old!r} does not stand in the program of level {level}"
        text = text.replace(old, new, 1)
    return text
