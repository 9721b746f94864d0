"""Which CTA computes which work tile, in which sequence: what each word means, and that every level keeps to it."""

from dataclasses import replace
from typing import Any

import pytest
from compiled import inputs_of, last_texts, spec, steps_of
from support import assert_same_order

from lowtide import targets
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.dialects import tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import GemmLayout, OperandKind, RasterKind, SchedulerKind, WorkPart
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import InterpreterError
from lowtide.inspection.explain.composition import composition_of
from lowtide.interpreter import Trace, interpret
from lowtide.interpreter.inputs import extents
from lowtide.interpreter.machine.work_order import ORDERS, PARTS, SCHEDULERS, WorkOrder
from lowtide.passes.base import walk
from lowtide.passes.nvvm.work import work_tiles

# The definitions ------------------------------------------------------------------------------------------------------

# Every word, with the numbers that it takes.
NUMBERS: dict[Any, tuple[tuple[int, ...], ...]] = {
    RasterKind.row: ((),),
    RasterKind.column: ((),),
    RasterKind.grouped: ((1,), (3,), (8,)),
    RasterKind.groups: ((1, 1), (2, 3), (3, 2), (16, 8)),
    RasterKind.hilbert: ((),),
}
WORDS = [(kind, numbers) for kind, choices in NUMBERS.items() for numbers in choices]


def order_of(kind: Any, numbers: tuple[int, ...] = (), scheduler: Any = SchedulerKind.one_shot) -> WorkOrder:
    return WorkOrder(scheduler, kind, *numbers)


def part_of(part: Any) -> WorkOrder:
    return WorkOrder(SchedulerKind.persistent, RasterKind.column, part=part)


def test_every_word_of_the_dialect_has_a_meaning() -> None:
    assert set(ORDERS) == set(RasterKind) == set(NUMBERS)
    assert {RasterKind[raster.partition("(")[0]] for raster in RASTERS} == set(RasterKind)
    assert set(SCHEDULERS) == set(SchedulerKind)
    assert set(PARTS) == set(WorkPart)
    assert {kind.name for kind in OperandKind} == {*extents._KIND_DIMS, "full"}  # which lies as D does
    assert {layout.name for layout in GemmLayout} == {a + b for a in extents._A_DIMS for b in extents._B_DIMS}


class Unknown:
    name = "diagonal"


def test_a_word_without_a_meaning_is_refused_and_not_taken_for_another() -> None:
    with pytest.raises(
        InterpreterError, match=r"diagonal is not interpreted; known are row, column, .*, hilbert.*\[order-word\]"
    ):
        order_of(Unknown())
    with pytest.raises(InterpreterError, match=r"diagonal.*one_shot, persistent.*\[order-word\]"):
        order_of(RasterKind.row, scheduler=Unknown())
    with pytest.raises(
        InterpreterError, match=r"diagonal is not interpreted; known are all, full_waves, tail_halves.*\[order-word\]"
    ):
        part_of(Unknown())


@pytest.mark.parametrize(("kind", "numbers"), WORDS, ids=str)
@pytest.mark.parametrize("tiles", [(1, 1), (1, 7), (7, 1), (5, 3), (3, 5), (8, 8)], ids=str)
def test_an_order_visits_each_tile_once(kind: Any, numbers: tuple[int, ...], tiles: tuple[int, int]) -> None:
    order = order_of(kind, numbers)
    visited = [order.tile_at(index, tiles) for index in range(tiles[0] * tiles[1])]
    assert sorted(visited) == [(m, n) for m in range(tiles[0]) for n in range(tiles[1])]


@pytest.mark.parametrize("scheduler", SchedulerKind, ids=lambda word: word.name)
def test_a_scheduler_hands_out_each_tile_once(scheduler: Any) -> None:
    order = order_of(RasterKind.row, scheduler=scheduler)
    for total in (1, 2, 3, 7, 12, 13):
        for ctas in range(total if scheduler == SchedulerKind.one_shot else 1, total + 1):
            shares = [list(order.places(cta, ctas, total)) for cta in range(ctas)]
            handed_out = [index for share in shares for index in share]
            assert sorted(handed_out) == list(range(total))
            if scheduler == SchedulerKind.even_split:
                assert handed_out == list(range(total))  # neighbours, in the order of the CTAs
                assert len(shares[0]) - len(shares[-1]) in (0, 1)


