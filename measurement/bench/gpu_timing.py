"""Timing GEMMs against each other on one GPU: interleaved, shuffled, on random data, in and out of the power limit.

Every contender is a CUDA graph of launches that rotate over several sets of operands, together more than L2 holds. In
each round all contenders run once, in a new random order; the first round is not counted. *Sustained* is a replay of
about 80 ms after 50 ms of the same, unless a `Pace` says otherwise; *burst* one of about 4 ms after 60 ms of idleness.

torch makes the operands and the graphs. It is imported on demand; nothing else here needs it.
"""

import importlib
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type, roundings_of_sum, stages_of_sum
from lowtide.errors import DeviceError

KINDS = ("sustained", "burst")
SUSTAINED_MS, WARM_MS, BURST_MS, IDLE_MS = 80.0, 50.0, 4.0, 60.0
SCREEN_MS = 10.0
L2_MULTIPLE_BYTES = 320 * 2**20
CHECKED_ROWS = 64


@dataclass(eq=False)
class Contender:
    """A name, and a launch that computes operand set i on torch's current stream.

    `race` fills in seconds per launch, one entry per counted round.
    """

    name: str
    launch: Callable[[int], object]
    sustained: list[float] = field(default_factory=list)
    burst: list[float] = field(default_factory=list)

    def seconds(self, kind: str) -> list[float]:
        """One of the two lists, by name."""
        return self.sustained if kind == "sustained" else self.burst


RunsOn = Callable[[Sequence[Contender]], bool]
"""Decides from the times so far."""


def never(contenders: Sequence[Contender]) -> bool:
    """No further round: the requested rounds are enough."""
    return False


@dataclass(frozen=True)
class Pace:
    """The time of a contender in a round, in milliseconds: it runs for `warm_ms`, then for `sustained_ms`, which count.
    `burst`: whether it also runs after idleness. `runs_on`: whether another round follows the asked ones."""

    warm_ms: float = WARM_MS
    sustained_ms: float = SUSTAINED_MS
    burst: bool = True
    runs_on: RunsOn = never


ChoosePace = Callable[[float], Pace]
"""Gives the pace of a race, for the approximate seconds of a launch of its fastest contender."""


def settled(seconds: float) -> Pace:
    """A pace with which clocks and power settle for any kernel."""
    return Pace()


@dataclass(frozen=True)
class Operands:
    """One set, with shapes in memory: A (M, K), or (K, M) for nn and nt; B (N, K), or (K, N) for tt and nt; D (M, N).

    For a batch, each has it as its first dimension.
    """

    a: Any
    b: Any
    d: Any
    layout: str

    @property
    def logical_a(self) -> Any:
        """A as (M, K)."""
        return self.a if self.layout[0] == "t" else self.a.mT

    @property
    def logical_b(self) -> Any:
        """B as (K, N)."""
        return self.b.mT if self.layout[1] == "n" else self.b


