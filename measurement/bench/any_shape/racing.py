"""The race of one drawn shape. Torch, kernels, `lt.matmul` and other peers are checked, then timed in the same rounds.

`lt.matmul` is called with `out=`, as users call it. The graph of its calls has the kernels that it launches.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lowtide import runtime
from lowtide.compiler.matmul.matmul import matmul
from lowtide.elements import element_type
from lowtide.errors import DeviceError, Error
from lowtide.measurement.bench import scaled
from lowtide.measurement.bench.any_shape.draws import Drawn
from lowtide.measurement.bench.any_shape.rows import CUBLASLT, MATMUL, TORCH
from lowtide.measurement.bench.contest import Contest
from lowtide.measurement.bench.gpu_timing import (
    ChoosePace,
    Contender,
    Operands,
    Pace,
    RunsOn,
    complaint,
    never,
    operand_sets,
    race,
    torch_with_gpu,
)

FINALISTS = 2  # of cuBLASLt's algorithms
# Above this rate, power limits the clock, which settles slowly. Below it, a quarter of the time is enough.
_HOT_FLOPS, _COOL = 250e12, 0.25
_KIND = "sustained"

Peers = Callable[[Sequence[Operands]], list[Contender]]


@dataclass(frozen=True)
class Settings:
    """`rounds`: those that count. `warm_ms`, `timed_ms`: of a contender in a round, if power limits it. `algorithms`:
    the largest number of cuBLASLt's algorithms that are tried; 0 for none. `peers`: makes further contenders for
    products in tn without a batch. `cool`: the share of both times for products far below the power limit. `runs_on`:
    whether a round follows those that count."""

    rounds: int = 5
    warm_ms: float = 25.0
    timed_ms: float = 40.0
    algorithms: int = 0
    peers: Peers | None = None
    cool: float = _COOL
    runs_on: RunsOn = never

    def pace_for(self, flops: float) -> ChoosePace:
        """The pace for a product of so many flops."""

        def pace(seconds: float) -> Pace:
            share = 1.0 if flops / seconds > _HOT_FLOPS else self.cool
            return Pace(share * self.warm_ms, share * self.timed_ms, burst=False, runs_on=self.runs_on)

        return pace


@dataclass
class Raced:
    """By contender: the seconds of a launch in each round; why it failed; its schedule. A failure of the whole shape
    has the name "". `cublaslt`: the algorithm that was timed."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    schedules: dict[str, str] = field(default_factory=dict)
    cublaslt: str = ""


def race_shape(
    shape: Drawn, kernels: Mapping[str, runtime.Kernel], settings: Settings, seed: int, *, with_matmul: bool
) -> Raced:
    """Race the kernels of a shape, by name, beside torch, and `lt.matmul` if it is asked for. A contender that is
    refused or wrong fails alone. If torch or CUDA raises an error, or if torch's own result is wrong, the whole shape
    fails. A shape without peers is raced alone."""
    found = Raced()
    race_all = _race_scaled if shape.is_scaled else _race_plain if shape.has_peers else _race_alone
    try:
        race_all(shape, kernels, settings, seed, found, with_matmul=with_matmul)
    except Exception as error:  # errors of torch and CUDA are not lowtide.Errors; the other shapes still run
        found.failed[""] = f"{type(error).__name__}: {error}"
    with suppress(Exception):  # if the GPU is lost
        torch_with_gpu().cuda.empty_cache()
    return found


def _race_plain(
    shape: Drawn, kernels: Mapping[str, Any], settings: Settings, seed: int, found: Raced, *, with_matmul: bool
) -> None:
    asked = {*kernels, MATMUL}

    def note(text: str) -> None:  # cuBLASLt's algorithms that are left out are noted too
        name, _, why = text.partition(": left out: ")
        if name in asked:
            found.failed[name] = why

    with Contest(shape.spec, seed, note) as contest:
        if settings.peers is not None and shape.layout == "tn" and shape.batch is None:
            for peer in settings.peers(contest.sets):
                asked.add(peer.name)
                contest.add(peer)
        for name, kernel in kernels.items():
            contest.add(_guarded(name, _launches(kernel, contest.sets)))
        if with_matmul and contest.add(_guarded(MATMUL, _calls(contest.sets))):
            found.schedules[MATMUL] = _schedule(_arguments(contest.sets[0]))
        given = (FINALISTS, settings.pace_for(shape.flops))
        try:
            standings = contest.run(settings.rounds, settings.algorithms, *given)
        except DeviceError as error:
            if not (settings.algorithms and str(error.code).startswith("cublaslt")):
                raise
            found.failed[CUBLASLT] = str(error)
            standings = contest.run(settings.rounds, 0, *given)
    found.seconds = {TORCH: standings.torch.sustained}
    best = standings.best_cublaslt(_KIND)
    if best is not None:
        found.seconds[CUBLASLT] = best.sustained
        found.cublaslt = f"{best.name}, of {standings.offered}"
    found.seconds |= {one.name: one.sustained for one in standings.others}


def _race_alone(
    shape: Drawn, kernels: Mapping[str, Any], settings: Settings, seed: int, found: Raced, *, with_matmul: bool
) -> None:
    """Time the kernels of a product if no peer multiplies it."""
    sets, right = operand_sets(shape.spec, seed), []
    for name, kernel in kernels.items():
        contender = _guarded(name, _launches(kernel, sets))
        try:
            fault = complaint(contender, sets, shape.spec)
        except Error as error:
            fault = str(error)
        if fault:
            found.failed[name] = fault
        else:
            right.append(contender)
    if right:
        race(right, len(sets), settings.rounds, seed, settings.pace_for(shape.flops))
    found.seconds = {one.name: one.sustained for one in right}


