"""The estimate of wgmma tiles: properties that it has with any constants."""

import subprocess
import sys
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from role_problems import LARGE, SM_90A

from lowtide.dialects.tile import GemmLayout, TailKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.measurement.calibration.rows import Form, Shape
from lowtide.measurement.calibration.samples import product_of as measured_product
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.cost.clusters import cluster_factor, waits_for_cluster
from lowtide.passes.schedules.cost.constants import Constants
from lowtide.passes.schedules.cost.cost import cost, estimates, tails, widest_box
from lowtide.passes.schedules.cost.described import fields_of, grid_of, is_estimated, product_of
from lowtide.passes.schedules.cost.fitted import FITTED
from lowtide.passes.schedules.cost.grids import WHOLE_COLUMN, Grid, Grids, Product
from lowtide.passes.schedules.cost.rings import MORE_STAGES, fit_in_pairs
from lowtide.passes.schedules.cost.traffic import tile_of
from lowtide.passes.schedules.cost.wgmma import cycles, either, estimate_of, may_be_halved
from lowtide.passes.support.problem.problem import Problem

SQUARE = Product(4096, 4096, 4096, 1, 2.0, 2.0, (8192, 8192), stores_columns=False)
PLAIN = Grid(128, 256, 64, 2, 1, 1, 1, 1, adds_shares=False, band=16, halves=False)


def estimated(of: Product, *grids: Grid, by: Constants = FITTED) -> list[float]:
    return [float(each) for each in cycles(Grids.of(grids), of, by, SM_90A.sm_count, 120)]


def test_it_needs_no_mlir() -> None:
    code = "import sys, lowtide.passes.schedules.cost.fitted; print([name for name in sys.modules if 'mlir' in name])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_two_limits_add_up_to_no_less_than_the_larger() -> None:
    one, other = np.array([1.0, 5.0, 8.0, 0.0]), np.array([4.0, 5.0, 1.0, 0.0])
    found = either(one, other, 3.0)
    assert (found >= np.maximum(one, other)).all() and (found <= one + other).all()


@pytest.mark.parametrize("extent", ["m", "n", "k"])
def test_more_work_takes_longer(extent: str) -> None:
    grids = [PLAIN._replace(band=band, parts=parts) for band, parts in product((1, 16, WHOLE_COLUMN), (1, 2))]
    larger = replace(SQUARE, **{extent: 8192})
    assert all(one < other for one, other in zip(estimated(SQUARE, *grids), estimated(larger, *grids), strict=True))


def test_a_wave_more_takes_longer() -> None:
    """132 tiles, and one more."""
    of = [replace(SQUARE, m=128, n=256 * count) for count in (132, 133)]
    one, other = (estimated(each, PLAIN._replace(band=WHOLE_COLUMN))[0] for each in of)
    assert other > 1.2 * one


def test_a_last_wave_of_a_few_ctas_takes_longer_than_its_share_of_memory() -> None:
    low = PLAIN._replace(rows=64, columns=256, warpgroups=1, band=WHOLE_COLUMN)
    one, more, two = (estimated(replace(SQUARE, m=64, n=256 * count), low)[0] for count in (132, 132 + 36, 264))
    assert (more - one) / (two - one) > 1.3 * 36 / 132


@pytest.mark.parametrize(("cluster", "longer"), [((2, 2), True), ((4, 1), True), ((2, 1), False)])
def test_large_clusters_take_longer_if_the_smaller_operand_is_k_major(cluster: tuple[int, int], longer: bool) -> None:
    grids = Grids.of([PLAIN._replace(cluster_rows=cluster[0], cluster_columns=cluster[1])])
    few = replace(SQUARE, m=1024)
    by_a, by_b = replace(few, b_is_k_major=False), replace(few, a_is_k_major=False)
    along_k, across_k, in_batch = (cluster_factor(grids, each)[0] for each in (by_a, by_b, replace(by_a, batch=16)))
    assert (along_k > 1.02 * across_k) == longer and in_batch == across_k


