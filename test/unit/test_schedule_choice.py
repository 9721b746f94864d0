"""The choice of a schedule: what is given stays, everything else is decided, and each field has its reason."""

import re
from dataclasses import replace
from itertools import islice

import pytest

from lowtide.dialects.tile import (
    CacheHint,
    GemmLayout,
    KDivisionKind,
    OperandKind,
    OperandsKind,
    RasterKind,
    RepeatKind,
)
from lowtide.dialects.tile.fields import Order
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice.choice import choose, ranked
from lowtide.passes.schedules.facts.resources import shared_memory_bytes, threads_of
from lowtide.passes.schedules.rules.rules import broken_rule
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

LARGE = Problem(4096, 4096, 4096, "bf16", "bf16", "f32", "bf16", GemmLayout.tn)
SHORT = Problem(81920, 256, 256, "f16", "f16", "f32", "f16", GemmLayout.tn)


def test_every_field_has_a_reason() -> None:
    choice = choose(LARGE, get("sm_80"), Schedule())
    assert all(choice.reasons[path] for path in choice.schedule.decided())


def test_an_operand_that_is_read_once_is_evicted_first() -> None:
    few, given = replace(LARGE, m=100), Schedule().with_(grid_tile=(128, 128))
    for problem, caches in (
        (few, (None, "evict_first")),
        (replace(LARGE, n=100), ("evict_first", None)),
        (LARGE, (None, None)),
        (few.expecting({"m": 100}), (None, "evict_first")),  # a kernel that serves other M, too
        (replace(few, kinds=(OperandKind.ends,), operands=("s32",), groups=4).expecting({"m": 100}), (None, None)),
    ):
        found = choose(problem, get("sm_90a"), given).schedule.mainloop
        assert tuple(each.cache and str(each.cache) for each in (found.a, found.b)) == caches
    two = replace(LARGE, m=200)  # two rows of tiles: one cluster reads B once, or two clusters read it twice
    for cluster, cache in (((2, 1), "evict_first"), ((1, 2), None)):
        found = choose(two, get("sm_90a"), given.with_(grid_cluster=cluster)).schedule.mainloop
        assert (found.b.cache and str(found.b.cache)) == cache


@pytest.mark.parametrize(
    ("n", "k", "tile", "is_first"),
    [
        (32768, 16392, (128, 256), False),  # 128 CTAs read 32768 rows at once; rows start inside of sectors
        (32768, 16400, (128, 256), True),
        (16384, 16392, (128, 128), True),  # 128 CTAs, 16384 rows
        (65536, 16392, (128, 256), True),  # two waves
    ],
)
def test_an_operand_is_not_evicted_first_if_k_steps_share_sectors_of_many_rows(
    n: int, k: int, tile: tuple[int, int], is_first: bool
) -> None:
    given = Schedule().with_(grid_tile=tile, grid_cluster=(1, 1))
    found = choose(replace(LARGE, m=100, n=n, k=k), get("sm_90a"), given).schedule
    assert found.mainloop.b.cache is (CacheHint.evict_first if is_first else None)


def test_a_launch_waits_if_only_some_ctas_find_room_and_memory_limits_them() -> None:
    few = replace(LARGE, m=5120, n=80, k=5120)
    for problem, launch in (
        (few, "serialized"),  # 80 CTAs
        (replace(few, m=4096), "programmatic"),  # 64 CTAs
        (replace(few, n=120), "programmatic"),  # products take about as long as reads
        (few.expecting({"n": 80}), "programmatic"),
    ):
        choice = choose(problem, get("sm_90a"), Schedule().with_(grid_tile=(64, problem.n)))
        assert str(choice.schedule.grid.launch) == launch
        assert ("find room" in choice.reasons["grid.launch"]) == (launch == "serialized")


