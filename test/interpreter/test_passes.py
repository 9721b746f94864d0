"""Every pass leaves the numbers alone: before it and after it a kernel gives the same D, bit for bit, on integers.

A case is a kernel and the shapes it runs on. It is compiled pass by pass, and each pass is tried on all of the shapes,
under several orders of agents. D is also held against float64, so that two equal mistakes do not pass.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from compiled import TARGET, Step, expected, inputs_of, spec, steps_of
from support import assert_same

import lowtide as lt
from lowtide.dialects.levels import Level
from lowtide.interpreter import interpret
from lowtide.passes.pipeline import REGISTRY, STEPS
from lowtide.passes.schedules.choice import ctas_per_sm
from lowtide.passes.support import math_formulas as formulas
from lowtide.passes.support.problem import Problem

Shape = tuple[int, int, int]

OURS = [kind.name for kind in REGISTRY]
INTERPRETED = [step.name for level, steps in STEPS.items() if level <= Level.NVVM for step in steps]

# The passes on math ops have tests of their own below; those on roles leave these kernels as they are, as is tested.
MATH = ("expand-math", "convert-math-to-intrinsics")
WITH_ROLES = ("specialize-roles", "bind-wgmma", "bind-tma", "verify-mbarriers", "verify-registers")
BY_PASS = [name for name in INTERPRETED if name in OURS and name not in MATH + WITH_ROLES]

# The passes that a detail of the K loop, of the fragments, or of the epilogue passes through.
LOOP = ["pipeline-mainloop", "split-k-slices", "double-buffer-fragments", "bind-ring-to-cp-async", "convert-sm-to-nvvm"]
ATOMS = ["bind-mma-atoms", "bind-copy-atoms", "split-k-slices", "convert-sm-to-nvvm"]
EPILOGUE = ["tile-to-ctas", "lower-epilogue", "assign-smem-offsets", "convert-sm-to-nvvm"]


def every_kind(acc, c: lt.Full, row: lt.PerRow["f32"], column: lt.PerColumn, scale: lt.Scalar):  # noqa: F821
    return lt.relu(scale * acc + 2.0 * c - row) + column


def trips(stages: int, tile_k: int) -> tuple[Shape, ...]:
    """One ragged tile, for each trip count at which the ring does something else: K ends within the last step."""
    return tuple((23, 29, tile_k * count - 3) for count in sorted({1, stages - 1, stages, 2 * stages + 1}))


TN = spec()


@dataclass(frozen=True)
class Case:
    name: str
    schedule: str
    shapes: tuple[Shape, ...]
    passes: tuple[str, ...] = tuple(BY_PASS)
    spec: lt.GemmSpec = TN


CASES = [
    Case("tn", "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1]", ((70, 45, 40), (1, 1, 1))),
    Case("tt", "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1]", ((45, 37, 40),), spec=spec("tt")),
    Case("nn", "grid.tile = [32, 32], k = 32, stages = 3, atoms = [1, 2, 1]", ((45, 37, 40),), spec=spec("nn")),
    Case("nt", "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 2, 1]", ((45, 37, 40),), spec=spec("nt")),
    Case("two-stages", "grid.tile = [32, 32], k = 32, stages = 2, atoms = [1, 1, 1]", trips(2, 32), tuple(LOOP)),
    Case("three-stages", "grid.tile = [32, 32], k = 16, stages = 3, atoms = [2, 1, 1]", trips(3, 16), tuple(LOOP)),
    Case(
        "five-stages-one-fragment-buffer",
        "grid.tile = [32, 32], k = 16, stages = 5, atoms = [1, 1, 1], fragment_buffers = 1",
        trips(5, 16),
        tuple(LOOP),
    ),
    Case(
        "two-stages-one-fragment-buffer",
        "grid.tile = [32, 32], k = 32, stages = 2, atoms = [2, 1, 1], fragment_buffers = 1",
        trips(2, 32),
        tuple(LOOP),
    ),
    # At most one CTA fits an SM, and two SMs are at hand: nine work tiles are four or five for each CTA.
    Case(
        "persistent",
        "grid.tile = [32, 32], scheduler = persistent, k = 128, stages = 6, atoms = [1, 1, 1]",
        ((70, 90, 200),),
    ),
    Case(
        "persistent-direct",
        "grid.tile = [32, 32], scheduler = persistent, k = 128, stages = 6, atoms = [2, 1, 1], epilogue.path = direct",
        ((70, 90, 100),),
        (*LOOP, "lower-epilogue"),
    ),
    Case(
        "raster-row",
        "grid.tile = [32, 32], order = row, k = 32, atoms = [1, 1, 1]",
        ((70, 90, 24),),
        ("tile-to-ctas", "convert-sm-to-nvvm"),
    ),
    Case(
        "raster-column",
        "grid.tile = [32, 32], order = column, k = 32, atoms = [1, 1, 1]",
        ((70, 90, 24),),
        ("tile-to-ctas", "convert-sm-to-nvvm"),
    ),
    Case(
        "raster-grouped",
        "grid.tile = [32, 32], order = grouped(2), k = 32, atoms = [1, 1, 1]",
        ((70, 90, 24),),
        ("tile-to-ctas", "convert-sm-to-nvvm"),
    ),
    # 5 × 3 tiles in groups of 2 × 2: ragged groups at both edges; over 2 CTAs, runs of 8 and of 7 tiles.
    Case(
        "raster-groups-even-split",
        "grid.tile = [32, 32], order = groups(2, 2), scheduler = even_split, k = 128, stages = 6, atoms = [1, 1, 1]",
        ((150, 90, 24),),
        ("tile-to-ctas", "lower-epilogue", "convert-sm-to-nvvm"),
    ),
    Case(
        "epilogue-in-registers",
        "grid.tile = [64, 32], k = 32, atoms = [2, 1, 1], epilogue.math = registers, epilogue.tile = [32, 32]",
        ((45, 27, 24), (70, 40, 24)),
        tuple(EPILOGUE),
        spec(epilogue=every_kind),
    ),
    Case(
        "epilogue-on-rows",
        "grid.tile = [64, 32], k = 32, atoms = [2, 1, 1], epilogue.math = rows, epilogue.tile = [32, 32]",
        ((45, 27, 24), (70, 40, 24)),
        tuple(EPILOGUE),
        spec(epilogue=every_kind),
    ),
    Case(
        "epilogue-direct",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], epilogue.path = direct",
        ((45, 27, 24), (32, 40, 24)),
        tuple(EPILOGUE),
        spec(epilogue=every_kind),
    ),
    # The scratch is larger than the ring, so it is a buffer of its own; and persistent, so it is filled again.
    Case(
        "epilogue-beside-the-ring",
        "grid.tile = [64, 64], scheduler = persistent, k = 16, stages = 2, atoms = [2, 2, 1], epilogue.tile = [64, 64]",
        ((70, 66, 24),),
        tuple(EPILOGUE),
        spec(d="f32"),
    ),
    Case(
        "f16-accumulators",
        "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1]",
        ((45, 37, 40),),
        (*ATOMS, "lower-epilogue"),
        spec(dtype="f16", acc="f16"),
    ),
    Case(
        "f16-accumulators-on-rows",
        "grid.tile = [32, 32], k = 32, stages = 3, atoms = [1, 2, 1], epilogue.math = rows",
        ((45, 37, 40),),
        (*ATOMS, "lower-epilogue"),
        spec(dtype="f16", acc="f16", epilogue=every_kind),
    ),
    Case(
        "f32-output",
        "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1]",
        ((45, 37, 40),),
        (*ATOMS, "lower-epilogue"),
        spec(dtype="f16", d="f32"),
    ),
    Case(
        "short-atom",
        "grid.tile = [32, 32], k = 16, stages = 3, atom = mma.m16n8k8, atoms = [2, 1, 1]",
        ((45, 37, 40),),
        tuple(LOOP),
    ),
    Case(
        "narrow-copies",
        "grid.tile = [32, 32], k = 16, stages = 3, a.copy = cp.async.8, b.copy = cp.async.8, atoms = [2, 1, 1]",
        ((45, 37, 40),),
        ("bind-copy-atoms", "bind-ring-to-cp-async", "convert-sm-to-nvvm"),
    ),
    Case(
        "one-n-atom-a-step",
        "grid.tile = [32, 32], k = 32, stages = 3, atoms = [1, 2, 1], permutation = [16, 16, 16]",
        ((45, 37, 40),),
        tuple(ATOMS),
    ),
    Case(
        "unswizzled",
        "grid.tile = [32, 32], k = 32, a.swizzle = <0,3,3>, b.swizzle = <1,3,3>, atoms = [2, 1, 1], epilogue.swizzle = <0,3,3>",
        ((45, 37, 40),),
        ("assign-smem-layouts", "lower-epilogue", "convert-sm-to-nvvm"),
    ),
    Case(
        "static-extents",
        "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1]",
        ((45, 37, 40),),
        spec=spec(m=45, n=37, k=40),
    ),
]


@pytest.fixture(scope="module")
def steps() -> Callable[[Case], list[Step]]:
    compiled: dict[str, list[Step]] = {}

    def of(case: Case) -> list[Step]:
        if case.name not in compiled:
            compiled[case.name] = steps_of(case.spec, case.schedule)
        return compiled[case.name]

    return of


def step_named(steps: list[Step], name: str) -> Step:
    return next(step for step in steps if step.name == name)


def hold(step: Step, spec: lt.GemmSpec, shape: Shape, orders: tuple[int, ...] = (0, 1)) -> None:
    inputs = inputs_of(spec, *shape)
    d = assert_same(step.before, step.after, inputs, orders=orders, sms=2)
    np.testing.assert_array_equal(d, expected(spec, inputs))


@pytest.mark.parametrize(
    ("case", "name"), [pytest.param(case, name, id=f"{case.name}-{name}") for case in CASES for name in case.passes]
)
def test_a_pass_keeps_the_numbers(steps: Callable[[Case], list[Step]], case: Case, name: str) -> None:
    step = step_named(steps(case), name)
    for shape in case.shapes:
        hold(step, case.spec, shape)


def test_upstreams_passes_keep_the_numbers_too(steps: Callable[[Case], list[Step]]) -> None:
    case = CASES[0]
    upstream = [step for step in steps(case) if step.name not in OURS]
    assert {step.name for step in upstream} == {"cse", "canonicalize"}
    for step in upstream:
        hold(step, case.spec, case.shapes[0], orders=(0,))


def test_every_pass_but_verification_changes_a_kernel_on_which_it_is_tried(
    steps: Callable[[Case], list[Step]],
) -> None:
    """Else its comparison above would say nothing."""
    case = CASES[0]
    changed = {step.name for step in steps(case) if step.after != step.before}
    assert set(BY_PASS) - changed == {"verify-schedule", "verify-smem-offsets"}
    assert not changed & set(WITH_ROLES)
    assert set(BY_PASS) <= {name for each in CASES for name in each.passes}


def test_with_one_fragment_buffer_the_loop_stays_as_it_is(steps: Callable[[Case], list[Step]]) -> None:
    for name in ("five-stages-one-fragment-buffer", "two-stages-one-fragment-buffer", "two-stages"):
        case = next(case for case in CASES if case.name == name)
        step = step_named(steps(case), "double-buffer-fragments")
        assert (step.before == step.after) == ("one-fragment-buffer" in name)


@pytest.mark.parametrize("sms", [2, 3])
def test_an_even_split_covers_ragged_grids_on_any_number_of_sms(steps: Callable[[Case], list[Step]], sms: int) -> None:
    case = next(case for case in CASES if case.name == "raster-groups-even-split")
    step = step_named(steps(case), "convert-sm-to-nvvm")
    for shape in ((150, 90, 8), (20, 130, 8), (130, 20, 8), (1, 1, 1)):
        inputs = inputs_of(case.spec, *shape)
        d = assert_same(step.before, step.after, inputs, orders=(0,), sms=sms)
        np.testing.assert_array_equal(d, expected(case.spec, inputs))


@pytest.mark.parametrize("name", ["persistent", "persistent-direct"])
def test_the_persistent_kernels_above_give_each_cta_at_least_three_work_tiles(
    steps: Callable[[Case], list[Step]], name: str
) -> None:
    case = next(case for case in CASES if case.name == name)
    text = re.search(r"#tile\.schedule<.*?>(?=\n)", step_named(steps(case), "tile-to-ctas").after)
    assert text is not None
    schedule = lt.Schedule.parse(text[0])
    problem = Problem(None, None, None, "bf16", "f32", "bf16", "tn", ())
    for m, n, _ in case.shapes:
        tiles = -(-m // 32) * -(-n // 32)
        assert tiles >= 3 * 2 * ctas_per_sm(schedule, problem, TARGET)


# The passes on math ops. On integers no function but |x| has a value, so these run in f32.

FORMULAS: dict[str, tuple[Any, Any, formulas.Error]] = {
    "exp": (lambda acc: lt.exp(0.125 * acc), lambda x: np.exp(0.125 * x), formulas.EXP),
    "tanh": (lambda acc: lt.tanh(0.125 * acc), lambda x: np.tanh(0.125 * x), formulas.TANH),
    "erf": (lambda acc: lt.erf(0.125 * acc), lambda x: np.vectorize(math.erf)(0.125 * x), formulas.ERF),
    "log": (lambda acc: lt.log(acc * acc + 0.5), lambda x: np.log(x * x + 0.5), formulas.LOG),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_expanded_functions_stay_within_their_errors_and_their_intrinsics_are_the_same(name: str) -> None:
    epilogue, exact, error = FORMULAS[name]
    kernel = spec(d="f32", epilogue=epilogue)
    steps = steps_of(kernel, "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], epilogue.path = direct")
    inputs = inputs_of(kernel, 23, 29, 24)
    want = exact((inputs["a"] @ inputs["b"].T).astype(np.float64))
    expand, convert = (step_named(steps, step) for step in MATH)
    assert f"math.{name} " in expand.before and f"math.{name} " not in expand.after
    for text in (expand.before, expand.after):
        found = interpret(text, inputs).astype(np.float64)
        assert (np.abs(found - want) <= error.relative * np.abs(want) + error.absolute).all()
    assert "math." in convert.before and "math." not in convert.after
    np.testing.assert_array_equal(interpret(convert.after, inputs, seed=1), interpret(convert.before, inputs))


def test_an_absolute_value_is_exact_through_the_passes_on_math_ops() -> None:
    kernel = spec(epilogue=lambda acc: abs(acc - 1.0))
    steps = steps_of(kernel, "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1]")
    for name in MATH:
        hold(step_named(steps, name), kernel, (23, 29, 24))
