"""Rules of the mainloop of a schedule: stages, roles and their registers, prologues, shared memory."""

from collections.abc import Iterator
from math import prod

from lowtide.dialects.tile import CacheHint, RasterKind, RepeatKind, SchedulerKind, TailKind, UnrollKind, WavesKind
from lowtide.dialects.tile.agents import Agents
from lowtide.dialects.tile.layouts import NO_SWIZZLE
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.facts.resources import (
    atoms_for,
    ctas_per_sm,
    registers_at_entry,
    shared_memory_by_stages,
    slot_bytes,
    threads_of,
)
from lowtide.passes.schedules.rules.tma import MAX_BOX_SIDE
from lowtide.passes.support.agents.atoms import GLOBAL_LOADS, RING_COPIES, TMA_RANKS
from lowtide.passes.support.problem.matrix_layouts import a_is_mk
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import KNOWN, Target, family_of, issuer_of
from lowtide.targets.atoms import WARPGROUP_THREADS, WARPGROUP_WARPS, WGMMA_ROWS, Operand

OPERANDS: tuple[Operand, ...] = ("a", "b")
_MOST_PADDING = 1024  # elements
_MOST_UNROLLED = 16  # K steps
_LOAD_HINTS = (CacheHint.normal, CacheHint.evict_first, CacheHint.evict_last)