def test_the_reason_of_a_given_field_is_that_it_was_given() -> None:
    choice = choose(LARGE, get("sm_80"), Schedule().with_(grid_tile=(128, 128), k=32, a_swizzle=(0, 3, 3), order="row"))
    given = {path for path, reason in choice.reasons.items() if reason == "given"}
    assert given == {"grid.tile", "grid.order", "mainloop.k", "mainloop.a.swizzle"}
    schedule = choice.schedule
    assert (schedule.tile_mnk, schedule.mainloop.a.swizzle) == ((128, 128, 32), (0, 3, 3))
    assert schedule.grid.order == Order(RasterKind.row)


def test_the_reason_of_a_swizzle_holds_the_ways_of_each_candidate() -> None:
    choice = choose(LARGE, get("sm_80"), Schedule().with_(grid_tile=(128, 128), k=32))
    reason = choice.reasons["mainloop.a.swizzle"]
    assert "<0,3,3>" in reason and "ldmatrix.x4 1-way" in reason and "cp.async.16" in reason
    # Without a swizzle, rows of 64 bytes put every other row of a matrix on the same banks.
    assert "<0,3,3> cp.async.16 1-way, ldmatrix.x4 4-way" in reason


@pytest.mark.parametrize(
    ("target", "given", "problem", "prologue", "load"),
    [
        (
            "sm_80",
            Schedule(),
            SHORT,
            RepeatKind.once,
            None,
        ),  # shared memory does not hold B twice
        ("sm_80", Schedule(), replace(SHORT, k=192), RepeatKind.once, RepeatKind.once),
        ("sm_90a", Schedule().with_(roles="single"), replace(SHORT, n=384), RepeatKind.once, None),  # three columns
        ("sm_90a", Schedule().with_(roles="single", atoms=(2, 2, 1)), SHORT, None, None),
        ("sm_90a", Schedule().with_(roles="single"), SHORT, RepeatKind.once, RepeatKind.once),
        ("sm_90a", Schedule(), SHORT, None, None),  # a producer runs ahead by itself
        ("sm_80", Schedule(), LARGE, None, None),
        ("sm_80", Schedule(), replace(SHORT, m=4096), None, None),  # not a tile for each SM
        ("sm_80", Schedule(), replace(SHORT, m=81919), None, None),
        ("sm_80", Schedule(), replace(SHORT, layout=GemmLayout.nt), None, None),
        ("sm_80", Schedule().with_(scheduler="one_shot"), SHORT, None, None),
    ],
)
def test_a_ring_stays_filled_where_k_is_short_and_tiles_are_many(
    target: str, given: Schedule, problem: Problem, prologue: RepeatKind | None, load: RepeatKind | None
) -> None:
    choice = choose(problem, get(target), given)
    mainloop = choice.schedule.mainloop
    assert (mainloop.prologue, mainloop.b.load, mainloop.a.load) == (prologue, load, None)
    assert all(choice.reasons[path] for path in choice.schedule.decided())


def test_the_reason_of_the_tile_holds_the_cost_of_each_candidate() -> None:
    reason = choose(LARGE, get("sm_80"), Schedule()).reasons["grid.tile"]
    assert "128×128" in reason and "64×64" in reason


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"])
@pytest.mark.parametrize("layout", GemmLayout, ids=str)
@pytest.mark.parametrize("size", [(1, 1, 1), (300, 520, 264), (8192, 8192, 8192), (None, None, None)])
def test_a_choice_is_legal_on_its_target(
    target: str, layout: GemmLayout, size: tuple[int | None, int | None, int | None]
) -> None:
    problem = Problem(*size, "f16", "f16", "f32", "f16", layout)
    schedule = choose(problem, get(target), Schedule()).schedule
    own = problem.swap() if schedule.grid.operands is OperandsKind.swapped else problem
    assert broken_rule(schedule, own, get(target)) is None


def test_a_field_that_fits_no_candidate_is_refused_with_the_rule() -> None:
    with pytest.raises(
        ScheduleError,
        match=r"no schedule fits: needs .* bytes of shared memory .* take stages = \d+.*\[ring-too-large\]",
    ):
        choose(LARGE, get("sm_80"), Schedule().with_(grid_tile=(128, 128), k=64, stages=20))


