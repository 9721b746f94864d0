"""What a complete schedule must satisfy on a target: one rule a function, each naming rule, limit and way out.

`verify-schedule` runs them on IR; `choose-schedule` keeps only candidates that pass them.
"""

from collections.abc import Callable, Iterator

from tensor_layouts import size

from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.atoms import COPY_BYTES, epilogue_rows, fill_copy, mma_atom_name, stored_shape, tiled_mma
from lowtide.passes.problem import ELEMENT_BITS, Problem
from lowtide.targets import Target, ldmatrix_source
from lowtide.passes.atoms import is_transposed

Rule = Callable[[Schedule, Problem, Target], Iterator[str]]


def ring_bytes(schedule: Schedule, problem: Problem) -> int:
    """Shared memory of the ring, in bytes."""
    assert schedule.cta is not None and schedule.stages is not None
    m, n, k = schedule.cta
    return schedule.stages * (m + n) * k * ELEMENT_BITS[problem.ab] // 8


def scratch_bytes(schedule: Schedule, problem: Problem) -> int:
    """Shared memory of the epilogue's scratch, in bytes; 0 for direct stores."""
    if schedule.epilogue == "direct":
        return 0
    assert schedule.epilogue_tile is not None
    rows, columns = schedule.epilogue_tile
    element = problem.d if schedule.epilogue_math == "registers" else problem.acc
    return rows * columns * ELEMENT_BITS[element] // 8


def shared_memory_bytes(schedule: Schedule, problem: Problem) -> int:
    """Dynamic shared memory of a CTA: the scratch reuses the drained ring where it fits in it."""
    ring, scratch = ring_bytes(schedule, problem), scratch_bytes(schedule, problem)
    return ring if scratch <= ring else ring + scratch


def threads_of(schedule: Schedule) -> int:
    assert schedule.warps is not None
    return 32 * schedule.warps[0] * schedule.warps[1] * schedule.warps[2]


