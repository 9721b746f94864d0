"""The candidates for any agents. A candidate is a set of fields: a tile, K of a step, the agents, and all fields that
do not follow from these. The rules accept or refuse it. The cost orders the legal ones, and the cheapest is chosen.

There are whole tiles, and tiles whose K several CTAs share. A grid of few tiles is bound by the bytes that one SM
receives from L2 per cycle. A large tile needs fewer bytes for each product; if its K is divided, every SM has a part of
one. Each CTA then writes its partial sums to L2, and one CTA adds them all, or each CTA adds its share of the columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from types import MappingProxyType
from typing import Any

from lowtide.dialects.tile import (
    GemmLayout,
    KDivisionKind,
    LaunchKind,
    OperandKind,
    PackKind,
    SchedulerKind,
    StorePath,
    TailKind,
)
from lowtide.dialects.tile.agents import AGENT_PATHS, REGISTER_PATHS, SINGLE, Agent, Agents, cooperative, pingpong
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.choice import forms, short_k, tiles
from lowtide.passes.schedules.choice.asked_for import asks_for_tma_stores
from lowtide.passes.schedules.choice.forms import Extents, Fields, Forms
from lowtide.passes.schedules.choice.multiply import multiplies_by_fma
from lowtide.passes.schedules.choice.reasons import OF_FEW_STEPS
from lowtide.passes.schedules.choice.tiles import Splits, WarpTile
from lowtide.passes.schedules.cost.described import is_estimated, may_have_few_rows
from lowtide.passes.schedules.cost.traffic import straddles_sectors
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS
from lowtide.passes.schedules.facts.resources import REGISTER_BITS
from lowtide.passes.support.problem.matrix_layouts import a_is_mk
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WARPGROUP_WARPS

_OF_SHARED_TILES = (
    *REGISTER_PATHS,
    "multiply.atom",
    "multiply.atoms",
    "multiply.permutation",
    "epilogue.tile",
)
# Of the cycles of whole tiles. If the estimate was 0.96 to 0.98 of them, seven products were 0.985 to 1.136 times as
# fast as in whole tiles, 1.047 times on average; if it was 0.98 to 1, 18 products were 0.835 to 1.182 times as fast,
# 1.004 times on average (H200).
_WORTH_DIVIDING = 0.98

_OF_ANY_AGENTS = {"grid.operands", "epilogue.path", *PACK_FIELDS.values()}  # fields that a single agent may have, too
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
        False: {
            "grid.scheduler": (SchedulerKind.one_shot,),
            "grid.operands": (),
            **dict.fromkeys(SINGLE.values(), ()),
        },
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
        for attempt, kinds in _attempts(given, problem, target):
            found = forms.whole(attempt, kinds, problem, target)
            yield Group(attempt, found.at(found.suits(Extents.of(problem))))
        return
    yield Group(given, list(short_k.candidates(given, problem, target)), OF_FEW_STEPS["grid.tile"])
    own, tile, k = tiles.common(given, problem, target), given.grid.tile, given.mainloop.k
    agreeing = [one for one in own if tile in (None, one.tile) and k in (None, one.k)]
    usual = [_of_warps(one, given) for one in (agreeing if given.multiply.atoms is None else own) or own]
    yield Group(given, usual + list(_even_shares(given, problem, target)))
    if tile is not None or k is not None or given.multiply.permutation is not None:
        yield Group(given, [_of_warps(one, given) for one in tiles.uncommon(given, problem, target)])


def divided(given: Schedule, problem: Problem, target: Target, *, with_producer: bool) -> Group:
    """Tiles whose K several CTAs share. None if the given fields may mean whole tiles, an extent is not known, or
    weights are packed."""
    if not _may_divide(given, problem, with_producer=with_producer):
        return Group(given, [])
    if not with_producer:
        return Group(given, list(_split_by_warps(given, problem, target)))
    found = forms.divided(problem, target)
    return Group(given, found.at(found.suits(Extents.of(problem))))


def for_any_rows(given: Schedule, problem: Problem, target: Target) -> list[Forms]:
    """The candidates with a producer that are tried first, and those that divide K, for any extents of D."""
    attempt, kinds = next(_attempts(given, problem, target))
    may_divide = _may_divide(given, problem, with_producer=True)
    return [forms.whole(attempt, kinds, problem, target), *([forms.divided(problem, target)] if may_divide else [])]


def _may_divide(given: Schedule, problem: Problem, *, with_producer: bool) -> bool:
    beside = _BESIDE_DIVISION[with_producer]
    is_open = all(path in beside and value in (beside[path] or (value,)) for path, value in given.decided().items())
    return is_open and problem.has_static_extents and not problem.weights


def worth_dividing(given: Schedule, problem: Problem, target: Target, *, with_producer: bool) -> float:
    """K is divided if that takes less than this share of the estimated cycles of whole tiles."""
    if with_producer:
        return _WORTH_DIVIDING
    return _splits(given, problem, target).worth


def _even_shares(given: Schedule, problem: Problem, target: Target) -> Iterator[Fields]:
    """For FMA atoms, even shares of K steps, if there is at least one tile for each SM: of all tiles if there are
    fewer than CTAs that run at once, else of the last waves. The estimate compares them with whole tiles. In nt, all
    tiles and steps must be whole, since copies of A and B that may end within a tile would spill."""
    is_open = set(given.decided()) <= set(PACK_FIELDS.values())
    if not is_open or not multiplies_by_fma(given, problem, target) or not problem.is_plain:
        return
    one = next(iter(tiles.of_long_steps(problem, target)), tiles.SHARED_BY_THREADS)
    count, at_once = problem.tiles(one.tile) or 0, tiles.SHARING_CTAS * target.sm_count
    if problem.k is None or count < target.sm_count:
        return
    if problem.layout is GemmLayout.nt and not _are_whole(one, problem):
        return
    yield {
        **_of_warps(one, given),
        "grid.k_division": KDivision(KDivisionKind.stream_k if count < at_once else KDivisionKind.hybrid),
        "grid.scheduler": SchedulerKind.persistent,
        "grid.ctas_per_sm": tiles.SHARING_CTAS,
    }


def _sharing(one: WarpTile, given: Schedule, problem: Problem) -> Fields:
    """For FMA atoms with K in parts: two CTAs on an SM for the largest tile, 128×128, if A passes through registers.
    Such copies take more instructions than others, and in a tile of 128 columns twice as many columns use each element
    of A as in one of 64. µs on an H200 with tiles of 128×64 and of 128×128: 512×512×16384 tn 206 and 198, tt 194 and
    191, nn 190 and 193, nt 184 and 184; 1024³ tn 56.6 and 54.8, tt 52.9 and 52.7, nn 51.1 and 52.8, nt 49.3 and 50.5.
    All tiles must be whole: copies that may end within a tile, together with the addition of partial sums, would
    spill."""
    is_largest = (one.tile, one.atoms) == (tiles.SHARED_BY_THREADS.tile, tiles.SHARED_BY_THREADS.atoms)
    is_open = given.grid.ctas_per_sm is None and problem.is_plain
    if not (is_open and is_largest and a_is_mk(problem.layout) and _are_whole(one, problem)):
        return {}
    return {"grid.ctas_per_sm": tiles.SHARING_CTAS}


def _are_whole(one: WarpTile, problem: Problem) -> bool:
    """Whether the extents are multiples of the tile's."""
    extents = zip((problem.m, problem.n, problem.k), (*one.tile, one.k), strict=True)
    return all(extent is not None and extent % side == 0 for extent, side in extents)


