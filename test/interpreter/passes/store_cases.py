"""Kernels whose epilogue ends in TMA stores, or in stores with a cache operator, on sm_90a.

D in bf16, f16 and f32, parts of one and of several boxes and narrower last ones, one to four scratch buffers, one and
two warpgroups, ragged edges, several work tiles per CTA; and D by columns as the kernel sees it, transposed on its way.
"""

from dataclasses import replace

from case import Case
from compiled import spec

import lowtide as lt
from lowtide import targets

SM_90A = targets.get("sm_90a")
PASSES = ("lower-epilogue", "assign-smem-offsets", "convert-sm-to-nvvm")
ONE, TWO, PLAIN = (64, 64), (128, 64), spec()


def add_bias(acc, bias: lt.PerColumn):
    return acc + bias


def scaled(acc, row: lt.PerRow, scale: lt.Scalar):
    return scale * acc + row


def residual(acc, c: lt.Full, bias: lt.PerColumn):
    return acc + 2.0 * c + bias


def _case(name: str, tile: tuple[int, int], problem: lt.GemmSpec = PLAIN, rest: str = "", path: str = "tma") -> Case:
    rows, columns = tile
    groups = 1 if rows == 64 else 2
    grid = f"grid.tile = [{rows}, {columns}]"
    schedule = f"{grid}, k = 64, stages = 2, roles = cooperative({groups}), epilogue.path = {path}"
    # At least six tiles, none whole, three for each of two CTAs; rows of D are whole 16 bytes, as TMA stores them.
    six = ((3 if rows == 256 else 4) * rows - 122, (2 if columns >= 64 else 4) * columns - 8, 70)
    given = f"{schedule}, {rest}" if rest else schedule
    return Case(f"stores-{name}", given, ((23, 24, 64),), PASSES, problem, SM_90A, (six,))


def _turned(name: str, tile: tuple[int, int], problem: lt.GemmSpec, rest: str = "", path: str = "tma") -> Case:
    """The same for the swapped product: what the kernel sees as a D by columns is given by rows."""
    case = _case(f"turned-{name}", tile, problem, f"operands = swapped{', ' if rest else ''}{rest}", path)
    return replace(case, large=tuple((n - 3, -(-m // 8) * 8, k) for m, n, k in case.large))


BIAS, AHEAD = spec(epilogue=add_bias), "epilogue.tile = [128, 16], epilogue.prefetch = 2"
CASES = [
    _case("one-buffer", ONE, rest="epilogue.tile = [64, 32], epilogue.buffers = 1"),
    _case("two-buffers", TWO, spec(dtype="f16", epilogue=add_bias), "epilogue.tile = [128, 32], epilogue.buffers = 2"),
    _case("four-buffers", TWO, spec(epilogue=scaled), "epilogue.tile = [128, 16], epilogue.buffers = 4"),
    _case("panels", TWO, BIAS, "epilogue.tile = [128, 64], epilogue.swizzle = <2,3,3>"),
    _case("f32", TWO, spec(d="f32", epilogue=add_bias)),
    _case("no-swizzle", ONE, rest="epilogue.swizzle = <0,3,3>, epilogue.cache = evict_first"),
    _case("two-blocks-of-rows", (256, 64)),
    _case("narrow", (64, 24)),
    # The last part of a row is narrower: 64 + 24, 2 · 64 + 8, 4 · 32 + 8, 64 + 8 twice.
    _case("narrow-last-part", (128, 88), BIAS),
    _case("narrow-after-two", (128, 136)),
    _case("narrow-of-f32", (128, 136), spec(d="f32"), "epilogue.buffers = 2"),
    _case("narrow-twice", (256, 72), spec(dtype="f16"), "epilogue.buffers = 2"),
    # Half tiles use the same buffers: the first of two for two parts of three, and the narrow one.
    _case("tail", (256, 40), rest="epilogue.tile = [128, 16], epilogue.buffers = 4, tail = halves"),
    # Five tiles for two CTAs: four are stored by four boxes each; of one in two parts, each CTA stores two boxes.
    Case(
        "stores-scatter-tail",
        "grid.tile = [64, 64], k = 32, stages = 2, roles = cooperative(1), epilogue.path = tma, "
        "epilogue.tile = [64, 16], k_division = scatter_tail(2)",
        ((280, 56, 70),),
        ("divide-k", *PASSES),
        BIAS,
        SM_90A,
    ),
    # Each CTA stores its share of the columns of every tile.
    *(
        Case(
            f"stores-{'turned-' if 'swapped' in fields else ''}scatter",
            f"k = 32, stages = 2, roles = cooperative(1), epilogue.path = tma, k_division = scatter(2), {fields}",
            ((90, 136, 70),),
            ("divide-k", *PASSES),
            BIAS,
            SM_90A,
        )
        for fields in (
            "grid.tile = [64, 64], epilogue.tile = [64, 16], epilogue.buffers = 2",
            "grid.tile = [64, 48], operands = swapped",
        )
    ),
    _case("prefetch", TWO, spec(epilogue=residual), AHEAD, "smem"),
    _case("prefetch-all", ONE, spec(epilogue=residual), "epilogue.tile = [64, 32], epilogue.prefetch = 4", "smem"),
    _turned("narrow", (64, 24), spec(dtype="f16", epilogue=scaled)),
    _turned("narrow-last-part", (128, 72), BIAS),
    _turned("two-blocks-of-rows", (256, 16), PLAIN, "epilogue.buffers = 2"),
    _turned("four-parts", TWO, BIAS, "epilogue.tile = [128, 16], epilogue.buffers = 4, epilogue.swizzle = <2,3,3>"),
    _turned("no-swizzle", ONE, PLAIN, "epilogue.swizzle = <0,3,3>, epilogue.cache = evict_first"),
    _turned("f32", (128, 40), spec(d="f32", epilogue=add_bias)),
    _turned("threads", TWO, BIAS, "epilogue.cache = streaming, epilogue.store = 16", "smem"),
    _turned("threads-narrow", (64, 8), spec(dtype="f16"), "epilogue.store = 8", "smem"),
    _turned("threads-of-elements", (64, 24), spec(dtype="f16"), path="smem"),
    _turned("threads-f32", (128, 24), spec(d="f32", epilogue=scaled), "epilogue.store = 16", "smem"),
    _turned("prefetch", TWO, spec(epilogue=residual), f"{AHEAD}, epilogue.store = 8", "smem"),
    _case("streaming", ONE, rest="epilogue.cache = streaming", path="direct"),
    _case("write-through", ONE, spec(d="f32"), "epilogue.cache = write_through", path="smem"),
]
