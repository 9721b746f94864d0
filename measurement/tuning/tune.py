"""`lt.tune`: finds the fastest schedule of a spec on the GPU at hand by measurement, and stores it."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from lowtide.compiler.cache.keys import spec_text
from lowtide.compiler.cache.precompile import Job, compile_all
from lowtide.compiler.cache.settings import FOLDER_VARIABLE, OFF, open_store
from lowtide.compiler.cache.sources import own_digest
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.cache.tuned import check_keepable, ignore_record, keep_record, key_of_record, load_record
from lowtide.compiler.compile import Request, compile_gemm
from lowtide.compiler.epilogue.results import gives_d_alone
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.native import resolve
from lowtide.compiler.numerics import confirm_equal
from lowtide.compiler.numerics_words import ANY, REPEATABLE, check_numerics
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CompileError, Error, ScheduleError, SpecError
from lowtide.keywords import check_keywords
from lowtide.measurement.tuning import search
from lowtide.measurement.tuning.candidates import MOST, candidates
from lowtide.measurement.tuning.elimination import Race
from lowtide.measurement.tuning.gpu import Bench, GpuBench
from lowtide.measurement.tuning.journal import Journal
from lowtide.runtime.driver import current_device
from lowtide.targets import Target

BUDGET = 40.0
TIME, ENERGY = OBJECTIVES = ("time", "energy")
_CONFIDENCE, _MARGIN = 0.95, 0.01
_DUEL_ROUNDS = 6
_COMPILING = 0.6  # of the budget: kernels whose compilation has not started by then are left out
# For the least energy: kernels within this ratio of the leader's time, the most of them, and the share of the budget
# that the race in time gets.
_NEAR, _MOST_NEAR, _TIMING = 1.10, 4, 0.5

BenchMaker = Callable[[GemmSpec, int, bool], Bench]
"""Makes a bench from a spec with known extents, a seed, and whether all kernels must compute the same bits."""


@dataclass(frozen=True)
class Tuned:
    """The result of tuning, as stored.

    `schedule` is complete. `seconds` per launch is the median of the rounds, beside that of `own_choice`, the cost
    model's schedule. `speedup` over it is the median of the rounds' ratios, 1 if it is kept. These are measured in a
    duel after the race, in which each kernel runs until clocks and power have settled. `certain`: with the requested
    `confidence`, no candidate is faster by more than the `margin`; otherwise the budget ended first. `refused`: the
    faults of candidates that were not timed, by schedule. `joules`, `own_joules`: the energies of a launch of both, in
    joules, if the objective is energy; otherwise None. For energy, `certain` is about energy, and the speedup may be
    below 1.
    """

    schedule: Schedule
    own_choice: Schedule
    seconds: float
    own_seconds: float
    speedup: float
    certain: bool
    confidence: float
    margin: float
    candidates: int
    rounds: int
    device: str
    refused: Mapping[str, str]
    joules: float | None = None
    own_joules: float | None = None


@check_keywords
def tune(
    spec: GemmSpec,
    target: str | None = None,
    *,
    at: Mapping[str, int] = MappingProxyType({}),
    numerics: str = REPEATABLE,
    objective: str = TIME,
    budget: float = BUDGET,
    confidence: float = _CONFIDENCE,
    most: int = MOST,
    journal: str | Path | None = None,
    jobs: int | None = None,
    seed: int = 0,
    progress: bool = True,
    bench: BenchMaker = GpuBench,
) -> Tuned:
    """Measure schedules for a spec on the GPU at hand, and store the fastest in the cache.

    Then `compile_gemm(spec)` uses it on this model of GPU. At most `most` candidates, those that the cost model
    estimates to be the fastest, are compiled by `jobs` processes (None: one per core), verified, and timed in shuffled
    rounds, until with `confidence` none is faster than the best by more than 1 %, or `budget` seconds have passed (at
    least one round is run). `at`: the extents to measure, by name, if the spec leaves them to run time. `numerics`: the
    promise to keep (docs/numerics.md); except for "any", only schedules with the bits of the model's own choice are
    allowed. `objective`: "time", or "energy". For "energy", the counter of the GPU compares the model's own choice with
    the fastest four other kernels within 10 % of the leader, and the kernel with the least joules per launch is kept. A
    round takes more than 2 s for each kernel, so a certain result needs more budget. `journal`: a file from which an
    interrupted run continues. `progress`: show a bar if standard error is a terminal.

    The processes are spawned: in a script, call this under `if __name__ == "__main__":`. Raises SpecError, TargetError,
    DeviceError without a GPU or torch, or for energy without its counter, ScheduleError if no schedule is legal,
    CompileError if the model's own choice cannot be compiled or is wrong, and Error for a journal of another problem,
    and for a cache that is off or cannot be written.
    """
    if objective not in OBJECTIVES:
        raise SpecError(f"objective={objective!r}: give {' or '.join(map(repr, OBJECTIVES))} [tuning-objective]")
    settings = _settled(spec, target, at, numerics, budget, confidence, most)
    store = _store()
    begun = time.monotonic()
    measured = bench(settings.sized, seed, numerics != ANY)
    if objective == ENERGY:
        measured.check_energy()
    described = settings.described(measured.device)
    held = Journal.open(None if journal is None else Path(journal), described)
    own = compile_gemm(spec, settings.target.name, numerics=numerics, tuned=False)
    spilled = [passed.schedule for passed in own.passed_over]
    schedules = {each.shorthand(): each for each in candidates(spec, settings.target, numerics, most, spilled)}
    with _bar(progress) as show:
        show("compiling", 0.0)
        kernels = _compiled(store, settings, list(schedules), held, jobs, begun + _COMPILING * budget)
        show("verifying", 0.0)
        names = search.admit(measured, kernels, held)
        race = Race(confidence, _MARGIN)
        until = begun + budget

        def on_round(state: search.Progress) -> None:
            show(f"round {state.rounds}, {state.left} left", min(1.0, (time.monotonic() - begun) / budget))

        timed_until = until if objective == TIME else begun + _TIMING * budget
        more: dict[str, Any] = {"seed": seed, "on_round": on_round}
        certain = search.run(measured.seconds, names, race, held, until=timed_until, **more)
        if objective == TIME:
            show("comparing with the model's own choice", 1.0)
            found = _result(race, measured, schedules, certain, held.refused)
        else:
            energies, near = Race(confidence, _MARGIN), _near(race)
            certain = search.run(measured.joules, near, energies, Journal(described), until=until, **more)
            found = _result_of_energy(race, energies, measured.device, schedules, certain, held.refused)
    _keep(store, settings, found)
    return found


@check_keywords
def tuned_schedule(
    spec: GemmSpec, target: str | None = None, *, device: str | None = None, numerics: str = REPEATABLE
) -> Schedule | None:
    """The schedule that `tune` found for a spec and stored in the cache; None if the spec has not been tuned.

    `device`: the model of the GPU, as the driver names it; None: the one at hand. `numerics`: those of the tuning run.
    Damaged records, and schedules that are no longer valid, are ignored with a CacheWarning. Raises TargetError, and
    DeviceError without a GPU.
    """
    check_numerics(numerics)
    settled, store = resolve(target), open_store()
    if store is None:
        return None
    key = key_of_record(spec, settled.name, device or current_device().name, numerics)
    record = load_record(store, key)
    try:
        return None if record is None else Schedule.parse(record["schedule"])
    except ScheduleError as error:
        ignore_record(store, key, str(error))
        return None


@dataclass(frozen=True)
class _Settings:
    spec: GemmSpec
    sized: GemmSpec
    target: Target
    numerics: str
    confidence: float
    most: int

    def described(self, device: str) -> dict[str, Any]:
        """The problem and settings of a journal."""
        return {
            "spec": spec_text(self.sized),
            "target": self.target.name,
            "GPU": device,
            "numerics": self.numerics,
            "confidence": self.confidence,
            "number of candidates": self.most,
            "version": own_digest(),
        }


def _settled(
    spec: GemmSpec,
    target: str | None,
    at: Mapping[str, int],
    numerics: str,
    budget: float,
    confidence: float,
    most: int,
) -> _Settings:
    if not isinstance(spec, GemmSpec):
        raise SpecError(f"spec is {type(spec).__name__}; give a lowtide.GemmSpec [tuned-spec-kind]")
    check_numerics(numerics)
    if spec.is_mixed:
        raise SpecError(
            "packed weights cannot be tuned yet: give a schedule, or leave it to the cost model [weights-tuned]"
        )
    if spec.a_rows or spec.d_rows or spec.ends is not None or spec.lists is not None:
        raise SpecError(
            "groups, counts of rows, rows at an index and lists of matrices cannot be tuned yet: give a schedule, or "
            "leave it to the cost model [rows-tuned]"
        )
    if spec.arrivals:
        raise SpecError(
            "shards that arrive cannot be tuned yet: give a schedule, or leave it to the cost model [arrivals-tuned]"
        )
    if spec.pairs is not None:
        raise SpecError(
            "pairs of columns cannot be tuned yet: give a schedule, or leave it to the cost model [pairs-tuned]"
        )
    if not gives_d_alone(spec.results):
        raise SpecError(
            f"a kernel with the results {', '.join(result.name for result in spec.returned_results)} cannot be tuned: "
            "pass a schedule, or compile without one to use the cost model [results-tuned]"
        )
    if not budget > 0 or not 0.5 <= confidence < 1 or most < 1:
        raise SpecError(
            f"budget={budget}, confidence={confidence}, most={most}: give seconds above 0, a probability from 0.5 to "
            "below 1, and at least 1 candidate [tuning-limits]"
        )
    return _Settings(spec, _sized(spec, at), resolve(target), numerics, confidence, most)


def _sized(spec: GemmSpec, at: Mapping[str, int]) -> GemmSpec:
    """The spec with the extents to measure."""
    open_ = [name for name in ("m", "n", "k", "batch") if getattr(spec, name) is None]
    if set(at) != set(open_):
        raise SpecError(
            f"at has {', '.join(at) or 'no extents'}, but the spec leaves {', '.join(open_) or 'none'} to run time: "
            "give these, to define the measured problem [tuned-extent]"
        )
    named: dict[str, Any] = dict(at)
    sized = replace(spec, **named)
    if 0 in (sized.m, sized.n, sized.k):
        raise SpecError("an extent is 0: there is nothing to time; use larger extents [tuned-nothing]")
    return sized


def _store() -> KernelStore:
    store = open_store()
    if store is None:
        raise Error(
            f"{FOLDER_VARIABLE}={OFF}: there is no cache for the result; unset it, or name a folder [tuning-cache]"
        )
    check_keepable(store)
    return store


def _compiled(
    store: KernelStore,
    settings: _Settings,
    schedules: Sequence[str],
    journal: Journal,
    processes: int | None,
    until: float,
) -> Iterator[tuple[str, CompiledKernel]]:
    """The kernels of the schedules, in order; those that were refused are left out, but the first must compile."""
    spec, target, numerics = settings.spec, settings.target, settings.numerics
    requests = {text: Request(spec, target, text, numerics) for text in schedules if text not in journal.refused}
    jobs = {
        text: Job(request.key, request.problem(), target.name, store.folder, store.most_bytes)
        for text, request in requests.items()
        if (stored := store.load(request.key)) is None or stored.cubin is None
    }
    errors = dict(zip(jobs, compile_all(list(jobs.values()), processes, until=until) if jobs else (), strict=True))
    own = None
    for text in requests:
        try:
            _raise(errors.get(text))
            kernel = compile_gemm(spec, target.name, text, numerics=numerics)
            own = own or kernel.summation
            if numerics != ANY:
                confirm_equal(kernel.summation, str(own))
        except Error as error:
            if text == schedules[0]:
                raise CompileError(f"the chosen schedule cannot be compiled: {error}") from error
            journal.refused[text] = str(error)
        else:
            yield text, kernel


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error


def _result(
    race: Race, bench: Bench, schedules: Mapping[str, Schedule], certain: bool, refused: Mapping[str, str]
) -> Tuned:
    """The leader; or the model's own choice, if it is not slower by more than the margin, also in a duel."""
    own, leader = next(iter(schedules)), race.leader()
    winner = own if own in race.left and race.ratio(own, leader) <= 1 + race.margin else leader
    seconds, speedup = {name: statistics.median(race.seconds[name]) for name in (own, winner)}, 1.0
    if winner != own:
        times = search.duel(bench, own, winner, _DUEL_ROUNDS)
        seconds = {name: statistics.median(each) for name, each in zip((own, winner), times, strict=True)}
        speedup = statistics.median(x / y for x, y in zip(*times, strict=True))
    if speedup <= 1 + race.margin:
        winner, speedup = own, 1.0
    return Tuned(
        schedule=schedules[winner],
        own_choice=schedules[own],
        seconds=seconds[winner],
        own_seconds=seconds[own],
        speedup=speedup,
        certain=certain,
        confidence=race.confidence,
        margin=race.margin,
        candidates=len(race.seconds),
        rounds=race.rounds,
        device=bench.device,
        refused=dict(refused),
    )


