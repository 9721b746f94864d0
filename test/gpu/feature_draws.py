"""Random problems and schedules by feature, each drawn from its own number: no GPU is needed here.

A road is a way to multiply: wgmma with roles, mma.sync, fma of f32, mma.sync of f64. Each draw starts from a random
plain schedule of its road and sets the fields of one feature, in turn, and now and then of others. What the rules of
the target refuse is drawn again, and counted. Some problems are batches, and some have D by columns, where the schedule
goes with that; some have an amax.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import role_draws
from role_draws import EPILOGUES, LAYOUTS, Size
from tensor_layouts import Layout

import lowtide as lt
from lowtide.dialects.tile import (
    GemmLayout,
    OperandKind,
    RasterKind,
    RepeatKind,
    StorePath,
    UnrollKind,
)
from lowtide.dialects.tile.fields import Order
from lowtide.elements import element_type
from lowtide.passes.schedules.choice.choice import ways
from lowtide.passes.schedules.choice.search import legal
from lowtide.passes.schedules.rules.rules import broken_field
from lowtide.passes.support.problem.matrix_layouts import swapped_layout
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

_MOST_TRIES = 400
_SIZES_EACH = 3
_OTHER_FEATURE = 0.3  # how often a feature that is not the draw's own is there too
_MOST_ELEMENTS = 2_000_000  # of D: the float64 reference takes less than a second
FORMS = ("plain", "plain", "plain", "plain", "batch", "by columns")
_MOST_UNROLLED = 16  # K steps
_SHORT_K = 120  # that f16 accumulators are judged at
_ROW_BYTES = 16  # that rows of D are a multiple of where they are stored by TMA
_PANEL = 64  # elements that contiguous extents are multiples of where A or B goes by tma.3d and on

Fields = Mapping[str, Any]


Feature = tuple[Fields, ...]  # what it sets in the schedule: one of several


def _each(name: str, values: tuple[Any, ...], **others: Any) -> Feature:
    return tuple({name: value, **others} for value in values)


_PERSISTENT: Fields = {"scheduler": "persistent"}
_DIVISIONS: Mapping[str, Feature] = {
    "split": _each("k_division", ("split(2)", "split(3)", "split(5)", "split(16)")),
    "stream_k": _each("k_division", ("stream_k",), **_PERSISTENT),
    "hybrid": _each("k_division", ("hybrid",), **_PERSISTENT),
    "divided_tail": _each("k_division", ("tail(2)", "tail(3)", "tail(7)"), **_PERSISTENT),
    "scatter": _each("k_division", ("scatter(2)", "scatter(4)", "scatter(8)"), **_PERSISTENT, epilogue_path="direct"),
}
_HILBERT: Mapping[str, Feature] = {"hilbert": _each("order", ("hilbert",))}
_ONCE = _each("prologue", ("once",), **_PERSISTENT, fragment_buffers=1)
_KEPT = tuple(
    {**_ONCE[0], f"{name}_load": "once", **order}
    for name, order in (("b", {}), ("a", {}), ("b", {"order": "row"}), ("a", {"order": "column"}))
)
# Neighbouring columns of D for a thread, by a permutation of N: two of an atom, and those of other atoms.
_COLUMNS = tuple(
    {
        "permutation": (32, Layout((2, 4, 2, others), (apart, 2 * others, 8 * others, between)), 16),
        "atoms": (2, 2, 1),
        "atom": "mma.m16n8k16",
        "epilogue_path": "direct",
    }
    for others, apart, between in ((4, 4, 1), (4, 1, 2), (2, 2, 1))
)
_UNROLLED = ({"unroll": "full", "roles": "single"},)
_STAGED = tuple(
    {"a_copy": a, "b_copy": b}
    for a, b in (("staged.16", "staged.16"), ("staged.8", "staged.4"), ("staged.16", None), (None, "staged.8"))
)
_TRANSPOSED = ({"a_copy": "staged.16", "a_stage": "transposed", "b_copy": "staged.16", "b_stage": "transposed"},)
_ALONG_K = {"permutation": (16, 8, 4), "atoms": (16, 8, 1), "a_copy": "cp.async.16", "b_copy": "cp.async.16"}


def _direct_loads() -> Feature:
    widths = ((16, 16), (8, 8), (4, 4), (16, 4), (2, 2))
    return tuple(
        {"a_copy": f"ld.global.{a}", "b_copy": f"ld.global.{b}", "fragment_buffers": 1, "stages": None}
        for a, b in widths
    )


@dataclass(frozen=True)
class Road:
    """A way to multiply: the targets that have it, its types (A, accumulator), its epilogues and its features."""

    targets: tuple[str, ...]
    types: tuple[tuple[str, str], ...]
    stored: tuple[str, ...]
    epilogues: tuple[str, ...]
    features: Mapping[str, Feature]
    schedule: Callable[[random.Random], lt.Schedule]


def _with_roles(rng: random.Random) -> lt.Schedule:
    return role_draws.any_schedule(rng, rng.choice(role_draws.CONSUMERS), rng.choice(role_draws.STORES))


def _one_of(**values: tuple[Any, ...]) -> Callable[[random.Random], lt.Schedule]:
    """A schedule with a random value for each field."""
    return lambda rng: lt.Schedule().with_(**{name: rng.choice(choices) for name, choices in values.items()})


_SCHEDULERS = ("one_shot", "persistent", "even_split")
_SINGLE = {"order": role_draws.ORDERS, "scheduler": _SCHEDULERS, "epilogue_path": (None, "smem", "direct")}
_MMA = _one_of(
    **_SINGLE,
    grid_tile=((64, 64), (128, 64), (64, 128), (96, 64), (128, 128), (128, 256)),
    k=(16, 32, 64),
    stages=(2, 3, 4, 5),
    atoms=((2, 2, 1), (1, 4, 1), (4, 1, 1), (2, 4, 1)),
    atom=(None, None, None, "mma.m16n8k8", "mma.m16n8k16"),
    fragment_buffers=(None, 1, 2),
    roles=("single",),
)
_FMA = _one_of(
    **_SINGLE,
    grid_tile=((128, 128), (64, 64), (64, 128), (128, 64), (32, 64)),
    k=(8, 16),
    stages=(2, 3, 4),
    atoms=((16, 16, 1), (16, 8, 1), (8, 16, 1), (8, 8, 1)),
    fragment_buffers=(None, 1, 2),
    ctas_per_sm=(None, 1, 2),
)
_F64 = _one_of(
    **_SINGLE,
    grid_tile=((64, 64), (128, 64), (64, 32), (32, 64), (128, 128)),
    k=(8, 16, 32),
    stages=(2, 3, 4),
    atoms=((2, 2, 1), (4, 2, 1), (1, 2, 1), (2, 4, 1)),
    fragment_buffers=(None, 1, 2),
)
_NO_FUNCTIONS = ("none", "relu", "bias", "scale", "full")

ROADS: Mapping[str, Road] = {
    "roles": Road(
        ("sm_90a",),
        (("bf16", "f32"), ("f16", "f32")),
        ("bf16", "f16", "f32"),
        tuple(EPILOGUES),
        {
            "cluster": _each("cluster", ((2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4))),
            "pingpong": _each("roles", ("pingpong(2)", "pingpong(3)"), registers=None, epilogue_tile=None),
            "programmatic": _each("launch", ("programmatic",)),
            "tail": _each("tail", ("halves",), **_PERSISTENT),
            "waves": _each("waves", ("synchronized",)),
            **_DIVISIONS,
            **_HILBERT,
            "k_order": _each("k_order", ("serpentine",), **_PERSISTENT),
        },
        _with_roles,
    ),
    "mma": Road(
        ("sm_80", "sm_90a"),
        (("bf16", "f32"), ("f16", "f32"), ("f16", "f16")),
        ("bf16", "f16", "f32"),
        tuple(EPILOGUES),
        {
            "sliced": _each(
                "atoms", ((2, 2, 2), (1, 2, 2), (2, 1, 4), (2, 2, 4)), epilogue_path="smem", epilogue_math="rows"
            ),
            "direct": _direct_loads(),
            "prologue": _ONCE,
            "kept": _KEPT,
            "unrolled": _UNROLLED,
            "staged": _STAGED,
            "columns": _COLUMNS,
            **_DIVISIONS,
            **_HILBERT,
        },
        _MMA,
    ),
    "fma": Road(
        ("sm_80", "sm_90a"),
        (("f32", "f32"),),
        ("f32", "f32", "f16", "bf16"),
        tuple(EPILOGUES),
        {
            "fma": ({},),
            "along_k": (_ALONG_K,),
            "prologue": _ONCE,
            "kept": _KEPT,
            "unrolled": _UNROLLED,
            "staged": _STAGED,
            "transposed": _TRANSPOSED,
            **_DIVISIONS,
            **_HILBERT,
        },
        _FMA,
    ),
    "f64": Road(
        ("sm_80", "sm_90a"),
        (("f64", "f64"),),
        ("f64",),
        _NO_FUNCTIONS,
        {
            "shape": _each("atom", (None, "mma.m8n8k4", "mma.m16n8k4", "mma.m16n8k8", "mma.m16n8k16")),
            "prologue": _ONCE,
            "kept": _KEPT,
            "unrolled": _UNROLLED,
            "staged": (_STAGED[0], *_STAGED[2:]),  # whole elements
            **_DIVISIONS,
            "scatter": _DIVISIONS["scatter"][:2],  # the tiles are narrow
            **_HILBERT,
        },
        _F64,
    ),
}

#: Cycled through, so that refusals do not change how often each comes up.
KINDS = tuple((road, feature) for road, found in ROADS.items() for feature in found.features)
_EACH = 7  # shapes of a cluster
KERNELS = _EACH * len(KINDS)


@dataclass(frozen=True)
class Draw:
    """One kernel and the sizes (M, N, K) that it runs at; `refused`: how many draws before it broke a rule."""

    number: int
    target: str
    spec: lt.GemmSpec
    epilogue: str
    features: tuple[str, ...]
    schedule: lt.Schedule
    sizes: tuple[Size, ...]
    refused: int
    form: str = "plain"


def title(number: int) -> str:
    """What all draws of this number have in common; their seed, so that a new feature leaves the other draws alone."""
    road, feature = KINDS[number % len(KINDS)]
    return f"{road}-{feature}-{number // len(KINDS)}"


def draw(number: int, attempt: int = 0) -> Draw:
    """The draw of this number, another one for each attempt. Raises RuntimeError where the rules refuse everything."""
    rng = random.Random(f"{title(number)} {attempt}")
    name, feature = KINDS[number % len(KINDS)]
    road = ROADS[name]
    for refused in range(_MOST_TRIES):
        others = [other for other in road.features if other != feature and rng.random() < _OTHER_FEATURE]
        fields: dict[str, Any] = {}
        for other in others:
            fields |= rng.choice(road.features[other])
        fields |= road.features[feature][number // len(KINDS) % len(road.features[feature])]
        schedule, target = road.schedule(rng).with_(**fields), rng.choice(road.targets)
        spec, epilogue, sizes = _problem(rng, road, schedule)
        if refusal(spec, schedule, target) is None:
            form, spec, sizes = _in_some_form(f"{title(number)} {attempt}", spec, sizes, schedule, target)
            spec = _with_an_amax(number, spec, schedule, target)
            return Draw(number, target, spec, epilogue, _present(road, schedule), schedule, sizes, refused, form)
    raise RuntimeError(f"{title(number)}: {_MOST_TRIES} draws in a row were refused")


def _in_some_form(
    seed: str, spec: lt.GemmSpec, sizes: tuple[Size, ...], schedule: lt.Schedule, target: str
) -> tuple[str, lt.GemmSpec, tuple[Size, ...]]:
    """The same product plainly, of a batch, or with D by columns: then the kernel's M is N, and its layout another one.

    Numbers of its own, so that the other draws are what they were.
    """
    rng = random.Random(f"{seed} form")
    form, own = rng.choice(FORMS), sizes
    if form == "batch":
        other = replace(spec, batch=rng.choice((None, 1, 4)))
    elif form == "by columns":
        layout = str(swapped_layout(GemmLayout[spec.layout]))
        other = replace(spec, m=spec.n, n=spec.m, layout=layout, d_order="column")
        own = tuple((n, m, k) for m, n, k in sizes)
    if form == "plain" or refusal(other, schedule, target) is not None:
        return "plain", spec, sizes
    return form, other, own


def _with_an_amax(number: int, spec: lt.GemmSpec, schedule: lt.Schedule, target: str) -> lt.GemmSpec:
    """The same problem, of one draw of each kind with an amax, where its sums have one."""
    turn, kind = divmod(number, len(KINDS))
    if turn != kind % _EACH or spec.acc == "f64":
        return spec
    other = replace(spec, amax=True)
    return spec if refusal(other, schedule, target) else other


def _present(road: Road, schedule: lt.Schedule) -> tuple[str, ...]:
    """The features of the road that a schedule has."""

    def has(fields: Fields) -> bool:
        return schedule.with_(**fields) == schedule

    return tuple(name for name, feature in road.features.items() if any(map(has, feature)))


def refusal(spec: lt.GemmSpec, schedule: lt.Schedule, target: str) -> str | None:
    """The rule that the schedule breaks for the problem; None for a legal one."""
    layout, kinds = GemmLayout[spec.layout], tuple(OperandKind[operand.kind.value] for operand in spec.operands)
    batch = spec.batch_shape[0] if spec.is_batched else 1
    problem = Problem(
        *(spec.m, spec.n, spec.k, spec.a, spec.b, spec.acc, spec.d, layout, kinds),
        tuple(operand.dtype for operand in spec.operands),
        d_is_column_major=spec.d_order == "column",
        batch=batch,
        is_batched=spec.is_batched,
    )
    # As `choose` does, but for the swizzles and the reasons, which take as long as all else.
    way = ways(problem, get(target), schedule)[0]
    if (broken := broken_field(way.given, way.problem, get(target))) is not None:
        return broken
    try:
        next(legal(way.problem, get(target), way.given))
    except lt.ScheduleError as error:
        return str(error)
    return None


def _problem(rng: random.Random, road: Road, schedule: lt.Schedule) -> tuple[lt.GemmSpec, str, tuple[Size, ...]]:
    """Types, layout, epilogue, which extents are compiled in, and the sizes."""
    dtype, acc = rng.choice(road.types)
    layout, epilogue, d = rng.choice(LAYOUTS), rng.choice(road.epilogues), rng.choice(road.stored)
    d = dtype if acc == "f16" else d
    sizes = _sizes(rng, schedule, layout, d, acc)
    compiled_in = {*rng.choice(("", "", "", "mnk", "nk", "m", "k")), *_needed(schedule)}
    extents = {name: extent for name, extent in zip("mnk", sizes[0], strict=True) if name in compiled_in}
    spec = lt.GemmSpec(**extents, a=dtype, b=dtype, d=d, acc=acc, layout=layout, epilogue=EPILOGUES[epilogue])
    runs = tuple(dict.fromkeys(tuple(extents.get(x, size[i]) for i, x in enumerate("mnk")) for size in sizes))
    return spec, epilogue, runs


def _kept(schedule: lt.Schedule) -> str:
    """The extents within one tile, or the few of a CTA: of operands that stay in the ring for all of them."""
    operands = {"m": schedule.mainloop.a, "n": schedule.mainloop.b}
    return "".join(extent for extent, operand in operands.items() if operand.load is RepeatKind.once)


def _tiles_along(extent: str, schedule: lt.Schedule) -> int:
    """The most tiles along an extent between which CTAs that keep their part of an operand are divided."""
    return 2 if schedule.grid.order == Order(RasterKind.column if extent == "m" else RasterKind.row) else 1


def _needed(schedule: lt.Schedule) -> str:
    """The extents that must be known when compiling."""
    is_unrolled = schedule.mainloop.unroll is UnrollKind.full
    return _kept(schedule) + ("k" if _kept(schedule) or is_unrolled else "")


def _sizes(rng: random.Random, schedule: lt.Schedule, layout: str, d: str, acc: str) -> tuple[Size, ...]:
    """Most of them ragged; one with more work tiles than there are SMs, where those are not too many elements."""
    unit = {"m": 1, "n": 1, "k": 1}
    if (schedule.mainloop.a.copy or "tma").startswith("tma."):
        unit |= dict.fromkeys({"m" if layout[0] == "n" else "k", "k" if layout[1] == "n" else "n"}, _PANEL)
    if schedule.epilogue.path is StorePath.tma:
        unit["n"] = max(unit["n"], _ROW_BYTES // element_type(d).bytes)
    found = []
    for _ in range(_SIZES_EACH):
        rows, columns, depth = schedule.tile_mnk
        m, n = _many_tiles(rng, rows, columns) if rng.random() < 0.4 else (_extent(rng, rows), _extent(rng, columns))
        m = min(m, _tiles_along("m", schedule) * rows) if "m" in _kept(schedule) else m
        n = min(n, _tiles_along("n", schedule) * columns) if "n" in _kept(schedule) else n
        k = _trips(rng, schedule) * depth - rng.randrange(depth)
        size = (m, n, min(k, _SHORT_K) if acc == "f16" and not _is_scattered(schedule) else k)
        found.append(tuple(ceil(extent / unit[x]) * unit[x] for x, extent in zip("mnk", size, strict=True)))
    return tuple(found)


def _trips(rng: random.Random, schedule: lt.Schedule) -> int:
    """K steps around what matters: one, as many as stages, parts of a division, many. A scatter has one for each."""
    parts, stages = schedule.k_division.parts if schedule.k_division else 1, schedule.mainloop.stages or 2
    if _kept(schedule):  # as many as there are slots
        return stages
    trips = rng.choice((1, 2, stages - 1, stages, 2 * stages + 1, parts, parts + 1, rng.randint(1, 20)))
    if schedule.mainloop.unroll is UnrollKind.full:
        trips = min(trips, _MOST_UNROLLED)
    return max(trips, parts if _is_scattered(schedule) else 1)


def _is_scattered(schedule: lt.Schedule) -> bool:
    return schedule.k_division is not None and schedule.k_division.is_scattered


def _extent(rng: random.Random, tile: int) -> int:
    """From one element to several tiles; now and then whole tiles."""
    return rng.choice((tile * rng.randint(1, 3), rng.randint(1, tile), rng.randint(1, 700)))


def _many_tiles(rng: random.Random, rows: int, columns: int) -> tuple[int, int]:
    """Up to some waves of tiles, the last ones ragged."""
    most = min(500, _MOST_ELEMENTS // (rows * columns))
    down = rng.randint(1, max(1, min(30, most)))
    across = max(1, rng.randint(most // 2, most) // down)
    return down * rows - rng.randrange(rows), across * columns - rng.randrange(columns)
