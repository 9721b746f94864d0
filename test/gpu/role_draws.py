"""Random problems and schedules with roles for sm_90a, each drawn from its own number: no GPU is needed here.

A draw is a problem (types, layout, epilogue, which extents are compiled in), sizes to run it at, and a schedule that
leaves some fields open. What the rules of the target refuse is drawn again, and counted.
"""

import random
import re
from dataclasses import dataclass
from math import ceil

import lowtide as lt
from lowtide.dialects.tile import GemmLayout, OperandKind, StorePath
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

LAYOUTS = tuple(map(str, GemmLayout))

TARGET = "sm_90a"
KERNELS = 360  # ten of each kind: consumers, layout, store
_SM_90A = get(TARGET)
_MOST_TRIES = 400
_MOST_ELEMENTS = 5_000_000  # of D where there are many tiles: the float64 reference takes a second there
_MANY_TILES = 140  # more than an H200 has SMs, 132: some CTAs take a second one
_WHOLE_ROW = 8  # elements that N is a multiple of where epilogue.path = tma
_PANEL = 64  # elements that the contiguous extents are multiples of where A or B goes by tma.3d and on

Size = tuple[int, int, int]


def relu(acc):
    return lt.relu(acc)


def bias(acc, bias: lt.PerColumn):
    return acc + bias


def scale(acc, alpha: lt.Scalar):
    return alpha * acc


def scaled_rows(acc, row: lt.PerRow):
    return lt.gelu(acc * row)


def full(acc, c: lt.Full, alpha: lt.Scalar, beta: lt.Scalar):
    return alpha * acc + beta * c


def everything(acc, c: lt.Full, row: lt.PerRow, bias: lt.PerColumn, alpha: lt.Scalar):
    return lt.gelu(alpha * acc + 0.5 * c + bias) - row


EPILOGUES = {
    "none": None,
    "relu": relu,
    "bias": bias,
    "scale": scale,
    "rows": scaled_rows,
    "full": full,
    "everything": everything,
}
# With epilogue.path = tma no full operand is read.
_WITHOUT_FULL = tuple(name for name in EPILOGUES if name not in ("full", "everything"))

LAYOUTS = tuple(map(str, GemmLayout))
CONSUMERS = (1, 2, 3)
STORES = ("tma", "smem", "direct")
COLUMNS = (8, 16, 24, 32, 48, 64, 80, 96, 128, 128, 160, 192, 192, 224, 256, 256)
DEPTHS = (32, 64, 64, 64, 128)
COPIES = ("tma", "tma", "tma", "tma.3d", "tma.4d", "tma.5d")
ORDERS = (
    None,
    "row",
    "column",
    "grouped(1)",
    "grouped(3)",
    "grouped(16)",
    "groups(2, 2)",
    "groups(3, 5)",
    "groups(16, 8)",
    "hilbert",
)
SCHEDULERS = ("persistent", "even_split")
REGISTERS = {1: (None, (0, 0)), 2: (None, None, (40, 232), (24, 240), (0, 0)), 3: (None, None, (32, 160), (0, 0))}
HINTS = {
    "tma": ("normal", "evict_first", "evict_last"),
    "smem": ("normal", "streaming", "write_through"),
    "direct": ("normal", "streaming", "write_through"),
}


@dataclass(frozen=True)
class Draw:
    """One kernel and the sizes (M, N, K) that it runs at; `refused`: how many draws before it broke a rule."""

    number: int
    spec: lt.GemmSpec
    epilogue: str
    schedule: lt.Schedule
    sizes: tuple[Size, ...]
    refused: int

    def __str__(self) -> str:
        grid, mainloop, buffers = self.schedule.grid, self.schedule.mainloop, self.schedule.epilogue.buffers
        extents = "x".join(str(extent or "?") for extent in (self.spec.m, self.spec.n, self.spec.k))
        return "-".join(
            (
                title(self.number),
                f"{self.spec.a}.{self.spec.d}",
                extents,
                "x".join(map(str, self.schedule.tile_mnk)),
                f"{mainloop.stages}stages",
                mainloop.a.copy,
                "_".join(re.findall(r"\w+", str(grid.order))) if grid.order else "auto",
                str(grid.scheduler),
                self.epilogue + (f"-{buffers}buffers" if buffers else ""),
            )
        )