def torch_with_gpu() -> Any:
    """torch. Raises DeviceError if it is not installed, or has no GPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise DeviceError(
            "torch is not installed, but timing needs it; install torch with CUDA [timing-torch]"
        ) from None
    if not torch.cuda.is_available():
        raise DeviceError(
            "torch finds no NVIDIA GPU here, so nothing can be timed; use a machine that has one [timing-gpu]"
        )
    return torch


def unwritten(d: Any) -> float:
    """The value that D is filled with before a launch: NaN, or the least integer."""
    return float("nan") if d.is_floating_point() else float(torch_with_gpu().iinfo(d.dtype).min)


def random_matrix(torch: Any, shape: tuple[int | None, ...], dtype: str, generator: Any) -> Any:
    """Normal random numbers in the type, or integers over its whole range."""
    row = element_type(dtype)
    kind = getattr(torch, row.library)
    if not row.is_float:
        least = 0 if row.kind == "unsigned" else -int(row.largest) - 1
        return torch.randint(
            least, int(row.largest) + 1, shape, device=generator.device, generator=generator, dtype=kind
        )
    drawn = torch.randn(shape, device=generator.device, generator=generator)
    if row.bits_cut:
        drawn.view(torch.int32).bitwise_and_(-(1 << row.bits_cut))
    return drawn.to(kind)


def unwritten_d(torch: Any, spec: GemmSpec) -> Any:
    """A D of a spec with known extents on the GPU, filled with `unwritten`."""
    empty = torch.empty(spec.d_shape, device="cuda", dtype=getattr(torch, element_type(spec.d).library))
    return empty.fill_(unwritten(empty))


def operand_sets(spec: GemmSpec, seed: int) -> list[Operands]:
    """At least two sets of random operands of a spec with known extents, together larger than L2. A and B have one
    type; D is not written. Raises DeviceError."""
    torch = torch_with_gpu()
    generator = torch.Generator(device="cuda").manual_seed(seed)
    sets = []
    held = element_type(spec.a).bytes * (_size(spec.a_shape) + _size(spec.b_shape))
    held += element_type(spec.d).bytes * _size(spec.d_shape)
    for _ in range(max(2, -(-L2_MULTIPLE_BYTES // held))):
        a, b = (random_matrix(torch, shape, spec.a, generator) for shape in (spec.a_shape, spec.b_shape))
        sets.append(Operands(a, b, unwritten_d(torch, spec), spec.layout))
    torch.cuda.synchronize()
    return sets


def _size(shape: tuple[int | None, ...]) -> int:
    return math.prod(extent or 0 for extent in shape)


def tolerance(dtype: str, acc: str, k: int, d: str | None = None, is_fast: bool = False) -> float:
    """The largest allowed ‖D − float64‖ / ‖float64‖, for D from K products of normal random numbers of `dtype`. D has
    this type too, unless `d` is given; for integers the result is 0. `is_fast`: sums may be less precise than `acc`.

    Every sum that a kernel rounds is of some of the K products. These are independent with mean 0, so in the mean
    square such a sum is no larger than the whole sum. A rounding changes it by at most u of itself. So n roundings
    change D by at most n·u of its norm (Minkowski's inequality), in any order of the sums. If they round to nearest, so
    that their errors have mean 0 and are independent, they change it by √n·u (Higham and Mary, A New Approach to
    Probabilistic Rounding Error Analysis, 2019). Added to this are the rounding to `dtype`, at most half a spacing, and
    the roundings of the reference in float64.

    For large K (f16 sums: from 970 on) this exceeds 1 and is useless; `exact_products` judges sums of any length.
    """
    row, n = element_type(dtype), roundings_of_sum(k)
    if not row.is_float:
        return 0.0
    stages = stages_of_sum(dtype, acc, k, is_fast)
    own = sum((math.sqrt(count) if row.rounds_sums else count) * error for count, error in stages)
    return element_type(d or dtype).spacing / 2 + own + math.sqrt(n) * element_type("f64").spacing / 2


def complaint(contender: Contender, sets: Sequence[Operands], spec: GemmSpec, parts: int = 1) -> str:
    """The fault in the contender's result on the first set, or "". Checks that every element is written, and compares
    sampled rows of each matrix of a batch with float64. `parts`: the number of parts into which K may be divided. The
    sum of each part may be rounded to D's type, and so may each sum of parts. A rounding changes D by at most half a
    spacing of its norm (`tolerance`)."""
    torch = torch_with_gpu()
    operands = sets[0]
    mark = unwritten(operands.d)
    operands.d.fill_(mark)
    contender.launch(0)
    torch.cuda.synchronize()
    rows = torch.randperm(operands.d.shape[-2], device="cuda")[:CHECKED_ROWS]
    rows[0], rows[-1] = 0, operands.d.shape[-2] - 1
    expected = operands.logical_a[..., rows, :].double() @ operands.logical_b.double()
    of_matrix = (-2, -1)
    wrong = (operands.d[..., rows, :].double() - expected).norm(dim=of_matrix) / expected.norm(dim=of_matrix)
    error = wrong.max().item()
    if bool((operands.d.isnan() if math.isnan(mark) else operands.d == mark).any()):
        return "elements of D were not written, or are NaN"
    most = tolerance(spec.a, spec.sums, operands.logical_a.shape[-1], spec.d, spec.is_fast)
    # Half a spacing for each part, and for each sum of parts but the last: `tolerance` includes that one.
    most += (parts - 1) * element_type(spec.d).spacing
    return "" if error <= most else f"relative error {error:.1e}, more than {most:.1e}"


def capture(contender: Contender, sets: int) -> Any:
    """A graph with one launch per operand set; each has been launched once before."""
    torch = torch_with_gpu()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(sets):
            contender.launch(i)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(sets):
            contender.launch(i)
    torch.cuda.synchronize()
    return graph


def replay(graph: Any, milliseconds: float, estimate_ms: float) -> tuple[float, int]:
    """Replay for about `milliseconds`; returns (elapsed ms by events, number of replays)."""
    torch = torch_with_gpu()
    count = max(1, round(milliseconds / estimate_ms))
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        graph.replay()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop), count


def race(contenders: Sequence[Contender], sets: int, rounds: int, seed: int, choose_pace: ChoosePace = settled) -> None:
    """Fill `sustained` of each contender, and `burst` if the pace has it, in `rounds` + 1 rounds, and in more while the
    pace runs on. By default, a round takes 0.2 s for each contender."""
    graphs = [(contender, capture(contender, sets)) for contender in contenders]
    order = [(contender, graph, estimate_ms(graph)) for contender, graph in graphs]
    pace = choose_pace(min(estimate for _, _, estimate in order) / sets / 1e3)
    shuffler = random.Random(seed)
    for number in itertools.count():
        if number > rounds and not pace.runs_on(contenders):
            break
        shuffler.shuffle(order)
        for contender, graph, estimate in order:
            replay(graph, pace.warm_ms, estimate)
            elapsed, count = replay(graph, pace.sustained_ms, estimate)
            if number:
                contender.sustained.append(elapsed / count / sets / 1e3)
        if not pace.burst:
            continue
        shuffler.shuffle(order)
        for contender, graph, estimate in order:
            time.sleep(IDLE_MS / 1e3)
            elapsed, count = replay(graph, BURST_MS, estimate)
            if number:
                contender.burst.append(elapsed / count / sets / 1e3)


def screen(contenders: Sequence[Contender], sets: int, keep: int, seed: int) -> list[Contender]:
    """The `keep` fastest of many, fastest first, from about 20 ms of each.

    There are two passes in opposite orders: the card heats up meanwhile, so an early contender in one pass is late in
    the other.
    """
    order = [(contender, capture(contender, sets)) for contender in contenders]
    random.Random(seed).shuffle(order)
    estimates = {contender: estimate_ms(graph) for contender, graph in order}
    found = dict.fromkeys(estimates, 0.0)
    for _ in range(2):
        for contender, graph in order:
            elapsed, count = replay(graph, SCREEN_MS, estimates[contender])
            found[contender] += elapsed / count
        order.reverse()
    return sorted(found, key=found.__getitem__)[:keep]


def estimate_ms(graph: Any) -> float:
    """About how many ms a replay takes, at least one microsecond."""
    first, _ = replay(graph, 1.0, 1.0)
    elapsed, count = replay(graph, 2.0, max(first, 1e-3))
    return max(elapsed / count, 1e-3)


def spread(seconds: Sequence[float], flops: float) -> tuple[float, float, float]:
    """(median, least, greatest) TFLOP/s."""
    rates = [flops / s / 1e12 for s in seconds]
    return statistics.median(rates), min(rates), max(rates)


def ratio(contender: Contender, other: Contender, kind: str) -> tuple[float, float, float]:
    """(median, least, greatest) of the rounds' ratios of speed; above 1 the first is faster."""
    ratios = [y / x for x, y in zip(contender.seconds(kind), other.seconds(kind), strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)
