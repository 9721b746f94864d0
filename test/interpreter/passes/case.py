"""One kernel on which passes are tried: compiled pass by pass, and run before and after each on several shapes."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from compiled import Step, expected, inputs_of, spec
from support import Array, assert_as, run_of

import lowtide as lt
from lowtide import targets
from lowtide.dialects.levels import Level
from lowtide.interpreter import Trace
from lowtide.targets import Target

Shape = tuple[int, int, int]

TN = spec()
SM_80, SM_90 = targets.get("sm_80"), targets.get("sm_90")


@dataclass(frozen=True)
class Case:
    """A kernel, the shapes (M, N, K) it runs on, and the passes that are tried on it.

    The last pass that is tried runs on all shapes. Each other pass runs on the last shape, which has several tiles, and
    on one of the others in turn. `large` shapes take longer; each pass runs on them under one order of agents. `idle`
    are the passes that leave this kernel alone; those that only verify always do.
    """

    name: str
    schedule: str
    shapes: tuple[Shape, ...]
    passes: tuple[str, ...]
    spec: lt.GemmSpec = TN
    target: Target = SM_80
    large: tuple[Shape, ...] = ()
    idle: tuple[str, ...] = ()
    anywhere: bool = False
    """Whether rows of a, b and d lie anywhere."""
    full_padding: int = 3
    """The elements after each row of a full operand."""


def every_kind(acc, c: lt.Full, row: lt.PerRow["f32"], column: lt.PerColumn, scale: lt.Scalar):  # noqa: F821
    """An epilogue with an operand of each kind."""
    return lt.relu(scale * acc + 2.0 * c - row) + column


def scaled(acc, c: lt.Full, alpha: lt.Scalar, beta: lt.Scalar):
    """α · A · B + β · C, in the type of the accumulators."""
    return alpha * acc + beta * c


def multiplied(acc, c: lt.Full, row: lt.PerRow["f32"]):  # noqa: F821
    """Sums and differences whose first operand, second operand or both are products."""
    return (row - acc * c) + (2.0 * acc - row) + (3.0 * c + acc * row)


def trips(stages: int, tile_k: int) -> tuple[Shape, ...]:
    """One ragged tile, for each trip count at which the ring does something else: K ends within the last step."""
    return tuple((23, 29, tile_k * count - 3) for count in sorted({1, stages - 1, stages, 2 * stages + 1}))


def step_named(steps: list[Step], name: str) -> Step:
    """The one step of a compilation that has this name."""
    return next(step for step in steps if step.name == name)


def hold(steps: list[Step], name: str, case: Case) -> None:
    """The kernel gives the same D before and after the named step, bit for bit on integers, and it is float64's D.

    Below level cta, the result of level cta stands for the result before the step: that level runs in a fraction of the
    time, and has the work tiles of each CTA. A step must change the kernel, unless it is idle or only verifies; then
    nothing is run.
    """
    step = step_named(steps, name)
    is_idle = step.name in case.idle or step.name.startswith("verify-")
    assert (step.before == step.after) == is_idle, f"{step.name} should {'not ' * is_idle}change this kernel"
    if is_idle:
        return
    if step.level > Level.CTA:
        step = replace(step, first=[each.last for each in steps if each.level == Level.CTA][-1])
    tried = [each.name for each in steps if each.name in case.passes and each.name not in case.idle]
    for shape, orders in _runs(case, tried.index(name), len(tried)):
        check(step, case.spec, shape, orders, anywhere=case.anywhere, full_padding=case.full_padding)


def _runs(case: Case, at: int, count: int) -> list[tuple[Shape, tuple[int, ...]]]:
    """The shapes of pass number `at` of `count`, and the orders of agents for each.

    An error of a pass is still there after the last pass. So the last pass has all shapes, and both orders on the first
    one: whether a run is free of races does not depend on its order. Each other pass and shape has one order in turn.
    """
    *few, last = case.shapes
    if at < count - 1:
        few = few and [few[(at + len(case.name)) % len(few)]]
    shapes = [*few, last]
    orders = [((at + number) % 2,) for number in range(len(shapes))]
    if at == count - 1:
        orders[0] = (0, 1)
    return [*zip(shapes, orders, strict=True), *((shape, (2,)) for shape in case.large)]


def check(
    step: Step,
    problem: lt.GemmSpec,
    shape: Shape,
    orders: tuple[int, ...] = (0, 1),
    sms: int = 2,
    **layout: Any,
) -> None:
    """The same D before and after the step on one shape, and float64's, so that two equal mistakes do not pass.
    `layout`: of the inputs, as `inputs_of` takes it."""
    inputs = inputs_of(problem, *shape, **layout)
    assert_as(_checked(step.before, problem, shape, sms, **layout), step.after, inputs, orders, sms)


@lru_cache(maxsize=64)
def _checked(before: str, problem: lt.GemmSpec, shape: Shape, sms: int, **layout: Any) -> tuple[Array, Trace]:
    """What a module gives, which is what float64 does: run once for all passes that are compared with it."""
    inputs = inputs_of(problem, *shape, **layout)
    d, trace = run_of(before, inputs, sms)
    np.testing.assert_array_equal(d, expected(problem, inputs))
    return d, trace