@pytest.mark.parametrize("ctas", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("tiles", [(1, 1), (3, 1), (2, 4), (3, 5)], ids=str)
def test_full_waves_and_the_halves_of_a_tail_are_each_row_of_tiles_once(tiles: tuple[int, int], ctas: int) -> None:
    whole, halves = (
        [[item.place for item in part_of(part).items_of(cta, ctas, [tiles])] for cta in range(ctas)]
        for part in (WorkPart.full_waves, WorkPart.tail_halves)
    )
    rows = [(2 * m + half, n) for share in whole for m, n in share for half in (0, 1)]
    rows += [place for share in halves for place in share]
    assert sorted(rows) == [(m, n) for m in range(2 * tiles[0]) for n in range(tiles[1])]
    over = tiles[0] * tiles[1] % ctas
    split = 0 < over <= ctas // 2
    assert sum(map(len, halves)) == (2 * over if split else 0)
    assert max(map(len, halves)) <= 1  # one wave
    assert not split or len({len(share) for share in whole}) == 1  # and full ones before it


def test_a_grouped_order_goes_down_a_band_first() -> None:
    order = order_of(RasterKind.grouped, (2,))
    assert [order.tile_at(index, (5, 2)) for index in range(6)] == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 0)]


def test_an_order_in_groups_walks_each_group_row_by_row_and_the_ragged_ones_last() -> None:
    # 3 × 5 tiles in groups of 2 × 3: two groups in the first band, two low ones in the second.
    order = order_of(RasterKind.groups, (2, 3))
    assert [order.tile_at(index, (3, 5)) for index in range(15)] == [
        *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)),
        *((0, 3), (0, 4), (1, 3), (1, 4)),
        *((2, 0), (2, 1), (2, 2)),
        *((2, 3), (2, 4)),
    ]


# Every level keeps to it ----------------------------------------------------------------------------------------------

# Enough shared memory that only one CTA fits on an SM, so a persistent one takes several tiles.
ONE_PER_SM = "grid.tile = [32, 32], k = 64, atoms = [2, 1, 1], stages = 12"
ONE = "roles = cooperative(1), grid.tile = [64, 32], k = 64, stages = 2"
TWO = "roles = cooperative(2), grid.tile = [128, 32], k = 64, stages = 2"
# Three rows of three tiles on two CTAs: the ninth in halves. M ends before the second half of the last row of tiles.
TAIL = "roles = cooperative(1), grid.tile = [128, 32], k = 64, stages = 2, order = column, tail = halves"
RASTERS = ("row", "column", "grouped(2)", "groups(2, 2)", "hilbert")
SCHEDULES = [
    *(("sm_80", f"{ONE_PER_SM}, order = {raster}, scheduler = persistent") for raster in RASTERS),
    *(
        ("sm_80", f"{ONE_PER_SM}, order = groups(2, 2), scheduler = {scheduler.name}")
        for scheduler in SchedulerKind
        if scheduler is not SchedulerKind.persistent
    ),
    ("sm_80", f"{ONE_PER_SM}, order = column, scheduler = persistent, epilogue.path = direct"),
    *(
        ("sm_90a", f"{ONE}, order = {raster}, scheduler = {scheduler}")
        for raster, scheduler in (
            ("row", "persistent"),
            ("column", "persistent"),
            ("groups(2, 2)", "even_split"),
            ("hilbert", "persistent"),
        )
    ),
    ("sm_90a", f"{TWO}, order = column, scheduler = persistent, epilogue.path = tma"),
    ("sm_90a", TAIL),
    ("sm_90a", f"{ONE}, cluster = [2, 1], order = grouped(2), scheduler = persistent"),
    ("sm_90a", f"{ONE}, cluster = [1, 2], order = column, scheduler = even_split"),
]
PLAIN = spec()
LEVELS = (Level.CTA, Level.SMEM, Level.PIPELINED, Level.ATOMS, Level.EPILOGUE, Level.NVVM)


def traces_of(target: str, schedule: str, sms: int, levels: tuple[Level, ...] = LEVELS) -> list[Trace]:
    """The order observed at each level. (`assert_same` compares it before and after each pass.)"""
    given = inputs_of(PLAIN, *(90, 88, 16) if target == "sm_80" else (300, 88, 16))
    texts = last_texts(steps_of(PLAIN, schedule, targets.get(target)))
    traces = []
    for level in levels:
        traces.append(Trace())
        interpret(texts[level], given, sms=sms, domain="exact", trace=traces[-1])
    return traces


