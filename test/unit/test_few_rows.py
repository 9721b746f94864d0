"""Few rows: tiles of warps that copy and multiply are weighed beside those of wgmma."""

from dataclasses import replace

import numpy as np
import pytest
from role_problems import SM_90A, problem

from lowtide import targets
from lowtide.compiler.matmul.family import Family
from lowtide.compiler.matmul.planning import make_plan
from lowtide.dialects.tile import GemmLayout, OperandKind, SchedulerKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice.choice import choose, estimated_cycles, ranked
from lowtide.passes.schedules.cost import few_rows
from lowtide.passes.schedules.cost.cost import cost
from lowtide.passes.schedules.cost.described import may_have_few_rows
from lowtide.passes.schedules.cost.grids import Grid, Grids, Product
from lowtide.passes.schedules.cost.spans import spans_of

TT = GemmLayout.tt
WIDE = problem(2, 35840, 5120, layout=TT)
PRODUCT = Product(2.0, 35840.0, 5120.0, 1, 2.0, 2.0, (10240, 71680), stores_columns=False, b_is_k_major=False)
LOW = Grid(16, 128, 64, 1, 1, 1, 1, 1, adds_shares=False, band=1, halves=False)


def cycles(of: Product, grid: Grid = LOW) -> float:
    return float(few_rows.cycles(Grids.of([grid]), of, SM_90A)[0])


@pytest.mark.parametrize(
    ("m", "n", "k", "layout"), [(2, 35840, 5120, "tt"), (16, 43008, 5376, "tt"), (2, 21200, 30576, "tn")]
)
def test_few_rows_of_wide_weights_have_no_producer(m: int, n: int, k: int, layout: str) -> None:
    choice = choose(problem(m, n, k, layout=GemmLayout[layout]), SM_90A, Schedule())
    schedule = choice.schedule
    assert schedule.agents.is_single and schedule.tile_mnk[0] == 16
    assert schedule.grid.scheduler is SchedulerKind.one_shot and schedule.multiply.atom == "mma.m16n8k16"
    assert choice.reasons["grid.tile"].startswith("the fastest of")
    assert "three load on an SM" in choice.reasons["mainloop.agents.single.instances"]


@pytest.mark.parametrize(
    "of",
    [
        problem(17, 35840, 5120, layout=TT),
        problem(64, 35840, 5120, layout=TT),
        problem(None, 35840, 5120, layout=TT),
        problem(2, 29496, 664, layout=TT),  # few K steps: wgmma starts faster
        problem(2, 1024, 1024, layout=TT),
        replace(WIDE, batch=4, is_batched=True),
        problem(8, 13520, 20728),  # rows of B start off sectors
        problem(6, 65536, 5120),  # if B is K-major, the estimates are closer than the times: wgmma is faster
        replace(WIDE, layout=GemmLayout.nt),
    ],
)
def test_others_have_a_producer(of: object) -> None:
    assert choose(of, SM_90A, Schedule()).schedule.agents.has_producer  # type: ignore[arg-type]


def test_rows_off_sectors_take_longer_the_narrower_a_tile_is() -> None:
    off = replace(PRODUCT, row_bytes=(10240, 71696))
    narrow, wide = (cycles(off, grid) / cycles(PRODUCT, grid) for grid in (LOW._replace(columns=64), LOW))
    assert narrow > 1.08 and 1.03 < wide < narrow
    assert cycles(replace(off, b_is_k_major=True)) == cycles(replace(PRODUCT, b_is_k_major=True))


@pytest.mark.parametrize("given", ["k = 64", "grid.order = row", "a.cache = evict_first", "epilogue.path = tma"])
def test_a_given_field_may_mean_a_producer(given: str) -> None:
    assert choose(WIDE, SM_90A, Schedule.parse(given)).schedule.agents.has_producer


def test_epilogues_and_rows_that_are_not_aligned_are_served() -> None:
    full = replace(WIDE, kinds=(OperandKind.full,), operands=("bf16",))
    for of in (full, problem(3, 35841, 5121, layout=TT), problem(3, 35841, 5121), problem(1, None, 5120, layout=TT)):
        assert choose(of, SM_90A, Schedule()).schedule.mainloop.stages


def test_only_targets_with_wgmma_are_measured() -> None:
    assert may_have_few_rows(WIDE, SM_90A) and not may_have_few_rows(WIDE, targets.get("sm_80"))


def test_costs_of_all_that_is_ranked_compare() -> None:
    choices = [each for each, _ in zip(ranked(WIDE, SM_90A, Schedule()), range(4), strict=False)]
    found = [estimated_cycles(each, WIDE, SM_90A) for each in choices]
    assert found[0] == min(found) and {each.schedule.agents.is_single for each in choices} == {True, False}


def test_the_spans_add_up_to_the_estimate() -> None:
    """But for the factor that decides beside wgmma."""
    schedule = choose(WIDE, SM_90A, Schedule()).schedule
    spans = spans_of(schedule, WIDE, SM_90A)
    assert spans is not None and spans.total == cost(schedule, WIDE, SM_90A)
    assert spans.slowdown == pytest.approx(0.90)


def test_few_ctas_are_bound_by_their_own_loads() -> None:
    """With half the SMs busy, half the bytes take as long; a longer ring would take less."""
    one, two = (cycles(replace(PRODUCT, n=128.0 * count)) for count in (33, 66))
    assert one == pytest.approx(two, rel=0.01)
    full, over = (cycles(replace(PRODUCT, n=128.0 * 3 * 132 + more)) for more in (0, 128))
    assert over > full + 2000


def test_extents_may_be_arrays() -> None:
    rows = [1.0, 7.0, 16.0]
    found = few_rows.cycles(Grids.of([LOW] * 3), replace(PRODUCT, m=np.array(rows)), SM_90A)
    assert found.tolist() == [cycles(replace(PRODUCT, m=m)) for m in rows]


@pytest.mark.parametrize(("numerics", "is_single"), [("repeatable", True), ("batch_invariant", False)])
def test_plans_have_them_if_the_order_of_sums_may_depend_on_m(numerics: str, is_single: bool) -> None:
    family = Family("bf16", "bf16", "bf16", "tt", "row", None, 43008, 5376, True, True, numerics, "sm_90a")
    plan = make_plan(family, None)
    for m in (1, 5, 16):
        assert ("agents.single" in plan.schedules[plan.in_turn(m)[0]]) is is_single
    assert "agents.single" not in plan.schedules[plan.in_turn(17)[0]]
