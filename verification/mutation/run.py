"""Runs mutants in separate processes, each within a budget of CPU time, and judges them."""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from types import FrameType

from lowtide.compiler.driver import Lowered, lower
from lowtide.errors import Error, InterpreterFault
from lowtide.verification.mutation.detectors import Finding, assembled_alike, find, lowered_alike
from lowtide.verification.mutation.equivalents import Argument, argument_for
from lowtide.verification.mutation.every_shape import judged_on_every_shape
from lowtide.verification.mutation.kernels import KERNELS, Kernel
from lowtide.verification.mutation.operators.operator import Kind
from lowtide.verification.mutation.sites import Mutant

SECONDS = 60
_CHUNK = 6  # mutants per compilation of their kernel
_FEW = 8  # without a fault, every eighth trial of a kernel runs


class Status(Enum):
    """The outcome of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    FAILED = "interpreter failed"


@dataclass(frozen=True)
class Result:
    """A mutant, its status, the detector that found it, and the detector's message."""

    mutant: Mutant
    status: Status
    detector: str
    why: str


class _OutOfTime(BaseException):
    """Derived from BaseException, so that no handler of exceptions stops it."""


def run_all(
    mutants: Sequence[Mutant], jobs: int, on_result: Callable[[Result], None] = lambda result: None
) -> list[Result]:
    """Judge mutants in `jobs` processes. The results are in the order of the mutants."""
    chunks = list(_chunks(mutants))
    found: dict[str, Result] = {}
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        for future in as_completed([pool.submit(_judge_all, chunk) for chunk in chunks]):
            for result in future.result():
                found[result.mutant.name] = result
                on_result(result)
    return [found[mutant.name] for mutant in mutants]


def wrongly_found(tasks: Sequence[tuple[str, str]], jobs: int) -> list[tuple[str, str, Finding]]:
    """Findings in kernels without a fault, for pairs of a kernel's name and a level."""
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        findings = pool.map(_find_in_right, *zip(*tasks, strict=True))
        return [(name, level, found) for (name, level), found in zip(tasks, findings, strict=True) if found is not None]


def _find_in_right(name: str, level: str) -> Finding | None:
    kernel, original = KERNELS[name], lower(KERNELS[name].problem())
    few = replace(kernel, trials=kernel.trials[::_FEW])
    return find(few, level, original.levels[level], original)


def _chunks(mutants: Iterable[Mutant]) -> Iterator[list[Mutant]]:
    """Consecutive mutants of the same kernel."""
    chunk: list[Mutant] = []
    for mutant in mutants:
        if chunk and (chunk[0].kernel != mutant.kernel or len(chunk) == _CHUNK):
            yield chunk
            chunk = []
        chunk.append(mutant)
    if chunk:
        yield chunk


def _judge_all(mutants: Sequence[Mutant]) -> list[Result]:
    kernel = KERNELS[mutants[0].kernel]
    original = lower(kernel.problem())
    return [judge(kernel, mutant, original) for mutant in mutants]


def judge(kernel: Kernel, mutant: Mutant, original: Lowered, seconds: int = SECONDS) -> Result:
    """Whether a detector finds the fault within `seconds` of CPU time, or the mutant is equivalent."""
    try:
        with _within(seconds):
            found = find(kernel, mutant.level, mutant.text, original)
    except _OutOfTime:
        return Result(mutant, Status.KILLED, "time budget", f"still running after {seconds} s of CPU time")
    except InterpreterFault as error:
        return Result(mutant, Status.FAILED, "", str(error)[:240])
    except Exception as error:
        return Result(mutant, Status.SURVIVED, "", f"{type(error).__name__}, not an error of Lowtide: {error}"[:240])
    if found is not None:
        return Result(mutant, Status.KILLED, found.detector, found.why)
    return (
        _equivalent(mutant, original)
        or _on_every_shape(kernel, mutant, original)
        or Result(mutant, Status.SURVIVED, "", "no detector finds it")
    )


def _on_every_shape(kernel: Kernel, mutant: Mutant, original: Lowered) -> Result | None:
    found, argument = judged_on_every_shape(kernel, mutant, original)
    if found is not None:
        return Result(mutant, Status.KILLED, found.detector, found.why)
    return None if argument is None else Result(mutant, Status.EQUIVALENT, argument.check, argument.why)


def _equivalent(mutant: Mutant, original: Lowered) -> Result | None:
    """Whether the mutant is equivalent: it is lowered to the kernel's own PTX, an argument says so, or, unless it
    concerns synchronization, it is assembled to the kernel's own code."""
    text = mutant.level, mutant.text, original
    try:
        same: Finding | Argument | None = lowered_alike(*text) or argument_for(mutant, original.levels[mutant.level])
        if same is None and mutant.kind != Kind.ORDER.value:
            same = assembled_alike(*text)
    except Error as error:
        return Result(mutant, Status.KILLED, "lowering", str(error)[:240])
    if same is None:
        return None
    return Result(mutant, Status.EQUIVALENT, same.check if isinstance(same, Argument) else same.detector, same.why)


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    """Raise _OutOfTime in the block after `seconds` of CPU time. Only for the main thread of a process."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
