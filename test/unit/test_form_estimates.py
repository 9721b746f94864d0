"""Estimates of many candidates at many M as arrays are equal to those of each schedule by itself."""

import random
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cache
from itertools import islice
from operator import ne
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide import targets
from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.matmul.arrangement import Product
from lowtide.compiler.matmul.estimates import Candidate, Estimates, Sums
from lowtide.compiler.matmul.family import Family, family_of
from lowtide.compiler.matmul.form_estimates import FormEstimates, estimates_for
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.matmul.planning import MOST_ROWS
from lowtide.compiler.problem_ir import seen_by_passes
from lowtide.dialects.tile import OperandsKind, PackKind, TailKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice.choice import choose, ranked
from lowtide.passes.schedules.choice.forms import Extents, fits_grid
from lowtide.passes.schedules.choice.packing import FEW_COLUMNS
from lowtide.passes.schedules.choice.swap import worth_swapping
from lowtide.passes.schedules.cost.cost import cost
from lowtide.passes.schedules.facts.alignment import multiplied
from lowtide.passes.support.problem.problem import Problem

CHIP = targets.get("sm_90a")
ALL = Sums(lambda division: True, lambda schedule: True)
PLAIN = family_of(Product("bf16", "bf16", "bf16", "tn", "row", None, 1, 1024, 1024, True, True), Options(), CHIP.name)


def with_bias(acc: Any, bias: lt.PerColumn) -> Any:
    return lt.relu(acc + bias)


def with_residual(acc: Any, c: lt.Full) -> Any:
    return lt.gelu(acc) + c


