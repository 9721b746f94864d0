"""The candidates for any agents. A candidate is a set of fields: a tile, K of a step, the agents, and all fields that
do not follow from these. The rules accept or refuse it. The cost orders the legal ones, and the cheapest is chosen.

There are whole tiles, and tiles whose K several CTAs share. A grid of few tiles is bound by the bytes that one SM
receives from L2 per cycle. A large tile needs fewer bytes for each product; if its K is divided, every SM has a part of
one. Each CTA then writes its partial sums to L2, and one CTA adds them all, or each CTA adds its share of the columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf, prod
from types import MappingProxyType
from typing import Any, TypeAlias

from tensor_layouts import size

from lowtide.dialects.tile import (
    KDivisionKind,
    LaunchKind,
    OperandKind,
    RasterKind,
    SchedulerKind,
    StorePath,
    TailKind,
)
from lowtide.dialects.tile.agents import AGENT_PATHS, REGISTER_PATHS, SINGLE, Agent, Agents, cooperative, pingpong
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.fields import Extents3, Order
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.choice import short_k, tiles
from lowtide.passes.schedules.choice.asked_for import asks_for_tma_stores, stores_by_tma, wgmma_width
from lowtide.passes.schedules.choice.multiply import multiplies_by_fma
from lowtide.passes.schedules.choice.reasons import OF_FEW_STEPS
from lowtide.passes.schedules.choice.tiles import Splits, WarpTile
from lowtide.passes.schedules.cost.described import is_estimated, square_bands
from lowtide.passes.schedules.cost.traffic import straddles_sectors
from lowtide.passes.schedules.facts.resources import REGISTER_BITS, results_fill_registers
from lowtide.passes.schedules.rules.multiply import column_step, widest
from lowtide.passes.support.problem.matrix_layouts import b_is_nk
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target, issuer_of
from lowtide.targets.atoms import WARPGROUP_THREADS, WARPGROUP_WARPS, WGMMA_ROWS, wgmma_widths

Fields: TypeAlias = Mapping[str, Any]
"""By path."""

_MOST_OF = 0.75  # the share of the SMs that should have a tile of packed weights
_ACCUMULATORS_BESIDE_ROWS = 128  # per thread, if the epilogue also holds rows of a full operand
_ACCUMULATORS_BESIDE_COLUMNS = 64  # if it holds elements of one that lies by columns
# Accumulators per thread if an epilogue without TMA calls functions, in tiles of one block of rows per consumer: ptxas
# interleaves the calls of a whole part, and spills with more.
_ACCUMULATORS_BESIDE_FUNCTIONS, _FEW_BESIDE_FUNCTIONS = 128, 64

_OF_SHARED_TILES = (
    *REGISTER_PATHS,
    "multiply.atom",
    "multiply.atoms",
    "multiply.permutation",
    "epilogue.tile",
)
_SHARE_STEP = 8  # columns: a thread holds a pair of each eight columns of a wgmma's accumulators
_WORTH_DIVIDING = 0.96  # of the cycles of whole tiles, which are 3 to 4 % faster if estimates are equal (H200)

_OF_TILES = ("mainloop.k", *AGENT_PATHS)
# If only these fields are given, with these values, K may be divided: with a producer, and without. Any other field may
# mean whole tiles. `()`: any value.
_BESIDE_DIVISION: Mapping[bool, Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        True: {
            "grid.scheduler": (SchedulerKind.persistent,),
            "grid.launch": (LaunchKind.programmatic,),
            "grid.operands": (),
            "grid.ctas_per_sm": (),
            "epilogue.path": (StorePath.direct,),
            **{path: () for path in Schedule.paths() if path.startswith("mainloop.") and path not in _OF_TILES},
        },
        False: {"grid.scheduler": (SchedulerKind.one_shot,), **dict.fromkeys(SINGLE.values(), ())},
    }
)


@dataclass(frozen=True)
class Group:
    """Candidates that are weighed together, each added to the given fields. Groups are tried in their order. If the
    order of candidates comes from measurements, `why` is the reason for them."""

    given: Schedule
    candidates: Sequence[Fields]
    why: str = ""


def whole(given: Schedule, problem: Problem, target: Target, *, with_producer: bool) -> Iterator[Group]:
    """Whole tiles that agree with the given fields. The first group has the ones that are usually best.

    Without a producer: tiles for few K steps, then the common ones, then, if a tile is given, others. With one, some
    given fields are legal only with three consumers, or only if the epilogue does not store by TMA.
    """
    if with_producer:
        for attempt, kinds in _attempts(given, problem):
            yield Group(attempt, _with_producer(attempt, kinds, problem, target))
        return
    yield Group(given, list(short_k.candidates(given, problem, target)), OF_FEW_STEPS["grid.tile"])
    own, tile, k = tiles.common(given, problem, target), given.grid.tile, given.mainloop.k
    agreeing = [one for one in own if tile in (None, one.tile) and k in (None, one.k)]
    yield Group(given, [_of_warps(one, given) for one in (agreeing if given.multiply.atoms is None else own) or own])
    if tile is not None or k is not None or given.multiply.permutation is not None:
        yield Group(given, [_of_warps(one, given) for one in tiles.uncommon(given, problem, target)])


def divided(given: Schedule, problem: Problem, target: Target, *, with_producer: bool) -> Group:
    """Tiles whose K several CTAs share. None if the given fields may mean whole tiles, an extent is not known, or
    weights are packed."""
    beside = _BESIDE_DIVISION[with_producer]
    is_open = all(path in beside and value in (beside[path] or (value,)) for path, value in given.decided().items())
    if problem.weights or not problem.has_static_extents or not is_open:
        return Group(given, [])
    found = _divided_by_consumers(problem, target) if with_producer else _split_by_warps(given, problem, target)
    return Group(given, list(found))


def worth_dividing(given: Schedule, problem: Problem, target: Target, *, with_producer: bool) -> float:
    """K is divided if that takes less than this share of the estimated cycles of whole tiles."""
    if with_producer:
        return _WORTH_DIVIDING
    return _splits(given, problem, target).worth


def _of_warps(one: WarpTile, given: Schedule) -> Fields:
    """The fields of a tile, without stages if fragments are loaded from global memory."""
    found = {"grid.tile": one.tile, "mainloop.k": one.k, "multiply.atoms": one.atoms}
    return found if given.is_direct else found | {"mainloop.stages": one.stages}


def _attempts(given: Schedule, problem: Problem) -> Iterator[tuple[Schedule, tuple[Agents, ...]]]:
    """The given fields with the agents to try. If requests to L2 limit the loads, tiles of three consumers compete with
    the others. Consumers may take tiles in turn unless a given field may be for tiles that they share."""
    one, two, three = cooperative(1), cooperative(2), cooperative(3)
    takes_turns = given.grid.tail is not TailKind.halves and all(given.get(path) is None for path in _OF_SHARED_TILES)
    usual = (one, two, pingpong(2)) if takes_turns else (one, two)
    groups: tuple[tuple[Agents, ...], ...] = (usual, (three,))
    if given.agents.has_producer:
        consumer = Agent(given.agents.consumer.warps or WARPGROUP_WARPS, given.agents.consumer.turns)
        groups = ((Agents(Agent(WARPGROUP_WARPS), consumer),),)
    elif given.grid.tile is not None:
        groups = ((two, one, three),)
    elif problem.weights:
        groups = ((two, one),)
    elif is_estimated(problem) or straddles_sectors(problem):
        groups = ((*usual, three),)
    yield from ((given, kinds) for kinds in groups)
    if given.epilogue.path is None and not asks_for_tma_stores(given):
        by_threads = given.set({"epilogue.path": StorePath.smem})
        yield from ((by_threads, kinds) for kinds in groups)


def _with_producer(given: Schedule, kinds: tuple[Agents, ...], problem: Problem, target: Target) -> Sequence[Fields]:
    """Tiles with these agents, each with the orders in which CTAs may take them. If clusters may be faster, the tiles
    also occur with clusters that share loads."""
    found: list[Fields] = [
        {"grid.tile": shape[:2], "mainloop.k": shape[2], **agents.values()}
        for shape, agents in _shapes(given, kinds, problem, target)
    ]
    if given.grid.cluster is None and target.max_cluster > 1 and _may_share(given, problem):
        found = [*found, *({**fields, "grid.cluster": cluster} for cluster in tiles.CLUSTERS for fields in found)]
    if given.grid.order is None and is_estimated(problem) and problem.has_static_extents:
        return [{**fields, "grid.order": order} for fields in found for order in _orders(fields, problem, target)]
    return found


def _may_share(given: Schedule, problem: Problem) -> bool:
    """Whether clusters may be faster. Without an estimate of requests to L2, they are tried only if rows do not start
    on sectors of L2 (H200: 4096×4104×4104 is 1.25 times as fast). A given order is one of single CTAs: a complete
    schedule that leaves out the cluster has none."""
    may_gain = problem.has_static_extents if is_estimated(problem) else straddles_sectors(problem)
    by_wgmma = issuer_of(given.multiply.atom) in (None, "warpgroup")
    return may_gain and by_wgmma and given.grid.k_division is None and given.grid.order is None


def _orders(fields: Fields, problem: Problem, target: Target) -> list[Order]:
    """The orders that differ for the grid of a tile: row by row, column by column, in bands. Only bands need
    divisions by run-time values; without them 1024³ is 5 % faster (H200)."""
    (rows, columns), cluster = fields["grid.tile"], fields.get("grid.cluster", (1, 1))
    assert problem.m is not None and problem.n is not None
    of_rows, of_columns = ceil(problem.m / (rows * cluster[0])), ceil(problem.n / (columns * cluster[1]))
    if of_columns == 1 or of_rows == 1:
        return [Order(RasterKind.row if of_columns == 1 else RasterKind.column)]
    band = square_bands((rows, columns), cluster[0], target)
    plain = [Order(RasterKind.row), Order(RasterKind.column)]
    return plain if of_rows <= band.rows else [*plain, band]


def _shapes(
    given: Schedule, kinds: tuple[Agents, ...], problem: Problem, target: Target
) -> list[tuple[Extents3, Agents]]:
    """M, N and K of a step, and the agents that compute it."""
    depth = given.mainloop.k or _depth(problem)
    if given.grid.tile is not None:
        rows, columns = given.grid.tile
        blocks = 2 if given.grid.tail is TailKind.halves else 1
        able = [agents for agents in kinds if rows % (blocks * WGMMA_ROWS * agents.consumer.warpgroups) == 0]
        usual = [agents for height, agents, _ in tiles.ROWS if height == rows and agents in able]
        dealt = able if given.multiply.atoms is not None else usual or able
        return [
            ((rows, columns, depth), agents)
            for agents in dealt or [min(kinds, key=lambda kind: kind.consumer.warpgroups)]
        ]
    if problem.weights:
        return [_of_weights(given, kinds, problem, target)]
    rows_of = [entry for entry in tiles.ROWS if entry[1] in kinds] or [
        (WGMMA_ROWS * agents.consumer.warpgroups, agents, widest(agents.consumer.all_warpgroups, problem, target))
        for agents in kinds
    ]
    legal, found, fitting = wgmma_widths(problem.a, problem.b, problem.acc), [], []
    for rows, agents, most_n in rows_of:
        most, is_one_block = _room(agents, given, problem)
        for n in _widths(given, problem, min(tiles.NARROWEST, most_n)):
            # Consumers that take turns were up to 13 % slower with a narrower last part of each tile (H200, N = 176),
            # and up to 10 % slower with a narrower last tile of each matrix of a batch (16 × 2048×2048×128, 128×192
            # instead of 128×128).
            if agents.consumer.turns > 1 and not given.agents.has_producer and not _suits_turns(n, problem):
                continue
            found.append(((rows, n, depth), agents))
            has_room = rows * n // (WARPGROUP_THREADS * agents.consumer.warpgroups) <= most
            if (
                n <= most_n
                and n in legal
                and has_room
                and (not is_one_block or rows == WGMMA_ROWS * agents.consumer.warpgroups)
            ):
                fitting.append(found[-1])
    return fitting or found  # if the given fields leave no tile that fits, the rules say why


def _of_weights(
    given: Schedule, kinds: tuple[Agents, ...], problem: Problem, target: Target
) -> tuple[Extents3, Agents]:
    """A tile with as many columns as D has (the rows of A before the swap), at most 64: each tile converts its weights,
    which are its rows, again. It has two blocks of 64 rows for each consumer, or one if there are few tiles."""
    step, depth = column_step(problem), given.mainloop.k or _depth(problem)
    columns = wgmma_width(given) or min(tiles.NARROWEST, -(-(problem.n or tiles.NARROWEST) // step) * step)
    blocks = [(2, agents) for agents in kinds[:1]] + [(1, agents) for agents in kinds]
    found = [((WGMMA_ROWS * each * agents.consumer.warpgroups, columns, depth), agents) for each, agents in blocks]
    enough = (one for one in found if (problem.tiles(one[0]) or target.sm_count) >= _MOST_OF * target.sm_count)
    return next(enough, found[-1])


def _depth(problem: Problem) -> int:
    """K of a step."""
    if problem.weights:
        return problem.group or tiles.DEPTH_OF_WEIGHTS
    bits = tiles.DEPTH_BITS if problem.decomposition is None else tiles.DEPTH_BITS_OF_PIECES
    return bits // element_type(problem.a).bits


def _suits_turns(n: int, problem: Problem) -> bool:
    """Whether tiles of `n` columns are candidates for consumers that take turns."""
    is_whole = not problem.is_batched or problem.n is None or problem.n % n == 0 or n > problem.n
    return n < tiles.NARROWEST or (n % tiles.NARROWEST == 0 and is_whole)


def _room(agents: Agents, given: Schedule, problem: Problem) -> tuple[float, bool]:
    """The most accumulators of a thread that leave enough registers to the epilogue; and whether the tile may have only
    one block of rows per consumer."""
    most, by_tma = inf, stores_by_tma(given, problem)
    if OperandKind.full in problem.region_kinds:
        most = _ACCUMULATORS_BESIDE_COLUMNS if problem.d_is_column_major else _ACCUMULATORS_BESIDE_ROWS
    # The tallest tile of a consumer that takes turns leaves no registers for functions, row addresses, or a run-time N.
    is_simple = by_tma and problem.compiled.n is not None and not problem.has_math
    if agents.consumer.turns > 1 and not is_simple:
        most = min(most, _ACCUMULATORS_BESIDE_FUNCTIONS)
    if not problem.has_math or by_tma:
        return most, False
    is_tight = agents.consumer.all_warpgroups == 1 or results_fill_registers(problem)  # one consumer has no setmaxnreg
    return min(most, _FEW_BESIDE_FUNCTIONS if is_tight else _ACCUMULATORS_BESIDE_FUNCTIONS), True


def _widths(given: Schedule, problem: Problem, narrowest: int) -> list[int]:
    """N of the CTA tiles to choose among; a single one if the given wgmma or permutation fixes it."""
    if width := wgmma_width(given):
        return [width]
    if given.multiply.permutation is not None:
        return [size(given.multiply.permutation[1])]
    # Panels of a B that is contiguous along N, and rows of the epilogue's scratch, need whole swizzle spans.
    any_width = b_is_nk(problem.layout) and (stores_by_tma(given, problem) or problem.d_is_column_major)
    if any_width and problem.d_is_column_major:
        return [width for width in tiles.ANY_WIDTH if width < (problem.n or inf) + tiles.N_STEP]
    widths = list(range(narrowest, 257, tiles.N_STEP if any_width else tiles.NARROWEST))
    if problem.n is not None and problem.n < tiles.NARROWEST:
        widths.insert(0, 16 << max(0, (problem.n - 1) // 16).bit_length())
    return widths


def _divided_by_consumers(problem: Problem, target: Target) -> Iterator[Fields]:
    """Grids of at most one wave, with the K of each tile in several parts, in each order of tiles."""
    assert problem.m is not None and problem.n is not None and problem.k is not None
    depth = tiles.DEPTH_BITS // element_type(problem.a).bits
    shapes = [(rows, columns, agents) for rows, agents in tiles.DIVIDED_ROWS for columns in _divided_columns(problem)]
    for rows, columns, agents in shapes:
        most = min(target.sm_count // (problem.tiles((rows, columns)) or 1), ceil(problem.k / depth))
        for kind, parts in product(_kinds_of_division(problem), tiles.PARTS):
            if parts > most or (kind is KDivisionKind.scatter and columns % (_SHARE_STEP * parts)):
                continue
            fields: Fields = {
                "grid.tile": (rows, columns),
                "grid.k_division": KDivision(kind, parts),
                "mainloop.k": depth,
                **agents.values(),
            }
            yield from ({**fields, "grid.order": order} for order in _orders(fields, problem, target))


def _divided_columns(problem: Problem) -> Sequence[int]:
    """The columns of tiles whose K is divided. If D lies by columns, those of 1 to 8 tiles that cover N."""
    if not problem.d_is_column_major:
        return tiles.DIVIDED_COLUMNS
    assert problem.n is not None
    covering = {tiles.N_STEP * ceil(ceil(problem.n / count) / tiles.N_STEP) for count in range(1, 9)}
    return sorted(covering & {*tiles.ANY_WIDTH})


def _kinds_of_division(problem: Problem) -> tuple[KDivisionKind, ...]:
    """`scatter`: each part adds its share of the sums. If D lies by columns, also `split`: the first part adds all."""
    return (KDivisionKind.scatter, *([KDivisionKind.split] if problem.d_is_column_major else []))


def _splits(given: Schedule, problem: Problem, target: Target) -> Splits:
    """How K is split among CTAs without a producer: by FMA atoms, or by the bits of a sum."""
    if multiplies_by_fma(given, problem, target):
        return tiles.SPLITS_OF_THREADS
    return tiles.SPLITS.get(element_type(problem.acc).bits, tiles.NO_SPLITS)


def _split_by_warps(given: Schedule, problem: Problem, target: Target) -> Iterator[Fields]:
    """Tiles in any number of parts; part 0 of a tile adds the sums of all others."""
    found = _splits(given, problem, target)
    beside = found.beside_operands[problem.kinds.count(OperandKind.full) > 1]
    for one in found.tiles:
        threads = prod(one.atoms) * (1 if found is tiles.SPLITS_OF_THREADS else target.warp_size)
        sums = prod(one.tile) * element_type(problem.acc).bits // REGISTER_BITS
        if problem.region_kinds and sums > beside * threads:
            continue
        depth = one.k // element_type(problem.a).bits
        tile_count = problem.tiles(one.tile)
        assert tile_count is not None and problem.k is not None
        ctas = target.sm_count * min(found.most_ctas, found.most_threads // threads)
        for parts in range(2, 1 + min(found.most_parts, ctas // tile_count, ceil(problem.k / depth))):
            division = KDivision(KDivisionKind.split, parts)
            yield {**_of_warps(replace(one, k=depth), given), "grid.k_division": division}