@pytest.mark.parametrize(
    ("cluster", "parts", "changes", "gains"),
    [
        ((1, 2), 1, {"row_bytes": (8208, 8192)}, True),
        ((4, 1), 1, {"row_bytes": (8208, 8192)}, True),
        ((2, 2), 1, {"row_bytes": (8208, 8192)}, True),
        ((1, 1), 1, {"row_bytes": (8208, 8192)}, False),
        ((1, 2), 2, {"row_bytes": (8208, 8192)}, False),
        ((1, 2), 1, {"row_bytes": (8224, 8192)}, False),  # rows start on sectors
        ((1, 2), 1, {"row_bytes": (8208, 8192), "b_is_k_major": False}, False),
        ((1, 2), 1, {"row_bytes": (8208, 8192), "batch": 16}, False),
        ((1, 2), 1, {"row_bytes": (8208, 8192), "operand_bytes": 1.0}, False),
    ],
)
def test_clusters_of_whole_tiles_gain_off_sectors(
    cluster: tuple[int, int], parts: int, changes: dict[str, Any], gains: bool
) -> None:
    grids = Grids.of([PLAIN._replace(cluster_rows=cluster[0], cluster_columns=cluster[1], parts=parts)])
    without = {name: value for name, value in changes.items() if name != "row_bytes"}
    on, off = (cluster_factor(grids, replace(SQUARE, **each))[0] for each in (without, changes))
    assert off < 0.97 * on if gains else off == on


def test_ctas_share_rates_more_evenly_than_pairs_of_sms() -> None:
    """With 66 CTAs on 132 SMs, each pair of SMs has one. With 80, some pairs have two. With 132, each pair has two."""
    low = PLAIN._replace(rows=64, columns=64, warpgroups=1, band=WHOLE_COLUMN)
    of = [replace(SQUARE, m=8, n=64 * count) for count in (66, 80, 132)]
    pairs, even = ([estimated(each, low, by=replace(FITTED, even=share))[0] for each in of] for share in (1e-9, 1.0))
    assert even[1] < 0.95 * pairs[1]
    assert even[0] == pytest.approx(pairs[0]) and even[2] == pytest.approx(pairs[2])


def test_clusters_of_wide_tiles_of_one_warpgroup_take_longer() -> None:
    low = [PLAIN._replace(rows=64, columns=columns, warpgroups=1, cluster_rows=2) for columns in (192, 200)]
    both = [estimated(SQUARE, each, each._replace(cluster_rows=1)) for each in low]
    one, wide = (pair / alone for pair, alone in both)
    assert wide > 1.02 * one


def test_consumers_that_take_turns_share_little_of_the_least_step_if_they_have_a_tile_for_each_cta() -> None:
    narrow = PLAIN._replace(rows=64, columns=16, warpgroups=1, turns=2, band=WHOLE_COLUMN)
    shared = replace(FITTED, turns_of_one=2.0)
    of = [replace(SQUARE, m=64, n=16 * count) for count in (64, 264)]
    one, two = (estimated(each, narrow)[0] / estimated(each, narrow, by=shared)[0] for each in of)
    assert two == 1.0 < 1.05 < one


def test_an_sm_in_a_cluster_receives_what_other_ctas_load_for_it() -> None:
    slow, fast = replace(FITTED, received=30.0), replace(FITTED, received=1e9)
    alone, four = PLAIN, PLAIN._replace(cluster_columns=4)
    assert estimated(SQUARE, alone, by=slow) == estimated(SQUARE, alone, by=fast)
    assert estimated(SQUARE, four, by=slow)[0] > 1.1 * estimated(SQUARE, four, by=fast)[0]
    on, off = (estimated(replace(SQUARE, row_bytes=(size, 8192)), four, by=slow)[0] for size in (8192, 8208))
    assert off > on


def test_a_low_tile_waits_for_its_cluster_off_lines_too() -> None:
    off = replace(SQUARE, k=512.0, row_bytes=(1040, 1040))
    low, high = (PLAIN._replace(rows=rows, warpgroups=1, turns=2, cluster_rows=2) for rows in (64, 128))
    waits = [waits_for_cluster(Grids.of([each]), off, np.array([8.0]), SM_90A.sm_count)[0] for each in (low, high)]
    assert waits[0] > 0 == waits[1]


def test_consumers_in_turn_run_long_epilogues_at_the_same_time() -> None:
    """The second tile of a CTA takes little longer than the first, the third as long as the first."""
    in_turn = PLAIN._replace(columns=128, warpgroups=1, turns=2, band=WHOLE_COLUMN)
    of = [replace(SQUARE, m=128, n=128 * 132 * count, k=256, computed=2.0) for count in (1, 2, 3)]
    one, two, three = (estimated(each, in_turn)[0] for each in of)
    assert two < 1.2 * one and three > 1.6 * one