def kind(number: int) -> tuple[int, str, str]:
    """Cycle through consumers, layout and store, so that refusals do not change how often each combination comes up."""
    return CONSUMERS[number % 3], LAYOUTS[number // 3 % 4], STORES[number // 12 % 3]


def title(number: int) -> str:
    """What all draws of this number have in common."""
    consumers, layout, store = kind(number)
    return f"{number:03}-{layout}-cooperative{consumers}-{store}"


def draw(number: int, attempt: int = 0) -> Draw:
    """The draw of this number, another one for each attempt. Raises RuntimeError where the rules refuse everything."""
    rng = random.Random(f"roles {number}.{attempt}")
    consumers, layout, store = kind(number)
    names = _WITHOUT_FULL if store == "tma" else tuple(EPILOGUES)
    for refused in range(_MOST_TRIES):
        epilogue = rng.choice(names)
        dtype = rng.choice(("bf16", "f16"))
        d = rng.choice((dtype, dtype, "bf16", "f16", "f32"))
        schedule = any_schedule(rng, consumers, store)
        sizes = _sizes(rng, schedule, layout)
        if store == "tma":  # rows of D are whole 16 bytes; refusals are tested by themselves
            sizes = tuple((m, ceil(n / _WHOLE_ROW) * _WHOLE_ROW, k) for m, n, k in sizes)
        compiled_in = rng.choice(((), (), ("m", "n", "k"), ("n", "k"), ("m",), ("k",)))
        extents = {name: extent for name, extent in zip("mnk", sizes[0], strict=True) if name in compiled_in}
        spec = lt.GemmSpec(**extents, a=dtype, b=dtype, d=d, layout=layout, epilogue=EPILOGUES[epilogue])
        if refusal(spec, schedule) is None:
            runs = sizes if len(extents) < 3 else sizes[:1]
            runs = tuple(tuple(extents.get(x, size[i]) for i, x in enumerate("mnk")) for size in runs)
            return Draw(number, spec, epilogue, schedule, runs, refused)
    raise RuntimeError(f"{title(number)}: {_MOST_TRIES} draws in a row were refused")


def refusal(spec: lt.GemmSpec, schedule: lt.Schedule) -> str | None:
    """The rule that the schedule breaks for the problem; None for a legal one."""
    layout, kinds = GemmLayout[spec.layout], tuple(OperandKind[operand.kind.value] for operand in spec.operands)
    types = tuple(operand.dtype for operand in spec.operands)
    problem = Problem(spec.m, spec.n, spec.k, spec.a, spec.b, spec.acc, spec.d, layout, kinds, types)
    if schedule.epilogue.path is StorePath.smem:  # any swizzle is legal; choosing one takes longer than all the rules
        schedule = schedule.filled({"epilogue.swizzle": (0, 3, 3)})
    try:
        choose(problem, _SM_90A, schedule)
    except lt.ScheduleError as error:
        return str(error)
    return None


def any_schedule(rng: random.Random, consumers: int, store: str) -> lt.Schedule:
    """Any schedule for this number of consumers; the rules then decide whether it is legal."""
    rows = 64 * consumers * rng.choice([blocks for blocks in (1, 2, 3, 4) if 64 * consumers * blocks <= 256])
    columns, depth = rng.choice(COLUMNS), rng.choice(DEPTHS)
    narrow = rng.choice((None, None, None, (2, 3, 3), (1, 3, 3)))
    part = rng.choice((None, None, 8, 16, 32, 64, 128))
    hints = (rng.choice(HINTS["tma"]), rng.choice(HINTS["tma"]), rng.choice(HINTS[store]))
    stages, registers, copy = rng.randint(2, 5), rng.choice(REGISTERS[consumers]), rng.choice(COPIES)
    a_swizzle = narrow if rng.random() < 0.5 else None
    order, scheduler = rng.choice(ORDERS), rng.choice(SCHEDULERS)
    a_cache, b_cache, d_cache = rng.choice(((None, None, None), hints))
    return lt.Schedule().with_(
        grid_tile=(rows, columns),
        order=order,
        scheduler=scheduler,
        k=depth,
        stages=stages,
        roles=f"cooperative({consumers})",
        registers=registers,
        a_copy=copy,
        b_copy=copy,
        a_swizzle=a_swizzle,
        b_swizzle=narrow,
        a_cache=a_cache,
        b_cache=b_cache,
        epilogue_cache=d_cache,
        epilogue_path=store,
        epilogue_math=rng.choice((None, "registers", "rows")) if store == "smem" else None,
        epilogue_tile=None if part is None or store == "direct" else (rng.choice((rows, 64 * consumers)), part),
        epilogue_buffers=rng.choice((None, 1, 2, 4)) if store == "tma" else None,
    )


def _sizes(rng: random.Random, schedule: lt.Schedule, layout: str) -> tuple[Size, Size]:
    """Two sizes, most of them ragged."""
    contiguous = {"m" if layout[0] == "n" else "k", "k" if layout[1] == "n" else "n"}
    unit = {x: _PANEL if schedule.mainloop.a.copy != "tma" and x in contiguous else 1 for x in "mnk"}
    found = []
    for _ in range(2):
        size = _many_tiles(rng, schedule) if rng.random() < 0.2 else _any_size(rng, schedule)
        found.append(tuple(ceil(extent / unit[x]) * unit[x] for x, extent in zip("mnk", size, strict=True)))
    first, second = found
    return first, second


def _any_size(rng: random.Random, schedule: lt.Schedule) -> Size:
    """Extents from one element to several tiles; now and then whole tiles."""
    extents = []
    for tile, most in zip(schedule.tile_mnk, (900, 900, 1100), strict=True):
        kind = rng.random()
        if kind < 0.15:
            extents.append(tile * rng.randint(1, 3))
        elif kind < 0.3:
            extents.append(rng.randint(1, tile))
        else:
            extents.append(rng.randint(1, most))
    m, n, k = extents
    return m, n, k


def _many_tiles(rng: random.Random, schedule: lt.Schedule) -> Size:
    """More work tiles than there are SMs, the last ones ragged."""
    rows, columns, depth = schedule.tile_mnk
    most = max(_MANY_TILES, min(700, _MOST_ELEMENTS // (rows * columns)))
    tiles = rng.randint(_MANY_TILES, most)
    down = rng.randint(1, 40)
    across = ceil(tiles / down)
    return down * rows - rng.randrange(rows), across * columns - rng.randrange(columns), rng.randint(1, 4 * depth)