def _complete(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    missing = [name for name in Schedule.names() if getattr(schedule, name) is None]
    if missing:
        yield f"field {missing[0]} is not decided; run choose-schedule first, or write it"


def _words(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    for name, allowed in (
        ("scheduler", ("one_shot", "persistent")),
        ("epilogue", ("smem", "direct")),
        ("epilogue_math", ("registers", "rows")),
        ("copy", tuple(COPY_BYTES)),
    ):
        value = getattr(schedule, name)
        if value not in allowed:
            yield f"{name} = {value} is not one of {', '.join(allowed)}"
    assert schedule.raster is not None
    kind, group = schedule.raster
    if kind not in ("row", "column", "grouped") or (kind == "grouped" and group < 1):
        yield f"raster = {kind}({group}) is not row, column or grouped(n) with n ≥ 1"
    if schedule.epilogue == "direct" and schedule.epilogue_math == "rows":
        yield "epilogue_math = rows needs epilogue = smem; with direct stores take registers"


def _positive(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    for name in ("cta", "warps", "epilogue_tile"):
        extents = getattr(schedule, name)
        if any(extent < 1 for extent in extents):
            yield f"{name} = {list(extents)}: every extent is at least 1"
    if schedule.stages is not None and not 2 <= schedule.stages <= 64:
        yield f"stages = {schedule.stages} is out of range: 2 to 64; nearest is {2 if schedule.stages < 2 else 64}"
    if schedule.fragment_buffers not in (1, 2):
        yield f"fragment_buffers = {schedule.fragment_buffers} is not 1 or 2"


def _threads(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.warps is not None
    threads = threads_of(schedule)
    if threads > target.max_threads_per_cta:
        yield (
            f"warps = {list(schedule.warps)} are {threads} threads, {target.name} has at most "
            f"{target.max_threads_per_cta} a CTA; take at most {target.max_threads_per_cta // 32} warps"
        )
    if schedule.warps[2] != 1:
        yield f"warps = {list(schedule.warps)}: warps along K would need a sum across warps; take 1 along K"


def _mma(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.cta is not None and schedule.permutation is not None and schedule.warps is not None
    name = mma_atom_name(schedule, problem)
    try:
        atom = target.mma(name)
    except TargetError as error:
        yield f"mma = {schedule.mma} with {problem.ab} operands and {problem.acc} accumulators: {error}"
        return
    for letter, extent, count, step in zip(
        "MNK", atom.shape_mnk, schedule.warps, (size(p) for p in schedule.permutation), strict=True
    ):
        if step % (extent * count):
            yield (
                f"permutation extent {step} of {letter} is not a multiple of {count} warps × atom extent {extent}; "
                f"nearest is {max(1, round(step / (extent * count))) * extent * count}"
            )
    for letter, extent, step in zip("MNK", schedule.cta, (size(p) for p in schedule.permutation), strict=True):
        if extent % step:
            yield (
                f"cta {letter} = {extent} is not a multiple of {step}, one step of the tiled mma; nearest is "
                f"{max(1, round(extent / step)) * step}"
            )


def _registers(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.cta is not None
    accumulators = schedule.cta[0] * schedule.cta[1] // threads_of(schedule) * ELEMENT_BITS[problem.acc] // 32
    if accumulators >= target.registers_per_thread:
        yield (
            f"cta {schedule.cta[0]}×{schedule.cta[1]} needs {accumulators} accumulator registers a thread, "
            f"{target.name} has {target.registers_per_thread}; take more warps or a smaller tile"
        )


def _copies(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.copy is not None
    for operand in ("a", "b"):
        shape = stored_shape(operand, schedule, problem.layout)
        try:
            fill_copy(schedule.copy, shape, threads_of(schedule), ELEMENT_BITS[problem.ab])
            mma = tiled_mma(schedule, problem)
            _, step = shape, mma.tile_mnk[2]
            rows = schedule.cta[0 if operand == "a" else 1]  # type: ignore[index]
            ldmatrix_source(mma, operand, (rows, step), is_transposed(operand, problem.layout))
        except ScheduleError as error:
            yield f"operand {operand}: {error}"


def _swizzles(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    cases: list[tuple[str, SwizzleBits | None, tuple[int, int], str, int]] = []
    for operand in ("a", "b"):
        shape = stored_shape(operand, schedule, problem.layout)
        cases.append((f"swizzle_{operand}", getattr(schedule, f"swizzle_{operand}"), shape, problem.ab, 16))
    if schedule.epilogue == "smem":
        element = problem.d if schedule.epilogue_math == "registers" else problem.acc
        assert schedule.epilogue_tile is not None
        cases.append(("swizzle_d", schedule.swizzle_d, schedule.epilogue_tile, element, 16))
    for name, swizzle, shape, element, vector in cases:
        assert swizzle is not None
        bits, base, shift = swizzle
        if bits == 0:
            continue
        span = 1 << (bits + base + shift)
        if shape[0] * shape[1] % span:
            yield f"{name} = <{bits},{base},{shift}> permutes {span} elements, which do not divide the tile's {shape[0]}×{shape[1]}"
        if (1 << base) * ELEMENT_BITS[element] // 8 < vector:
            yield (
                f"{name} = <{bits},{base},{shift}> moves units of {(1 << base) * ELEMENT_BITS[element] // 8} bytes, "
                f"accesses are of {vector}; take M ≥ {(vector * 8 // ELEMENT_BITS[element]).bit_length() - 1}"
            )


def _epilogue(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    if schedule.epilogue == "direct":
        return
    assert schedule.cta is not None and schedule.epilogue_tile is not None
    for letter, extent, part, step in zip(
        "MN", schedule.cta, schedule.epilogue_tile, schedule.tiled_mma_tile, strict=False
    ):
        if part % step or extent % part:
            yield (
                f"epilogue_tile {letter} = {part} must be a multiple of {step}, one step of the tiled mma, and divide "
                f"the CTA tile's {extent}; nearest is {extent}"
            )
            return
    try:
        epilogue_rows(schedule, problem, threads_of(schedule))
    except ScheduleError as error:
        yield f"epilogue_tile: {error}"


def _shared_memory(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.stages is not None
    needed = shared_memory_bytes(schedule, problem)
    if needed > target.smem_bytes_per_cta:
        stage = ring_bytes(schedule, problem) // schedule.stages
        fitting = (target.smem_bytes_per_cta - (needed - ring_bytes(schedule, problem))) // stage
        yield (
            f"needs {needed} bytes of shared memory ({schedule.stages} stages of {stage}), {target.name} has "
            f"{target.smem_bytes_per_cta} a CTA; "
            + (f"take stages = {fitting}" if fitting >= 2 else "take a smaller CTA tile")
        )


# In this order; a later rule may rely on an earlier one, so the first that fails ends the check.
_RULES: tuple[Rule, ...] = (
    _complete,
    _words,
    _positive,
    _threads,
    _mma,
    _registers,
    _copies,
    _epilogue,
    _swizzles,
    _shared_memory,
)


def broken_rule(schedule: Schedule, problem: Problem, target: Target) -> str | None:
    """The first rule that the schedule breaks, as a message; None for a legal schedule."""
    for rule in _RULES:
        for message in rule(schedule, problem, target):
            return message
    return None