def test_clusters_wait_for_epilogues_with_operands() -> None:
    pair = PLAIN._replace(cluster_rows=2)
    alone, beside = (estimated(replace(SQUARE, awaited=awaited), PLAIN, pair) for awaited in (0.0, 0.3))
    assert beside[1] / beside[0] > 1.01 * alone[1] / alone[0]


def test_consumers_in_turn_wait_in_clusters_at_each_tile_if_rows_start_on_lines() -> None:
    alone = PLAIN._replace(columns=128, warpgroups=1, turns=2, band=1)
    grids = [alone, alone._replace(cluster_columns=2), alone._replace(cluster_rows=2, cluster_columns=2)]

    def relative(k: int, extra: int = 0) -> list[float]:
        one, *clusters = estimated(replace(SQUARE, m=81920, n=256, k=k, row_bytes=(2 * k + extra,) * 2), *grids)
        return [each / one for each in clusters]

    assert relative(256)[0] > 1 and relative(256)[1] > 1.05
    assert all(more > less for k in (512, 2048) for more, less in zip(relative(256), relative(k), strict=True))
    assert all(off < 0.98 * on for off, on in zip(relative(256, extra=16), relative(256), strict=True))


@pytest.mark.parametrize(("columns", "changes", "slower"), [
    (32, {}, True), (72, {}, False), (32, {"b_is_k_major": False}, False), (32, {"row_bytes": (8208, 8208)}, False),
])  # fmt: skip
def test_clusters_that_share_few_columns_read_memory_more_slowly(
    columns: int, changes: dict[str, Any], slower: bool
) -> None:
    few = replace(SQUARE, m=131072, n=columns, **changes)
    one = PLAIN._replace(columns=columns, band=WHOLE_COLUMN)
    alone, pair = estimated(few, one, one._replace(cluster_rows=2))
    assert (pair > 1.02 * alone) == slower


def test_all_candidates_are_estimated_as_each_by_itself() -> None:
    texts = ("grid.tile = [128, 256], roles = cooperative(2)", "grid.tile = [64, 128], roles = pingpong(2)")
    schedules = [choose(LARGE, SM_90A, Schedule.parse(text)).schedule for text in texts]
    together = estimates([fields_of(each) for each in schedules], LARGE, SM_90A)
    assert [cost(each, LARGE, SM_90A) for each in schedules] == together.tolist()


def test_extents_may_be_arrays() -> None:
    rows = [64, 1000, 4096]
    grids = Grids.of([PLAIN] * len(rows))
    together = cycles(grids, replace(SQUARE, m=np.array(rows)), FITTED, SM_90A.sm_count, 120)
    assert together.tolist() == [estimated(replace(SQUARE, m=m), PLAIN)[0] for m in rows]


@pytest.mark.parametrize("size", [(8192, 8192, 8192), (4096, 4096, 4096), (6144, 6144, 6144), (2048, 2048, 2048)])
@pytest.mark.parametrize("tile", [(256, 192), (256, 128), (128, 192)])
def test_a_last_wave_runs_in_halves_where_the_choice_allows_it(
    size: tuple[int, int, int], tile: tuple[int, int]
) -> None:
    of = replace(LARGE, m=size[0], n=size[1], k=size[2])
    schedule = choose(of, SM_90A, Schedule().with_(grid_tile=tile, roles="cooperative(2)")).schedule
    grids = Grids.of([grid_of(fields_of(schedule), SM_90A)])
    may = bool(may_be_halved(grids, product_of(of), SM_90A.sm_count, 120)[0])
    assert may == (TailKind.halves in tails(tile_of(schedule), of, SM_90A, widest_box(of)))


def test_halves_of_a_last_wave_that_is_more_than_half_full_take_longer_than_whole_tiles() -> None:
    tall = PLAIN._replace(rows=256, columns=192, band=WHOLE_COLUMN)
    for tiles, is_faster in ((132 + 40, True), (132 + 100, False)):
        whole, halved = estimated(replace(SQUARE, m=256, n=192 * tiles), tall, tall._replace(halves=True))
        assert (halved < whole) == is_faster