@pytest.mark.parametrize(
    "fields",
    [
        "grid.tile = [128, 128], k = 128",  # two stages of it fit
        "grid.tile = [64, 16], k = 64",
        "grid.tile = [16, 64], k = 64",
        "grid.tile = [96, 48], k = 32",
        "permutation = [16, 16, 16]",
    ],
)
def test_a_tile_or_permutation_that_common_warps_do_not_divide_takes_others(fields: str) -> None:
    given = Schedule.parse(fields)
    schedule = choose(LARGE, get("sm_80"), given).schedule
    assert given.decided().items() <= schedule.decided().items()
    assert broken_rule(schedule, LARGE, get("sm_80")) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "grid.tile = [128, 256], k = 32, epilogue.tile = [24, 256]",
            "multiple of 32, .* divide the CTA tile's 128; nearest is 32",
        ),
        (
            "order = grouped(2147483648)",
            r"a number is at most 2147483647; nearest is grouped\(2147483647\).*\[order-count\]",
        ),
        ("atom = foo", r"unknown mma atom 'foo\.f32\.bf16'; take mma\.m16n8k8, mma\.m16n8k16 \[atom-of-types\]$"),
        ("a.cache = streaming", r"a.*streaming.*normal, evict_first.*\[cache-words\]"),
    ],
)
def test_the_way_out_is_a_value_that_the_field_takes(fields: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        choose(LARGE, get("sm_80"), Schedule.parse(fields))


def test_shared_memory_counts_the_gap_in_front_of_each_buffer() -> None:
    schedule = Schedule().with_(grid_tile=(16, 48), k=16, stages=3, epilogue_path="direct")
    # A: 3 stages of 512 bytes, up to the next multiple of 1024; B: 3 of 1536.
    assert shared_memory_bytes(schedule, LARGE) == 2048 + 4608


def test_a_scratch_that_is_larger_than_the_ring_lies_behind_it() -> None:
    small = Schedule().with_(
        grid_tile=(64, 64), k=16, stages=2, epilogue_path="smem", epilogue_math="rows", epilogue_tile=(64, 64)
    )
    assert shared_memory_bytes(small, LARGE) == 8192 + 64 * 64 * 4
    assert shared_memory_bytes(small.with_(epilogue_tile=(16, 64)), LARGE) == 8192


@pytest.mark.parametrize(
    ("size", "tile", "least"),
    [((512, 512, 16384), (128, 128), 4), ((256, 256, 8192), (64, 64), 4), ((1024, 1024, 1024), None, 0)],
)
def test_k_is_split_where_whole_tiles_are_too_few(
    size: tuple[int, int, int], tile: tuple[int, int] | None, least: int
) -> None:
    problem = replace(LARGE, **dict(zip("mnk", size, strict=True)))
    choice = choose(problem, get("sm_80"), Schedule())
    division = choice.schedule.k_division
    if tile is None:
        assert division is None
        return
    assert division is not None and division.kind is KDivisionKind.split and least <= division.parts <= 16
    assert choice.schedule.grid.tile == tile
    assert choice.reasons["grid.k_division"].startswith(f"{division.parts} CTAs share the K of each tile")
    for fields in ("grid.k_division = none", "grid.tile = [64, 64]", "scheduler = persistent", "atoms = [2, 2, 1]"):
        assert choose(problem, get("sm_80"), Schedule.parse(fields)).schedule.k_division is None
    assert choose(replace(problem, k=None), get("sm_80"), Schedule()).schedule.k_division is None


@pytest.mark.parametrize(
    ("dtype", "size", "tile", "parts"),
    [
        ("f32", (256, 256, 8192), (128, 128), 32),  # eight warps add more sums at a time than two
        ("f32", (256, 256, 2048), (128, 64), 16),
        ("f32", (4096, 4096, 4096), (128, 128), 0),
        ("f64", (256, 256, 8192), (64, 64), 8),
        ("f64", (768, 768, 3072), (64, 128), 5),  # 144 tiles of 64×64: twelve SMs would have two
        ("f64", (384, 3072, 2048), (64, 64), 3),  # 288 tiles: 24 SMs would have three, the others two
        ("f64", (1024, 1536, 2048), (64, 64), 0),  # 384 tiles, of which an SM holds three at once
        ("f64", (4096, 4096, 4096), (128, 128), 0),
    ],
)
def test_sums_that_round_are_split_by_the_sm_that_has_most_ctas(
    dtype: str, size: tuple[int, int, int], tile: tuple[int, int], parts: int
) -> None:
    m, n, k = size
    schedule = choose(Problem(m, n, k, dtype, dtype, dtype, dtype, GemmLayout.tn), get("sm_90"), Schedule()).schedule
    division = schedule.k_division
    assert (schedule.grid.tile, division.parts if division is not None else 0) == (tile, parts)


def test_sums_shorter_than_f32_are_not_split() -> None:
    halves = Problem(256, 256, 8192, "f16", "f16", "f16", "f16", GemmLayout.tn)
    assert choose(halves, get("sm_80"), Schedule()).schedule.k_division is None


@pytest.mark.parametrize(("k", "division"), [(7168, "scatter_tail(3)"), (4096, "scatter_tail(3)"), (2048, "None")])
def test_the_last_wave_is_divided_where_that_saves_more_than_the_exchange_of_sums(k: int, division: str) -> None:
    """With scales of blocks: 704 tiles of 128×192 fill 5.3 of 6 waves."""
    scales = (OperandKind.row_scale, OperandKind.column_block_scale)
    problem = replace(LARGE, k=k, a="e4m3", b="e4m3", d="bf16", kinds=scales, operands=("f32", "f32"))
    found = choose(problem, get("sm_90a"), Schedule()).schedule
    assert (found.tile_mnk, str(found.k_division)) == ((128, 192, 128), division)


def test_the_parts_of_a_divided_tail_exchange_shares_where_these_are_whole_boxes_of_tma() -> None:
    scales = (OperandKind.row_scale, OperandKind.column_block_scale)
    problem = replace(LARGE, k=7168, a="e4m3", b="e4m3", d="bf16", kinds=scales, operands=("f32", "f32"))
    longer = replace(problem, n=7168, k=16384)  # SMs are left for four parts, of 48 columns
    for given, fields, division in (
        (problem, "epilogue.path = smem", "tail(3)"),
        (problem, "epilogue.tile = [128, 32]", "scatter_tail(3)"),
        (longer, "epilogue.path = smem", "tail(4)"),
        (longer, "", "scatter_tail(3)"),
        (longer, "epilogue.tile = [128, 16]", "scatter_tail(4)"),
    ):
        assert str(choose(given, get("sm_90a"), Schedule.parse(fields)).schedule.k_division) == division


@pytest.mark.parametrize(("scattered", "by_one"), [("scatter(3)", "split(3)"), ("scatter_tail(3)", "tail(3)")])
def test_shares_of_a_d_that_is_converted_in_rows_are_refused_and_sums_by_one_cta_are_legal(
    scattered: str, by_one: str
) -> None:
    problem = replace(LARGE, a="e4m3", b="e4m3", d="e4m3")
    fields = "grid.tile = [128, 192], roles = cooperative(2), scheduler = persistent, k_division = "
    with pytest.raises(
        ScheduleError, match=rf"D of e4m3 is converted in rows, .*; take {re.escape(by_one)} \[divided-conversion\]$"
    ):
        choose(problem, get("sm_90a"), Schedule.parse(fields + scattered))
    assert str(choose(problem, get("sm_90a"), Schedule.parse(fields + by_one)).schedule.k_division) == by_one


@pytest.mark.parametrize(("n", "k"), [(4104, 4104), (4096, 1000), (4096, 5000)])
def test_clusters_share_loads_where_rows_do_not_start_on_sectors(n: int, k: int) -> None:
    choice = choose(replace(LARGE, n=n, k=k), get("sm_90a"), Schedule())
    assert choice.schedule.cluster != (1, 1)
    assert "L2 gets fewer requests" in choice.reasons["grid.cluster"]


def test_a_cluster_that_is_given_is_kept_and_so_is_none() -> None:
    problem = replace(LARGE, n=4104, k=4104)
    for cluster in ((1, 1), (2, 1), (2, 2)):
        assert choose(problem, get("sm_90a"), Schedule().with_(cluster=cluster)).schedule.cluster == cluster


@pytest.mark.parametrize("size", [(81920, 256, 256), (16, 28672, 4096), (300, 4104, 4104), (130, 4096, 4096)])
def test_a_complete_schedule_is_taken_as_it_is(size: tuple[int, int, int]) -> None:
    """Also one that leaves out the cluster, where the model would choose one."""
    m, n, k = size
    problem, target = replace(LARGE, m=m, n=n, k=k), get("sm_90a")
    for each in islice(ranked(problem, target, Schedule()), 24):
        assert choose(problem, target, each.schedule).schedule == each.schedule


def test_tiles_of_one_band_go_in_the_order_of_columns() -> None:
    small, unknown = replace(LARGE, m=1024, n=1024, k=1024), replace(LARGE, m=None, n=1024, k=1024)
    assert choose(small, get("sm_90a"), Schedule()).schedule.grid.order == Order(RasterKind.column)
    for problem in (LARGE, unknown):
        order = choose(problem, get("sm_90a"), Schedule()).schedule.grid.order
        assert order is not None and order.kind is RasterKind.grouped


@pytest.mark.parametrize("copy", ["staged.2", "realigned.4", "realigned.16"])
def test_copies_through_registers_are_shared_by_eight_warps(copy: str) -> None:
    choice = choose(LARGE, get("sm_80"), Schedule().with_(roles="single", a_copy=copy, b_copy=copy))
    rows, columns, _ = choice.schedule.tile_mnk
    assert rows * columns // threads_of(choice.schedule) <= 64  # accumulators of a thread


def test_padding_takes_the_place_of_a_swizzle() -> None:
    problem = Problem(None, None, None, "bf16", "bf16", "f32", "bf16", GemmLayout.tn)
    chosen = choose(problem, get("sm_80"), Schedule.parse("b.padding = 8")).schedule.mainloop
    assert chosen.b.swizzle == (0, 3, 3) and chosen.a.swizzle != (0, 3, 3)


@pytest.mark.parametrize(("columns", "d", "path"), [(8, "bf16", "direct"), (16, "bf16", "smem"), (16, "s8", "direct")])
def test_tiles_with_roles_that_are_too_narrow_for_scratch_are_stored_directly(columns: int, d: str, path: str) -> None:
    a, acc = ("s8", "s32") if d == "s8" else (d, "f32")
    problem = Problem(None, None, None, a, a, acc, d, GemmLayout.tn)
    given = Schedule.parse(f"grid.tile = [64, {columns}], roles = cooperative(1)")
    assert str(choose(problem, get("sm_90a"), given).schedule.epilogue.path) == path


@pytest.mark.parametrize(("n", "stages"), [(4096, 12), (4352, 12), (5376, 7), (8448, 8)])
def test_the_next_kernel_fits_beside_a_grid_that_leaves_some_pairs_of_sms_half_idle(n: int, stages: int) -> None:
    """Tiles of 64×48: 64 CTAs have a pair of SMs each, 68 share two pairs, 84 share some, and 132 fill all."""
    given = Schedule.parse("grid.tile = [64, 48], operands = swapped, consumer.warps = 4, consumer.instances = 1")
    choice = choose(replace(LARGE, m=44, n=n), get("sm_90a"), given)
    assert choice.schedule.mainloop.stages == stages
    assert ("fit beside those of this one" in choice.reasons["mainloop.stages"]) == (stages == 7)


def test_parts_of_k_count_as_ctas_where_a_stage_is_spared() -> None:
    given = "grid.tile = [64, 48], operands = swapped, k_division = {}, consumer.warps = 4, consumer.instances = 1"
    problem = replace(LARGE, m=44, n=1096, k=3216)
    stages = [choose(problem, get("sm_90a"), Schedule.parse(given.format(f"scatter({n})"))) for n in (3, 6)]
    assert [choice.schedule.mainloop.stages for choice in stages] == [8, 7]
