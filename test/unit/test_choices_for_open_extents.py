"""Schedules that are chosen for some extents and used for others: the plans of `lt.matmul`, and tuned schedules."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide import targets
from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import Lowered, lower
from lowtide.compiler.matmul import planning
from lowtide.compiler.matmul.arrangement import Product
from lowtide.compiler.matmul.compilation import compile_tuned
from lowtide.compiler.matmul.estimates import Sums, planned
from lowtide.compiler.matmul.family import Family, family_of
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.matmul.planning import make_plan
from lowtide.compiler.matmul.schedule_plan import SchedulePlan
from lowtide.compiler.numerics import summation_in
from lowtide.compiler.numerics_words import BATCH_INVARIANT
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import EpilogueStart
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import IRError, ScheduleError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.choice.opening import opened
from lowtide.passes.schedules.choice.packing import FEW_COLUMNS
from lowtide.passes.schedules.rules.rules import broken_rule

SM_90A = targets.get("sm_90a")
WIDTHS = [(2880, 2880), (14336, 4096)]  # N × K of models whose kernels store first rows early


def family_with(n: int, k: int, numerics: str = "repeatable", target: str = "sm_90a", **other: Any) -> Family:
    product = replace(Product("bf16", "bf16", "bf16", "tn", "row", None, 1, n, k, True, True), **other)
    return family_of(product, Options(numerics), target)


@cache
def plan_of(of: Family) -> SchedulePlan:
    return make_plan(of, None)


def lowered(of: Family, schedule: str) -> Lowered:
    text = problem_text(of.spec(None), targets.get(of.target), Schedule.parse(schedule))
    return lower(text, target=of.target, until=Level.ATOMS)


@pytest.mark.parametrize("of", [family_with(1024, 4096), family_with(2880, 2880, "any", "sm_80")])
def test_few_schedules_serve_every_m(of: Family) -> None:
    plan = plan_of(of)
    taken = {plan.in_turn(m)[0] for m in range(16385)}
    assert taken == set(range(len(plan.schedules))) and len(taken) <= 16
    assert all(sorted(plan.in_turn(m)) == sorted(taken) for m in (0, 17, 100000))
    assert plan.in_turn(20000) == plan.in_turn(16384)
    assert plan.mean <= 0.03 and plan.worst <= 0.15


def test_rows_of_a_that_do_not_start_on_sectors_have_intervals_of_their_own() -> None:
    """Requests to L2 limit their loads, so that CTAs of clusters share them."""
    plan = plan_of(family_with(1024, 1024, layout="nt"))
    assert plan.unit == 16 and len(plan.schedules) <= 16
    on, off = ([plan.schedules[plan.in_turn(m)[0]] for m in range(first, 8193, 16)] for first in (16, 8))
    assert sum("grid.cluster" in each for each in off) > sum("grid.cluster" in each for each in on)
    assert plan_of(family_with(1024, 4096)).unit == 1


def test_consumers_that_take_turns_have_their_tallest_tile_with_open_extents_too() -> None:
    plan = plan_of(family_with(9712, 432))
    schedule = plan.schedules[plan.in_turn(1267)[0]]
    assert "grid.tile = [128, 192]" in schedule and "consumer.instances = 2" in schedule


def test_a_plan_says_at_which_m_a_launch_waits() -> None:
    """The code is that for programmatic launches, so a kernel may be launched either way."""
    of = family_with(5120, 5120, layout="tt")
    plan = plan_of(of)
    assert [m for m in (56, 57, 80, 81) if plan.waits(m)] == [57, 80]
    assert all("grid.launch = programmatic" in each for each in plan.schedules)
    for m, launch in ((40, "programmatic"), (80, "serialized")):
        assert f"grid.launch = {launch}" in plan.schedule(plan.in_turn(m)[0], m)
        problem = replace(seen_by_passes(of.spec(None), SM_90A), m=m, n=5120, k=5120)
        assert str(choose(problem, SM_90A, Schedule()).schedule.grid.launch) == launch
    assert not any(plan_of(family_with(1024, 1024)).waits(m) for m in range(1, 4096))


def test_an_a_with_few_unaligned_rows_is_transposed() -> None:
    """TMA then loads long rows along K. B is packed by rows."""
    plan = plan_of(family_with(4608, 3584, layout="nt", inputs_aligned=False))
    for m, pack in ((2, "transposed"), (FEW_COLUMNS, "transposed"), (FEW_COLUMNS + 1, "rows")):
        schedule = plan.schedules[plan.in_turn(m)[0]]
        name, other = "ba" if "operands = swapped" in schedule else "ab"
        assert f"{name}.pack = {pack}" in schedule and f"{other}.pack = rows" in schedule
    aligned = plan_of(family_with(4608, 3584, layout="nt"))
    assert not any("transposed" in each for each in aligned.schedules)
    for other in ({"n": 4608}, {"n": 4601, "layout": "nt"}):  # K is contiguous in A; rows of B are unaligned
        plan = plan_of(family_with(k=3584, inputs_aligned=False, **other))
        assert not any("transposed" in each for each in plan.schedules)


def test_an_operand_that_is_read_once_at_the_m_of_a_schedule_is_evicted_first() -> None:
    plan = plan_of(family_with(1024, 4096))
    few, many = (plan.schedules[plan.in_turn(m)[0]] for m in (16, 16384))
    assert "operands = swapped" in few and "a.cache = evict_first" in few
    assert ".cache = evict_first" not in many.replace("epilogue.cache", "")


def test_a_plan_depends_on_its_family_alone() -> None:
    of = family_with(2880, 2880, "any", "sm_80")
    before, _ = plan_of(of), make_plan(replace(of, n=512), None)
    assert make_plan(of, None) == before
    assert SchedulePlan.of(json.loads(json.dumps(before.entries()))) == before


@pytest.mark.parametrize(("n", "k"), WIDTHS)
def test_all_schedules_of_a_batch_invariant_plan_sum_in_one_order(n: int, k: int) -> None:
    of = family_with(n, k, BATCH_INVARIANT)
    plan = plan_of(of)
    assert plan.order == "wgmma k16 bf16 x bf16 in f32" and len(plan.schedules) <= 16
    assert {str(summation_in(lowered(of, schedule))) for schedule in plan.schedules} == {plan.order}


@pytest.mark.parametrize(
    "of",
    [
        family_with(96, 1024, batch=12),
        family_with(1031, 777, inputs_aligned=False, d_aligned=False, layout="nt"),
        family_with(0, 0, d_order="column"),
    ],
)
def test_planned_schedules_are_legal_for_open_extents(of: Family) -> None:
    plan = plan_of(of)
    for schedule in plan.schedules[:: len(plan.schedules) - 1 or 1]:
        summation = summation_in(lowered(of, schedule))
        assert summation is not None and not summation.cut_by_ctas


def test_a_schedule_that_avoids_a_large_excess_is_kept_before_one_that_helps_more_on_average() -> None:
    """Either the last M or the two before it have an excess. The mean excess would prefer the former."""
    excess = np.full((17, 18), 0.3)
    np.fill_diagonal(excess, 0.0)
    excess[15, 15:] = 0.0, 0.0, 0.3
    excess[16, 15:] = 0.16, 0.16, 0.0
    one, two = list(range(16)), [*range(15), 16]
    of_one, of_two = (excess[kept].min(axis=0).sum() for kept in (one, two))
    assert of_one < of_two and planning._kept(excess, np.full(18, 1 / 18)) == two


def test_costs_are_compared_at_both_ends_of_each_interval() -> None:
    rows, weights = planning._weighted([4, 8, 16])
    assert rows == [1, 4, 5, 8, 9, 16]
    np.testing.assert_allclose(weights * 8, [2, 2, 1, 1, 1, 1])  # factors of 2: 2, 1 and 1


def test_packed_weights_and_scales_have_plans() -> None:
    of = family_with(512, 1024)
    for other in (
        replace(of, a="f16", b="s4", d="f16", group=128, scales="f16"),
        replace(of, a="e4m3", b="e4m3", block_scales=BlockScales()),
    ):
        assert all(summation_in(lowered(other, schedule)) is not None for schedule in plan_of(other).schedules)


def test_a_plan_whose_schedules_all_sum_in_another_order_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_order", lambda *_: ("mma k8", Sums(lambda division: False, lambda schedule: True)))
    with pytest.raises(ScheduleError, match=r"no schedule sums in the order mma k8.*\[plan-order\]"):
        make_plan(family_with(64, 64, BATCH_INVARIANT, "sm_80"), None)


def test_fields_that_need_known_extents_are_left_out_of_plans() -> None:
    """K steps that are unrolled, operands that are kept, stores that overlap, and first rows that are stored early."""
    chip = targets.get("sm_90")
    of = family_with(256, 256, "any", "sm_90")
    known = choose(seen_by_passes(of.example(None, 81920), chip), chip, Schedule()).schedule
    whole = seen_by_passes(of.spec(None), chip)
    assert known.mainloop.unroll is not None and broken_rule(known, whole, chip) is not None
    assert opened(known, whole, chip) == known  # without an operand that stays, its stages do not fit
    assert not any("unroll" in schedule for schedule in plan_of(of).schedules)


def test_what_was_tuned_for_known_extents_serves_others_without_the_fields_that_need_them() -> None:
    of = family_with(3072, 2880)
    chip = targets.get("sm_90a")
    tuned = choose(seen_by_passes(of.example(None, 2048), chip), chip, Schedule()).schedule
    assert tuned.epilogue.start is EpilogueStart.first_rows
    kernel = compile_tuned(of, None, tuned.shorthand(), planned(tuned).shorthand())
    assert kernel.schedule.epilogue.start is None
    assert kernel.schedule.tile_mnk == tuned.tile_mnk


def test_pieces_are_expected_as_long_as_they_lie_side_by_side() -> None:
    spec = lt.GemmSpec(m=None, n=512, k=None, a="f32", b="f32", d="f32", precision="tf32x3")
    chip = targets.get("sm_90a")
    text = problem_text(spec, chip, None, {"m": 512, "k": 2048})
    lowered = lower(text, until=Level.PROBLEM)
    with make_context() as context:
        found = Schedule.carried_by(parse_text(lowered.levels["problem"], context, "<test>"))
    assert found == choose(seen_by_passes(spec, chip).expecting({"m": 512, "k": 2048}), chip, Schedule()).schedule


@pytest.mark.parametrize("given", ["{m = 0}", "{depth = 3}", '"4096"', '{m = "4096"}'])
def test_extents_that_are_none_are_refused(given: str) -> None:
    text = problem_text(lt.GemmSpec(a="f16", b="f16", d="f16"), targets.get("sm_80"), None, {"m": 16})
    with pytest.raises(IRError, match=r"tile.expected = .*: it names extents of at least 1.*\[expected-extents\]"):
        lower(text.replace("{m = 16 : i64}", given), until=Level.PROBLEM)
