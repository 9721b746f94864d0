"""Every pass on the road with roles leaves the numbers alone, bit for bit on integers, and so does each level.

Kernels of one and of two consumer warpgroups; trip counts 1, stages − 1, stages and 2 · stages + 1; ragged extents and
padded rows; three work tiles a CTA; epilogues through shared memory and straight from the fragments.
"""

import numpy as np
import pytest
from compiled import Step, expected, inputs_of, spec, steps_of
from support import assert_same

import lowtide as lt
from lowtide import targets
from lowtide.dialects.levels import Level
from lowtide.interpreter import interpret

SM_90A = targets.get("sm_90a")

ONE = "grid.tile = [64, 32], k = 64, stages = 2, roles = cooperative(1)"
TWO = "grid.tile = [128, 64], k = 64, stages = 3, roles = cooperative(2)"
PASSES = (
    "tile-to-ctas",
    "promote-operands-to-smem",
    "assign-smem-layouts",
    "specialize-roles",
    "bind-wgmma",
    "bind-tma",
    "lower-epilogue",
    "assign-smem-offsets",
    "convert-sm-to-nvvm",
)


def every_kind(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn, scale: lt.Scalar):
    return lt.relu(scale * acc + 2.0 * c - row) + column


SPECS = {"plain": spec(d="f32"), "every kind": spec(d="f32", epilogue=every_kind)}
SCHEDULES = {
    "one": ONE,
    "two": TWO,
    "direct": f"{TWO}, epilogue = direct",
    "parts": f"{TWO}, epilogue_tile = [128, 16], raster = column",
    # Producer and consumers walk the same runs of tiles.
    "even split": f"{ONE}, raster = groups(2, 2), scheduler = even_split",
}
CASES = [("plain", "one"), ("plain", "two"), ("plain", "direct"), ("every kind", "one"), ("every kind", "parts")]
CASES += [("plain", "even split")]


@pytest.fixture(scope="module", params=CASES, ids=" ".join)
def compiled(request: pytest.FixtureRequest) -> tuple[lt.GemmSpec, list[Step]]:
    problem, schedule = request.param
    return SPECS[problem], steps_of(SPECS[problem], SCHEDULES[schedule], SM_90A)


def shapes(steps: list[Step]) -> list[tuple[int, int, int]]:
    """One ragged tile for each trip count at which the ring does something else, and several tiles a CTA."""
    stages = 2 if "stages = 2" in steps[0].after else 3
    trips = sorted({1, stages - 1, stages, 2 * stages + 1})
    return [(23, 29, 64 * count - 3) for count in trips] + [(300, 140, 70)]


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_the_numbers(compiled: tuple[lt.GemmSpec, list[Step]], name: str) -> None:
    problem, steps = compiled
    (step,) = [step for step in steps if step.name == name]
    assert step.before != step.after, f"{name} did nothing"
    for m, n, k in shapes(steps):
        inputs = inputs_of(problem, m, n, k)
        d = assert_same(step.before, step.after, inputs, orders=(0, 1), sms=2)
        assert np.array_equal(d, expected(problem, inputs))


def test_every_level_gives_the_same_d_under_every_order(compiled: tuple[lt.GemmSpec, list[Step]]) -> None:
    problem, steps = compiled
    last = {step.level: step.after for step in steps if step.level <= Level.NVVM}
    inputs = inputs_of(problem, 130, 70, 200)
    for level in (Level.CTA, Level.PIPELINED, Level.ATOMS, Level.EPILOGUE, Level.NVVM):
        for seed in (0, 1, 2):
            found = interpret(last[level], inputs, sms=1, seed=seed, domain="exact")
            assert np.array_equal(found, expected(problem, inputs)), (level, seed)