def _of_warps(one: WarpTile, given: Schedule) -> Fields:
    """The fields of a tile, without stages if fragments are loaded from global memory."""
    found = {"grid.tile": one.tile, "mainloop.k": one.k, "multiply.atoms": one.atoms}
    return found if given.is_direct else found | {"mainloop.stages": one.stages}


def _attempts(given: Schedule, problem: Problem, target: Target) -> Iterator[tuple[Schedule, tuple[Agents, ...]]]:
    """The given fields with the agents to try. If requests to L2 limit the loads, tiles of three consumers compete with
    the others. Consumers may take tiles in turn unless a given field may be for tiles that they share. For few rows, a
    single agent competes with them."""
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
        groups = ((*usual, three, *_without_producer(given, problem, target)),)
    yield from ((given, kinds) for kinds in groups)
    if given.epilogue.path is None and not asks_for_tma_stores(given):
        by_threads = given.set({"epilogue.path": StorePath.smem})
        yield from ((by_threads, kinds) for kinds in groups)


def _without_producer(given: Schedule, problem: Problem, target: Target) -> tuple[Agents, ...]:
    """The agents to try in place of a producer and consumers: a single one for few rows. None if a field is given that
    only a producer may have, or if an operand is transposed: then single agents have not been measured."""
    decided = given.decided()
    is_open = set(decided) <= _OF_ANY_AGENTS and PackKind.transposed not in decided.values()
    return (SINGLE,) if is_open and may_have_few_rows(problem, target) else ()


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
            division = {"grid.k_division": KDivision(KDivisionKind.split, parts)}
            yield {**_of_warps(replace(one, k=depth), given), **division, **_sharing(one, given, problem)}
