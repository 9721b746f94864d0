"""Division of K: which CTA computes which range of K of which tile, and who waits for whom."""

import itertools

from lowtide.dialects.tile import KDivisionKind, RasterKind, SchedulerKind
from lowtide.dialects.tile.division import AXES, Adder, KDivision
from lowtide.interpreter.machine.work_order import WorkItem, WorkOrder

SPLITS = [*((KDivisionKind.split, parts) for parts in (1, 2, 3, 7)), (KDivisionKind.scatter, 4)]
TAILS = [*((KDivisionKind.tail, parts) for parts in (1, 2, 3)), (KDivisionKind.scatter_tail, 2)]
STREAMS = [(KDivisionKind.stream_k, 0), (KDivisionKind.hybrid, 0)]


def order(kind: KDivisionKind, parts: int, scheduler: SchedulerKind = SchedulerKind.persistent) -> WorkOrder:
    return WorkOrder(scheduler, RasterKind.row, division=KDivision(kind, parts))


def items(work: WorkOrder, ctas: int, tiles: int, steps: int) -> list[list[WorkItem]]:
    """Of each CTA, in sequence."""
    return [list(work.items_of(cta, ctas, [(1, tiles)], steps)) for cta in range(ctas)]


def grids(kind: KDivisionKind, parts: int, tiles: int, steps: int) -> list[int]:
    """Numbers of CTAs that a launch may have: whole tiles of a split."""
    if parts and not KDivision(kind).is_of_tail:
        each = min(parts, steps)
        return sorted({each, each * ((tiles + 1) // 2), each * tiles})
    return [ctas for ctas in (1, 2, 3, 5, 8) if ctas <= tiles * (min(parts, steps) if parts else steps)]


CASES = [
    (kind, parts, ctas, tiles, steps)
    for (kind, parts), tiles, steps in itertools.product(SPLITS + TAILS + STREAMS, (1, 2, 5, 8), (1, 4, 5))
    for ctas in grids(kind, parts, tiles, steps)
]


def test_every_word_of_the_dialect_is_a_point_of_the_axes_of_its_own() -> None:
    assert set(AXES) == set(KDivisionKind) - {KDivisionKind.none}
    assert len(set(AXES.values())) == len(AXES)
    assert str(KDivision(KDivisionKind.scatter_tail, 3).added_by(Adder.first)) == "tail(3)"


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
            assert max(own, default=0) < (
                ctas if not parts else ctas * parts if KDivision(kind).is_of_tail else len(every)
            )


def test_part_0_waits_only_for_what_comes_before_it() -> None:
    """For items of CTAs with lower numbers, or earlier ones of its own: so lower CTAs never wait for higher ones.

    Where all parts add shares, their CTAs wait for each other, and run at the same time.
    """
    for kind, parts, ctas, tiles, steps in CASES:
        if KDivision(kind).adder is Adder.each:
            continue
        places = {
            (item.place[1], item.part): (cta, position, item.parts)
            for cta, own in enumerate(items(order(kind, parts), ctas, tiles, steps))
            for position, item in enumerate(own)
        }
        for (tile, part), (cta, position, count) in places.items():
            for other in range(1, count) if part == 0 else ():
                their_cta, their_position, _ = places[tile, other]
                assert their_cta < cta or (their_cta == cta and their_position < position)


def test_the_parts_of_a_scattered_tail_are_items_of_one_round() -> None:
    """So a CTA that waits for all of them has waited for nothing that comes later: rounds end one after the other."""
    for ctas, tiles in ((2, 5), (3, 5), (5, 8), (8, 21), (7, 20)):
        found: dict[int, set[int]] = {}
        for own in items(order(KDivisionKind.scatter_tail, 2), ctas, tiles, 4):
            for position, item in enumerate(own):
                found.setdefault(item.place[1], set()).add(position)
        assert all(len(positions) == 1 for positions in found.values())


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


def test_a_tail_is_divided_among_as_many_ctas_as_it_can_be_and_nothing_else_is() -> None:
    def parts_of(tiles: int, ctas: int) -> list[list[int]]:
        return [[item.parts for item in own] for own in items(order(KDivisionKind.tail, 3), ctas, tiles, 6)]

    assert parts_of(10, 8) == [[1, 3]] * 6 + [[1]] * 2
    assert parts_of(8, 8) == [[1]] * 8
    assert parts_of(13, 8) == [[1, 3, 3, 3]] * 3 + [[1, 3, 3]] * 3 + [[1]] * 2
    assert parts_of(3, 2) == [[1, 2]] * 2  # no more parts than CTAs


def test_the_parts_of_a_scatter_are_items_of_one_round_and_neighbours_have_one_part() -> None:
    for kind, parts, ctas, tiles, steps in CASES:
        if kind is not KDivisionKind.scatter:
            continue
        rounds: dict[int, list[WorkItem]] = {}
        for own in items(order(kind, parts), ctas, tiles, steps):
            for number, item in enumerate(own):
                rounds.setdefault(number, []).append(item)
        places = [{item.place[1] for item in found} for found in rounds.values()]
        assert sum(map(len, places)) == tiles  # no tile is in two rounds
        for found in rounds.values():
            assert [item.part for item in found] == sorted(item.part for item in found)


def test_each_cta_of_a_cluster_has_its_tile_of_a_super_tile_and_slots_of_its_own() -> None:
    work = order(KDivisionKind.scatter, 2)
    every = [list(work.items_of(cta, 8, [(3, 4)], 5, (2, 2))) for cta in range(8)]
    assert all(len({(own.begin, own.end) for own in found}) == 1 for found in zip(*every[:4], strict=True))
    slots = [item.slot + item.part for item in itertools.chain(*every)]
    assert sorted(slots) == list(range(2 * 2 * 2 * 4))  # 2 × 1 super-tiles of four tiles, of two parts each