def _race_scaled(
    shape: Drawn, kernels: Mapping[str, Any], settings: Settings, seed: int, found: Raced, *, with_matmul: bool
) -> None:
    """Race products of 8-bit floats with scales of rows and columns. Torch's product has the same scales and sums."""
    kind, sums = "rows", "f32"
    torch = torch_with_gpu()
    sets = operand_sets(shape.spec, seed)
    torch.manual_seed(seed)
    scales = scaled.scales(torch, kind, (shape.m, shape.n, shape.k))
    launches = {TORCH: scaled.of_torch(torch, sets, False, *scales)}
    launches |= {name: scaled.of_kernel(sets, kernel, kind, *scales) for name, kernel in kernels.items()}
    if with_matmul:
        launches[MATMUL] = scaled.of_kernel(sets, _scaled_matmul, kind, *scales)
    right = []
    for name, launch in launches.items():
        contender = _guarded(name, launch)
        try:
            error = scaled.error_of(torch, contender, sets, kind, *scales)
        except Error as refusal:
            found.failed[name] = str(refusal)
            continue
        if error < scaled.MOST_ERROR[sums]:
            right.append(contender)
        else:
            found.failed[name] = f"relative error {error:.1e}, more than {scaled.MOST_ERROR[sums]:.1e}"
    if TORCH in found.failed:
        raise DeviceError(f"torch's own result is wrong: {found.failed[TORCH]} [gpu-scales-untrusted]")
    race(right, len(sets), settings.rounds, seed, settings.pace_for(shape.flops))
    found.seconds = {one.name: one.sustained for one in right}
    if MATMUL in found.seconds:
        of_a, of_b = (scaled.as_taken(kind, scale) for scale in scales)
        given = {"epilogue": scaled.by_rows, "scale_a": of_a, "scale_b": of_b}
        found.schedules[MATMUL] = _schedule((sets[0].a, sets[0].b.mT, sets[0].d), **given)


def call_matmul(shape: Drawn) -> None:
    """Call `lt.matmul` once on arrays of the shape. If its kernel is new, this compiles it into the cache. Raises
    Error."""
    torch = torch_with_gpu()
    spec = shape.spec
    arrays = ((spec.a_shape, spec.a), (spec.b_shape, spec.b), (spec.d_shape, spec.d))
    a, b, d = (
        torch.empty(extents, device="cuda", dtype=getattr(torch, element_type(dtype).library))
        for extents, dtype in arrays
    )
    if shape.is_scaled:
        of_a, of_b = (torch.ones(extent, device="cuda") for extent in (shape.m, shape.n))
        _scaled_matmul(a, b, of_a, of_b, d)
    else:
        matmul(*_arguments(Operands(a, b, d, shape.layout))[:2], out=d)
    torch.cuda.synchronize()
    del a, b, d
    torch.cuda.empty_cache()  # for the processes beside this one


def _launches(kernel: runtime.Kernel, sets: Sequence[Operands]) -> Callable[[int], object]:
    return lambda i: kernel(sets[i].a, sets[i].b, out=sets[i].d)


def _calls(sets: Sequence[Operands]) -> Callable[[int], object]:
    def launch(i: int) -> object:
        a, b, d = _arguments(sets[i])
        return matmul(a, b, out=d)

    return launch


def _arguments(one: Operands) -> tuple[Any, Any, Any]:
    return one.logical_a, one.logical_b, one.d


def _scaled_matmul(a: Any, b: Any, scale_a: Any, scale_b: Any, out: Any) -> object:
    """A (M, K) and B (N, K), as a kernel of the problem is called."""
    return matmul(a, b.mT, epilogue=scaled.by_rows, scale_a=scale_a, scale_b=scale_b, out=out)


def _schedule(arrays: tuple[Any, Any, Any], **options: Any) -> str:
    """The schedule of the kernel of such a call, or why there is none."""
    a, b, d = arrays
    try:
        return " ".join((matmul.explain(a, b, out=d, **options).schedule or "").split())
    except Error as error:
        return str(error)


def _guarded(name: str, launch: Callable[[int], object]) -> Contender:
    """A contender that fails alone if it raises an error of any kind."""

    def guarded(i: int) -> object:
        try:
            return launch(i)
        except Error:
            raise
        except Exception as error:
            raise Error(f"{name}: {type(error).__name__}: {error} [contender-raised]") from error

    return Contender(name, guarded)


def summary_of(seconds: Mapping[str, Sequence[float]]) -> str:
    """`torch 32.1 µs, own 30.0 µs`: medians."""
    return ", ".join(f"{name} {1e6 * statistics.median(times):.1f} µs" for name, times in seconds.items())


def device_and_software() -> tuple[str, str]:
    """The GPU's name, and torch's version. Raises DeviceError."""
    torch = torch_with_gpu()
    return torch.cuda.get_device_name(), f"torch {torch.__version__}"


def gpu_is_usable() -> bool:
    """Whether later launches can succeed. After an illegal access, none can."""
    try:
        torch_with_gpu().cuda.synchronize()
    except (Error, RuntimeError):
        return False
    return True