def fields(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The fields that are words or numbers, if they are given."""
    mainloop = schedule.mainloop
    if schedule.agents.has_producer and not has_wgmma(target):
        first = next(known.name for known in KNOWN if has_wgmma(known))
        yield (
            f"a producer and a consumer share the registers of a CTA by instructions that {target.name} does not have; "
            f"take roles = single, or target {first} [roles-target]"
        )
    atom = schedule.multiply.atom
    if schedule.agents.has_producer and issuer_of(atom) == "thread":
        other = _other_atom(problem, target)
        yield f"a producer and a consumer go with wgmma or mma.sync, not {atom}; take atom = {other} [roles-atom]"
    if mainloop.k is not None and mainloop.k < 1:
        yield f"k = {mainloop.k}: a step is at least 1 deep; nearest is 1 [k-depth]"
    if mainloop.stages is not None and not 2 <= mainloop.stages <= 64:
        yield (
            f"stages = {mainloop.stages} is out of range: 2 to 64; nearest is {2 if mainloop.stages < 2 else 64}"
            " [stages-range]"
        )
    yield from _agents(schedule.agents)
    for name in OPERANDS:
        operand, allowed = mainloop.operand(name), (*RING_COPIES, *TMA_RANKS, *GLOBAL_LOADS)
        if operand.copy is not None and operand.copy not in allowed:
            yield f"{name}.copy = {operand.copy} is not one of {', '.join(allowed)} [copy-words]"
        if operand.padding is not None and not 0 <= operand.padding <= _MOST_PADDING:
            nearest = 0 if operand.padding < 0 else _MOST_PADDING
            yield (
                f"{name}.padding = {operand.padding} is out of range: 0 to {_MOST_PADDING}; nearest is {nearest}"
                " [padding-range]"
            )
        if operand.cache not in (None, *_LOAD_HINTS):
            yield f"{name}.cache = {operand.cache} is not one of {', '.join(map(str, _LOAD_HINTS))} [cache-words]"
        elif operand.cache not in (None, CacheHint.normal) and operand.copy not in (None, *TMA_RANKS):
            yield (
                f"{name}.cache = {operand.cache} goes with {name}.copy = tma, not {operand.copy}; take normal"
                " [cache-copy]"
            )


def _agents(agents: Agents) -> Iterator[str]:
    """The numbers of each agent. With a single agent there is no other."""
    for count in agents.registers:
        if count != 0 and (count % 8 or not 24 <= count <= 256):
            legal = [each and min(max(round(each / 8) * 8, 24), 256) for each in agents.registers]
            yield (
                f"registers = {list(agents.registers)}: setmaxnreg takes multiples of 8 from 24 to 256, or 0 to leave "
                f"them; nearest is {legal} [registers-range]"
            )
    if agents.producer.warps not in (None, WARPGROUP_WARPS) or agents.producer.instances not in (None, 1):
        yield f"a producer has one instance of {WARPGROUP_WARPS} warps; take producer.warps = 4 [producer-warps]"
    consumer = agents.consumer
    if consumer.warps is not None and (consumer.warps < 1 or consumer.warps % WARPGROUP_WARPS):
        nearest = max(consumer.warps // WARPGROUP_WARPS, 1) * WARPGROUP_WARPS
        yield f"consumer.warps = {consumer.warps} are no whole warpgroups; nearest is {nearest} [consumer-warps]"
    if consumer.turns < 1 or (consumer.turns > 1 and consumer.warpgroups > 1):
        yield (
            f"consumer.instances = {consumer.instances} of {consumer.warps} warps: instances that take tiles in turn "
            "have 4 warps each; take consumer.warps = 4, or consumer.instances = 1 [consumer-instances]"
        )
    if agents.is_single and (agents.has_producer or agents.producer.warps is not None):
        yield "a single agent does all: leave producer and consumer out, or single [agents-single]"
    if agents.single.turns != 1 or agents.single.warps is not None or agents.single.registers is not None:
        yield (
            "a single agent has one instance, as many warps as multiply.atoms take, and the registers that ptxas gives "
            "it; leave single.warps and single.registers out [single-fields]"
        )


def roles(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The fields that roles need, and the atoms that need roles."""
    if not schedule.agents.has_producer:
        yield from _without_roles(schedule, problem, target)
        return
    yield from _too_many(schedule, problem, target)
    multiply = schedule.multiply
    for name in OPERANDS:
        copy = schedule.mainloop.operand(name).copy
        if copy not in (*TMA_RANKS, *RING_COPIES):
            yield (
                f"a producer and a consumer share a ring in shared memory, which {name}.copy = {copy} does not fill; "
                f"take {name}.copy = tma [roles-copy]"
            )
    yield from _copied_by_threads(schedule)
    yield from _staged_scales(schedule, problem)
    yield from _k_order(schedule, problem)
    yield from _of_wgmma(schedule) if multiply.by_warpgroups else _of_mma_sync(schedule, problem)
    if schedule.grid.scheduler is SchedulerKind.one_shot:
        yield (
            "scheduler = one_shot with roles, whose ring outlives a tile; take scheduler = persistent or even_split"
            " [roles-scheduler]"
        )
    yield from _maxnreg(schedule, target)


def _of_wgmma(schedule: Schedule) -> Iterator[str]:
    """One atom along M for each warpgroup; it reads the stages."""
    multiply, sharing = schedule.multiply, schedule.agents.consumer.warpgroups
    if multiply.atoms != (sharing, 1, 1):
        counted = "the consumer warpgroups that share a tile"
        yield f"atoms = {list(multiply.atoms or ())} count {counted}; take [{sharing}, 1, 1] [roles-atoms]"
    if multiply.fragment_buffers != 1:
        yield (f"fragment_buffers = {multiply.fragment_buffers}: wgmma reads shared memory; take 1 [roles-buffers]")


def _of_mma_sync(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """One atom for each warp of a consumer. Tiles are whole, and each sum is added up in one warp."""
    atoms, warps = schedule.multiply.atoms or (1, 1, 1), schedule.agents.consumer.warps
    if prod(atoms) != warps or atoms[2] != 1:
        yield (
            f"atoms = {list(atoms)} are {prod(atoms)} warps, a consumer has {warps}, none of them along K; take "
            f"[{warps}, 1, 1] [consumer-atoms]"
        )
    for found, way_out in (
        (schedule.cluster != (1, 1), "cluster = [1, 1]"),
        (schedule.grid.tail is TailKind.halves, "tail = whole"),
        (schedule.multiply.atom_order is not None, "no atom_order"),
        (problem.weights is not None, "roles = single for packed weights"),
    ):
        if found:
            yield f"a consumer of {schedule.multiply.atom} goes with {way_out}; take that [consumer-mma]"


def _copied_by_threads(schedule: Schedule) -> Iterator[str]:
    """A producer whose threads copy is one warpgroup, and fills only the stages of its own CTA."""
    for name in schedule.copied_by_threads:
        found = f"{name}.copy = {schedule.mainloop.operand(name).copy} with roles"
        if schedule.cluster != (1, 1):
            yield (
                f"{found} fills its own CTA's stages, not those of a cluster; take cluster = [1, 1] [producer-cluster]"
            )
        if schedule.grid.waves is WavesKind.synchronized:
            yield (
                f"{found} goes with waves = free, since one thread of a producer waits for a wave; take that"
                " [producer-waves]"
            )


def _staged_scales(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """The producer loads scales only if they are scales of blocks, by the one thread that loads A and B."""
    if schedule.stages_scales and not problem.is_scaled:
        yield (
            "scales = staged copies scales of blocks, which this product has none of; leave scales out"
            " [staged-scales-none]"
        )


def _k_order(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """If K is turned around, consumers do not know which K step a slot holds."""
    if schedule.turns_k_around and (problem.is_scaled or problem.weights):
        of = "packed weights" if problem.weights else "scales of blocks"
        yield (
            f"k_order = serpentine leaves consumers of {of} without the index of their K step; take forward"
            " [k-order-scales]"
        )


def _without_roles(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    if schedule.stages_scales:
        way_out = roles_or("scales = direct", problem, target)
        yield f"scales = staged goes with a producer that loads them; take {way_out} [staged-scales-roles]"
    if schedule.turns_k_around:
        way_out = roles_or("forward", problem, target)
        yield (f"k_order = serpentine needs a producer, and roles = single has none; take {way_out} [k-order-roles]")
    asked = [(f"{name}.copy", schedule.mainloop.operand(name).copy, "cp.async.16") for name in OPERANDS]
    for name, found, other in (*asked, ("atom", schedule.multiply.atom, _other_atom(problem, target))):
        if family_of(found) == "tma" or issuer_of(found) == "warpgroup":
            way_out = roles_or(f"{name} = {other}", problem, target)
            yield f"{name} = {found} needs a producer and consumers; take {way_out} [atom-roles]"
    if schedule.is_direct:
        yield from _direct(schedule)
    if any(schedule.agents.registers):
        way_out = roles_or("[0, 0]", problem, target)
        yield f"registers = {list(schedule.agents.registers)} are those of roles; take {way_out} [registers-roles]"


def _direct(schedule: Schedule) -> Iterator[str]:
    """Fragments loaded from global memory: for both operands, without a ring, one k-slice at a time."""
    for name, other in zip(OPERANDS, reversed(OPERANDS), strict=True):
        loaded, copied = (schedule.mainloop.operand(one).copy for one in (name, other))
        if loaded in GLOBAL_LOADS and copied not in GLOBAL_LOADS:
            yield (
                f"{name}.copy = {loaded} loads fragments without shared memory, {other}.copy = {copied} does not; take "
                f"{other}.copy = {loaded}, or {name}.copy = {copied} [direct-both]"
            )
    for path in ("mainloop.stages", "mainloop.a.swizzle", "mainloop.b.swizzle"):
        if schedule.get(path) not in (None, NO_SWIZZLE):
            copy = schedule.mainloop.a.copy
            yield f"{path} describes stages in shared memory, and a.copy = {copy} has none; leave it out [direct-ring]"
    if schedule.multiply.fragment_buffers != 1:
        yield (
            f"fragment_buffers = {schedule.multiply.fragment_buffers} with loads from global memory; take 1"
            " [direct-buffers]"
        )


def prologue(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """A ring that stays filled needs several tiles per CTA, and the warps that copy must also multiply."""
    if schedule.mainloop.prologue is not RepeatKind.once:
        return
    if schedule.is_direct:
        yield (
            "prologue = once keeps stages filled, and loads from global memory have none; take per_tile"
            " [prologue-direct]"
        )
    if schedule.agents.has_producer:
        yield (
            "prologue = once goes with roles = single: a producer runs ahead by itself; take per_tile [prologue-roles]"
        )
    if schedule.k_division is not None:
        yield (
            f"prologue = once goes with whole tiles, not k_division = {schedule.k_division}; take k_division = none"
            " [prologue-division]"
        )
    if schedule.grid.scheduler is SchedulerKind.one_shot:
        yield (
            "prologue = once needs CTAs of several tiles: take scheduler = persistent or even_split"
            " [prologue-scheduler]"
        )
    if schedule.multiply.fragment_buffers != 1:
        yield (
            "prologue = once goes with fragment_buffers = 1: fragments are not loaded across work tiles; take "
            "fragment_buffers = 1, or prologue = per_tile [prologue-buffers]"
        )


def loaded_once(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """An operand may stay in the ring if all tiles of a CTA share it and each of its K steps has a slot of its own."""
    assert schedule.grid.tile is not None and schedule.mainloop.k is not None
    steps = None if problem.k is None else -(-problem.k // schedule.mainloop.k)
    for name, side, extent, most in zip(OPERANDS, "MN", (problem.m, problem.n), schedule.grid.tile, strict=True):
        if schedule.mainloop.operand(name).load is not RepeatKind.once:
            continue
        if extent is None or steps is None:
            unknown = " and ".join([side] * (extent is None) + ["K"] * (steps is None))
            yield f"{name}.load = once needs a known {unknown}; take {name}.load = per_tile [load-once-known]"
        if schedule.mainloop.prologue is not RepeatKind.once:
            fills_once = not schedule.agents.has_producer and not schedule.is_direct and schedule.k_division is None
            ways = f"prologue = once, or {name}.load = per_tile" if fills_once else f"{name}.load = per_tile"
            yield f"{name}.load = once needs a ring that outlives a work tile; take {ways} [load-once-ring]"
        if problem.is_batched:
            yield (
                f"{name}.load = once: each product of a batch has its own {name.upper()}; take {name}.load = per_tile"
                " [load-once-batch]"
            )
        if extent is not None and not _stays_on(side, -(-extent // most), schedule, problem, target):
            yield (
                f"{name}.load = once: tiles of {side} = {most} do not share {name.upper()} where {side} is {extent}; "
                f"take {name}.load = per_tile [load-once-shared]"
            )
        k, stages = schedule.mainloop.k, schedule.mainloop.stages
        if steps == 1:
            yield (
                f"{name}.load = once needs at least 2 K steps, and k = {k} makes one; take a smaller k"
                " [load-once-steps]"
            )
        elif steps is not None and stages is not None and stages % steps:
            yield (
                f"{name}.load = once keeps each K step in slots of its own: stages = {stages} are no multiple of the "
                f"{steps} K steps; take stages = {steps} [load-once-slots]"
            )


def _stays_on(side: str, tiles: int, schedule: Schedule, problem: Problem, target: Target) -> bool:
    """Whether all tiles of a CTA are at one place along a side of `tiles` tiles.

    CTA i of g takes tiles i, i + g, …. If consecutive tiles go along the side, and `tiles` divides g, its place is
    always i mod `tiles`.
    """
    grid, along = schedule.grid, RasterKind.column if side == "M" else RasterKind.row
    in_turn = grid.scheduler is SchedulerKind.persistent and grid.order is not None and grid.order.kind is along
    return tiles == 1 or (in_turn and ctas_per_sm(schedule, problem, target) % tiles == 0)


def unroll(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """A loop is unrolled only if its steps are few and known."""
    if schedule.mainloop.unroll is not UnrollKind.full:
        return
    if schedule.agents.has_producer:
        yield (
            "unroll = full goes with roles = single: ptxas unrolls the loops of roles as it likes; take unroll = none"
            " [unroll-roles]"
        )
    if schedule.k_division is not None:
        yield (
            f"unroll = full needs K undivided, not k_division = {schedule.k_division}; take unroll = none"
            " [unroll-division]"
        )
    assert schedule.mainloop.k is not None
    if problem.k is None:
        yield "unroll = full needs a K that is known at compile time; take unroll = none, or give K [k-known]"
        return
    steps = -(-problem.k // schedule.mainloop.k)
    if steps > _MOST_UNROLLED:
        yield (
            f"unroll = full unrolls at most {_MOST_UNROLLED} K steps, not {steps}; take unroll = none or a larger k"
            " [unroll-steps]"
        )


def _too_many(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Threads per CTA limit the warpgroups. So does the TMA box of their rows of A, if K is contiguous in A."""
    threads = threads_of(schedule)
    if threads > target.max_threads_per_cta:
        most = target.max_threads_per_cta // WARPGROUP_THREADS - 1
        word = "pingpong" if schedule.agents.consumer.turns > 1 else "cooperative"
        if a_is_mk(problem.layout) and schedule.agents.consumer.turns == 1:
            most = min(most, MAX_BOX_SIDE // WGMMA_ROWS)
        yield (
            f"a producer and its consumers are {threads} threads, {target.name} has at most "
            f"{target.max_threads_per_cta} per CTA; take at most roles = {word}({most})"
            " [too-many-threads]"
        )


def has_wgmma(target: Target) -> bool:
    """Whether the target has wgmma, and so the instructions of roles."""
    return any(issuer_of(name) == "warpgroup" for name in target.mma_atoms)


def roles_or(otherwise: str, problem: Problem, target: Target) -> str:
    """The way out if a field needs roles that the schedule does not have: roles, if the target has a wgmma for the
    problem's types, or `otherwise`."""
    if _wgmma_multiplies(problem, target):
        return f"roles = cooperative(2) with wgmma, or {otherwise}"
    return f"{otherwise}: {target.name} has no wgmma{' for these types' if has_wgmma(target) else ''}"


def _other_atom(problem: Problem, target: Target) -> str:
    """The largest mma.sync for the problem's types, or the one for most other types if it has none."""
    mma_sync = [name for name in atoms_for(problem, target) if issuer_of(name) == "warp"]
    return mma_sync[-1] if mma_sync else "mma.m16n8k16"


def _wgmma_multiplies(problem: Problem, target: Target) -> bool:
    """Whether the target has a wgmma for the problem's types."""
    return any(issuer_of(name) == "warpgroup" for name in atoms_for(problem, target))


def _maxnreg(schedule: Schedule, target: Target) -> Iterator[str]:
    """setmaxnreg moves registers between roles. If they ask for more than the CTA has at entry, it waits forever."""
    producer, consumer = schedule.agents.registers
    consumers = schedule.agents.consumer.all_warpgroups
    if (producer == 0) != (consumer == 0):
        yield f"registers = [{producer}, {consumer}]: both roles ask for registers, or none (0) [registers-both]"
    each = registers_at_entry(threads_of(schedule), target)
    entry = (1 + consumers) * each
    wanted = producer + consumers * consumer
    if wanted > entry:
        yield (
            f"registers = [{producer}, {consumer}] need {wanted} per lane over all warpgroups, the CTA enters with "
            f"{entry}; take consumer ≤ {(entry - producer) // consumers // 8 * 8} [registers-sum]"
        )
    if producer > each or 0 < consumer < each:
        yield (
            f"registers = [{producer}, {consumer}]: the CTA enters with {each} per thread, from which a producer may "
            f"only come down and a consumer go up; take producer ≤ {each} ≤ consumer [registers-entry]"
        )


def _kept_steps(schedule: Schedule, problem: Problem) -> int:
    """The number that must divide `stages`: the K steps of an operand that is loaded once, or 1."""
    is_kept = any(schedule.mainloop.operand(name).load is RepeatKind.once for name in OPERANDS)
    return (
        1 if not is_kept or problem.k is None or schedule.mainloop.k is None else -(-problem.k // schedule.mainloop.k)
    )


def shared_memory(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Ring and scratch fit in the shared memory of a CTA."""
    by_stages = shared_memory_by_stages(schedule, problem)
    needed = by_stages(schedule.mainloop.stages or 0)
    if needed > target.smem_bytes_per_cta and schedule.is_direct:
        yield (
            f"needs {needed} bytes of shared memory for the epilogue's scratch, {target.name} has "
            f"{target.smem_bytes_per_cta} per CTA; take a smaller epilogue.tile [scratch-too-large]"
        )
    elif needed > target.smem_bytes_per_cta:
        assert schedule.mainloop.stages is not None
        stages, kept = schedule.mainloop.stages, _kept_steps(schedule, problem)
        stage = sum(slot_bytes(schedule, problem))
        fitting = next(
            (n for n in range(stages - 1, 1, -1) if n % kept == 0 and by_stages(n) <= target.smem_bytes_per_cta), 0
        )
        yield (
            f"needs {needed} bytes of shared memory ({schedule.mainloop.stages} stages of {stage}), {target.name} has "
            f"{target.smem_bytes_per_cta} per CTA; take "
            f"{f'stages = {fitting}' if fitting >= 2 else 'a smaller k, or a smaller grid.tile'} [ring-too-large]"
        )
