"""A kernel for fault injection, and its runs; presets made small, with shapes that take the ring around."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any

from lowtide.compiler.epilogue.functions import relu
from lowtide.compiler.epilogue.operands import Full, OperandKind, PerColumn, PerRow, Scalar
from lowtide.compiler.presets import PRESETS
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile import OperandsKind, PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.interpreter.numbers.domains import ExactDomain, FloatDomain
from lowtide.passes.schedules.facts.alignment import MATRICES, WIDEST, is_packed
from lowtide.targets import get
from lowtide.verification.checking.interpretation import Batch
from lowtide.verification.checking.splits import COUNTS, SPLITS, Ends, ends_of

Shape = tuple[int, int, int]
Parts = tuple[Shape, ...] | int
_PLACES_OF_PACKED = 8  # as required, as moved, and with one of three bases or row strides at half the alignment
_PLACES_OF_BATCH = 11  # and one of three batch strides


@dataclass(frozen=True)
class Trial:
    """One run of a kernel: the problem shape (M, N, K), the number of SMs, and the seed of the order of agents.

    `batch`: the number of matrices and their strides, in a batch. `ends`: of groups of rows, or counts. `place`: the
    index of one of the `places_of` the schedule, by default the least aligned. `scales`: row strides and bases of block
    scales are odd multiples of so many bytes; from WIDEST on, any multiples.
    """

    shape: Shape
    sms: int = 2
    seed: int = 0
    batch: Batch | None = None
    place: int = 0
    scales: tuple[int, int] = (WIDEST, WIDEST)
    ends: Ends | None = None


@dataclass(frozen=True)
class Kernel:
    """A kernel, and the runs that a fault in it must survive to remain undetected.

    At the levels `timed`, its control flow depends on timing, by design, or on numbers in memory. So no run is known to
    cover every order.
    """

    name: str
    target: str
    spec: GemmSpec
    schedule: Schedule
    trials: tuple[Trial, ...]
    timed: tuple[str, ...] = ()

    @property
    def domain(self) -> str:
        """The number domain of its runs: exact, except for packed floats, whose bits are numbers only among floats."""
        return (FloatDomain if self.spec.is_mixed and element_type(self.spec.b).is_float else ExactDomain).name

    def problem(self) -> str:
        """Its text at level `problem`."""
        return problem_text(self.spec, get(self.target), self.schedule)


def bias_relu(acc: Any, bias: PerColumn) -> Any:
    """relu(acc + bias)."""
    return relu(acc + bias)


def every_kind(acc: Any, c: Full, row: PerRow, column: PerColumn, scale: Scalar) -> Any:
    """An epilogue with an operand of each kind."""
    return relu(scale * acc + 2.0 * c - row) + column


def spec_of(dtype: str = "bf16", layout: str = "tn", epilogue: Any = None, **rest: Any) -> GemmSpec:
    return GemmSpec(**{"a": dtype, "b": dtype, "d": dtype, "layout": layout, "epilogue": epilogue} | rest)


def kernel_of(
    name: str, target: str, spec: GemmSpec, schedule: Schedule, shapes: tuple[Shape, ...], rest: Parts = 1
) -> Kernel:
    """Runs each shape under two orders of agents, the first shape also on one SM, where one CTA computes all tiles; and
    `rest` once. If `rest` is a number n, it means every n-th of the parts of the schedule's tile.

    Matrices are aligned, so that nothing is packed unless the schedule says so. If it does, some runs have aligned
    matrices, and in others one matrix is a little less aligned. The same holds for staged scales of blocks. In a batch,
    runs alternate between three matrices, two that share B, two that share A, and one. In groups of rows, each run has
    another split, and in padded groups other counts.
    """
    schedule = schedule.filled(dict.fromkeys(("mainloop.a.pack", "mainloop.b.pack", "epilogue.pack"), PackKind.none))
    trials = [*(Trial(shape, 2, seed) for shape in shapes for seed in (0, 1)), Trial(shapes[0], 1, 2)]
    if any(is_packed(name, schedule) for name in MATRICES):
        trials += [replace(trial, place=1) for trial in trials]
        places = range(2, _PLACES_OF_BATCH if spec.is_batched else _PLACES_OF_PACKED)
        trials += [Trial(shapes[-1], 2, 0, place=place) for place in places]
    if schedule.stages_scales:  # TMA takes only these; others are copied
        trials += [Trial(shapes[0], scales=lie) for lie in ((WIDEST // 2, WIDEST), (WIDEST, WIDEST // 2))]
    if isinstance(rest, int):
        m, n, k = schedule.tile_mnk
        is_swapped = schedule.grid.operands is OperandsKind.swapped
        rest = parts_of(*((n, m) if is_swapped else (m, n)), k)[::rest]
    trials += map(Trial, rest)
    if spec.is_batched:
        alone = (OperandKind.SCALAR, OperandKind.ENDS)
        operands = [operand.name for operand in spec.operands if operand.kind not in alone]
        lies = cycle((Batch(3), Batch(2, ("b", *operands), 1), Batch(2, ("a",)), Batch(1)))
        # If the place matters, each matrix has its own batch stride.
        given = [Batch(3) if trial.place > 1 else next(lies) for trial in trials]
        trials = [replace(trial, batch=batch) for trial, batch in zip(trials, given, strict=True)]
    if spec.counts:
        rows, split = schedule.tile_mnk[0], cycle(COUNTS)
        trials = [
            replace(trial, ends=ends_of(next(split), trial.shape[0], rows, trial.batch.matrices, padded=True))
            for trial in trials
            if trial.batch is not None
        ]
    if isinstance(spec.groups, int):
        rows, split = schedule.tile_mnk[0], cycle(SPLITS)
        trials = [replace(trial, ends=ends_of(next(split), trial.shape[0], rows, spec.groups)) for trial in trials]
    return Kernel(name, target, spec, schedule, tuple(trials))


def parts_of(m: int, n: int, k: int, least_k: int = 0, columns: int = 1) -> tuple[Shape, ...]:
    """Parts of one or two tiles of m × n, with as many columns as possible and various rows and ends of K; then full
    tiles.

    K is at least `least_k`; the number of columns is a multiple of `columns`.
    """
    ends = [n * (i // columns % 2) + i for i in range(columns, n + 1, columns)]  # every other one in the second tile
    parts = [(1 + 7 * end % m, end, least_k + 1 + 5 * end % (3 * k)) for end in ends]
    return (*parts, (2 * m, n, least_k // k * k + 2 * k))


def rows_of(m: int, columns: int, run: int = 4) -> tuple[Shape, ...]:
    """Every end of M within a tile of m rows, up to `run` rows, with few columns and K = 1."""
    return tuple((end, columns, 1) for end in range(run // 2, m, run))


def small(name: str, spec: GemmSpec, *shapes: Shape, **fields: Any) -> Kernel:
    """A preset of sm_80 with tiles of 32 × 32 × 32."""
    schedule = PRESETS[name].with_(**{"grid_tile": (32, 32), "k": 32, "atoms": (2, 1, 1), "ctas_per_sm": 1, **fields})
    return kernel_of(name, "sm_80", spec, schedule, shapes)


def one(name: str, spec: GemmSpec, *shapes: Shape, **fields: Any) -> Kernel:
    """A preset of sm_90a with one consumer and tiles of 64 × 32 × 64."""
    schedule = PRESETS[name].with_(**{"grid_tile": (64, 32), "k": 64, "stages": 2, "roles": "cooperative(1)", **fields})
    divided = 64 if "scatter" in name else 0
    return kernel_of(name, "sm_90a", spec, schedule, shapes, parts_of(64, 32, 64, divided))


def one_by_tma(name: str, spec: GemmSpec, *shapes: Shape) -> Kernel:
    """The same with D stored by TMA."""
    tile = {"grid_tile": (64, 32), "k": 64, "stages": 2, "epilogue_tile": (64, 32), "buffers": 1}
    schedule = PRESETS[name].with_(roles="cooperative(1)", **tile)
    return kernel_of(name, "sm_90a", spec, schedule, shapes, parts_of(64, 32, 64, columns=8))


def two(name: str, spec: GemmSpec, *shapes: Shape, columns: int = 1, whole: bool = False, **fields: Any) -> Kernel:
    """A preset of sm_90a with two consumers that share tiles of 128 × 64 × 64. `whole`: K is a multiple of 64."""
    schedule = PRESETS[name].with_(**{"grid_tile": (128, 64), "k": 64, "stages": 3, **fields})
    ends = tuple((m, n, -(-k // 64) * 64 if whole else k) for m, n, k in parts_of(128, 64, 64, columns=columns))
    halved = (*ends[::4], *ends[1::4])  # odd and even numbers of columns
    return kernel_of(name, "sm_90a", spec, schedule, shapes, halved)


def by_fields(target: str, name: str, spec: GemmSpec, fields: str, *shapes: Shape, parts: Parts = 1) -> Kernel:
    """A kernel whose schedule has these fields."""
    return kernel_of(name, target, spec, Schedule.parse(fields), shapes, parts)


sm80, sm90 = partial(by_fields, "sm_80"), partial(by_fields, "sm_90a")

PLAIN, BIAS, EVERY = spec_of(), spec_of(epilogue=bias_relu), spec_of(epilogue=every_kind)
OF_192 = spec_of(k=192)  # K is static
SIX_TILES = spec_of(m=384, n=32, k=192)  # full tiles of 64 × 32
BIAS_NT, F32, F64 = (
    spec_of(layout="nt", epilogue=bias_relu),
    spec_of("f32", epilogue=bias_relu),
    spec_of("f64", acc="f64"),
)
FILL = "grid.tile = [32, 32], atoms = [2, 1, 1], grid.ctas_per_sm = 1, stages = 3"
THREADS = "atom = fma.m1n1k1, grid.tile = [32, 16], k = 8, atoms = [8, 4, 1], grid.ctas_per_sm = 1, stages = 3"
ROLES = "roles = cooperative(1), k = 64, stages = 2"
