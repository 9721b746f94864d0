"""What a complete schedule must satisfy on a target: one rule a function, each naming rule, limit and way out.

`verify-schedule` runs them on IR; `choose-schedule` keeps only candidates that pass them.
"""

from collections.abc import Callable, Iterator

from tensor_layouts import size

from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.atoms import (
    COPY_BYTES,
    epilogue_rows,
    fill_copy,
    is_transposed,
    mma_atom_name,
    stored_shape,
    tiled_mma,
)
from lowtide.passes.problem import ELEMENT_BITS, Problem
from lowtide.targets import Target, ldmatrix_source
from lowtide.targets.atoms import Operand

Rule = Callable[[Schedule, Problem, Target], Iterator[str]]

# Each buffer in shared memory starts at a multiple of this, so that every swizzle of up to 128 bytes × 8 rows starts
# on its own period.
SMEM_ALIGNMENT = 1024
MBARRIER_BYTES = 8  # PTX ISA, "Size and alignment of mbarrier object"

_MAX_EXTENT = 2**31 - 1  # device code counts rows and columns in 32 bits


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
    assert schedule.cta is not None and schedule.stages is not None
    ring, scratch = ring_bytes(schedule, problem), scratch_bytes(schedule, problem)
    m, n, k = schedule.cta
    column = schedule.stages * k * ELEMENT_BITS[problem.ab] // 8
    end = aligned(m * column) + n * column
    if consumer_warpgroups(schedule):  # the producer runs ahead: the ring is never free; two mbarriers a slot
        return (aligned(end) + scratch if scratch else end) + 2 * MBARRIER_BYTES * schedule.stages
    return end if scratch <= ring else aligned(end) + scratch


