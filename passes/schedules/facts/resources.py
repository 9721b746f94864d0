"""Threads and bytes of shared memory of a complete schedule, and the atoms for a problem."""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from math import prod

from lowtide.dialects.tile import EpilogueMath, RepeatKind, StorePath, TailKind, WorkPart
from lowtide.dialects.tile.agents import Agents
from lowtide.dialects.tile.fields import Extents2, Extents3
from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.schedule import Schedule
from lowtide.dialects.tile.schedule_parts import Grid
from lowtide.elements import element_type
from lowtide.passes.schedules.facts.staged_operands import operand_slots, staged_operands
from lowtide.passes.support.agents.atoms import keeps_transposed
from lowtide.passes.support.agents.clusters import OPERANDS
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target, types_of_atom
from lowtide.targets.atoms import WARPGROUP_THREADS, WGMMA_ROWS, threads_of_atom

# Each buffer in shared memory starts at a multiple of this, so that every swizzle of up to 128 bytes × 8 rows starts
# on its own period.
SMEM_ALIGNMENT = 1024
REGISTER_BITS = 32  # of a general-purpose register
WIDE_SCALED = 160  # columns: with less than 80 for each wgmma, A takes too much of the bandwidth of shared memory
MBARRIER_BYTES = 8  # PTX ISA, "Size and alignment of mbarrier object"


def atoms_for(problem: Problem, target: Target) -> list[str]:
    """The target's atoms for the problem's types, as a schedule names them."""
    types = f".{types_of_atom(problem.acc, problem.a, problem.b)}"
    return [name.removesuffix(types) for name in target.mma_atoms if name.endswith(types)]


