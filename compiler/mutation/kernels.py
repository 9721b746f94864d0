"""The kernels in which faults are planted: the default schedule of each target, and each family of presets.

The tiles of presets are made smaller, so that a CTA computes several of them within a second of the interpreter. What a
preset is there for, such as its roles, its division of K or its copies, stays. Shapes are ragged, with several work
tiles for each CTA and enough steps of K for the ring to go round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from types import MappingProxyType
from typing import Any

from lowtide.compiler.checking.interpretation import Batch
from lowtide.compiler.epilogue.functions import relu
from lowtide.compiler.epilogue.operands import Full, OperandKind, PerColumn, PerRow, Scalar
from lowtide.compiler.presets import PRESETS
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile import PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.alignment import MATRICES, is_packed
from lowtide.targets import get

Shape = tuple[int, int, int]
_PLACES_OF_PACKED = 8  # as asked, as moved, and one of three bases or row strides by half of that
_PLACES_OF_BATCH = 11  # or one of three strides of a batch


@dataclass(frozen=True)
class Trial:
    """One run of a kernel: the problem shape (M, N, K), how many SMs, and the seed of the order of agents.

    `batch`: how many matrices there are and how they lie, in a batch. `place`: the number of one of `places_of` the
    schedule, by default the one that asks least.
    """

    shape: Shape
    sms: int = 2
    seed: int = 0
    batch: Batch | None = None
    place: int = 0


@dataclass(frozen=True)
class Kernel:
    """A kernel, and the runs that a fault in it must survive to go unnoticed.

    At the levels `timed` its control flow depends on timing by intention, so that no run speaks for every order.
    """

    name: str
    target: str
    spec: GemmSpec
    schedule: Schedule
    trials: tuple[Trial, ...]
    timed: tuple[str, ...] = ()

    def problem(self) -> str:
        """Its text at level `problem`."""
        return problem_text(self.spec, get(self.target), self.schedule)


def bias_relu(acc: Any, bias: PerColumn) -> Any:
    """relu(acc + bias)."""
    return relu(acc + bias)


def every_kind(acc: Any, c: Full, row: PerRow, column: PerColumn, scale: Scalar) -> Any:
    """An epilogue with an operand of each kind."""
    return relu(scale * acc + 2.0 * c - row) + column


def _spec(dtype: str = "bf16", layout: str = "tn", epilogue: Any = None, **rest: Any) -> GemmSpec:
    return GemmSpec(**{"a": dtype, "b": dtype, "d": dtype, "layout": layout, "epilogue": epilogue} | rest)


def _kernel(
    name: str, target: str, spec: GemmSpec, schedule: Schedule, shapes: tuple[Shape, ...], rest: tuple[Shape, ...]
) -> Kernel:
    """Each shape under two orders of agents, the first also with one SM, whose CTA computes all tiles; `rest` once.

    Matrices lie aligned, so that nothing is packed unless the schedule asks for it: then runs have aligned ones too,
    and some of which one is a little less aligned. In a batch, runs in turn have three matrices, two that share B, two
    that share A, and one.
    """
    schedule = schedule.filled(dict.fromkeys(("mainloop.a.pack", "mainloop.b.pack", "epilogue.pack"), PackKind.none))
    trials = [*(Trial(shape, 2, seed) for shape in shapes for seed in (0, 1)), Trial(shapes[0], 1, 2)]
    if any(is_packed(name, schedule) for name in MATRICES):
        trials += [replace(trial, place=1) for trial in trials]
        places = range(2, _PLACES_OF_BATCH if spec.is_batched else _PLACES_OF_PACKED)
        trials += [Trial(shapes[-1], 2, 0, place=place) for place in places]
    trials += map(Trial, rest)
    if spec.is_batched:
        operands = [operand.name for operand in spec.operands if operand.kind is not OperandKind.SCALAR]
        lies = cycle((Batch(3), Batch(2, ("b", *operands), 1), Batch(2, ("a",)), Batch(1)))
        # Where the place matters, each matrix has a stride of its own.
        given = [Batch(3) if trial.place > 1 else next(lies) for trial in trials]
        trials = [replace(trial, batch=batch) for trial, batch in zip(trials, given, strict=True)]
    return Kernel(name, target, spec, schedule, tuple(trials))


def _parts(m: int, n: int, k: int, least_k: int = 0, columns: int = 1) -> tuple[Shape, ...]:
    """Parts of one or two tiles of m × n: as many columns as go, various rows and ends of K; then whole tiles.

    `least_k` terms are there at least; `columns` is what their number is a multiple of.
    """
    ends = [n * (i // columns % 2) + i for i in range(columns, n + 1, columns)]  # every other one in the second tile
    parts = [(1 + 7 * end % m, end, least_k + 1 + 5 * end % (3 * k)) for end in ends]
    return (*parts, (2 * m, n, least_k // k * k + 2 * k))


def _rows(m: int, columns: int, run: int = 4) -> tuple[Shape, ...]:
    """Every end of M within a tile of m rows, to `run` rows, of few columns and one term."""
    return tuple((end, columns, 1) for end in range(run // 2, m, run))


def _small(name: str, spec: GemmSpec, *shapes: Shape, parts: tuple[Shape, ...] | None = None, **fields: Any) -> Kernel:
    """A preset of sm_80 with tiles of 32 × 32 × 32."""
    schedule = PRESETS[name].with_(**{"grid_tile": (32, 32), "k": 32, "atoms": (2, 1, 1), "ctas_per_sm": 1, **fields})
    return _kernel(name, "sm_80", spec, schedule, shapes, parts or _parts(32, 32, 32))


def _one(name: str, spec: GemmSpec, *shapes: Shape, **fields: Any) -> Kernel:
    """A preset of sm_90a with one consumer and tiles of 64 × 32 × 64."""
    schedule = PRESETS[name].with_(**{"grid_tile": (64, 32), "k": 64, "stages": 2, "roles": "cooperative(1)", **fields})
    divided = 64 if "scatter" in name else 0
    return _kernel(name, "sm_90a", spec, schedule, shapes, _parts(64, 32, 64, divided))


def _one_by_tma(name: str, spec: GemmSpec, *shapes: Shape) -> Kernel:
    """The same with D stored by TMA."""
    tile = {"grid_tile": (64, 32), "k": 64, "stages": 2, "epilogue_tile": (64, 32), "buffers": 1}
    schedule = PRESETS[name].with_(roles="cooperative(1)", **tile)
    return _kernel(name, "sm_90a", spec, schedule, shapes, _parts(64, 32, 64, columns=8))


def _two(name: str, spec: GemmSpec, *shapes: Shape, columns: int = 1, whole: bool = False, **fields: Any) -> Kernel:
    """A preset of sm_90a with two consumers that share tiles of 128 × 64 × 64. `whole`: K is a multiple of 64."""
    schedule = PRESETS[name].with_(**{"grid_tile": (128, 64), "k": 64, "stages": 3, **fields})
    parts = tuple((m, n, -(-k // 64) * 64 if whole else k) for m, n, k in _parts(128, 64, 64, columns=columns))
    return _kernel(name, "sm_90a", spec, schedule, shapes, parts[::2])


def _fields(name: str, target: str, spec: GemmSpec, fields: str, *shapes: Shape, parts: tuple[Shape, ...]) -> Kernel:
    return _kernel(name, target, spec, Schedule.parse(fields), shapes, parts)


_PLAIN, _BIAS, _EVERY = _spec(), _spec(epilogue=bias_relu), _spec(epilogue=every_kind)
_BIAS_NT, _F32, _F64 = _spec(layout="nt", epilogue=bias_relu), _spec("f32", epilogue=bias_relu), _spec("f64", acc="f64")
_FILL = "grid.tile = [32, 32], atoms = [2, 1, 1], grid.ctas_per_sm = 1, stages = 3"
_THREADS = "atom = fma.m1n1k1, grid.tile = [32, 16], k = 8, atoms = [8, 4, 1], grid.ctas_per_sm = 1, stages = 3"
_ROLES = "roles = cooperative(1), k = 64, stages = 2"

_SM80 = (
    _fields(
        "sm_80, default",
        "sm_80",
        _EVERY,
        "order = grouped(8)",
        (140, 300, 133),
        parts=(*_parts(128, 256, 64)[1:80:20], *_rows(128, 8)),
    ),
    _small("sm80-direct", _BIAS, (75, 47, 79), (20, 24, 40)),
    _small("sm80-two-stages", _BIAS, (75, 47, 133), (20, 24, 40)),
    _small("sm80-double-buffered", _BIAS_NT, (75, 47, 133), (20, 24, 40)),
    _small("sm80-smem-epilogue", _EVERY, (75, 47, 133), (20, 24, 40)),
    _small("sm80-rasterized", _PLAIN, (70, 103, 133), (20, 24, 40), order="grouped(2)"),
    _small("sm80-persistent", _BIAS, (100, 47, 200), (20, 24, 40)),
    _small("sm80-filled-ring", _BIAS, (100, 47, 133), (20, 40, 40), epilogue_tile=(32, 32)),
    _small("sm80-split-k", _EVERY, (75, 47, 300), (20, 24, 40), k_division="split(3)"),
    _small("sm80-sliced-k", _BIAS, (75, 47, 140), (20, 24, 40), atoms=(1, 1, 2)),
    _small("sm80-f64", _F64, (75, 37, 43), (20, 30, 16), k=16, atoms=(2, 2, 1), stages=3, parts=_parts(32, 32, 16)),
    _fields(
        "sm80, scatter",
        "sm_80",
        _EVERY,
        "grid.tile = [32, 64], atoms = [2, 1, 1], stages = 3, k = 32,  scheduler = persistent, k_division = scatter(4)",
        (75, 79, 200),
        parts=_parts(32, 64, 32, 96),
    ),
    _fields(
        "sm80, stream-K",
        "sm_80",
        _PLAIN,
        f"{_FILL}, k = 32, scheduler = persistent, k_division = stream_k",
        (75, 47, 200),
        parts=_parts(32, 32, 32),
    ),
    _fields(
        "sm80, staged copies",
        "sm_80",
        _BIAS,
        f"{_FILL}, k = 16, a.copy = staged.16, b.copy = staged.8",
        (75, 47, 90),
        (20, 12, 16),
        parts=_parts(32, 32, 16),
    ),
    _fields(
        "sm80-simt",
        "sm_80",
        _F32,
        f"{_THREADS}, fragment_buffers = 2",
        (75, 39, 37),
        (20, 12, 16),
        parts=_parts(32, 16, 8),
    ),
    _fields(
        "sm80-simt-staged",
        "sm_80",
        _F32,
        f"{_THREADS}, a.copy = staged.16, b.copy = staged.8, fragment_buffers = 1",
        (75, 39, 37),
        (20, 12, 16),
        parts=_parts(32, 16, 8),
    ),
)

_SM90A = (
    _fields(
        "sm_90a, default",
        "sm_90a",
        _BIAS,
        "grid.tile = [128, 128]",
        (200, 136, 200),
        parts=(*_parts(128, 128, 64, columns=8)[::3], *_rows(128, 8)),
    ),
    _one("sm90-tma-wgmma", _BIAS, (130, 40, 300), (40, 20, 192)),
    _one("sm90-producer-consumer", _PLAIN, (130, 40, 290), (40, 20, 61), stages=3),
    _one("sm90-even-split", _PLAIN, (190, 40, 300)),
    _one("sm90-streaming-stores", _BIAS, (130, 40, 300)),
    _one("sm90-scatter-k", _BIAS, (130, 40, 300)),
    _two("sm90-two-consumers", _BIAS, (260, 72, 270), (40, 24, 61)),
    _two("sm90-3d-maps", _BIAS, (260, 71, 320), stages=2, whole=True),
    _two("sm90-smem-epilogue", _EVERY, (140, 72, 259)),
    _two("sm90-tma-stores", _BIAS, (260, 72, 270), (40, 24, 61), columns=8, epilogue_tile=(128, 32)),
    _one_by_tma("sm90-hilbert", _PLAIN, (190, 72, 150)),
    _one_by_tma("sm90-dependent-launch", _PLAIN, (190, 72, 150)),
    _one_by_tma("sm90-split-k", _BIAS, (130, 40, 300)),
    _one_by_tma("sm90-stream-k", _PLAIN, (130, 24, 300)),
    _one_by_tma("sm90-hybrid-k", _PLAIN, (300, 24, 300)),
    _one_by_tma("sm90-cluster-2x1", _PLAIN, (150, 72, 300)),
    _one_by_tma("sm90-cluster-1x2", _PLAIN, (150, 72, 300)),
    _fields(
        "sm90-split-tail",
        "sm_90a",
        _PLAIN,
        f"{_ROLES}, grid.tile = [128, 32], tail = halves, epilogue.path = smem",
        (600, 29, 300),
        parts=_parts(128, 32, 64),
    ),
    _fields(
        "sm90-wave-sync",
        "sm_90a",
        _PLAIN,
        f"{_ROLES}, grid.tile = [64, 32], waves = synchronized",
        (170, 60, 140),
        parts=_parts(64, 32, 64),
    ),
    _fields(
        "sm90-pingpong",
        "sm_90a",
        _BIAS,
        "roles = pingpong(2), grid.tile = [64, 32], k = 64, stages = 3, epilogue.path = tma, epilogue.tile = [64, 32]",
        (190, 72, 300),
        (190, 72, 40),
        parts=_parts(64, 32, 64, columns=8),
    ),
    _fields(
        "sm90-f64",
        "sm_90a",
        _F64,
        "grid.tile = [32, 32], k = 16, atoms = [1, 2, 1], stages = 3",
        (75, 37, 43),
        (20, 30, 16),
        parts=_parts(32, 32, 16),
    ),
)

_PACKED = "a.pack = rows, b.pack = rows, epilogue.pack = rows"
_OF_BATCH = _spec(batch=None, epilogue=every_kind)

# Added last, so that what is drawn of the others stays.
_PLACES = (
    _fields(
        "sm80, D by columns",
        "sm_80",
        _spec(layout="tt", d_order="column", epilogue=every_kind),
        f"{_FILL}, k = 32",
        (75, 47, 133),
        parts=_parts(32, 32, 32)[::3],
    ),
    _small("sm80-unaligned", _BIAS, (75, 47, 133), (20, 24, 40), a_copy="realigned.16"),
    _fields(
        "sm80, packed",
        "sm_80",
        _BIAS,
        f"{_FILL}, k = 32, {_PACKED}",
        (75, 47, 133),
        (20, 24, 40),
        parts=_parts(32, 32, 32)[::4],
    ),
    _fields(
        "sm80, copies by elements",
        "sm_80",
        _BIAS_NT,
        f"{_FILL}, k = 16, a.copy = staged.2, b.copy = staged.2, epilogue.store = 2",
        (75, 47, 90),
        (20, 12, 16),
        parts=_parts(32, 32, 16)[::4],
    ),
    _fields(
        "sm80, batch",
        "sm_80",
        _OF_BATCH,
        f"{_FILL}, k = 32, scheduler = persistent",
        (75, 47, 100),
        (20, 24, 40),
        parts=_parts(32, 32, 32)[::4],
    ),
    _fields(
        "sm80, packed batch",
        "sm_80",
        _OF_BATCH,
        f"{_FILL}, k = 32, scheduler = persistent, {_PACKED}",
        (40, 47, 75),
        (20, 24, 40),
        parts=_parts(32, 32, 32)[::8],
    ),
    _fields(
        "sm80, batch, stream-K",
        "sm_80",
        _spec(batch=None),
        f"{_FILL}, k = 32, scheduler = persistent, k_division = stream_k",
        (40, 47, 200),
        (20, 24, 100),
        parts=_parts(32, 32, 32)[::4],
    ),
    _fields(
        "sm90-packed-rows",
        "sm_90a",
        _BIAS,
        f"{_ROLES}, grid.tile = [64, 32], epilogue.path = tma, epilogue.tile = [64, 32], {_PACKED}",
        (130, 41, 150),
        (40, 24, 61),
        parts=_parts(64, 32, 64)[::4],
    ),
    _fields(
        "sm90-unaligned",
        "sm_90a",
        _BIAS,
        "roles = cooperative(1), k = 32, stages = 3, grid.tile = [64, 32], a.copy = realigned.16, "
        "b.copy = realigned.16, epilogue.path = smem, epilogue.store = 2",
        (130, 41, 150),
        (40, 20, 61),
        parts=_parts(64, 32, 32)[::4],
    ),
    _fields(
        "sm90, batch",
        "sm_90a",
        _OF_BATCH,
        f"{_ROLES}, grid.tile = [64, 32], epilogue.path = smem",
        (130, 41, 150),
        (40, 20, 61),
        parts=_parts(64, 32, 64)[::4],
    ),
    _fields(
        "sm90, batch by TMA",
        "sm_90a",
        _spec(batch=None, epilogue=bias_relu),
        f"{_ROLES}, grid.tile = [64, 32], epilogue.path = tma, epilogue.tile = [64, 32], cluster = [2, 1]",
        (130, 40, 150),
        (40, 24, 61),
        parts=_parts(64, 32, 64, columns=8),
    ),
    _fields(
        "sm90, D by columns",
        "sm_90a",
        _spec(layout="nn", d_order="column", epilogue=every_kind),
        f"{_ROLES}, grid.tile = [64, 32], epilogue.path = smem",
        (40, 130, 150),
        (20, 40, 61),
        parts=_parts(64, 32, 64)[::4],
    ),
    _fields(
        "sm80-few-rows",
        "sm_80",
        _spec(layout="nt", epilogue=every_kind),
        f"{_FILL}, k = 32, operands = swapped, epilogue.path = direct",
        (47, 75, 133),
        (24, 20, 40),
        parts=_parts(32, 32, 32)[::3],
    ),
    _fields(
        "sm90-few-rows",
        "sm_90a",
        _BIAS,
        f"{_ROLES}, grid.tile = [64, 16], operands = swapped, epilogue.path = direct, k_division = split(2)",
        (25, 130, 150),
        (12, 40, 61),
        parts=_parts(16, 64, 64)[::2],
    ),
)

# Other types of elements, whose instructions, fragments and stages differ; and pieces of f32.
_INT8, _TF32 = _spec("s8", d="s32", acc="s32"), _spec("tf32", d="f32")
_PIECES = _spec("f32", layout="nt", precision="tf32x3")
_TYPES = (
    _fields(
        "sm80-int8", "sm_80", _INT8, f"{_FILL}, k = 32", (75, 47, 133), (20, 24, 40), parts=_parts(32, 32, 32)[::4]
    ),
    _fields("sm80-tf32", "sm_80", _TF32, f"{_FILL}, k = 16", (75, 47, 70), (20, 24, 20), parts=_parts(32, 32, 16)[::3]),
    _fields(
        "sm90-fp8",
        "sm_90a",
        _spec("e4m3", d="bf16"),
        "roles = cooperative(1), grid.tile = [64, 32], k = 128, stages = 2",
        (130, 40, 300),
        (40, 24, 61),
        parts=_parts(64, 32, 128)[::4],
    ),
    _fields(
        "sm90-f32-tf32x3",
        "sm_90a",
        _PIECES,
        "roles = cooperative(1), grid.tile = [64, 32], k = 32, stages = 3",
        (130, 40, 50),
        (40, 24, 9),
        parts=_parts(64, 32, 16)[::4],
    ),
)

_TIMED = {"sm90-wave-sync": ("ptx",)}  # its bounded wait, as instructions

# Added last, as `_PLACES`.
_BYTES = (
    _fields(
        "sm90, transposed",
        "sm_90a",
        _spec("e4m3", layout="nt", d="f32"),
        f"{_ROLES}, grid.tile = [64, 32], epilogue.path = smem, a.pack = transposed, b.pack = transposed",
        (130, 40, 150),
        (40, 24, 61),
        parts=(*_parts(64, 32, 64)[::8], (128, 128, 128)),
    ),
    _fields(
        "sm89, fp8",
        "sm_89",
        _spec("e4m3", b="e5m2", d="f32"),
        f"{_FILL}, k = 64",
        (75, 47, 208),
        (20, 24, 80),
        parts=_parts(32, 32, 32)[::4],
    ),
)

_ALL = (*_SM80, *_SM90A, *_PLACES, *_BYTES, *_TYPES)

KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {kernel.name: replace(kernel, timed=_TIMED.get(kernel.name, ())) for kernel in _ALL}
)
