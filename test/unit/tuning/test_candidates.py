"""What is measured, and in which order each schedule sums."""

import pytest

import lowtide as lt
from lowtide.compiler.problem_ir import seen_by_passes
from lowtide.dialects.tile import GemmLayout
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import SpecError
from lowtide.measurement.tuning.candidates import candidates, order_of
from lowtide.passes.schedules.choice.choice import choose, ranked
from lowtide.passes.schedules.rules.rules import broken_rule
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

SIZES = [
    ("sm_90a", 4096, 4096, 4096),
    ("sm_90a", 512, 512, 16384),
    ("sm_90a", 16, 4096, 4096),
    ("sm_80", 512, 512, 4096),
]


def spec_of(m: int, n: int, k: int) -> lt.GemmSpec:
    return lt.GemmSpec(m=m, n=n, k=k, a="bf16", b="bf16", d="bf16")


@pytest.mark.parametrize(("target", "m", "n", "k"), SIZES)
def test_candidates_are_legal_different_and_sum_as_the_chosen_one(target: str, m: int, n: int, k: int) -> None:
    spec, known = spec_of(m, n, k), get(target)
    problem = seen_by_passes(spec, known)
    own = choose(problem, known, Schedule()).schedule
    found = candidates(spec, known, most=8)
    assert len(found) == 8 and found[0] == own
    for position, schedule in enumerate(found):
        computed = problem if schedule.grid.operands is None else problem.swap()
        assert broken_rule(schedule, computed, known) is None
        assert schedule not in found[:position]
        assert order_of(schedule) == order_of(own)
        assert choose(problem, known, schedule).schedule == schedule  # a complete schedule is taken as it is


def test_any_numerics_bring_other_orders_of_sums() -> None:
    found = candidates(spec_of(512, 512, 16384), get("sm_90a"), "any", most=8)
    assert len({order_of(schedule) for schedule in found}) > 1
    with pytest.raises(SpecError, match=r"'some'.*any, repeatable.*\[numerics-word\]"):
        candidates(spec_of(64, 64, 64), get("sm_80"), "some")


def test_the_first_of_those_that_are_weighed_is_chosen_and_whole_tiles_come_by_their_cost() -> None:
    problem = Problem(4096, 4096, 4096, "bf16", "bf16", "f32", "bf16", GemmLayout.tn)
    given = Schedule().with_(operands="as_given")  # if not, swapped products come in turn with these
    found = [choice for choice, _ in zip(ranked(problem, get("sm_90a"), given), range(6), strict=False)]
    assert found[0] == choose(problem, get("sm_90a"), given)
    cycles = [int(choice.reasons["grid.tile"].split("(")[1].split()[0].replace(",", "")) for choice in found]
    assert cycles == sorted(cycles)
    assert [choice.reasons["grid.tile"].startswith("the fastest of") for choice in found] == [True] + [False] * 5


def order(target: str, **fields: object) -> tuple[object, ...]:
    problem = Problem(1024, 1024, 4096, "bf16", "bf16", "f32", "bf16", GemmLayout.tn)
    return order_of(choose(problem, get(target), Schedule().with_(**fields)).schedule)


def test_what_changes_no_sum_is_not_in_the_order() -> None:
    whole = order("sm_90a", k_division="none")
    for fields in ({"grid_tile": (64, 64)}, {"cluster": (2, 1)}, {"k": 32}, {"operands": "swapped"}, {"stages": 2}):
        assert order("sm_90a", k_division="none", **fields) == whole
    assert order("sm_90a", roles="single", k_division="none") == order("sm_80", k_division="none") != whole


def test_what_cuts_k_is_in_the_order() -> None:
    def divided(division: str, columns: int = 128, k: int = 64) -> tuple[object, ...]:
        return order("sm_90a", grid_tile=(128, columns), k=k, roles="cooperative(2)", k_division=division)

    assert divided("split(2)") == divided("split(2)", columns=256)
    kinds = [divided(division) for division in ("none", "split(2)", "split(4)", "scatter(2)")]
    kinds.append(divided("split(2)", k=32))
    of_warps = [order("sm_80", grid_tile=(128, 128), k=32, atoms=(2, 2, count)) for count in (1, 2)]
    assert len({*kinds, *of_warps, order("sm_80", atom="mma.m16n8k8", k_division="none")}) == 8
