"""Rules of the multiply of a schedule: atoms, warps, the tiled mma, accumulators in registers."""

import re
from collections.abc import Iterator

from tensor_layouts import size

from lowtide.dialects.tile import EpilogueMath, OperandKind, PromoteKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import LONGEST_PARTIAL_SUM, SCALE_BLOCK, element_type
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.schedules.facts.resources import (
    REGISTER_BITS,
    atoms_for,
    multiplying_threads,
    registers_at_entry,
    threads_of,
    warps_along_k,
)
from lowtide.passes.support.agents.atoms import holds_a, mma_atom_name, tiled_mma
from lowtide.passes.support.problem.matrix_layouts import b_is_nk, k_is_last
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import KNOWN, MMA_ATOMS, Target, accumulator_types, issuer_of, types_of_atom
from lowtide.targets.atoms import FMA, WARPGROUP_THREADS, WGMMA_ROWS, families, wgmma_k, wgmma_widths

_BESIDE_ACCUMULATORS = 40  # registers of a consumer for addresses, the epilogue and the loop
_BESIDE_SCALED_BLOCKS = 16  # more of them, for the scales of several blocks of 64 rows
_LEAST_REGISTERS = 24  # of a thread after setmaxnreg (PTX ISA, "setmaxnreg")
_BESIDE_WGMMA = 26  # registers that ptxas needs at entry beside the operands of one wgmma (its C7602)
_OF_A = 4  # registers of the A of one wgmma, if it is not in shared memory


