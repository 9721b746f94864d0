"""The order of sums that a kernel's IR says: kernels of one order give one result to the bit, others do not."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowtide as lt
from lowtide import interpreter, targets
from lowtide.compiler import driver
from lowtide.compiler.matmul.arrangement import Product
from lowtide.compiler.matmul.compilation import compile_planned
from lowtide.compiler.matmul.family import family_of
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.matmul.planning import make_plan
from lowtide.compiler.numerics import confirm, summation_in
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.summation import Summation
from lowtide.dialects.levels import Level
from lowtide.errors import ScheduleError, SpecError

M, N, K = 40, 40, 200
SPEC = lt.GemmSpec(a="bf16", b="bf16", d="f32")
PLAIN = "grid.tile = [64, 64], k = 32, stages = 3"
BF16 = "k16 bf16 x bf16 in f32"

Case = tuple[str, str]  # target and schedule
SM_80, SM_90 = "sm_80", "sm_90a"
ONE_ORDER = {
    f"mma {BF16}": [(SM_80, PLAIN), (SM_80, "grid.tile = [32, 64], k = 64, stages = 2")],
    f"wgmma {BF16}": [
        (SM_90, "grid.tile = [64, 64], k = 64, stages = 2, roles = cooperative(1)"),
        (SM_90, "grid.tile = [128, 32], k = 32, stages = 3, roles = cooperative(2)"),
        (SM_90, "grid.tile = [64, 16], k = 64, stages = 2, roles = cooperative(1), operands = swapped"),
    ],
}
OTHER_ORDERS = {
    f"mma {BF16}, 2 slices": (SM_80, "grid.tile = [64, 64], k = 32, atoms = [2, 1, 2]"),
    f"mma {BF16}, K cut by split(2) in steps of 32": (SM_80, f"{PLAIN}, k_division = split(2)"),
    f"mma {BF16}, K cut by split(2) in steps of 16": (
        SM_80,
        "grid.tile = [64, 64], k = 16, stages = 3, k_division = split(2)",
    ),
}


@lru_cache
def lowered(case: Case) -> driver.Lowered:
    target, schedule = case
    text = problem_text(SPEC, targets.get(target), lt.Schedule.parse(schedule))
    return driver.lower(text, target=target, until=Level.ATOMS)


def summation(case: Case) -> Summation:
    found = summation_in(lowered(case))
    assert found is not None
    return found


@lru_cache
def inputs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (N, K)))
    return a, b


def bits(case: Case, rows: slice = slice(None)) -> np.ndarray[Any, Any]:
    a, b = inputs()
    d = interpreter.interpret(lowered(case).levels["atoms"], {"a": a[rows], "b": b}, sms=2, domain="hopper")
    return np.asarray(d, np.float32).view(np.uint32)


@pytest.mark.parametrize("order", ONE_ORDER)
def test_kernels_of_one_order_give_the_same_bits(order: str) -> None:
    cases = ONE_ORDER[order]
    assert [str(summation(case)) for case in cases] == [order] * len(cases)
    first = bits(cases[0])
    for case in cases[1:]:
        assert np.array_equal(bits(case), first), case


@pytest.mark.parametrize("order", OTHER_ORDERS)
def test_another_order_gives_other_bits(order: str) -> None:
    assert str(summation(OTHER_ORDERS[order])) == order
    assert not np.array_equal(bits(OTHER_ORDERS[order]), bits((SM_80, PLAIN)))


def test_sums_that_are_added_in_f32_say_how_long_they_are() -> None:
    for step in (64, 128):
        schedule = lt.Schedule.parse(f"grid.tile = [64, 64], k = {step}, stages = 2, roles = cooperative(1)")
        text = problem_text(lt.GemmSpec(a="e4m3", b="e5m2", d="f32"), targets.get(SM_90), schedule)
        found = summation_in(driver.lower(text, target=SM_90, until=Level.ATOMS))
        assert str(found) == f"wgmma k32 e4m3 x e5m2 in f32, each {step} of K added in f32"


def test_a_row_does_not_depend_on_the_others() -> None:
    whole = bits((SM_80, PLAIN))
    for rows in (slice(0, 1), slice(7, 30)):
        assert np.array_equal(bits((SM_80, PLAIN), rows), whole[rows])


def test_what_is_promised_is_confirmed() -> None:
    divided, by_ctas = f"{PLAIN}, k_division = split(2)", f"{PLAIN}, scheduler = persistent, k_division = stream_k"
    for schedule, numerics in ((PLAIN, "batch_invariant"), (divided, "repeatable"), (by_ctas, "any")):
        confirm(summation((SM_80, schedule)), numerics)
    for schedule, numerics, message in (
        (
            by_ctas,
            "repeatable",
            r"K cut by stream_k in steps of 32.*\[order-by-sms\]",
        ),
        (by_ctas, "batch_invariant", r"\[order-by-sms\]"),
        (
            divided,
            "batch_invariant",
            r"every element of D must be one sum in one order: take k_division = none.*\[more-than-one-sum\]",
        ),
    ):
        with pytest.raises(ScheduleError, match=message):
            confirm(summation((SM_80, schedule)), numerics)
    two = replace(summation((SM_80, PLAIN)), sums=(*summation((SM_80, PLAIN)).sums, *summation((SM_80, divided)).sums))
    with pytest.raises(ScheduleError, match=r"\[more-than-one-sum\]"):
        confirm(two, "batch_invariant")


def test_compiling_keeps_the_promise_or_refuses() -> None:
    spec = replace(SPEC, m=16, n=4096, k=4096)
    kernel = lt.compile_gemm(spec, SM_90, numerics="batch_invariant")
    assert kernel.summation == kernel.manifest["summation"] == f"wgmma {BF16}"
    assert kernel.schedule.k_division is None
    with pytest.raises(ScheduleError, match=r"\[order-by-sms\]"):
        lt.compile_gemm(SPEC, SM_80, f"{PLAIN}, scheduler = persistent, k_division = stream_k", numerics="repeatable")
    with pytest.raises(SpecError, match=r"\[numerics-word\]"):
        lt.compile_gemm(SPEC, SM_80, numerics="exact")


def test_aligned_and_unaligned_products_have_one_order() -> None:
    for batch, aligned in ((None, True), (3, False)):
        product = Product("bf16", "bf16", "bf16", "tn", "row", batch, 1, 256, 4096, aligned, True)
        of = family_of(product, Options("batch_invariant"), SM_90)
        plan = make_plan(of, None)
        assert plan.order == f"wgmma {BF16}"
        assert compile_planned(of.spec(None), SM_90, plan.schedules[0]).summation == plan.order
