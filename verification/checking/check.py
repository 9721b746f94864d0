"""`lt.check`: runs every level of a kernel on shapes derived from its schedule, and finds the first guilty step.

Cheap runs come first. Runs are spread over processes; each gets the text of levels, so nothing is shared.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import chain, cycle
from multiprocessing import get_context
from os import PathLike, cpu_count
from pathlib import Path

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.kernel import CompiledKernel
from lowtide.dialects.levels import Level
from lowtide.elements import element_type
from lowtide.errors import Error
from lowtide.interpreter import Paths
from lowtide.interpreter.machine.paths import merged
from lowtide.interpreter.numbers.domains import FieldDomain
from lowtide.keywords import check_keywords
from lowtide.passes.schedules.facts.alignment import WIDEST
from lowtide.passes.support.agents.atoms import mma_atom_name
from lowtide.targets import mma_atom
from lowtide.verification.checking.check_result import Branches, CheckResult, Verified
from lowtide.verification.checking.cover import Cover, Row, Shape, as_asked, cover_of
from lowtide.verification.checking.guilty import Guilty, first_guilty
from lowtide.verification.checking.interpretation import estimated_seconds
from lowtide.verification.checking.splits import ends_of, groups_of, splits_for
from lowtide.verification.checking.subjects import Subject, of_kernel
from lowtide.verification.checking.trials import (
    Finding,
    Outcome,
    Source,
    Trial,
    degree_of,
    domains_of,
    first_fault,
    forget,
    outcomes,
)
from lowtide.verification.checking.variants import Variant, variants_of

BUDGET = 60.0
"""The default budget of a check: estimated seconds of one core."""
_OVERHEAD = 0.05  # seconds of a run at a level, in addition to its products
_MMA = 16 * 8 * 16  # multiply-adds of the mma.sync whose speed is known
_OF_ONE_THREAD = 7.0  # fma, for all lanes of a warp at once
_TRIALS_OF_GUILTY = 3  # that search for the guilty step
_MOST_JOBS = 16
_GROUPS = 4  # of a kernel for any number of them
_FEW_SECONDS = 6.0  # below this, processes are not worth their start

Progress = Callable[[float, str], None]
"""Receives the completed share of the work, from 0 to 1, and the item that has just ended."""


@dataclass(frozen=True)
class _Task:
    """A trial of some levels, in one process."""

    problem: str
    sources: tuple[Source, ...]
    trial: Trial
    seconds: float
    variant: int
    ordering: Source | None


@check_keywords
def check(
    kernel: CompiledKernel | Subject,
    *,
    budget: float = BUDGET,
    jobs: int | None = None,
    seed: int = 0,
    dump_ir: str | PathLike[str] | None = None,
    on_progress: Progress = lambda done, what: None,
) -> CheckResult:
    """Run all interpreted levels of a kernel, compiled or from another source, on shapes computed from its schedule.

    `budget`: estimated seconds of one core for the runs. Conditions for which the budget is too small are listed.
    `jobs`: processes, by default one per core. `seed`: for the random inputs and orders of agents. `dump_ir`: the
    folder for the files of a guilty step, by default a new temporary one. Raises Error if nothing can be run, or if a
    process dies.
    """
    subject = kernel if isinstance(kernel, Subject) else of_kernel(kernel)
    started = time.perf_counter()
    on_progress(0.0, "choosing shapes")
    variants = variants_of(subject)
    # The first represents most of the schedule's paths.
    shares = [1.0] if len(variants) == 1 else [0.5] + [0.5 / (len(variants) - 1)] * (len(variants) - 1)
    planned = [_planned(variant, budget * shares[at], seed + at) for at, variant in enumerate(variants)]
    tasks = [task for at, (_, trials) in enumerate(planned) for task in _tasks(variants[at], trials, at)]
    if not tasks:
        raise Error(
            f"no shape is small enough for {budget:.0f} s of the interpreter; give more with --budget [check-budget]"
        )
    guilty = None
    try:
        found = _run(tasks, len(variants), jobs, on_progress)
        wrong = next((at for at, ended in enumerate(found) if first_fault(ended) is not None), None)
        if wrong is not None:
            on_progress(1.0, "looking for the guilty step")
            guilty = _guilty(variants[wrong].subject, found[wrong], dump_ir)
    finally:
        forget()
    return CheckResult(
        target=subject.target.name,
        schedule=str(subject.schedule),
        outcomes=tuple(chain.from_iterable(found)),
        verified=tuple(
            Verified(
                variant.name,
                cover.rows,
                *(_branches(variant.subject, ended, level) for level in (Level.NVVM, Level.LLVM, Level.PTX)),
            )
            for variant, (cover, _), ended in zip(variants, planned, found, strict=True)
        ),
        degree=degree_of(subject.spec),
        guilty=guilty,
        notes=tuple(note for variant in variants for note in variant.notes),
        seconds=time.perf_counter() - started,
    )


def _guilty(subject: Subject, found: Iterable[Outcome], dump_ir: str | PathLike[str] | None) -> Guilty:
    """The guilty step, by a few of the trials that fail at the first failing level."""
    faults = sorted(
        (outcome for outcome in found if outcome.finding.is_fault), key=lambda fault: Level.named(fault.level)
    )
    first = [fault for fault in faults if fault.level == faults[0].level]
    first.sort(key=lambda fault: fault.trial.extents[2] == 0)  # K = 0 hides most faults
    first = first[:_TRIALS_OF_GUILTY]
    folder = Path(dump_ir) if dump_ir is not None else Path(tempfile.mkdtemp(prefix="lowtide-check-"))
    guilty = first_guilty(subject, [fault.trial for fault in first], folder)
    if guilty is None:
        raise Error(
            f"level {first[0].level} failed once and not again, on {first[0].trial}: {first[0].message} [failed-once]"
        )
    return guilty


def _planned(variant: Variant, budget: float, seed: int) -> tuple[Cover, list[Trial]]:
    """The shapes, each in the strongest number domain; the two cheapest with a K also in the others."""
    subject, slowness = variant.subject, _slowness(variant.subject)
    levels = [source.level for source in subject.interpreted]

    of_k = (subject.spec.group_count or _GROUPS) if subject.spec.k_is_grouped else 1  # matrices of D

    def cost(extents: tuple[int, int, int], matrices: int) -> float:
        return sum(_seconds(subject, level, extents, of_k * matrices, slowness) for level in levels)

    alone = (OperandKind.SCALAR, OperandKind.ENDS)
    operands = [operand.name for operand in subject.spec.operands if operand.kind not in alone]
    facts = subject.facts if not subject.spec.k_is_grouped else replace(subject.facts, batch=1, is_batched=False)
    cover = cover_of(subject.schedule, facts, subject.target, cost, budget, operands)
    cover = as_asked(cover, subject.asked, is_swapped=subject.is_swapped)
    if subject.spec.ends is not None and cover.shapes:
        return _with_groups(subject, cover, seed)
    if not cover.shapes:
        return cover, []
    small = [shape for shape in cover.shapes if shape.extents[2]][:2]
    one = (small or cover.shapes)[0]
    first, *others = _domains(subject, one)
    runs = [(shape, first, seed + at) for at, shape in enumerate(cover.shapes)]
    runs += [(shape, domain, seed + at) for domain in others for at, shape in enumerate(small)]
    usual, less = cycle(subject.places[:2]), subject.places[2:]
    placed = [(shape, domain, own, next(usual)) for shape, domain, own in runs]
    # Rows of D of any length are packed, wherever it is.
    whole = next((shape for shape in cover.shapes if _is_of_whole_rows(shape, subject)), one)
    placed += [(whole, first, seed + at, place) for at, place in enumerate(less)]
    return cover, [
        Trial(at.extents, at.sms, at.padding, domain, own, place, at.batch) for at, domain, own, place in placed
    ]


def _with_groups(subject: Subject, cover: Cover, seed: int) -> tuple[Cover, list[Trial]]:
    """The shapes with all rows in one group, which take as much work as without groups; and each split of the rows of
    the cheapest shape with several tiles. With groups of K, the splits are of K, with a K step in place of a tile. In
    padded groups, all rows count, or those that a split says."""
    spec, padded = subject.spec, subject.spec.counts
    axis, known = 2 if spec.k_is_grouped else 0, spec.batch_shape[0] if padded else spec.group_count
    rows_of_tile, groups, splits = subject.schedule.tile_mnk[axis], known or _GROUPS, splits_for(padded=padded)
    all_rows, trials = next(iter(splits)), []
    for number, at in enumerate(cover.shapes):
        ends = ends_of(all_rows, at.extents[axis], rows_of_tile, at.matrices if padded else groups, padded=padded)
        domain, place = _domains(subject, at, ends)[0], subject.places[0]
        trials.append(Trial(at.extents, at.sms, at.padding, domain, seed + number, place, at.batch, ends))
    several = [shape for shape in cover.shapes if shape.extents[2] and shape.extents[axis] > rows_of_tile]
    if not several:
        return cover, trials
    cheapest = min(several, key=lambda shape: math.prod(shape.extents))
    extents, found = cheapest.extents, []
    whole = ends_of(all_rows, extents[axis], rows_of_tile, cheapest.matrices if padded else groups, padded=padded)
    domain = _domains(subject, cheapest, whole)[0]
    for number, split in enumerate(splits if groups > 1 else [all_rows]):
        place, sms = subject.places[:2][-1], 1 + number % 3  # as moved: copies of B take longer than all tiles
        ends = ends_of(split, extents[axis], rows_of_tile, groups_of(split, known, groups), padded=padded)
        batch = None if cheapest.batch is None else replace(cheapest.batch, matrices=len(ends))
        trials.append(Trial(extents, sms, cheapest.padding, domain, seed + number, place, batch, ends))
        found.append(Row("groups", split, cheapest))
    return replace(cover, rows=(*cover.rows, *found)), trials


def _domains(subject: Subject, shape: Shape, ends: tuple[int, ...] | None = None) -> tuple[str, ...]:
    """The number domains in which all levels have a value, the strongest check first."""
    found = domains_of(subject.problem, shape.extents, shape.batch, ends)
    if subject.facts.decomposition is None:
        return found
    return tuple(name for name in found if name != FieldDomain.name)  # splitting compares elements to infinity


def _is_of_whole_rows(shape: Shape, subject: Subject) -> bool:
    """Whether rows of D are multiples of 16 bytes, and a batch has several matrices."""
    several = shape.matrices > 1 or not subject.spec.is_batched
    row = shape.extents[0 if subject.spec.d_order == "column" else 1]
    return shape.extents[2] > 0 and several and row * element_type(subject.facts.narrowest).bytes % WIDEST == 0


def _seconds(subject: Subject, level: str, extents: tuple[int, int, int], matrices: int, slowness: float) -> float:
    """The estimated time of a level on M, N and K in the interpreter."""
    seconds = matrices * estimated_seconds(extents, subject.schedule.tile_mnk, level)
    return _OVERHEAD + seconds * (slowness if Level.named(level) >= Level.ATOMS else 1)


def _slowness(subject: Subject) -> float:
    """The time of the multiply-adds of the kernel's instruction, relative to a 16-bit mma.sync."""
    atom = mma_atom(mma_atom_name(subject.schedule, subject.facts))
    return _OF_ONE_THREAD if atom.threads == 1 else max(0.5, _MMA / math.prod(atom.shape_mnk))


