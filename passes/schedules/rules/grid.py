"""Rules of the grid of a schedule: its tile, its clusters, its order, its launch, its division of K."""

from collections.abc import Iterator, Sequence
from math import lcm

from lowtide.dialects.tile import (
    LaunchKind,
    OperandsKind,
    SchedulerKind,
    StorePath,
    TailKind,
    WavesKind,
)
from lowtide.dialects.tile.division import Adder, KDivision
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.facts.resources import shared_memory_bytes, threads_of, warps_along_k
from lowtide.passes.schedules.rules.mainloop import roles_or
from lowtide.passes.support.agents.clusters import OPERANDS, sharing
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.panels import SWIZZLE_ROWS
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS

CLUSTER_SIDES = (1, 2, 4)  # CTAs of a cluster along M or N
LARGEST_EXTENT = 2**31 - 1  # device code counts rows and columns in 32 bits
MOST_PARTS = 128  # of a split: the sum of many parts takes longer than it saves


def operands(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The operands are swapped if the schedule says so. The kernel sees D by rows, or is swapped."""
    wanted = schedule.grid.operands is OperandsKind.swapped
    if problem.swapped != wanted:
        is_, asks = ("swapped", "as_given") if problem.swapped else ("as_given", "swapped")
        yield (
            f"grid.operands = {asks}, but the product is {is_}; lower again from the problem that was asked for"
            " [operands-order]"
        )
    elif problem.d_is_column_major and not wanted and not problem.is_grouped:
        yield (
            "grid.operands = as_given leaves a D that the kernel would store column by column; take swapped"
            " [column-major-d]"
        )


def extents(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Extents of the problem."""
    named = {"M": problem.m, "N": problem.n, "K": problem.k, "batch": problem.batch}
    for letter, extent in named.items():
        if extent is not None and extent > LARGEST_EXTENT:
            yield f"{letter} = {extent} is out of range: {int(letter == 'batch')} to {LARGEST_EXTENT} [problem-extents]"


def order(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The numbers of the order, if it is given."""
    if schedule.grid.order is None:
        return
    kind, numbers = schedule.grid.order.kind, (schedule.grid.order.rows, schedule.grid.order.columns)
    if max(numbers) > LARGEST_EXTENT:
        nearest = ", ".join(str(min(number, LARGEST_EXTENT)) for number in numbers if number)
        yield (
            f"order = {schedule.grid.order}: a number is at most {LARGEST_EXTENT}; nearest is {kind}({nearest})"
            " [order-count]"
        )


def tile(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The extents of the CTA tile, if it is given."""
    if schedule.grid.tile is not None and min(schedule.grid.tile) < 1:
        yield f"grid.tile = {list(schedule.grid.tile)}: every extent is at least 1 [tile-extents]"


def has_griddepcontrol(target: Target) -> bool:
    """sm_90 introduced it (PTX ISA, "griddepcontrol")."""
    return target.compute_capability >= (9, 0)


def launch(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """A programmatic launch needs griddepcontrol."""
    if schedule.grid.launch is LaunchKind.programmatic and not has_griddepcontrol(target):
        yield f"grid.launch = programmatic needs sm_90 or later, not {target.name}; take serialized [launch-target]"


def tail(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """A tail in halves needs a persistent grid with roles, and half tiles with 64 rows for each consumer."""
    grid, consumers = schedule.grid, schedule.agents.consumer.all_warpgroups
    if grid.tail is not TailKind.halves:
        return
    assert grid.tile is not None
    if grid.scheduler is not SchedulerKind.persistent:
        yield (
            f"tail = halves splits the last wave of scheduler = persistent; {grid.scheduler} has none: take whole"
            " [tail-scheduler]"
        )
    elif not consumers:
        yield (
            "tail = halves goes on with the ring of the full waves, which roles = single drains after each tile; "
            f"take {roles_or('whole', problem, target)} [tail-roles]"
        )
    elif schedule.agents.consumer.turns > 1:
        yield (
            "tail = halves is a second loop over tiles, in which turns begin anew; take whole, or cooperative(2)"
            " [tail-turns]"
        )
    elif grid.tile[0] % (2 * WGMMA_ROWS * consumers):
        unit = 2 * WGMMA_ROWS * consumers
        yield (
            f"tail = halves needs {WGMMA_ROWS} rows of a half tile for each of {consumers} consumers, so M of the tile "
            f"is a multiple of {unit}, not {grid.tile[0]}; take tail = whole [tail-rows]"
        )


def waves(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Waves in step need CTAs that run at the same time, each with a producer that can wait for the other CTAs."""
    grid = schedule.grid
    if grid.waves is not WavesKind.synchronized:
        return
    if grid.scheduler is SchedulerKind.one_shot:
        yield (
            "waves = synchronized waits for CTAs that run at the same time, which those of one_shot do not; take free"
            " [waves-scheduler]"
        )
    elif not schedule.agents.has_producer:
        yield (
            "waves = synchronized lets the producer wait while the consumers multiply, but roles = single has none; "
            f"take {roles_or('free', problem, target)} [waves-roles]"
        )
    elif schedule.k_division is not None:
        yield (
            f"waves = synchronized counts whole tiles, and k_division = {schedule.k_division} divides them; take free"
            " [waves-division]"
        )


def ctas(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The number of CTAs per SM, if it is given."""
    count = schedule.grid.ctas_per_sm
    if count is not None and not 1 <= count <= target.max_ctas_per_sm:
        nearest = 1 if count < 1 else target.max_ctas_per_sm
        most = target.max_ctas_per_sm
        yield f"ctas_per_sm = {count}: {target.name} holds 1 to {most} CTAs per SM; nearest is {nearest} [ctas-per-sm]"


def occupancy(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The CTAs fit on an SM by threads and shared memory. ptxas gives each CTA its share of the registers."""
    count = schedule.grid.ctas_per_sm or 1
    threads, needed = threads_of(schedule), shared_memory_bytes(schedule, problem)
    fitting = target.ctas_per_sm(threads, needed, 24)
    if count > 1 and count > fitting:
        yield (
            f"ctas_per_sm = {count}: {fitting} CTAs of {threads} threads and {needed} bytes of shared memory fit on an "
            f"SM of {target.name}; take {fitting} [occupancy-limit]"
        )


def cluster(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The shape of a cluster, if it is given."""
    shape, most = schedule.cluster, target.max_cluster
    size = shape[0] * shape[1]
    nearest = [min(CLUSTER_SIDES, key=lambda side: (abs(side - given), -side)) for given in shape]
    while nearest[0] * nearest[1] > most:
        nearest[nearest.index(max(nearest))] //= 2
    if size > 1 and most == 1:
        yield f"grid.cluster = {list(shape)}: {target.name} has no clusters; take [1, 1] [cluster-target]"
    elif size > most:
        yield (
            f"grid.cluster = {list(shape)} is {size} CTAs; more than {most} are not portable: a GPU need not have room "
            f"for them; nearest is {nearest} [cluster-size]"
        )
    elif any(side not in CLUSTER_SIDES for side in shape):
        yield (
            f"grid.cluster = {list(shape)}: a side has {_either(CLUSTER_SIDES)} CTAs; nearest is {nearest}"
            " [cluster-sides]"
        )


def cluster_shares(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """CTAs share TMA loads: each loads some rows of a stage, beginning where the pattern of the swizzle begins."""
    shape = schedule.cluster
    if shape != (1, 1) and not schedule.agents.has_producer:
        yield (
            f"grid.cluster = {list(shape)} shares TMA loads, which only roles have; "
            f"take {roles_or('grid.cluster = [1, 1]', problem, target)} [cluster-roles]"
        )
        return
    division = schedule.k_division
    if shape != (1, 1) and division is not None and not division.parts:
        yield (
            f"grid.cluster = {list(shape)}: the CTAs of a cluster compute the same K of their tiles, but k_division = "
            f"{division} gives each its own; take k_division = split(2), or grid.cluster = [1, 1] [cluster-division]"
        )
    for operand in OPERANDS:
        rows, _ = problem.stream(operand).box(schedule.tile_mnk)
        _, parties = sharing(operand, shape)
        if parties > 1 and rows % (SWIZZLE_ROWS * parties):
            most = max((side for side in CLUSTER_SIDES[:-1] if rows % (SWIZZLE_ROWS * side) == 0), default=1)
            nearest = [shape[0], most] if operand == "a" else [most, shape[1]]
            yield (
                f"grid.cluster = {list(shape)}: {parties} CTAs share the {rows} rows of a stage of operand {operand}, "
                f"and each loads a multiple of {SWIZZLE_ROWS}, the period of the swizzle; take {nearest} [cluster-rows]"
            )


def _either(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}"


def accumulators(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The accumulators of the CTA tile, if it is given, must fit in the registers of one SM."""
    if schedule.grid.tile is None:
        return
    rows, columns = schedule.grid.tile
    most = target.registers_per_sm * 32 // element_type(problem.acc).bits
    if rows * columns > most:
        yield (
            f"grid.tile = [{rows}, {columns}] holds {rows * columns} accumulators of {problem.acc}, but the registers "
            f"of one SM of {target.name} hold {most}; take a tile of at most [128, 256] [accumulators-per-sm]"
        )


def k_parts(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The number of parts of a split, if it is given."""
    division = schedule.k_division
    if division is not None and division.parts > MOST_PARTS:
        yield f"k_division = {division}: at most {MOST_PARTS} parts; nearest is split({MOST_PARTS}) [k-parts]"


def k_division(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """A part has at least one K step. If each CTA has an even share of all steps, or CTAs wait for each other, all CTAs
    of the grid must run at once."""
    division = schedule.k_division
    if division is None:
        return
    if schedule.grid.tail is TailKind.halves:
        yield (
            f"k_division = {division} divides the last wave already; take tail = whole, or k_division = none"
            " [division-tail]"
        )
    if schedule.agents.consumer.turns > 1:
        yield (
            f"k_division = {division} has work items of unequal length, and consumers that take turns skip tiles of "
            f"equal length; take roles = cooperative({schedule.agents.consumer.turns}), or k_division = none"
            " [division-turns]"
        )
    if warps_along_k(schedule) > 1:
        m, n, k = schedule.multiply.atoms or (1, 1, 1)
        yield (
            f"k_division = {division} adds sums of whole K steps, and with atoms = [{m}, {n}, {k}] each warp has that "
            f"of a part, which the epilogue adds; take atoms = [{m}, {n}, 1], or k_division = none [division-warps]"
        )
    _, _, tile_k = schedule.tile_mnk
    if division.parts:
        steps = None if problem.k is None else -(-problem.k // tile_k)
        if steps is not None and division.parts > steps:
            yield (
                f"k_division = {division}: K = {problem.k} has {steps} step{'s' if steps > 1 else ''} of {tile_k}, and "
                f"a part at least one; nearest is {division.kind}({steps}) [division-steps]"
            )
    if division.needs_residents and schedule.grid.scheduler is not SchedulerKind.persistent:
        yield (
            f"k_division = {division} needs a grid of the CTAs that run at once, not scheduler = "
            f"{schedule.grid.scheduler}; take scheduler = persistent, or k_division = split({division.parts or 2})"
            " [division-scheduler]"
        )
    if division.is_scattered:
        yield from _shares(schedule, division)


def _shares(schedule: Schedule, division: KDivision) -> Iterator[str]:
    """Each part stores a share of the columns: whole runs from its fragment or, by TMA, whole boxes."""
    _, n, _ = schedule.tile_mnk
    epilogue, parts = schedule.epilogue, division.parts
    step = 8 if schedule.multiply.by_warpgroups else schedule.multiply.step[1]
    boxes = epilogue.tile if epilogue.path is StorePath.tma else None
    step = step if boxes is None else lcm(step, boxes[1])
    if n % (parts * step):
        nearest = max((count for count in range(2, parts) if n % (count * step) == 0), default=None)
        otherwise = f"take {division.added_by(Adder.first)}"
        yield (
            f"k_division = {division}: the {n} columns of the tile must divide into shares that are multiples of "
            f"{step}; {f'nearest is {division.kind}({nearest})' if nearest else otherwise} [share-columns]"
        )
    if epilogue.path is StorePath.smem:
        yield (
            f"k_division = {division} stores shares of a tile from fragments; take epilogue.path = direct or tma, not "
            "smem [share-path]"
        )