def work_loops(grid: Grid) -> tuple[tuple[Extents2, WorkPart], ...]:
    """The loops over work tiles of a kernel, in sequence: of each, the extents of a tile and the part of all tiles."""
    assert grid.tile is not None
    m, n = grid.tile
    if grid.tail is TailKind.halves:
        return ((m, n), WorkPart.full_waves), ((m // 2, n), WorkPart.tail_halves)
    return (((m, n), WorkPart.all),)


def ring_bytes(schedule: Schedule, problem: Problem) -> int:
    """Shared memory of the ring, in bytes; 0 if fragments are loaded from global memory."""
    if schedule.is_direct:
        return 0
    assert schedule.mainloop.stages is not None
    return sum(count * size for size, count in _slots(schedule, problem)(schedule.mainloop.stages))


def _slots(schedule: Schedule, problem: Problem) -> Callable[[int], Iterator[tuple[int, int]]]:
    """A function of the number of stages: each of `slot_bytes` with its count in the ring, one per stage, or per K step
    of an operand loaded once."""
    assert schedule.mainloop.k is not None
    steps = None if problem.k is None else -(-problem.k // schedule.mainloop.k)
    kept = [steps if schedule.mainloop.operand(name).load is RepeatKind.once else None for name in OPERANDS]
    slots = list(zip_longest(slot_bytes(schedule, problem), kept))
    return lambda stages: ((size, stages if most is None else min(stages, most)) for size, most in slots)


def slot_bytes(schedule: Schedule, problem: Problem) -> tuple[int, ...]:
    """Bytes of each buffer of a slot: A, B, then the staged scales of rows and of columns."""
    of_operands = (stage_bytes(operand, schedule, problem) for operand in ("a", "b"))
    scales = problem.scales if schedule.stages_scales else ()
    anywhere = problem.is_grouped and not problem.is_padded
    boxes = ((each, each.box(schedule.tile_mnk, anywhere=anywhere)) for each in scales)
    of_scales = (prod(box) * element_type(each.element).bytes for each, box in boxes)
    return (*of_operands, *of_scales)


def stage_bytes(operand: str, schedule: Schedule, problem: Problem) -> int:
    """Bytes of one stage of A or B in shared memory: of `planned_stage`, with the padding between its lines."""
    stream = problem.stream(operand)
    shape, padding = stream.box(schedule.tile_mnk), schedule.mainloop.operand(operand).padding or 0
    lines, extent = shape[::-1] if keeps_transposed(operand, schedule) else shape
    return (lines * (extent + padding) - padding) * element_type(stream.element).bits // 8


def scratch_element(schedule: Schedule, problem: Problem) -> str:
    """The element type of the epilogue's scratch; of D's scratch, if each type of results has its own."""
    return problem.d if schedule.epilogue.math is EpilogueMath.registers else problem.acc


def scratch_elements(schedule: Schedule, problem: Problem) -> tuple[str, ...]:
    """The element types of the epilogue's scratch buffers: with `math = registers`, those of the full results."""
    is_stored = schedule.epilogue.math is EpilogueMath.registers
    return tuple(dict.fromkeys(problem.stored)) if is_stored else (problem.acc,)


def swizzle_of_result(schedule: Schedule, element: str, d: str, *, by_columns: bool) -> SwizzleBits:
    """The swizzle of the buffers that TMA stores to results of a type: that of D, of type `d`, in elements of this
    type. A box is as wide as the swizzle spans, and must divide a part."""
    assert schedule.epilogue.swizzle is not None and schedule.epilogue.tile is not None
    bits, base, shift = schedule.epilogue.swizzle
    if element == d:
        return bits, base, shift
    base, extent = swizzle_base(element), WGMMA_ROWS if by_columns else schedule.epilogue.tile[1]
    return next((fewer for fewer in range(bits, 0, -1) if extent % (1 << (fewer + base)) == 0), 0), base, shift


def scratch_bytes(schedule: Schedule, problem: Problem) -> int:
    """Shared memory of the epilogue's scratch, all its buffers, in bytes; 0 for direct stores."""
    if schedule.epilogue.path is StorePath.direct:
        return 0
    assert schedule.epilogue.tile is not None
    rows, columns = schedule.epilogue.tile
    widths = [element_type(element).bits for element in scratch_elements(schedule, problem)]
    of_rows, count = warps_along_k(schedule) * rows, scratch_buffers(schedule)
    sizes = [of_rows * columns * bits // 8 for bits in widths for _ in range(count)]
    full = [element_type(element).bits for element in staged_operands(schedule, problem)]
    sizes += [rows * columns * bits // 8 for bits in full for _ in range(operand_slots(schedule))]
    if narrow := narrow_columns(schedule, problem):
        sizes += [rows * narrow * bits // 8 for bits in (*widths, *full)]
    if schedule.agents.consumer.turns > 1:  # each has its own buffers
        return schedule.agents.consumer.turns * sum(map(aligned, sizes))
    return sum(aligned(size) for size in sizes[:-1]) + sizes[-1]


def warps_along_k(schedule: Schedule) -> int:
    """Warps that share each element of the CTA tile, each with its part of every K step."""
    return schedule.multiply.atoms[2] if schedule.multiply.atoms is not None and not schedule.agents.has_producer else 1


def scratch_buffers(schedule: Schedule) -> int:
    """Buffers between which the parts of the epilogue alternate; a narrower last part has its own buffer."""
    return schedule.epilogue.buffers or 1


def tile_of_d(schedule: Schedule, problem: Problem) -> Extents2:
    """The rows and columns of D in a tile of the grid. With pairs of columns, the tile has two columns of accumulators
    for each column of D."""
    assert schedule.grid.tile is not None
    return problem.tile_of_d(schedule.grid.tile)


def stored_columns(schedule: Schedule, problem: Problem) -> int:
    """The columns of a tile of D that a CTA stores: a share of them if the K of each tile is divided by `scatter`."""
    division, (_, columns) = schedule.k_division, tile_of_d(schedule, problem)
    is_share = division is not None and division.is_scattered and not division.is_of_tail
    return columns // division.parts if division is not None and is_share else columns


def narrow_columns(schedule: Schedule, problem: Problem) -> int:
    """Columns of the last part in a row of parts if it is narrower than the epilogue tile; else 0."""
    assert schedule.epilogue.tile is not None
    return tile_of_d(schedule, problem)[1] % schedule.epilogue.tile[1] if schedule.epilogue.path is StorePath.tma else 0


def runs_ahead(schedule: Schedule) -> bool:
    """Whether the ring is filled for the next tile while this one is stored. The ring is then never free."""
    return schedule.agents.has_producer or schedule.mainloop.prologue is RepeatKind.once


def shared_memory_bytes(schedule: Schedule, problem: Problem) -> int:
    """Dynamic shared memory per CTA: the scratch reuses the drained ring if it fits there."""
    stages = schedule.mainloop.stages
    assert stages is not None or schedule.is_direct
    return shared_memory_by_stages(schedule, problem)(stages or 0)


def shared_memory_by_stages(schedule: Schedule, problem: Problem) -> Callable[[int], int]:
    """The same as a function of the number of stages, in place of the schedule's own."""
    scratch = scratch_bytes(schedule, problem)
    if schedule.is_direct:
        return lambda stages: scratch
    slots, reuses_ring = _slots(schedule, problem), not runs_ahead(schedule)
    has_producer, further = schedule.agents.has_producer, 0  # mbarriers, besides those of the slots
    if has_producer:
        turns = schedule.agents.consumer.turns
        further = turns if turns > 1 else 0
        if staged_operands(schedule, problem):
            loops = 2 if schedule.grid.tail is TailKind.halves else 1  # each has its own mbarriers
            further += loops * turns * (operand_slots(schedule) + bool(narrow_columns(schedule, problem)))

    def needed(stages: int) -> int:
        end = ring = 0
        for size, copies in slots(stages):
            ring += copies * size
            end = aligned(end) + copies * size
        if has_producer:  # the producer runs ahead, so the ring is never free; two mbarriers per slot
            return (aligned(end) + scratch if scratch else end) + MBARRIER_BYTES * (2 * stages + further)
        return end if scratch <= ring and reuses_ring else aligned(end) + scratch

    return needed


def aligned(offset: int) -> int:
    """The smallest offset in bytes, at least `offset`, at which a buffer may start in shared memory."""
    return -(-offset // SMEM_ALIGNMENT) * SMEM_ALIGNMENT


def threads_of(schedule: Schedule) -> int:
    """Threads per CTA: those of the atoms, or of one producer and the consumer warpgroups."""
    if schedule.agents.has_producer:
        return WARPGROUP_THREADS * (1 + schedule.agents.consumer.all_warpgroups)
    assert schedule.multiply.atoms is not None
    m, n, k = schedule.multiply.atoms
    return threads_of_atom(schedule.multiply.atom) * m * n * k


def ctas_per_sm(schedule: Schedule, problem: Problem, target: Target) -> int:
    """Resident CTAs per SM, by shared memory, threads and an estimate of the registers."""
    if schedule.agents.has_producer:
        return 1  # the ring takes most of the shared memory, and the roles take all registers
    threads = threads_of(schedule)
    accumulators = sums_per_thread(schedule) * element_type(problem.acc).bits // 32
    registers = min(target.registers_per_thread, accumulators + 96)
    return max(1, target.ctas_per_sm(threads, shared_memory_bytes(schedule, problem), registers))


def sums_per_thread(schedule: Schedule) -> int:
    """The number of sums of one tile that each multiplying thread holds."""
    m, n, _ = schedule.tile_mnk
    return m * n * warps_along_k(schedule) // multiplying_threads(schedule)


def multiplying_threads(schedule: Schedule) -> int:
    """Threads that hold the accumulators of one tile."""
    return WARPGROUP_THREADS * schedule.agents.consumer.warpgroups or threads_of(schedule)


def swizzle_base(element: str) -> int:
    """The base of a swizzle that keeps 16 bytes of an element type together: log2 of the number of elements."""
    return (128 // element_type(element).bits).bit_length() - 1


def registers_at_entry(threads: int, target: Target) -> int:
    """Registers per thread at entry with one CTA per SM: an even share, rounded down to a multiple of 8.

    A thread addresses at most `target.registers_per_thread` of them (PTX ISA, "setmaxnreg").
    """
    return min(256, target.registers_per_sm // threads // 8 * 8)


def holds_few_scales(tile: Extents3, roles: Agents) -> bool:
    """Whether a consumer has one block of 64 rows, and its columns have few parts with a scale of their own."""
    m, n, _ = tile
    return m == WGMMA_ROWS * roles.consumer.warpgroups and n % 16 == 0


def is_wide_for_scales(tile: Extents3, roles: Agents) -> bool:
    """Whether a tile with scales is wide enough for two blocks of columns."""
    return holds_few_scales(tile, roles) and tile[1] >= WIDE_SCALED


def results_fill_registers(problem: Problem) -> bool:
    """Whether each element of a full result takes a register of its own; narrower elements are packed."""
    return element_type(problem.widest).bits >= REGISTER_BITS