def test_products_that_are_converted_or_promoted_have_another_estimate() -> None:
    def known(**changes: object) -> bool:
        return is_estimated(replace(LARGE, **changes))  # type: ignore[arg-type]

    assert known() and known(a="f16", b="f16") and known(a="e4m3", b="e4m3", is_fast=True)
    assert not known(a="e4m3", b="e4m3")


def test_open_extents_are_estimated_as_assumed_ones() -> None:
    unknown = Problem(None, None, None, "bf16", "bf16", "f32", "bf16", LARGE.layout)
    own = replace(product_of(unknown), row_bytes=(8192, 8192), stores_early=True, overlaps=False)
    assert own == product_of(LARGE)


def waits(of: Product, grid: Grid) -> bool:
    return bool(estimate_of(Grids.of([grid]), of, FITTED, SM_90A.sm_count, 120).waits[0])


def test_a_grid_waits_if_memory_limits_it_and_only_some_ctas_find_room_beside_the_grid_before() -> None:
    low = Grid(64, 80, 64, 1, 1, 1, 1, 1, adds_shares=False, band=1, halves=False)
    of = {ctas: replace(SQUARE, m=64 * ctas, n=80, stores_transposed=True) for ctas in (66, 80, 120)}
    assert waits(of[80], low)
    assert not waits(of[66], low), "all find room"
    assert not waits(of[120], low), "few find room"
    assert not waits(of[80], low._replace(columns=24)), "two CTAs fit on an SM"
    assert not waits(of[80], low._replace(cluster_rows=2))
    assert not waits(replace(of[80], m=40 * 64), low._replace(parts=2))
    assert not waits(replace(of[80], n=160), low._replace(columns=160)), "products limit it"
    assert not waits(of[80], low._replace(turns=2))
    assert not waits(replace(of[80], k=1024), low), "it is short"
    assert not waits(replace(of[80], overlaps=True), low)
    assert estimated(of[80], low) < estimated(replace(of[80], overlaps=True), low)


def test_rows_that_are_not_loaded_take_no_time() -> None:
    """One tile of 64 rows: the time of its loads follows M if boxes are clipped. In clusters, and for an A that is not
    K-major, boxes are whole."""
    few, grid = replace(SQUARE, m=8), PLAIN._replace(rows=64, warpgroups=1)
    whole = replace(few, clips=False)
    assert estimated(few, grid)[0] < estimated(whole, grid)[0]
    for same, of in ((grid._replace(cluster_columns=2), few), (grid, replace(few, a_is_k_major=False))):
        assert estimated(of, same) == estimated(replace(of, clips=False), same)


def test_groups_come_one_after_the_other() -> None:
    """Operands of one group are in L2 at a time, so many groups take no longer than launches of one each."""
    of_one = replace(SQUARE, m=1024, n=65536, ends_anywhere=True, in_turn=True)
    grid = PLAIN._replace(band=WHOLE_COLUMN)
    assert estimated(replace(of_one, batch=8), grid)[0] < 8 * estimated(of_one, grid)[0]


def test_reads_from_memory_hide_no_epilogue_of_the_last_wave() -> None:
    """In one wave, reads take longer than the rest of its CTAs. The term is 0 if consumers take turns, and small beside
    many waves."""
    grid = PLAIN._replace(rows=64, columns=192, warpgroups=1, band=WHOLE_COLUMN)
    of = replace(SQUARE, m=8, n=128 * 192, k=1024)
    shown, hidden = (replace(FITTED, after_reads=share) for share in (1.0, 1e-9))
    in_turn = grid._replace(turns=2)
    assert estimated(of, grid, by=shown)[0] > 1.02 * estimated(of, grid, by=hidden)[0]
    assert estimated(of, in_turn, by=shown) == estimated(of, in_turn, by=hidden)
    many = replace(of, n=200 * of.n)
    assert estimated(many, grid, by=shown)[0] < 1.01 * estimated(many, grid, by=hidden)[0]


@pytest.mark.parametrize(("columns", "slower"), [(128, False), (192, False), (160, True), (112, True)])
def test_boxes_of_less_than_a_line_take_longer(columns: int, slower: bool) -> None:
    """Only of an operand that is not K-major, in loads from L2 and in bytes from memory."""
    grid = PLAIN._replace(columns=columns)
    found = [replace(FITTED, narrow_boxes=boxes, narrow_rows=rows) for boxes, rows in ((1, 1), (2, 1), (1, 2))]
    for k_major in (True, False):
        product = replace(SQUARE, b_is_k_major=k_major, clips=False)
        as_plain, *others = (estimated(product, grid, by=each)[0] for each in found)
        assert [other > 1.002 * as_plain for other in others] == 2 * [slower and not k_major]