def drawn(seed: int) -> tuple[Family, Callable[..., Any] | None]:
    """A family whose operands wgmma may multiply, and an epilogue."""
    rng = random.Random(seed)
    a, d = rng.choice(
        [("bf16", "bf16"), ("f16", "f32"), ("s8", "s32"), ("tf32", "f32"), ("u8", "s32"), ("e4m3", "bf16")]
    )
    takes_any_layout = a in ("bf16", "f16")
    n, k = (round(2 ** rng.uniform(4, 14)) for _ in "nk")
    is_aligned = rng.random() < 0.7
    n, k = (-(-n // 16) * 16, -(-k // 16) * 16) if is_aligned else (n, k)
    family = replace(
        PLAIN,
        a=a,
        b=a,
        d=d,
        n=n,
        k=k,
        inputs_aligned=is_aligned,
        d_aligned=is_aligned,
        layout=rng.choice(["tn", "nn", "nt", "tt"]) if takes_any_layout else "tn",
        d_order=rng.choice(["row", "row", "column"]),
        batch=rng.choice([None, None, 3]),
    )
    return family, rng.choice([None, with_bias, with_residual]) if d != "s32" else None


def problems_of(family: Family, epilogue: Callable[..., Any] | None) -> tuple[Callable[[int], Problem], Schedule]:
    """The problem of an M, and the fields that the family fixes."""
    whole = seen_by_passes(family.spec(epilogue), CHIP)
    given = Schedule.parse(family.given) if family.given else Schedule()
    return cache(lambda m: whole.expecting({"m": m, **family.extents})), given


def packs_of(schedule: Schedule | None) -> tuple[PackKind | None, ...]:
    assert schedule is not None
    return schedule.mainloop.a.pack, schedule.mainloop.b.pack


def completed(estimates: Estimates, rows: list[int]) -> list[Candidate]:
    refused: set[Hashable] = set()
    while True:
        found, more = estimates.completed(estimates.candidates(rows, refused))
        if not more:
            return found
        refused |= more


@pytest.mark.parametrize("seed", range(14))
def test_a_form_has_the_estimate_of_its_schedule_at_every_m(seed: int) -> None:
    family, epilogue = drawn(seed)
    at, given = problems_of(family, epilogue)
    estimates = estimates_for(at, (8, MOST_ROWS), CHIP, given, ALL)
    assert isinstance(estimates, FormEstimates)
    rng = random.Random(seed)
    rows = sorted(round(2 ** rng.uniform(0, 14)) for _ in range(6))
    candidates = completed(estimates, rows)
    others = [*rows, *(m + 1 for m in rows), 1, 127, 128, 129, 1024, 1025, MOST_ROWS]
    where = np.full((len(candidates), len(others)), True)
    by_itself = Estimates(at, CHIP, given, ALL).cycles(candidates, others, where)
    turned = np.array([PackKind.transposed in packs_of(each.complete) for each in candidates])
    if turned.any() and not turned.all():  # A is transposed for few rows
        by_itself[turned[:, None] != (np.array(others) <= FEW_COLUMNS)] = np.inf
    np.testing.assert_allclose(estimates.cycles(candidates, others, where), by_itself, rtol=1e-9)


@pytest.mark.parametrize("seed", range(14, 20))
def test_what_is_chosen_for_an_m_is_among_its_candidates(seed: int) -> None:
    family, epilogue = drawn(seed)
    at, given = problems_of(family, epilogue)
    for m in (8, 16, 144, 1040, 5008):
        candidates = completed(estimates_for(at, (8, MOST_ROWS), CHIP, given, ALL), [m])
        chosen = Candidate("chosen", 1, choose(at(m), CHIP, given).schedule)
        costs = Estimates(at, CHIP, given, ALL).cycles(
            [*candidates, chosen], [m], np.full((len(candidates) + 1, 1), True)
        )
        assert costs[:-1].min() <= costs[-1] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changed", "by_forms"),
    [
        ({}, True),
        ({"a": "s8", "b": "s8", "d": "s32"}, True),
        ({"a": "s8", "b": "s8", "d": "s32", "layout": "nn"}, True),  # A is transposed for all M
        ({"a": "s8", "b": "s8", "d": "s32", "layout": "tt"}, False),  # B is transposed if D has many rows
        ({"a": "s8", "b": "s8", "d": "s32", "layout": "nn", "n": 512}, False),  # A is never transposed
        ({"a": "e4m3", "b": "e4m3"}, True),
        ({"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"}, True),
        ({"a": "e4m3", "b": "e4m3", "block_scales": BlockScales()}, False),  # K of a last wave may be divided
        ({"a": "f64", "b": "f64", "d": "f64"}, False),
    ],
)
def test_forms_serve_families_whose_products_are_all_by_wgmma(changed: dict[str, Any], by_forms: bool) -> None:
    at, given = problems_of(replace(PLAIN, **changed), None)
    assert isinstance(estimates_for(at, (8, MOST_ROWS), CHIP, given, ALL), FormEstimates) == by_forms


@pytest.mark.parametrize(
    ("tile", "cluster", "parts", "extents", "fits"),
    [
        ((64, 224), (1, 2), 1, (300, 28672), False),  # the CTAs share rows of A, the smaller operand, only
        ((64, 224), (1, 2), 1, (48, 28672), True),  # one tile covers M
        ((64, 224), (1, 1), 1, (300, 28672), True),
        ((64, 64), (4, 2), 1, (2984, 97), True),
        ((256, 192), (4, 2), 1, (4096, 4104), False),  # more than one wave
        ((256, 192), (2, 2), 1, (4096, 4104), True),
        ((64, 64), (1, 1), 8, (64, 1024), True),
        ((64, 64), (1, 1), 8, (640, 1024), False),  # CTAs that share a K run at once
    ],
)
def test_candidates_of_a_plan_fit_the_grid_at_each_m(
    tile: tuple[int, int], cluster: tuple[int, int], parts: int, extents: tuple[int, int], fits: bool
) -> None:
    def one(number: int) -> np.ndarray:
        return np.array([number], dtype=float)

    sides = [(one(down), one(across)) for down, across in (tile, cluster)]
    of = Extents(one(extents[0]), one(extents[1]), 1)
    assert fits_grid(sides[0], sides[1], one(parts), of, targets.get("sm_90a")).item() is fits


@pytest.mark.parametrize(
    ("target", "changed"),
    [
        ("sm_90a", {}),
        ("sm_90a", {"a": "s8", "b": "s8", "d": "s32", "layout": "tt"}),  # B is transposed if D has many rows
        ("sm_90a", {"a": "e4m3", "b": "e4m3", "block_scales": BlockScales()}),  # K of a last wave may be divided
        ("sm_90a", {"layout": "nt", "d_order": "column"}),
        ("sm_80", {"layout": "nn"}),
    ],
)
def test_the_estimate_at_several_m_is_that_at_each(target: str, changed: dict[str, Any]) -> None:
    family, chip = replace(PLAIN, target=target, **changed), targets.get(target)
    at, given = problems_of(family, with_bias)
    rows = [1, 8, 24, 100, 129, 144, 1000, 1025, 4096]
    compared = 0
    for choice in islice(ranked(at(200), chip, given), 4):
        schedule, division = choice.schedule, choice.schedule.k_division
        if division is not None and not division.is_of_tail:
            continue  # its estimate is divided by the share of the cycles of whole tiles
        candidate, where = Candidate("a form", 1, schedule), np.full((1, len(rows)), True)
        found = Estimates(at, chip, given, ALL).cycles([candidate], rows, where)[0]
        tail = division or schedule.grid.tail or TailKind.whole
        for m, cycles in zip(rows, found.tolist(), strict=True):
            is_swapped = schedule.grid.operands is OperandsKind.swapped
            problem = at(m).swap() if is_swapped else at(m)
            share = worth_swapping(m) if is_swapped else 1.0  # a swapped product must take less than this
            assert cycles in (np.inf, cost(schedule, multiplied(schedule, problem), chip, tail) / share)
        compared += np.isfinite(found).sum()
    assert compared > len(rows)


@pytest.mark.parametrize(("m", "is_swapped"), [(470, True), (2850, False), (3400, True), (6350, False)])
def test_the_best_candidate_has_the_order_of_operands_of_the_choice(m: int, is_swapped: bool) -> None:
    """Bare estimates would swap the operands at each of these M. An estimate of a swapped product is divided by the
    share of the other estimate that it must stay below."""
    at, given = problems_of(PLAIN, None)
    estimates = estimates_for(at, (8, MOST_ROWS), CHIP, given, ALL)
    found = estimates.candidates([m])
    cycles = estimates.cycles(found, [m], np.full((len(found), 1), True))[:, 0]
    swapped = np.array([each.traits.is_swapped for each in found])
    assert swapped[np.argmin(np.where(swapped, cycles * worth_swapping(m), cycles))]
    chosen = choose(at(m), CHIP, given).schedule
    assert swapped[np.argmin(cycles)] == (chosen.grid.operands is OperandsKind.swapped) == is_swapped


def test_each_trait_that_the_best_candidate_lacks_has_a_cost() -> None:
    """The order of operands, and who adds the sums of parts of K: errors of estimates differ between these."""
    at, given = problems_of(replace(PLAIN, n=1024, k=8192), None)
    estimates, rows = estimates_for(at, (8, MOST_ROWS), CHIP, given, ALL), [16, 64, 256]
    found = estimates.candidates(rows)
    cycles = estimates.cycles(found, rows, np.full((len(found), len(rows)), True))
    best = [found[number].traits for number in np.argmin(cycles, axis=0)]
    differing = np.array([[sum(map(ne, each.traits, one)) for one in best] for each in found])
    octaves = np.array([each.octaves(np.log2(rows)) for each in found])
    near = octaves == 0
    assert {0, 1, 2} == set(differing[near])
    np.testing.assert_allclose(estimates.costs(found, rows)[near], (cycles * (1 + 0.01 * differing))[near])