@pytest.mark.parametrize(("target", "schedule"), SCHEDULES)
def test_every_level_keeps_each_ctas_sequence_of_work_tiles(target: str, schedule: str) -> None:
    first, *others = traces_of(target, schedule, 2)
    tiles = first.tiles()
    assert sum(map(len, tiles.values())) == (15 if ONE in schedule else 9)
    assert "one_shot" in schedule or max(map(len, tiles.values())) >= 3
    assert [trace.level for trace in others] == [str(level) for level in LEVELS[1:]]
    assert not others[-1].work  # no op says it any more
    for trace in others:
        assert_same_order(first, trace)


# `explain` agrees with what is run ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["one_shot", "persistent", "even_split"])
@pytest.mark.parametrize("raster", RASTERS)
def test_the_first_wave_that_explain_tells_of_is_the_one_observed_at_level_nvvm(raster: str, scheduler: str) -> None:
    problem, sm_80 = spec(m=150, n=88, k=16), replace(targets.get("sm_80"), sm_count=4)
    schedule = f"{ONE_PER_SM}, order = {raster}, scheduler = {scheduler}"
    texts = last_texts(steps_of(problem, schedule))
    trace = Trace()
    interpret(texts[Level.NVVM], inputs_of(problem, 150, 88, 16), sms=4, domain="exact", trace=trace)
    stored = trace.stored_tiles((row, column, 32, 32) for row in range(0, 150, 32) for column in range(0, 88, 32))
    first = [next(iter(stored[cta].values()))[0] for cta in range(4)]
    module = parse_text(texts[Level.EPILOGUE], make_context(), "<epilogue>")
    (kernel,), (launch,) = walk(module, tile.KernelOp), walk(module, tile.LaunchOp)
    given = Schedule.carried_by(module)
    grid = composition_of(kernel, launch, problem, given, sm_80, 1, ()).grid
    assert (grid.at_once, grid.tiles, grid.scheduler) == (4, 15, scheduler)
    assert (grid.wave_rows, grid.wave_columns) == (len({row for row, *_ in first}), len({tile[1] for tile in first}))


# Faults ---------------------------------------------------------------------------------------------------------------


ENDS = (Level.CTA, Level.NVVM)


@pytest.mark.parametrize("scheduler", ["one_shot", "persistent", "even_split"])
@pytest.mark.parametrize(("meant", "lowered"), [("column", "row"), ("row", "column"), ("grouped(2)", "row")])
def test_an_order_lowered_as_another_is_found(
    monkeypatch: pytest.MonkeyPatch, meant: str, lowered: str, scheduler: str
) -> None:
    kind = RasterKind[meant.partition("(")[0]]
    monkeypatch.setitem(work_tiles.ORDERS, kind, work_tiles.ORDERS[RasterKind[lowered]])
    with pytest.raises(AssertionError, match=r"CTA \d+ .*stores to"):
        assert_same_order(*traces_of("sm_80", f"{ONE_PER_SM}, order = {meant}, scheduler = {scheduler}", 3, ENDS))


def test_a_scheduler_lowered_as_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(work_tiles.LOOPS, SchedulerKind.even_split, work_tiles.LOOPS[SchedulerKind.persistent])
    with pytest.raises(AssertionError, match=r"CTA \d+ .*stores to"):
        assert_same_order(*traces_of("sm_80", f"{ONE_PER_SM}, order = row, scheduler = even_split", 3, ENDS))


@pytest.mark.parametrize("other", [WorkPart.all, WorkPart.full_waves])
def test_a_part_of_the_tiles_lowered_as_another_is_found(monkeypatch: pytest.MonkeyPatch, other: Any) -> None:
    monkeypatch.setitem(work_tiles.PARTS, WorkPart.tail_halves, work_tiles.PARTS[other])
    with pytest.raises((AssertionError, InterpreterError), match=r"CTAs? .*\[global-race\]"):
        assert_same_order(*traces_of("sm_90a", TAIL, 2, ENDS))


def test_roles_that_walk_other_tiles_are_found() -> None:
    """A trace of agents out of step; the kernel itself would deadlock or give wrong numbers."""
    trace = Trace()
    trace.begin_work(0, "producer").extend([(0, 0, 64, 32), (64, 0, 64, 32)])
    trace.begin_work(0, "consumer").extend([(0, 0, 64, 32), (0, 32, 64, 32)])
    with pytest.raises(
        InterpreterError,
        match=r"CTA 0: producer computes the work tiles .*, consumer .*the same.*\[agents-tiles-differ\]",
    ):
        trace.tiles()
