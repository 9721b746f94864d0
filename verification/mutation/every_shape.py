"""The last detector: `lowtide check` on mutants that trials have not found, on every shape derived from the schedule.

A right result proves nothing by itself, except for a barrier, wait or proxy fence that was only moved and is executed
as often as before. Then happens-before shows whether the same order is still provided: each run covers every order of
agents, and the conditions take the ring through all of its slots and phases, by loops of every length around it. So
each pair of accesses that the original place separated occurs in a run. A kernel of known extents has one shape, and no
loops of other lengths.
"""

import re

from lowtide.compiler.driver import Lowered, lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects.levels import Level
from lowtide.errors import Error
from lowtide.targets import get
from lowtide.verification.checking.check import check
from lowtide.verification.checking.subjects import Subject
from lowtide.verification.mutation.detectors import Finding
from lowtide.verification.mutation.equivalents import Argument
from lowtide.verification.mutation.kernels import Kernel
from lowtide.verification.mutation.sites import Mutant

BUDGET = 40.0  # estimated seconds of one core
_CTAS = "waves"  # conditions on the number of CTAs, which do not matter within one CTA
_RIGHT = (
    "on shapes that meet every condition of `lowtide check`, except for some on the number of CTAs, every run is right "
    "in every order of agents"
)
_MOVED = (
    (
        re.compile(r"(barrier|wait for .*|mbarrier wait) (later|earlier)"),
        Argument("ordered by others", f"{_RIGHT}: other barriers and waits order what the moved one ordered"),
    ),
    (
        re.compile(r"fence of the async proxy (later|earlier)"),
        Argument("fence on the path", f"{_RIGHT}: a proxy fence still lies on each path between the accesses"),
    ),
)
"""Faults that only move a line, and the argument that the mutant is equivalent if no run finds it."""


def judged_on_every_shape(kernel: Kernel, mutant: Mutant, original: Lowered) -> tuple[Finding | None, Argument | None]:
    """The finding of `lowtide check` in a mutant; or, if a line was only moved, the argument that it is equivalent."""
    try:
        result = check(_subject(kernel, mutant, original), budget=BUDGET, jobs=1)
    except Error as error:
        return Finding("lowtide check", str(error)[:240]), None
    if result.guilty is not None:
        outcome = result.guilty.outcome
        return Finding("lowtide check", f"{outcome.trial}: {outcome.message}"[:240]), None
    unmet = [row for verified in result.verified for row in verified.conditions if row.shape is None]
    is_met = None not in (kernel.spec.m, kernel.spec.n, kernel.spec.k) or all(row.subject == _CTAS for row in unmet)
    if not (result.ok and is_met):
        return None, None
    return None, next((argument for operators, argument in _MOVED if operators.fullmatch(mutant.operator)), None)


def _subject(kernel: Kernel, mutant: Mutant, original: Lowered) -> Subject:
    """The mutant's level, and the levels lowered from it."""
    if mutant.level == str(Level.PTX):
        levels = {str(Level.LLVM): original.levels[str(Level.LLVM)], mutant.level: mutant.text}
    else:
        levels = dict(lower(mutant.text).levels)
    target = get(kernel.target)
    problem = problem_text(kernel.spec, target)
    return Subject(levels, problem, CompiledKernel(original).schedule, target, is_edited=True)
