"""Rules of the copies of A and B: atoms that the threads can share, the layout of stages, swizzles."""

from collections.abc import Iterator

from lowtide import targets
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.facts.alignment import (
    MATRICES,
    PACK_FIELDS,
    is_packed,
    is_packed_transposed,
    moved_alignment,
)
from lowtide.passes.schedules.facts.resources import threads_of
from lowtide.passes.schedules.rules.tma import boxes
from lowtide.passes.support.agents.atoms import (
    STAGED_COPIES,
    TMA_RANKS,
    fill_copy,
    is_transposed,
    keeps_transposed,
    tiled_mma,
)
from lowtide.passes.support.problem.matrix_layouts import k_is_last
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.operand_loads import LDMATRIX_BITS, global_loads, operand_access
from lowtide.targets import Target, TiledMma
from lowtide.targets.atoms import FMA_TYPES, WARPGROUP_THREADS, Operand

_OPERANDS: tuple[Operand, ...] = ("a", "b")


def copies(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The threads can share the copies, and the multiply can read the copied tiles."""
    yield from _through_registers(schedule, problem)
    by_tma = [schedule.mainloop.operand(name).copy in TMA_RANKS for name in _OPERANDS]
    for name in _OPERANDS if any(by_tma) else ():
        if keeps_transposed(name, schedule):
            yield (
                f"{name}.stage = transposed goes with cp.async, not TMA, which keeps element order; take as_loaded"
                " [tma-transposes-stage]"
            )
        if schedule.mainloop.operand(name).padding:
            yield (
                f"{name}.padding goes with cp.async, not TMA: its boxes have no gaps; take 0, and a swizzle"
                " [tma-padding]"
            )
    if any(by_tma) or schedule.agents.has_producer:
        yield from boxes(schedule, problem, target)
        yield from _by_producer(schedule, problem)
        for name in _OPERANDS if not schedule.multiply.by_warpgroups else ():
            yield from _fragments(name, schedule, problem)
        return
    if schedule.is_direct:
        yield from _global_loads(schedule, problem)
        return
    for name in _OPERANDS:
        copy = schedule.mainloop.operand(name).copy
        assert copy is not None
        shape = problem.stream(name).box(schedule.tile_mnk)
        try:
            transposed = keeps_transposed(name, schedule)
            fill_copy(copy, shape, threads_of(schedule), element_type(problem.stream(name).element).bits, transposed)
        except ScheduleError as error:
            yield f"operand {name}: {error}"
        if transposed:
            yield from _transposing(name, schedule, problem, tiled_mma(schedule, problem))
        yield from _fragments(name, schedule, problem)


def _fragments(name: Operand, schedule: Schedule, problem: Problem) -> Iterator[str]:
    """The fragments of the tiled mma can be loaded from the stage."""
    if name == problem.packed:
        return  # the rules of packed weights check their loads
    mma, rows = tiled_mma(schedule, problem), schedule.tile_mnk[_OPERANDS.index(name)]
    along_rows = is_transposed(name, problem.layout) != keeps_transposed(name, schedule)
    try:
        operand_access(mma, name, (rows, mma.tile_mnk[2]), along_rows, problem.stream(name).element)
    except ScheduleError as error:  # names the operand itself
        yield str(error)


def _through_registers(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Threads can copy elements of this type through registers, and realign only if they load several at once."""
    for name in _OPERANDS:
        copy, row = str(schedule.mainloop.operand(name).copy), element_type(problem.stream(name).element)
        atom = targets.copy_atom(copy) if copy in targets.COPY_ATOMS else None
        if copy in STAGED_COPIES and not row.in_registers:
            yield f"{name}.copy = {copy}: no threads copy elements of {row}; take cp.async.16 or tma [staged-element]"
        elif atom is not None and atom.realigns and atom.bytes_per_thread <= row.bytes:
            yield (
                f"{name}.copy = {copy}: an element of {row} lies aligned wherever it lies; take staged.{row.bytes}"
                " [staged-aligned]"
            )


def transposing(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Only A or B may be transposed for the kernel: either of them if threads multiply f32 by FMAs, otherwise one whose
    K is not contiguous. `problem` describes the operands as passed, or as multiplied."""
    if is_packed_transposed("d", schedule):
        yield (
            "epilogue.pack = transposed: D is written as it lies; take rows or none, or d_order in the spec"
            " [d-transposed]"
        )
    takes_either = problem.a in FMA_TYPES and problem.decomposition is None
    if problem.transposed is None or takes_either:  # None: a kernel reads transposes from workspaces
        return
    lies = dict(zip("ab", k_is_last(problem.layout), strict=True))
    for name, is_last in lies.items():
        if is_packed_transposed(name, schedule) and is_last and name not in problem.transposed:
            yield (
                f"{name}.pack = transposed: K is contiguous in operand {name} of layout {problem.layout}; "
                f"take {name}.pack = rows or none [k-contiguous]"
            )


def packing(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """A matrix that is moved by single elements is always aligned, and so is not packed."""
    for name in MATRICES:
        row = element_type(problem.d if name == "d" else problem.stream(name).element)
        if is_packed_transposed(name, schedule):
            continue
        if is_packed(name, schedule) and moved_alignment(name, schedule, problem) <= row.bytes:
            yield (
                f"{PACK_FIELDS[name]} = rows: {name} is moved by elements, which are always aligned; take pack = none"
                " [packed-elements]"
            )
        elif is_packed(name, schedule) and name == "d" and problem.d_is_column_major:
            yield (
                "epilogue.pack = rows copies rows, and D lies by columns as the kernel sees it; take pack = none"
                " [packed-columns]"
            )


def _by_producer(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """The warpgroup of a producer can share the copies, to stages laid out as by TMA."""
    for name in _OPERANDS if schedule.agents.has_producer else ():
        operand = schedule.mainloop.operand(name)
        if name not in schedule.copied_by_threads:
            continue
        if keeps_transposed(name, schedule) or operand.padding:
            yield (
                f"{name}.stage and {name}.padding go without roles: wgmma reads panels; leave them out [producer-stage]"
            )
        shape, bits = problem.stream(name).box(schedule.tile_mnk), element_type(problem.stream(name).element).bits
        try:
            fill_copy(str(operand.copy), shape, WARPGROUP_THREADS, bits)
        except ScheduleError as error:
            yield f"operand {name}: {error}"


def _global_loads(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Loads are as wide as the neighbours in global memory that a thread holds."""
    mma = tiled_mma(schedule, problem)
    for name in _OPERANDS:
        shape = (schedule.tile_mnk[_OPERANDS.index(name)], mma.tile_mnk[2])
        trans, copy = is_transposed(name, problem.layout), str(schedule.mainloop.operand(name).copy)
        try:
            global_loads(mma.tv(name, shape), shape, trans, copy, problem.stream(name).element)
        except ScheduleError as error:
            yield f"{name}.copy = {error}"


def _transposing(name: Operand, schedule: Schedule, problem: Problem, mma: TiledMma) -> Iterator[str]:
    """A copy that transposes stores one element at a time, into a stage that no ldmatrix reads."""
    if element_type(mma.atom.dtype(name)).bits == LDMATRIX_BITS:
        yield (
            f"{name}.stage = transposed: ldmatrix, which {mma.atom.name} needs, reads stages as_loaded; take that"
            " [ldmatrix-transposed]"
        )
        return
    copy, row = str(schedule.mainloop.operand(name).copy), element_type(problem.stream(name).element)
    if row.bits < LDMATRIX_BITS and is_transposed(name, problem.layout):
        yield (
            f"{name}.stage = transposed goes with rows of K, not {row} whose rows are of M or N; take as_loaded"
            " [transposed-rows]"
        )
    elif copy not in STAGED_COPIES and targets.copy_atom(copy).bytes_per_thread != row.bytes:
        by_element = [f"cp.async.{row.bytes}"] if f"cp.async.{row.bytes}" in targets.COPY_ATOMS else []
        copies = [f"{name}.copy = {other}" for other in ["staged.16"] * row.in_registers + by_element]
        ways = " or ".join([*copies, f"{name}.stage = as_loaded"])
        yield f"{name}.stage = transposed: {copy} does not move one element of {row}; take {ways} [transposed-width]"


def swizzles(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Swizzles divide the tile, and their units are at least one 16-byte access."""
    if schedule.is_direct:
        return
    for name in _OPERANDS:
        shape = problem.stream(name).box(schedule.tile_mnk)
        swizzle, bits = schedule.mainloop.operand(name).swizzle, element_type(problem.stream(name).element).bits
        assert swizzle is not None
        yield from swizzle_of(f"{name}.swizzle", swizzle, shape, bits)
        padding = schedule.mainloop.operand(name).padding or 0
        if padding and swizzle[0]:
            yield (
                f"{name}.padding = {padding} with a swizzle, which needs rows without gaps; take one of the two"
                " [padded-swizzle]"
            )
        if padding * bits % 128:
            yield (
                f"{name}.padding = {padding} is no multiple of 16 bytes, the size of accesses; take {128 // bits}"
                " [padding-bytes]"
            )


def swizzle_of(name: str, swizzle: tuple[int, int, int], shape: tuple[int, int], element_bits: int) -> Iterator[str]:
    """The rule for one swizzle, of a tile of `shape` that is accessed by 16 bytes."""
    bits, base, shift = swizzle
    if bits == 0:
        return
    span, elements, vector = 1 << (bits + base + shift), shape[0] * shape[1], 16
    if elements % span:
        yield (
            f"{name} = <{bits},{base},{shift}> permutes {span} elements, which do not divide the tile's "
            f"{shape[0]}×{shape[1]}; take B + M + S ≤ {(elements & -elements).bit_length() - 1} [swizzle-span]"
        )
    if (1 << base) * element_bits // 8 < vector:
        yield (
            f"{name} = <{bits},{base},{shift}> moves units of {(1 << base) * element_bits // 8} bytes, accesses are of "
            f"{vector}; take M ≥ {(vector * 8 // element_bits).bit_length() - 1} [swizzle-unit]"
        )