def _tasks(variant: Variant, trials: Iterable[Trial], at: int) -> Iterator[_Task]:
    """The fast levels of a trial together, each of the others separately."""
    sources, slowness = variant.subject.interpreted, _slowness(variant.subject)
    fast = tuple(source for source in sources if Level.named(source.level) <= Level.EPILOGUE)
    groups = [group for group in (fast, *((source,) for source in sources if source not in fast)) if group]
    for trial in trials:
        for group in groups:
            matrices = 1 if trial.batch is None else trial.batch.matrices
            seconds = sum(
                _seconds(variant.subject, source.level, trial.extents, matrices, slowness) for source in group
            )
            yield _Task(variant.subject.problem, group, trial, seconds, at, variant.subject.ordering)


def _run(tasks: Sequence[_Task], variants: int, jobs: int | None, on_progress: Progress) -> list[list[Outcome]]:
    """The outcomes of each variant, down to the level of the first fault.

    Fast levels come first, with all their trials, so that a fault is found at the first level that has it.
    """
    found: list[list[Outcome]] = [[] for _ in range(variants)]
    total, done = sum(task.seconds for task in tasks), 0.0
    ordered = sorted(tasks, key=lambda task: (Level.named(task.sources[-1].level), task.seconds))
    failed: Level | None = None
    for task, ended in _ended(ordered, jobs):
        found[task.variant] += ended
        done += task.seconds
        on_progress(done / total, f"{task.trial}, level {ended[-1].level}")
        if first_fault(ended) is not None:
            failed = Level.named(task.sources[-1].level)
        if failed is not None and (len(task.sources) == 1 or Level.named(task.sources[-1].level) > failed):
            break
    return found


