"""What a schedule with roles must satisfy: the roles' registers, wgmma's shapes, TMA's boxes."""

from collections.abc import Iterator

from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.facts import consumer_warpgroups, registers_at_entry, threads_of
from lowtide.passes.support.atoms import TMA_RANKS, is_transposed, stored_shape, tiled_mma
from lowtide.passes.support.panels import panel_width
from lowtide.passes.support.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WARPGROUP_THREADS, WGMMA_ROWS, Operand

_OPERANDS: tuple[Operand, ...] = ("a", "b")
_BESIDE_ACCUMULATORS = 40  # registers of a consumer for addresses, the epilogue and the loop
_BESIDE_WGMMA = 26  # registers that ptxas wants at entry beside the accumulators of one wgmma (its C7602)
_MAX_BOX_ROWS = 256
_LOAD_HINTS = ("normal", "evict_first", "evict_last")
_SWIZZLE_BASE, _SWIZZLE_SHIFT = 3, 3  # of 16-bit elements: 16 bytes stay together, rows of 128 bytes are told apart


def roles(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """What a producer and its consumers need of each other; and that nothing else asks for their atoms."""
    assert schedule.warps is not None and schedule.roles is not None
    consumers = consumer_warpgroups(schedule)
    if not consumers:
        for name, atom, other in (("copy", schedule.copy, "cp.async.16"), ("mma", schedule.mma, "mma.m16n8k16")):
            if str(atom).startswith(("tma", "wgmma")):
                yield f"{name} = {atom} needs a producer and consumers; take {with_roles(target, f'{name} = {other}')}"
        if schedule.registers not in (None, (0, 0)):
            registers = list(schedule.registers or ())
            yield f"registers = {registers} are those of roles; take [0, 0]{or_roles(target)}"
        return
    if schedule.copy not in TMA_RANKS or not str(schedule.mma).startswith("wgmma"):
        yield f"roles = cooperative({consumers}) go with copy = tma and wgmma, not {schedule.copy} and {schedule.mma}"
    if schedule.warps != (consumers, 1, 1):
        yield f"warps = {list(schedule.warps)} count the consumer warpgroups; take [{consumers}, 1, 1]"
    if schedule.scheduler == "one_shot" or schedule.fragment_buffers != 1:
        yield "roles go with scheduler = persistent or even_split and fragment_buffers = 1"
    yield from _maxnreg(schedule, target)


def has_wgmma(target: Target) -> bool:
    """Whether the target has what schedules with roles are made of."""
    return any(name.startswith("wgmma") for name in target.mma_atoms)


def with_roles(target: Target, otherwise: str) -> str:
    """What to take where only roles go with what is given, or otherwise on a target that has none."""
    return "roles = cooperative(2)" if has_wgmma(target) else f"{otherwise}: {target.name} has no wgmma"


def or_roles(target: Target) -> str:
    """Roles as another way out, on a target that has them."""
    return ", or roles = cooperative(2)" if has_wgmma(target) else ""


def load_hints(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """How L2 keeps A and B is said by the TMA loads that read them."""
    for name, hint in zip("AB", schedule.cache_hints or (), strict=False):
        if hint not in _LOAD_HINTS:
            yield f"cache_hints: {name} = {hint} is not one of {', '.join(_LOAD_HINTS)}"
        if hint != "normal" and schedule.copy not in (None, *TMA_RANKS):
            yield f"cache_hints: {name} = {hint} goes with copy = tma, not {schedule.copy}; take normal"


def entry_registers(schedule: Schedule, target: Target) -> int:
    """Registers that each thread of the CTA enters with: an even share of the SM's, in steps of 8."""
    return registers_at_entry(threads_of(schedule), target)


def _maxnreg(schedule: Schedule, target: Target) -> Iterator[str]:
    """setmaxnreg moves registers between roles: their sum is what the CTA has at entry, or it waits for ever."""
    producer, consumer = schedule.registers or (0, 0)
    consumers = consumer_warpgroups(schedule)
    if (producer == 0) != (consumer == 0):
        yield f"registers = [{producer}, {consumer}]: both roles ask for registers, or none (0)"
    each = entry_registers(schedule, target)
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


def wgmma(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The consumer warpgroups take blocks of 64 rows of A in turn, each by one wgmma a k-slice."""
    consumers = consumer_warpgroups(schedule)
    if not consumers:
        return
    assert schedule.cta is not None and schedule.permutation is not None
    m, n, k = tiled_mma(schedule, problem).atom.shape_mnk
    step = m * consumers
    if schedule.cta[1] != n:
        yield (
            f"cta = {list(schedule.cta)}: {consumers} consumer warpgroups multiply {step}×{n} at once by "
            f"{schedule.mma}; take N = {n}, or mma = wgmma.m64n{schedule.cta[1]}k16"
        )
    if schedule.permutation != (step, n, k):
        yield f"permutation is not [{step}, {n}, {k}]: wgmma takes rows and columns in order; take that"
    yield from _accumulators(schedule, target)


def _accumulators(schedule: Schedule, target: Target) -> Iterator[str]:
    """A consumer's accumulators stay in registers: N / 2 of them for each block of 64 rows."""
    assert schedule.cta is not None
    consumers = consumer_warpgroups(schedule)
    m, n, _ = schedule.cta
    blocks = m // (WGMMA_ROWS * consumers)
    entry = entry_registers(schedule, target)
    if n // 2 + _BESIDE_WGMMA > entry:
        yield (
            f"mma = {schedule.mma} holds {n // 2} accumulators a thread; with {_BESIDE_WGMMA} beside them they exceed "
            f"the {entry} that each of {threads_of(schedule)} threads enters with: take N ≤ "
            f"{(entry - _BESIDE_WGMMA) * 2 // 8 * 8} in cta and mma"
        )
    given = (schedule.registers or (0, 0))[1] or entry
    has = min(given, target.registers_per_thread)
    needed = blocks * n // 2 + _BESIDE_ACCUMULATORS
    if needed > has:
        most = (has - _BESIDE_ACCUMULATORS) * 2 // blocks // 8 * 8
        smaller = f"[{m}, {most}, {schedule.cta[2]}]" if most >= 8 else f"fewer rows than {m}"
        with_it = f"; mma = wgmma.m64n{most}k16 goes with that tile" if most >= 8 else ""
        yield (
            f"cta = {list(schedule.cta)}: each thread of {consumers} consumer warpgroups holds {blocks * n // 2} "
            f"accumulators and needs about {_BESIDE_ACCUMULATORS} registers beside them; it has {has}: take cta = "
            f"{smaller}, or more for consumers in registers{with_it}"
        )


def widest(consumers: int, target: Target) -> int:
    """N of the widest tile of 64 rows a consumer warpgroup whose accumulators fit, as the CTA enters."""
    entry = registers_at_entry(WARPGROUP_THREADS * (1 + consumers), target)
    return min(256, (entry - _BESIDE_ACCUMULATORS) * 2 // 8 * 8)


def boxes(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """TMA moves boxes: at most 256 elements a side; wgmma is fed from rows as long as their swizzle."""
    for operand in _OPERANDS:
        rows, columns = stored_shape(operand, schedule, problem.layout)
        bits, base, shift = swizzle = getattr(schedule, f"swizzle_{operand}")
        row_bytes = columns * element_type(problem.ab).bits // 8
        at = f"operand {operand}: rows of {row_bytes} bytes with swizzle_{operand} = <{bits},{base},{shift}>"
        if rows > _MAX_BOX_ROWS:
            smallest = rows == WGMMA_ROWS * consumer_warpgroups(schedule)
            fewer = f", of at most cooperative({_MAX_BOX_ROWS // WGMMA_ROWS})" if smallest else ""
            yield (
                f"operand {operand}: a TMA box of {rows} rows; at most {_MAX_BOX_ROWS}: take a smaller CTA tile{fewer}"
            )
        if (base, shift) != (_SWIZZLE_BASE, _SWIZZLE_SHIFT) or bits not in (1, 2, 3):
            yield f"{at}; TMA and wgmma have <3,3,3>, <2,3,3> and <1,3,3>: take {_swizzle_text(columns)}"
            return
        try:
            is_whole = panel_width(columns, swizzle) * element_type(problem.ab).bits // 8 == 16 << bits
        except ScheduleError:
            is_whole = False
        if not is_whole:
            yield f"{at}; they must be whole panels of {16 << bits} bytes: take {_swizzle_text(columns)}"
            return
    yield from _whole_panels(schedule, problem)


def _swizzle_text(columns: int) -> str:
    """The swizzle that fits rows of so many 16-bit elements, as a way out."""
    bits = swizzle_bits(columns)
    if bits is None:
        return f"a tile whose contiguous side is a multiple of 16, not {columns}"
    return f"<{bits},{_SWIZZLE_BASE},{_SWIZZLE_SHIFT}>"


def swizzle_bits(columns: int) -> int | None:
    """The bits of the widest swizzle whose row divides rows of so many 16-bit elements; None where none does."""
    return next((bits for bits in (3, 2, 1) if columns % (8 << bits) == 0), None)


def _whole_panels(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Maps of more than two dimensions see a matrix as panels: its contiguous extent is a multiple of their width."""
    rank = TMA_RANKS.get(str(schedule.copy), 2)
    if rank == 2:
        return
    for operand in _OPERANDS:
        _, columns = stored_shape(operand, schedule, problem.layout)
        width = panel_width(columns, getattr(schedule, f"swizzle_{operand}"))
        letter, extent = contiguous_extent(operand, problem)
        if extent is not None and extent % width:
            yield (
                f"copy = {schedule.copy} sees operand {operand} as panels of {width} elements, which do not divide "
                f"{letter} = {extent}; take copy = tma, or pad {letter} to {-(-extent // width) * width}"
            )


def contiguous_extent(operand: Operand, problem: Problem) -> tuple[str, int | None]:
    """The contiguous dimension of A or B in global memory, its letter and its extent (None: known at run time)."""
    if not is_transposed(operand, problem.layout):
        return "K", problem.k
    return ("M", problem.m) if operand == "a" else ("N", problem.n)
