"""Rules for A or B that threads convert before mma.sync or wgmma, such as packed weights."""

from collections.abc import Iterator

from lowtide.dialects.tile import OperandsKind, RepeatKind, TailKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import EPILOGUE_TYPE, WEIGHT_BLOCK
from lowtide.errors import ScheduleError
from lowtide.passes.support.agents.atoms import CP_ASYNC_COPIES, TMA_RANKS, keeps_transposed, tiled_mma
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.weights import packed_tv
from lowtide.targets import Target

WEIGHT_ATOM = "mma.m16n8k16"


def conversions(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Fragments are converted just before their product. The only converted operand of wgmma is packed weights."""
    for name, given in zip("ab", problem.converted, strict=True):
        if given is None:
            continue
        if schedule.agents.has_producer and name != problem.packed:
            yield (
                f"a producer and a consumer with {name} of {given}, which threads convert: wgmma reads shared "
                "memory; take roles = single [converted-roles]"
            )
        if not schedule.agents.has_producer and schedule.multiply.fragment_buffers != 1:
            yield (
                f"fragment_buffers = 2 with {name} of {given}: a slice is converted just before its product; "
                "take 1 [converted-buffers]"
            )


def weights(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Packed weights are B of mma.sync, copied by cp.async, or A of wgmma, by TMA; in whole blocks and groups."""
    if problem.weights is None:
        return
    why = f"with packed weights of {problem.weights}"
    if problem.group and problem.acc != EPILOGUE_TYPE:
        yield (
            f"acc = {problem.acc} {why} in groups, whose scaled sums are added in {EPILOGUE_TYPE}; take that acc"
            " [weights-acc-of-groups]"
        )
    yield from (_for_wgmma if schedule.multiply.by_warpgroups else _for_mma_sync)(schedule, problem, why)
    yield from _steps(schedule, problem)


def _for_wgmma(schedule: Schedule, problem: Problem, why: str) -> Iterator[str]:
    """A wgmma takes A, and not B, from registers."""
    if schedule.agents.consumer.turns > 1:
        yield (f"consumers that take tiles in turn {why}; take roles = cooperative(2) [weights-turns]")
    if problem.acc != EPILOGUE_TYPE:
        yield (
            f"acc = {problem.acc} {why}: steps of K are added in {EPILOGUE_TYPE}; take that acc, or roles = single"
            " [weights-acc]"
        )
    if problem.packed != "a":
        yield (
            f"operands = as_given {why}: wgmma takes A from registers; take swapped, or roles = single [weights-order]"
        )
    if schedule.mainloop.a.copy not in TMA_RANKS:
        yield f"a.copy = {schedule.mainloop.a.copy} {why}: they stay packed in stages; take tma [weights-copy-a]"
    if schedule.grid.tail is TailKind.halves:
        yield f"tail = halves {why}: they need whole tiles; take whole [weights-tail]"
    if not schedule.promotes:
        yield (
            f"promote = none {why}: each K step of wgmma is summed by itself; take promote = per_step"
            " [weights-promoted]"
        )


def _for_mma_sync(schedule: Schedule, problem: Problem, why: str) -> Iterator[str]:
    if schedule.grid.operands is OperandsKind.swapped:
        yield (
            f"operands = swapped {why}: mma.sync takes them as B; take as_given, or roles = cooperative(2) on sm_90a"
            " [weights-swapped]"
        )
    if schedule.multiply.atom != WEIGHT_ATOM:
        yield f"atom = {schedule.multiply.atom} {why}: they are packed for {WEIGHT_ATOM}; take that [weights-atom]"
    if schedule.mainloop.b.copy not in CP_ASYNC_COPIES:
        yield (
            f"b.copy = {schedule.mainloop.b.copy} {why}: they stay packed in stages; take cp.async.16"
            " [weights-copy-direct]"
        )
    if keeps_transposed("b", schedule):
        yield f"b.stage = transposed {why}: they stay packed in stages; take as_loaded [weights-copy-b]"
    if schedule.mainloop.prologue is RepeatKind.once:
        yield f"prologue = once {why}: their scales are loaded for one tile; take per_tile [weights-prologue]"
    if schedule.promotes and not problem.group:
        yield f"promote = per_step {why} without groups: there are no scales; take none [weights-ungrouped]"


def _steps(schedule: Schedule, problem: Problem) -> Iterator[str]:
    k, atoms = schedule.tile_mnk[2], schedule.multiply.atoms
    if k % WEIGHT_BLOCK:
        yield f"k = {k}: packed weights lie in blocks of {WEIGHT_BLOCK} of K; take k = {WEIGHT_BLOCK} [weights-block]"
    if problem.group and problem.group % k:
        yield (
            f"k = {k} with groups of {problem.group}: each K step has one scale; take k = {problem.group}"
            " [weights-group]"
        )
    if atoms is not None and atoms[2] != 1:
        yield f"atoms = {list(atoms)}: a thread converts whole blocks of packed weights; take 1 along K [weights-warps]"
    if problem.stream("b").rows > 1 and not schedule.agents.has_producer:
        try:
            packed_tv(tiled_mma(schedule, problem), "b", schedule.tile_mnk[1], problem.stream("b").rows)
        except ScheduleError as error:
            yield str(error)