@pytest.mark.parametrize(
    ("changes", "apart"),
    [
        ({"b_is_k_major": False}, True),
        ({"b_is_k_major": False, "m": 8192}, False),  # the larger operand is A
        ({"b_is_k_major": False, "row_bytes": (8192, 8224)}, False),
        ({"a_is_k_major": False, "m": 8192}, True),
        ({"a_is_k_major": False, "b_is_k_major": False}, False),
        ({}, False),
    ],
)
def test_some_products_have_constants_of_their_own(changes: dict[str, Any], apart: bool) -> None:
    """Those whose larger operand alone is not K-major, with rows that start on lines."""
    grid, of = PLAIN._replace(rows=160, columns=160, cluster_rows=4), replace(SQUARE, **changes)
    for name in ("cluster_launch_off_k", "narrow_rows", "power_sharpness_off_k"):
        other = replace(FITTED, **{name: 2 * getattr(FITTED, name)})
        assert (estimated(of, grid, by=other) != estimated(of, grid)) == apart


@pytest.mark.parametrize("layout", ["tn", "tt", "nt", "nn"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_problem_and_a_measured_shape_have_the_same_product(layout: str, swapped: bool) -> None:
    problem = Problem(264, 520, 1032, "bf16", "bf16", "f32", "bf16", GemmLayout[layout])
    shape = Shape(264, 520, 1032, layout, "bf16", "log-uniform", (), {})
    form = Form("operands=swapped, epilogue.path=direct" if swapped else "", "", PLAIN)
    own, measured = product_of(problem.swap() if swapped else problem), measured_product(shape, [form])
    for name in ("m", "n", "k", "a_is_k_major", "b_is_k_major", "operand_bytes", "result_bytes"):
        assert np.all(getattr(own, name) == getattr(measured, name)), name
    assert [float(each) for each in own.row_bytes] == [float(each[0]) for each in measured.row_bytes]


@pytest.mark.parametrize(("rows_of_d", "columns", "fits"), [(5120, 40, True), (5120, 48, True), (4096, 48, False)])
def test_two_kernels_share_an_sm_only_if_a_tile_of_d_fits_too(rows_of_d: int, columns: int, fits: bool) -> None:
    """Eight stages of 64×48 alone take less than half of the shared memory, but not beside a tile of D. With 80 tiles
    the choice takes seven, with 64 it takes eight. Threads that store D need no tile."""
    few = Product(rows_of_d, 40, 4096, 1, 2.0, 2.0, (8192, 8192), stores_columns=False)
    grids = Grids.of([PLAIN._replace(rows=64, columns=columns, warpgroups=1)])
    assert fit_in_pairs(grids, few, SM_90A.sm_count)[0] == fits
    assert fit_in_pairs(grids, replace(few, stores_columns=True), SM_90A.sm_count)[0]


@pytest.mark.parametrize(
    ("rows_of_d", "turns", "gains"), [(3584, 2, True), (7168, 2, False), (3584, 1, True), (8192, 1, False)]
)
def test_more_stages_than_the_calibration_had_take_less_time(rows_of_d: int, turns: int, gains: bool) -> None:
    few = Product(rows_of_d, 8, 4096, 1, 2.0, 2.0, (8192, 8192), stores_columns=False)
    grid = PLAIN._replace(rows=64, columns=8, warpgroups=1, turns=turns)
    times = [estimated(replace(few, rings_are_deep=deep), grid)[0] for deep in (True, False)]
    assert times[0] == pytest.approx(times[1] * (MORE_STAGES if gains else 1.0))


def test_a_share_of_a_tile_takes_its_own_bytes() -> None:
    """Beside eight stages of 64×48, a third of the tile does not fit, unless threads store it."""
    few = Product(1024, 48, 4096, 1, 2.0, 2.0, (8192, 8192), stores_columns=False)
    grids = Grids.of([PLAIN._replace(rows=64, columns=48, warpgroups=1, parts=3, adds_shares=True)])
    assert fit_in_pairs(grids, few, SM_90A.sm_count)[0]
    assert not fit_in_pairs(grids, replace(few, stores_transposed=True), SM_90A.sm_count)[0]