def fields(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The fields that are numbers, if they are given."""
    multiply = schedule.multiply
    for name, extents in (("atoms", multiply.atoms), ("permutation", multiply.permutation)):
        if extents is not None and any(size(extent) < 1 for extent in extents):
            yield f"{name} = {list(extents)}: every extent is at least 1 [atom-extents]"
    if multiply.fragment_buffers not in (None, 1, 2):
        nearest = 1 if multiply.fragment_buffers < 1 else 2
        yield f"fragment_buffers = {multiply.fragment_buffers} is not 1 or 2; nearest is {nearest} [fragment-buffers]"


def threads(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Number of warps per CTA."""
    atoms, needed = schedule.multiply.atoms, threads_of(schedule)
    assert atoms is not None
    if needed > target.max_threads_per_cta and not schedule.agents.has_producer:
        yield (
            f"atoms = {list(atoms)} are {needed} threads, {target.name} has at most {target.max_threads_per_cta} per "
            f"CTA; take at most {target.max_threads_per_cta // 32} warps [atoms-threads]"
        )
    if needed % target.warp_size:
        yield (
            f"atoms = {list(atoms)} of {schedule.multiply.atom} are {needed} threads, which are no whole warps of "
            f"{target.warp_size}; take a multiple, for example [16, 16, 1] [atoms-warps]"
        )
    if atoms[2] != 1 and schedule.multiply.atom == FMA:
        yield (
            f"atoms = {list(atoms)}: warps along K, not threads of {FMA}, can add their sums; take 1 along K"
            " [threads-along-k]"
        )
    if atoms[2] != 1 and not schedule.multiply.by_warpgroups and schedule.epilogue.math is not EpilogueMath.rows:
        yield (
            f"atoms = {list(atoms)}: the sums of {atoms[2]} warps along K meet in rows of shared memory; take "
            "epilogue.path = smem with epilogue.math = rows, or 1 along K [warps-along-k]"
        )


def atom(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The atom exists, and its tiled mma divides the CTA tile."""
    if not accumulator_types(problem.a, problem.b):
        yield f"A of {problem.a} and B of {problem.b}: no atom multiplies them; convert one of them [types-multiplied]"
        return
    try:
        target.mma(mma_atom_name(schedule, problem))
        tiled_mma(schedule, problem)
    except TargetError:
        reason = _lacking(schedule, problem, target)
        yield f"atom = {schedule.multiply.atom} with {problem.a} operands and {problem.acc} accumulators: {reason}"
        return
    except ScheduleError as error:
        yield str(error)
        return
    atom = target.mma(mma_atom_name(schedule, problem))
    if not atom.takes(k_is_last(problem.layout)):
        turned = [name for name, is_last in zip("ab", k_is_last(problem.layout), strict=True) if not is_last]
        way_out = ", ".join(f"{name}.pack = transposed" for name in turned)
        yield (
            f"layout {problem.layout}: {schedule.multiply.atom} takes {problem.a} and {problem.b} with K contiguous in "
            f"both; take {way_out}, or layout = tn in the spec [atom-layout]"
        )
        return
    if schedule.promotes and holds_a(schedule, problem):
        yield (
            f"layout {problem.layout}: {schedule.multiply.atom} takes A from registers, which promote = per_step does "
            "not support; take a.pack = transposed [held-a-promoted]"
        )
    names = ("grid.tile M", "grid.tile N", "k")
    for name, extent, step in zip(names, schedule.tile_mnk, schedule.multiply.step, strict=True):
        if extent % step:
            yield (
                f"{name} = {extent} is not a multiple of {step}, one step of the tiled mma; nearest is "
                f"{max(1, round(extent / step)) * step} [tile-steps]"
            )


def promotion(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Sums of narrow floats are promoted unless acc = "fast". A K step is then no longer than such a sum."""
    promotes, k = schedule.promotes, schedule.tile_mnk[2]
    overlaps = schedule.multiply.promote is PromoteKind.overlapped
    if overlaps and not schedule.multiply.by_warpgroups:
        yield "promote = overlapped goes with a producer and wgmma; take promote = per_step [promote-roles]"
    if overlaps and problem.weights:
        yield (
            "promote = overlapped: packed weights are converted between K steps; take promote = per_step"
            " [promote-weights]"
        )
    if problem.group:
        if not promotes:
            yield (
                f"promote = none: each sum of a group of {problem.group} has its own scale; take promote = per_step"
                " [promote-groups]"
            )
        return
    if problem.promotes and not promotes:
        kept = element_type(problem.a).sum_precision
        why = (
            f"tensor cores keep {kept} bits of sums of {problem.a}, which are no {problem.acc}"
            if kept is not None
            else f"tensor cores cut long sums of {problem.a}, which loses what products by {problem.precision} bring"
        )
        yield f'promote = none: {why}; take promote = per_step, or acc = "fast" in the spec [promote-needed]'
    if problem.promotes and k > LONGEST_PARTIAL_SUM:
        yield (
            f"k = {k}: a sum of {problem.a} in a K step is promoted to {problem.acc} after at most "
            f'{LONGEST_PARTIAL_SUM} products; take k = {LONGEST_PARTIAL_SUM}, or acc = "fast" in the spec'
            " [promote-length]"
        )
    if problem.is_scaled and SCALE_BLOCK % k:
        nearest = min(_within_a_block(problem), key=lambda step: abs(step - k))
        yield (
            f"k = {k}: {SCALE_BLOCK} products share a scale, so that many are a whole number of K steps; nearest is "
            f"k = {nearest} [scale-block]"
        )
    if problem.is_scaled and not schedule.multiply.by_warpgroups:
        yield "scales of blocks go with a producer and consumers; take roles = cooperative(2), on sm_90a [scales-roles]"
    if promotes and schedule.multiply.atom == FMA:
        yield f"promote = per_step: {FMA} rounds each sum to {problem.acc} as it is; take promote = none [promote-fma]"


def _within_a_block(problem: Problem) -> list[int]:
    """The K steps of a wgmma that divide the K of a scale."""
    step = wgmma_k(problem.a)
    return [k for k in range(step, SCALE_BLOCK + 1, step) if SCALE_BLOCK % k == 0]


def _lacking(schedule: Schedule, problem: Problem, target: Target) -> str:
    """The message that the target lacks the atom, with its atoms for these types."""
    name = mma_atom_name(schedule, problem)
    types, atoms = f".{types_of_atom(problem.acc, problem.a, problem.b)}", atoms_for(problem, target)
    usable = [known for known in atoms if (issuer_of(known) == "warpgroup") == schedule.agents.has_producer]
    if not atoms:
        first = next((one.name for one in KNOWN if any(known.endswith(types) for known in one.mma_atoms)), None)
        way_out = f"{target.name} has none for these types; "
        way_out += "take f32 accumulators" if first is None else f"take target {first}, or convert"
    elif not usable and not schedule.agents.has_producer:
        way_out = f"{target.name} multiplies these types by wgmma alone; take roles = cooperative(2)"
    elif not usable:
        way_out = f"{target.name} has none for these types with roles; take roles = single with atom = {atoms[-1]}"
    elif wgmma_name := re.fullmatch(r"wgmma\.m64n(\d+)k\d+", schedule.multiply.atom or ""):
        widths = wgmma_widths(problem.a, problem.b, problem.acc)
        nearest = min(widths, key=lambda width: abs(width - int(wgmma_name[1])))
        way_out = f"wgmma takes N in steps of {widths[-1] - widths[-2]}, up to {widths[-1]}; nearest is "
        way_out += f"wgmma.m64n{nearest}k{wgmma_k(problem.a)}, with N = {nearest} in grid.tile"
    else:
        way_out = f"take {families(usable)}"
    lacks = f"{target.name} does not have {name}" if name in MMA_ATOMS else f"unknown mma atom {name!r}"
    return f"{lacks}; {way_out} [atom-of-types]"


def accumulators(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The registers that an instruction can address limit the accumulators per thread."""
    m, n, _ = schedule.tile_mnk
    each = m * n * warps_along_k(schedule) // multiplying_threads(schedule) * element_type(problem.acc).bits // 32
    if problem.promotes and not problem.weights and not schedule.multiply.by_warpgroups:
        each *= 2  # beside all sums, those of one step
    if each >= target.registers_per_thread:
        yield (
            f"grid.tile = [{m}, {n}] needs {each} accumulator registers per thread, {target.name} has "
            f"{target.registers_per_thread}; take more warps or a smaller tile [accumulators-per-thread]"
        )
    if schedule.agents.has_producer and not schedule.multiply.by_warpgroups:
        has = schedule.agents.consumer.registers or registers_at_entry(threads_of(schedule), target)
        if each + _BESIDE_ACCUMULATORS > has:
            yield (
                f"grid.tile = [{m}, {n}] needs {each} accumulator registers per thread and about "
                f"{_BESIDE_ACCUMULATORS} beside them, a consumer's thread has {has}; take more warps or a smaller tile"
                " [accumulators-of-consumer]"
            )


def wgmma(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Blocks of 64 rows of A are assigned round-robin to the consumer warpgroups; one wgmma per block and k-slice."""
    if not schedule.multiply.by_warpgroups:
        return
    consumers = schedule.agents.consumer.warpgroups
    m, n, k = tiled_mma(schedule, problem).atom.shape_mnk
    rows, columns, _ = schedule.tile_mnk
    step, plural = m * consumers, "s" if consumers > 1 else ""
    if columns != n and not (schedule.promotes and columns % n == 0):
        yield (
            f"grid.tile = [{rows}, {columns}]: {consumers} consumer warpgroup{plural} can multiply {step}×{n} at once "
            f"by {schedule.multiply.atom}; take N = {n}, or atom = wgmma.m64n{columns}k{k} [wgmma-width]"
        )
    if schedule.multiply.permutation != (step, n, k):
        yield (
            f"permutation is not [{step}, {n}, {k}]: wgmma takes rows and columns in order; take that"
            " [wgmma-permutation]"
        )
    yield from _consumer_registers(schedule, problem, target)


def _consumer_registers(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """A consumer's accumulators fit in its registers. It has a set for each block of 64 rows."""
    consumers, (m, n, _) = schedule.agents.consumer.warpgroups, schedule.tile_mnk
    blocks, width = m // (WGMMA_ROWS * consumers), tiled_mma(schedule, problem).atom.shape_mnk[1]
    entry = registers_at_entry(threads_of(schedule), target)
    has = min(schedule.agents.consumer.registers or entry, target.registers_per_thread)
    step, each = column_step(problem), _registers_of(n, problem)
    beside = _BESIDE_WGMMA + (_OF_A if problem.weights or holds_a(schedule, problem) else 0)
    if each + beside > entry:
        by_entry = _columns_in(entry - beside, problem) // step * step
        most = min(by_entry, widest_of(blocks, has, problem))
        yield (
            f"atom = {schedule.multiply.atom} holds {each} accumulator registers per thread; with "
            f"{beside} beside them they exceed the {entry} with which each of {threads_of(schedule)} threads "
            f"enters: take N ≤ {most} in grid.tile and atom [accumulators-at-entry]"
        )
    sets = blocks + 1 if schedule.promotes else blocks  # beside them, sums of a K step for one block at a time
    if problem.weights:
        sets = 2 * blocks  # or for all of them
    held = sets * each if width == n else blocks * each + 2 * _registers_of(width, problem)  # or two blocks of columns
    beside = _BESIDE_ACCUMULATORS + (_BESIDE_SCALED_BLOCKS if problem.is_scaled and blocks > 1 else 0)
    beside += _scales_of_columns(n, width, schedule, problem)
    if holds_a(schedule, problem):
        beside += m * schedule.tile_mnk[2] // (WARPGROUP_THREADS * consumers)
    if held + beside > has:
        most = widest_of(sets, has - beside + _BESIDE_ACCUMULATORS, problem)
        smaller = f"grid.tile = [{m}, {most}]" if most >= 8 else f"fewer rows than {m} in grid.tile"
        with_it = f"; atom = wgmma.m64n{most}k{wgmma_k(problem.a)} goes with that tile" if most >= 8 else ""
        holders = f"{consumers} consumer warpgroup{'s' if consumers > 1 else ''}"
        yield (
            f"grid.tile = [{m}, {n}]: each thread of {holders} holds {held} "
            f"accumulator registers and needs about {beside} beside them; it has {has}: take {smaller}"
            f"{_more_registers(held + beside, schedule, entry, target)}{with_it} [consumer-registers]"
        )


def _more_registers(needed: int, schedule: Schedule, entry: int, target: Target) -> str:
    """Another way out: `registers` that give each thread of a consumer as many as it needs. Empty if there are none."""
    producer, consumer = _LEAST_REGISTERS, -(-needed // 8) * 8
    warpgroups = schedule.agents.consumer.all_warpgroups
    if needed > target.registers_per_thread or producer + warpgroups * consumer > (1 + warpgroups) * entry:
        return ""
    return f", or registers = [{producer}, {consumer}]"


def _scales_of_columns(n: int, width: int, schedule: Schedule, problem: Problem) -> int:
    """Registers for scales of single columns. A thread has a quarter of the columns of a wgmma, or of the tile if its
    scales are loaded before its products."""
    has_some = OperandKind.column_scale in problem.kinds
    return (width if schedule.stages_scales else n) // 4 if has_some else 0


def column_step(problem: Problem) -> int:
    """N of a wgmma is a multiple of 8, or of 16 if rows along N in shared memory must be whole swizzled units."""
    return 8 if b_is_nk(problem.layout) else 16


def _registers_of(columns: int, problem: Problem) -> int:
    """Registers of a thread for its accumulators in 64 rows of a warpgroup and so many columns."""
    return columns * WGMMA_ROWS * element_type(problem.acc).bits // (WARPGROUP_THREADS * REGISTER_BITS)


def _columns_in(registers: int, problem: Problem) -> int:
    """The columns whose accumulators so many registers of a thread hold."""
    return registers * WARPGROUP_THREADS * REGISTER_BITS // (WGMMA_ROWS * element_type(problem.acc).bits)


def widest_of(blocks: int, registers: int, problem: Problem) -> int:
    """The largest N of a wgmma such that the accumulators of `blocks` blocks of rows fit in `registers` per thread."""
    step = column_step(problem)
    return min(256, _columns_in(registers - _BESIDE_ACCUMULATORS, problem) // blocks // step * step)


def widest(consumers: int, problem: Problem, target: Target) -> int:
    """The largest N of a tile with 64 rows per consumer warpgroup whose accumulators fit in the registers at entry."""
    return widest_of(1, registers_at_entry(WARPGROUP_THREADS * (1 + consumers), target), problem)