def _ended(tasks: Sequence[_Task], jobs: int | None) -> Iterator[tuple[_Task, list[Outcome]]]:
    """The tasks as they end; tasks that have not begun are dropped if the caller stops."""
    few = jobs is None and sum(task.seconds for task in tasks) < _FEW_SECONDS
    processes = 1 if few else min(len(tasks), jobs or min(_MOST_JOBS, cpu_count() or 1))
    if processes < 2:
        yield from ((task, _execute(task)) for task in tasks)
        return
    # Fresh processes: a forked one would share locks and the state of the parent's libraries.
    pool: Executor = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        futures: dict[Future[list[Outcome]], _Task] = {pool.submit(_execute, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        raise Error(
            'a process ended while it ran a level: in a script, call lt.check under `if __name__ == "__main__":`, '
            "since each process imports the script; or pass jobs=1 [check-process-died]"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _execute(task: _Task) -> list[Outcome]:
    """Run in a separate process: the outcomes of the trial, up to the first fault."""
    found: list[Outcome] = []
    for outcome in outcomes(task.problem, task.sources, task.trial, observe=True, ordering=task.ordering):
        found.append(outcome)
        if outcome.finding.is_fault:
            break
    return found


def _branches(subject: Subject, found: Iterable[Outcome], level: Level) -> Branches:
    """The union of the branches taken by the runs of a level, and those that no run took."""
    right = [outcome for outcome in found if outcome.level == str(level) and outcome.finding is Finding.right]
    together = merged(outcome.paths for outcome in right if outcome.paths is not None)
    return _as_branches(together, subject.levels.get(str(level), "").splitlines())


def _as_branches(paths: Paths, lines: Sequence[str]) -> Branches:
    missing = []
    for place in sorted(paths.sides):
        for side in paths.possible[place]:
            if side not in paths.sides[place]:
                text = lines[place.line - 1].strip() if 0 < place.line <= len(lines) else place.op
                missing.append((place.line, side, _short(text)))
    possible = sum(map(len, paths.possible.values()))
    return Branches(possible - len(missing), possible, tuple(missing))


def _short(op: str) -> str:
    """An op without its loop-carried values."""
    return op.partition(" iter_args")[0].removesuffix(" {")
