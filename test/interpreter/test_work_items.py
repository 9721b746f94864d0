"""Division of K: which CTA computes which range of K of which tile, and who waits for whom."""

import itertools

import pytest

from lowtide.dialects.tile import KDivisionKind, RasterKind, SchedulerKind
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.work_order import DIVISIONS, WorkItem, WorkOrder

SPLITS = [*((KDivisionKind.split, parts) for parts in (1, 2, 3, 7)), (KDivisionKind.scatter, 4)]
STREAMS = [(KDivisionKind.stream_k, 0), (KDivisionKind.hybrid, 0)]


def order(kind: KDivisionKind, parts: int, scheduler: SchedulerKind = SchedulerKind.persistent) -> WorkOrder:
    return WorkOrder(scheduler, RasterKind.row, division=kind, parts=parts)


def items(work: WorkOrder, ctas: int, tiles: int, steps: int) -> list[list[WorkItem]]:
    """Of each CTA, in sequence."""
    return [list(work.items_of(cta, ctas, (1, tiles), steps)) for cta in range(ctas)]


def grids(kind: KDivisionKind, parts: int, tiles: int, steps: int) -> list[int]:
    """Numbers of CTAs that a launch may have: whole tiles of a split."""
    if parts:
        each = min(parts, steps)
        return sorted({each, each * ((tiles + 1) // 2), each * tiles})
    return [ctas for ctas in (1, 2, 3, 5, 8) if ctas <= tiles * steps]


CASES = [
    (kind, parts, ctas, tiles, steps)
    for (kind, parts), tiles, steps in itertools.product(SPLITS + STREAMS, (1, 2, 5, 8), (1, 4, 5))
    for ctas in grids(kind, parts, tiles, steps)
]


def test_every_word_of_the_dialect_has_a_meaning() -> None:
    assert set(DIVISIONS) == set(KDivisionKind)

    class Unknown:
        name = "by_moon"

    with pytest.raises(InterpreterError, match="by_moon is not interpreted; known are none, split, scatter"):
        order(Unknown(), 0)  # type: ignore[arg-type]


def test_every_step_of_every_tile_is_computed_once_and_parts_lie_in_order() -> None:
    for kind, parts, ctas, tiles, steps in CASES:
        found: dict[int, list[WorkItem]] = {}
        for item in itertools.chain(*items(order(kind, parts), ctas, tiles, steps)):
            found.setdefault(item.place[1], []).append(item)
        assert sorted(found) == list(range(tiles))
        for ranges in found.values():
            ranges.sort(key=lambda item: item.part)
            assert [item.part for item in ranges] == list(range(ranges[0].parts))
            assert {(item.parts, item.slot) for item in ranges} == {(len(ranges), ranges[0].slot)}
            cuts = [0, *(item.end for item in ranges)]
            assert [item.begin for item in ranges] == cuts[:-1] and cuts[-1] == steps
            assert all(item.begin < item.end for item in ranges)


def test_the_slots_of_shared_tiles_are_distinct_and_below_their_number() -> None:
    for kind, parts, ctas, tiles, steps in CASES:
        every = list(itertools.chain(*items(order(kind, parts), ctas, tiles, steps)))
        shared = [item for item in every if item.parts > 1]
        for own in ([x.slot for x in shared if x.part == 0], [x.slot + x.part for x in shared if x.part > 0]):
            assert len(set(own)) == len(own)
            assert max(own, default=0) < (len(every) if parts else ctas)


def test_part_0_waits_only_for_what_comes_before_it() -> None:
    """For items of CTAs with lower numbers, or earlier ones of its own: so lower CTAs never wait for higher ones."""
    for kind, parts, ctas, tiles, steps in CASES:
        places = {
            (item.place[1], item.part): (cta, position, item.parts)
            for cta, own in enumerate(items(order(kind, parts), ctas, tiles, steps))
            for position, item in enumerate(own)
        }
        for (tile, part), (cta, position, count) in places.items():
            for other in range(1, count) if part == 0 else ():
                their_cta, their_position, _ = places[tile, other]
                assert their_cta < cta or (their_cta == cta and their_position < position)


def test_a_split_cuts_k_alike_for_every_number_of_ctas() -> None:
    def ranges(ctas: int) -> set[tuple[int, int, int]]:
        own = items(order(KDivisionKind.split, 3), ctas, 4, 10)
        return {(item.place[1], item.begin, item.end) for item in itertools.chain(*own)}

    assert ranges(3) == ranges(6) == ranges(12)


def test_shares_of_a_stream_differ_by_one_step_at_most_and_a_hybrid_begins_with_whole_tiles() -> None:
    lengths = [sum(item.end - item.begin for item in own) for own in items(order(KDivisionKind.stream_k, 0), 5, 4, 7)]
    assert sum(lengths) == 28 and max(lengths) - min(lengths) <= 1
    for own in items(order(KDivisionKind.hybrid, 0), 4, 10, 6):
        assert own[0].parts == 1 and (own[0].begin, own[0].end) == (0, 6)
        assert 6 <= sum(item.end - item.begin for item in own[1:]) <= 12
    assert all(item.parts == 1 for own in items(order(KDivisionKind.hybrid, 0), 4, 12, 6) for item in own)