def _near(race: Race) -> list[str]:
    """The model's own choice, and the fastest other kernels that take at most `_NEAR` times as long as the leader."""
    own, leader = next(iter(race.seconds)), race.leader()
    behind = {name: race.ratio(name, leader) for name in race.seconds}
    near = [name for name in sorted(behind, key=behind.__getitem__) if behind[name] <= _NEAR and name != own]
    return [own, *near[:_MOST_NEAR]]


def _result_of_energy(
    race: Race,
    energies: Race,
    device: str,
    schedules: Mapping[str, Schedule],
    certain: bool,
    refused: Mapping[str, str],
) -> Tuned:
    """The kernel with the least energy; or the model's own choice, if it takes at most the margin more."""
    own, leader = next(iter(schedules)), energies.leader()
    winner = own if energies.ratio(own, leader) <= 1 + energies.margin else leader
    return Tuned(
        schedule=schedules[winner],
        own_choice=schedules[own],
        seconds=statistics.median(race.seconds[winner]),
        own_seconds=statistics.median(race.seconds[own]),
        speedup=1.0 if winner == own else race.ratio(own, winner),
        certain=certain,
        confidence=energies.confidence,
        margin=energies.margin,
        candidates=len(race.seconds),
        rounds=energies.rounds,
        device=device,
        refused=dict(refused),
        joules=statistics.median(energies.seconds[winner]),
        own_joules=statistics.median(energies.seconds[own]),
    )


def _keep(store: KernelStore, settings: _Settings, found: Tuned) -> None:
    """Raises Error."""
    key = key_of_record(settings.spec, settings.target.name, found.device, settings.numerics)
    entries = {
        "schedule": found.schedule.shorthand(),
        "own_choice": found.own_choice.shorthand(),
        "microseconds": found.seconds * 1e6,
        "own_microseconds": found.own_seconds * 1e6,
        "confidence": found.confidence,
        "certain": found.certain,
        "lowtide": own_digest(),
    }
    keep_record(store, key, entries)


@contextmanager
def _bar(wanted: bool) -> Iterator[Callable[[str, float], None]]:
    """A progress bar on a terminal. Yields a function that takes a description and the fraction of the budget."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    shown = wanted and console.is_terminal
    with Progress(*columns, console=console, disable=not shown, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda text, share: bar.update(task, description=text, completed=share)
