"""What a complete schedule must satisfy on a target: one rule a function, each naming rule, limit and way out.

`verify-schedule` runs them on IR; `choose-schedule` keeps only candidates that pass them.
"""

import re
from collections.abc import Callable, Iterator

from tensor_layouts import size

from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.schedule import OPTIONAL_FIELDS, Schedule
from lowtide.elements import element_type, kernel_types
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.schedules.epilogue_rules import epilogue_fields, epilogue_parts
from lowtide.passes.schedules.facts import (
    consumer_warpgroups,
    multiplying_threads,
    ring_bytes,
    shared_memory_bytes,
    threads_of,
)
from lowtide.passes.schedules.role_rules import boxes, load_hints, roles, wgmma
from lowtide.passes.support.atoms import (
    CP_ASYNC_COPIES,
    TMA_RANKS,
    fill_copy,
    is_transposed,
    mma_atom_name,
    stored_shape,
    tiled_mma,
)
from lowtide.passes.support.problem import Problem
from lowtide.targets import MMA_ATOMS, Target, ldmatrix_source
from lowtide.targets.atoms import Operand, families

Rule = Callable[[Schedule, Problem, Target], Iterator[str]]

# In the order of `Tile_SchedulerKind`, the words of `scheduler`; in each but the first a CTA takes several tiles.
SCHEDULERS = ("one_shot", "persistent", "even_split")

# Of each order, the numbers that it takes.
_RASTER_NUMBERS = {"row": (), "column": (), "grouped": ("tile rows",), "groups": ("tile rows", "tile columns")}
_RASTER_EXAMPLES = {"grouped": "grouped(16)", "groups": "groups(16, 8)"}

_MAX_EXTENT = 2**31 - 1  # device code counts rows and columns in 32 bits


def _complete(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    # Only roles have registers of their own.
    optional = OPTIONAL_FIELDS if schedule.roles != ("single", 0) else (*OPTIONAL_FIELDS, "registers")
    asked = [name for name in Schedule.names() if name not in optional]
    missing = [name for name in asked if getattr(schedule, name) is None]
    if missing:
        yield f"field {missing[0]} is not decided; run choose-schedule first, or write it"


def _elements(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    for name, element in (("A and B", problem.ab), ("the accumulator", problem.acc), ("D", problem.d)):
        if element not in kernel_types():
            yield f"{name} of {element}: elements are one of {', '.join(kernel_types())}"


def _extents(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    for letter, extent in zip("MNK", (problem.m, problem.n, problem.k), strict=True):
        if extent is not None and not 1 <= extent <= _MAX_EXTENT:
            yield f"{letter} = {extent} is out of range: 1 to {_MAX_EXTENT}"


def _words(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    for name, allowed in (
        ("scheduler", SCHEDULERS),
        ("copy", (*CP_ASYNC_COPIES, *TMA_RANKS)),
    ):
        value = getattr(schedule, name)
        if value is not None and value not in allowed:
            yield f"{name} = {value} is not one of {', '.join(allowed)}"


def _raster(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    if schedule.raster is None:
        return
    kind, *numbers = schedule.raster
    shown = f"raster = {kind}" + (f"({', '.join(map(str, numbers))})" if any(numbers) or kind == "grouped" else "")
    if kind not in _RASTER_NUMBERS:
        yield f"raster = {kind} is not row, column, grouped(n) or groups(m, n)"
    elif len(_RASTER_NUMBERS[kind]) == 0:
        if any(numbers):
            yield f"{shown}: {kind} takes no number; take {kind}"
    elif len(numbers) != len(_RASTER_NUMBERS[kind]):
        yield f"{shown}: {kind} takes {' and '.join(_RASTER_NUMBERS[kind])}, e.g. {_RASTER_EXAMPLES[kind]}"
    elif not all(1 <= number <= _MAX_EXTENT for number in numbers):
        nearest = ", ".join(str(min(max(number, 1), _MAX_EXTENT)) for number in numbers)
        what = "a band has at least 1 tile row" if kind == "grouped" else "a group has at least 1 tile row and column"
        most = f", at most {_MAX_EXTENT}" if max(numbers) > _MAX_EXTENT else ""
        yield f"{shown}: {what}{most}; nearest is {kind}({nearest})"


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
        kind, count = schedule.roles[0], schedule.roles[1]
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
        known = mma_atom_name(schedule, problem) in MMA_ATOMS
        reason = str(error) if known else _unknown_mma(schedule, problem, target)
        yield f"mma = {schedule.mma} with {problem.ab} operands and {problem.acc} accumulators: {reason}"
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


def _unknown_mma(schedule: Schedule, problem: Problem, target: Target) -> str:
    """Why there is no such atom, and which of the target's to take for these types."""
    name = mma_atom_name(schedule, problem)
    types = f".{problem.acc}.{problem.ab}"
    atoms = [atom.removesuffix(types) for atom in target.mma_atoms if atom.endswith(types)]
    usable = [atom for atom in atoms if atom.startswith("wgmma") == (consumer_warpgroups(schedule) > 0)]
    if not atoms:
        way_out = f"{target.name} has none for these types; take f32 accumulators"
    elif not usable:
        way_out = f"{target.name} has none for these types with roles; take f32 accumulators, or roles = single "
        way_out += "with mma = mma.m16n8k16"
    elif wgmma := re.fullmatch(r"wgmma\.m64n(\d+)k16", schedule.mma or ""):
        nearest = min(max(round(int(wgmma[1]) / 8) * 8, 8), 256)
        way_out = f"wgmma takes N in steps of 8, up to 256; nearest is wgmma.m64n{nearest}k16, with cta N = {nearest}"
    else:
        way_out = f"take {families(usable)}"
    return f"unknown mma atom {name!r}; {way_out}"


def _registers(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.cta is not None
    values = schedule.cta[0] * schedule.cta[1] // multiplying_threads(schedule)
    accumulators = values * element_type(problem.acc).bits // 32
    if accumulators >= target.registers_per_thread:
        yield (
            f"cta {schedule.cta[0]}×{schedule.cta[1]} needs {accumulators} accumulator registers a thread, "
            f"{target.name} has {target.registers_per_thread}; take more warps or a smaller tile"
        )


def _copies(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    assert schedule.cta is not None and schedule.copy is not None
    if schedule.copy in TMA_RANKS:
        yield from boxes(schedule, problem, target)
        return
    operands: tuple[Operand, ...] = ("a", "b")
    for operand in operands:
        shape = stored_shape(operand, schedule, problem.layout)
        rows = schedule.cta[0 if operand == "a" else 1]
        try:
            fill_copy(schedule.copy, shape, threads_of(schedule), element_type(problem.ab).bits)
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
        unit = (1 << base) * element_type(element).bits // 8
        if unit < vector:
            yield (
                f"{name} = <{bits},{base},{shift}> moves units of {unit} bytes, "
                f"accesses are of {vector}; take M ≥ {(vector * 8 // element_type(element).bits).bit_length() - 1}"
            )


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
_FIELD_RULES: tuple[Rule, ...] = (
    _elements,
    _extents,
    _words,
    _raster,
    _positive,
    _role_fields,
    epilogue_fields,
    load_hints,
)

# In this order; a later rule may rely on an earlier one, so the first that fails ends the check.
_RULES: tuple[Rule, ...] = (
    _complete,
    *_FIELD_RULES,
    _threads,
    roles,
    _mma,
    wgmma,
    _registers,
    _copies,
    epilogue_parts,
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