def aligned(offset: int) -> int:
    """The first place from `offset` on where a buffer may start in shared memory, in bytes."""
    return -(-offset // SMEM_ALIGNMENT) * SMEM_ALIGNMENT


def consumer_warpgroups(schedule: Schedule) -> int:
    """Warpgroups that multiply where the schedule has roles, else 0."""
    return schedule.roles[1] if schedule.roles is not None and schedule.roles[0] == "cooperative" else 0


def threads_of(schedule: Schedule) -> int:
    """Threads of a CTA: those of the warps, or of one producer and the consumer warpgroups."""
    consumers = consumer_warpgroups(schedule)
    if consumers:
        return 128 * (1 + consumers)
    assert schedule.warps is not None
    return 32 * schedule.warps[0] * schedule.warps[1] * schedule.warps[2]


def multiplying_threads(schedule: Schedule) -> int:
    """Threads that hold accumulators."""
    return 128 * consumer_warpgroups(schedule) or threads_of(schedule)


def _complete(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    # Only roles have registers of their own.
    asked = [name for name in Schedule.names() if name != "registers" or schedule.roles != ("single", 0)]
    missing = [name for name in asked if getattr(schedule, name) is None]
    if missing:
        yield f"field {missing[0]} is not decided; run choose-schedule first, or write it"


def _elements(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    for name, element in (("A and B", problem.ab), ("the accumulator", problem.acc), ("D", problem.d)):
        if element not in ELEMENT_BITS:
            yield f"{name} of {element}: elements are one of {', '.join(ELEMENT_BITS)}"


def _extents(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    for letter, extent in zip("MNK", (problem.m, problem.n, problem.k), strict=True):
        if extent is not None and not 1 <= extent <= _MAX_EXTENT:
            yield f"{letter} = {extent} is out of range: 1 to {_MAX_EXTENT}"


def _words(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    for name, allowed in (
        ("scheduler", ("one_shot", "persistent")),
        ("epilogue", ("smem", "direct")),
        ("epilogue_math", ("registers", "rows")),
        ("copy", (*COPY_BYTES, "tma")),
    ):
        value = getattr(schedule, name)
        if value is not None and value not in allowed:
            yield f"{name} = {value} is not one of {', '.join(allowed)}"
    if schedule.raster is not None:
        kind, group = schedule.raster
        if kind not in ("row", "column", "grouped"):
            yield f"raster = {kind} is not row, column or grouped(n)"
        if kind == "grouped" and group < 1:
            yield f"raster = grouped({group}): a band has at least 1 tile row; nearest is grouped(1)"
    if schedule.epilogue == "direct" and schedule.epilogue_math == "rows":
        yield "epilogue_math = rows needs epilogue = smem; with direct stores take registers"


def _positive(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    for name in ("cta", "warps", "permutation", "epilogue_tile"):
        extents = getattr(schedule, name)
        if extents is not None and any(size(extent) < 1 for extent in extents):
            yield f"{name} = {list(extents)}: every extent is at least 1"
    if schedule.stages is not None and not 2 <= schedule.stages <= 64:
        yield f"stages = {schedule.stages} is out of range: 2 to 64; nearest is {2 if schedule.stages < 2 else 64}"
    if schedule.fragment_buffers not in (None, 1, 2):
        yield f"fragment_buffers = {schedule.fragment_buffers} is not 1 or 2"


def _role_fields(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    if schedule.roles is not None:
        kind, count = schedule.roles
        if kind not in ("single", "cooperative"):
            yield f"roles = {kind} is not single or cooperative(n)"
        if kind == "single" and count:
            yield f"roles = single({count}): single takes no number; take single, or cooperative({count})"
        if kind == "cooperative" and count < 1:
            yield f"roles = cooperative({count}): at least 1 warpgroup consumes; nearest is cooperative(1)"
    for count in schedule.registers or ():
        if count != 0 and (count % 8 or not 24 <= count <= 256):
            nearest = min(max(round(count / 8) * 8, 24), 256)
            yield (
                f"registers = {list(schedule.registers or ())}: setmaxnreg takes multiples of 8 from 24 to 256, or 0 "
                f"to leave them; nearest is {nearest}"
            )


def _threads(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.warps is not None
    threads, consumers = threads_of(schedule), consumer_warpgroups(schedule)
    if threads > target.max_threads_per_cta and consumers:
        yield (
            f"roles = cooperative({consumers}) are {threads} threads, {target.name} has at most "
            f"{target.max_threads_per_cta} a CTA; take at most cooperative({target.max_threads_per_cta // 128 - 1})"
        )
    if threads > target.max_threads_per_cta:
        yield (
            f"warps = {list(schedule.warps)} are {threads} threads, {target.name} has at most "
            f"{target.max_threads_per_cta} a CTA; take at most {target.max_threads_per_cta // 32} warps"
        )
    if schedule.warps[2] != 1:
        yield f"warps = {list(schedule.warps)}: warps along K would need a sum across warps; take 1 along K"


def _mma(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.cta is not None and schedule.permutation is not None and schedule.warps is not None
    try:
        target.mma(mma_atom_name(schedule, problem))
        tiled_mma(schedule, problem)
    except TargetError as error:
        yield f"mma = {schedule.mma} with {problem.ab} operands and {problem.acc} accumulators: {error}"
        return
    except ScheduleError as error:
        yield str(error)
        return
    for letter, extent, step in zip("MNK", schedule.cta, (size(p) for p in schedule.permutation), strict=True):
        if extent % step:
            yield (
                f"cta {letter} = {extent} is not a multiple of {step}, one step of the tiled mma; nearest is "
                f"{max(1, round(extent / step)) * step}"
            )


def _registers(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.cta is not None
    accumulators = schedule.cta[0] * schedule.cta[1] // multiplying_threads(schedule) * ELEMENT_BITS[problem.acc] // 32
    if accumulators >= target.registers_per_thread:
        yield (
            f"cta {schedule.cta[0]}×{schedule.cta[1]} needs {accumulators} accumulator registers a thread, "
            f"{target.name} has {target.registers_per_thread}; take more warps or a smaller tile"
        )


def _roles(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """What a producer and its consumers need of each other; and that nothing else asks for their atoms."""
    assert schedule.warps is not None and schedule.roles is not None
    consumers = consumer_warpgroups(schedule)
    if not consumers:
        for name, atom in (("copy", schedule.copy), ("mma", schedule.mma)):
            if str(atom).startswith(("tma", "wgmma")):
                yield f"{name} = {atom} needs a producer and consumers; take roles = cooperative(2)"
        if schedule.registers not in (None, (0, 0)):
            registers = list(schedule.registers or ())
            yield f"registers = {registers} are those of roles; take [0, 0], or roles = cooperative(2)"
        return
    if schedule.copy != "tma" or not str(schedule.mma).startswith("wgmma"):
        yield f"roles = cooperative({consumers}) go with copy = tma and wgmma, not {schedule.copy} and {schedule.mma}"
    if problem.layout != "tn":
        yield f"layout {problem.layout} has no schedule with roles; take tn, or roles = single"
    if schedule.warps != (consumers, 1, 1):
        yield f"warps = {list(schedule.warps)} count the consumer warpgroups; take [{consumers}, 1, 1]"
    if schedule.scheduler != "persistent" or schedule.fragment_buffers != 1:
        yield "roles go with scheduler = persistent and fragment_buffers = 1"
    yield from _maxnreg(schedule, target)


def _maxnreg(schedule: Schedule, target: Target) -> Iterator[str]:
    """setmaxnreg moves registers between roles: their sum is what the CTA has at entry, or it waits for ever."""
    producer, consumer = schedule.registers or (0, 0)
    consumers = consumer_warpgroups(schedule)
    if (producer == 0) != (consumer == 0):
        yield f"registers = [{producer}, {consumer}]: both roles ask for registers, or none (0)"
    each = target.registers_per_sm // threads_of(schedule) // 8 * 8
    entry = (1 + consumers) * each
    wanted = producer + consumers * consumer
    if wanted > entry:
        yield (
            f"registers = [{producer}, {consumer}] need {wanted} a lane over all warpgroups, the CTA enters with "
            f"{entry}; take consumer ≤ {(entry - producer) // consumers // 8 * 8}"
        )
    if producer > each or 0 < consumer < each:
        yield (
            f"registers = [{producer}, {consumer}]: the CTA enters with {each} a thread, from which a producer may "
            f"only come down and a consumer go up; take producer ≤ {each} ≤ consumer"
        )


def _wgmma(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Each consumer warpgroup multiplies 64 rows of A by one wgmma a k-slice, in the order in which they lie."""
    consumers = consumer_warpgroups(schedule)
    if not consumers:
        return
    assert schedule.cta is not None and schedule.permutation is not None
    m, n, k = tiled_mma(schedule, problem).atom.shape_mnk
    m *= consumers
    if schedule.cta[:2] != (m, n):
        yield (
            f"cta = {list(schedule.cta)}: {consumers} consumer warpgroups multiply {m}×{n} by {schedule.mma}; take "
            f"[{m}, {n}, {schedule.cta[2]}]"
        )
    if schedule.permutation != (m, n, k):
        yield f"permutation is not [{m}, {n}, {k}]: wgmma takes rows and columns in order; take that"


def _boxes(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """TMA moves boxes: at most 256 elements a side, a row no longer than the swizzle's span."""
    operands: tuple[Operand, ...] = ("a", "b")
    for operand in operands:
        rows, columns = stored_shape(operand, schedule, problem.layout)
        bits, base, _ = getattr(schedule, f"swizzle_{operand}")
        row_bytes, span = columns * ELEMENT_BITS[problem.ab] // 8, 16 << bits
        if rows > 256:
            yield f"operand {operand}: a TMA box of {rows} rows; at most 256: take a smaller CTA tile"
        if (bits, base) != (3, 3) or row_bytes != span:
            yield (
                f"operand {operand}: rows of {row_bytes} bytes with swizzle_{operand} = <{bits},{base},3>; wgmma is "
                "fed from rows of 128 bytes, <3,3,3>: take K = 64 in cta"
            )


def _copies(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.cta is not None and schedule.copy is not None
    if schedule.copy == "tma":
        yield from _boxes(schedule, problem, target)
        return
    operands: tuple[Operand, ...] = ("a", "b")
    for operand in operands:
        shape = stored_shape(operand, schedule, problem.layout)
        rows = schedule.cta[0 if operand == "a" else 1]
        try:
            fill_copy(schedule.copy, shape, threads_of(schedule), ELEMENT_BITS[problem.ab])
        except ScheduleError as error:
            yield f"operand {operand}: {error}"
        try:
            mma = tiled_mma(schedule, problem)
            ldmatrix_source(mma, operand, (rows, mma.tile_mnk[2]), is_transposed(operand, problem.layout))
        except ScheduleError as error:  # names the operand itself
            yield str(error)


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
            elements = shape[0] * shape[1]
            yield (
                f"{name} = <{bits},{base},{shift}> permutes {span} elements, which do not divide the tile's "
                f"{shape[0]}×{shape[1]}; take B + M + S ≤ {(elements & -elements).bit_length() - 1}"
            )
        if (1 << base) * ELEMENT_BITS[element] // 8 < vector:
            yield (
                f"{name} = <{bits},{base},{shift}> moves units of {(1 << base) * ELEMENT_BITS[element] // 8} bytes, "
                f"accesses are of {vector}; take M ≥ {(vector * 8 // ELEMENT_BITS[element]).bit_length() - 1}"
            )


def _epilogue(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    if schedule.epilogue == "direct":
        return
    assert schedule.cta is not None and schedule.epilogue_tile is not None
    step_m, step_n, _ = schedule.tiled_mma_tile
    # The columns of a wgmma lie in runs of 8, which a part of the tile may take any number of.
    steps = (step_m, 8 if consumer_warpgroups(schedule) else step_n)
    for letter, extent, part, step in zip("MN", schedule.cta, schedule.epilogue_tile, steps, strict=False):
        if part % step or extent % part:
            yield (
                f"epilogue_tile {letter} = {part} must be a multiple of {step}, one step of the tiled mma, and divide "
                f"the CTA tile's {extent}; nearest is {extent}"
            )
            return
    try:
        epilogue_rows(schedule, problem, multiplying_threads(schedule))
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


# Asked of each field by itself, so that an incomplete schedule can be held to them too.
_FIELD_RULES: tuple[Rule, ...] = (_elements, _extents, _words, _positive, _role_fields)

# In this order; a later rule may rely on an earlier one, so the first that fails ends the check.
_RULES: tuple[Rule, ...] = (
    _complete,
    *_FIELD_RULES,
    _threads,
    _roles,
    _mma,
    _wgmma,
    _registers,
    _copies,
    _epilogue,
    _swizzles,
    _shared_memory,
)


def broken_rule(schedule: Schedule, problem: Problem, target: Target) -> str | None:
    """The first rule that the schedule breaks, as a message; None for a legal schedule."""
    return _first(_RULES, schedule, problem, target)


def broken_field(schedule: Schedule, problem: Problem, target: Target) -> str | None:
    """As `broken_rule`, for the fields that are given: each by itself."""
    return _first(_FIELD_RULES, schedule, problem, target)


def _first(rules: tuple[Rule, ...], schedule: Schedule, problem: Problem, target: Target) -> str | None:
    return next((message for rule in rules for message in rule(schedule, problem, target)), None)
