"""Random problems on the GPU against float64, within the derived bound: shapes, strides, types, schedules, epilogues.

Every kernel takes its extents at run time or has them compiled in; D lies in a larger, poisoned allocation whose
surroundings must stay as they were. Schedules with roles have draws of their own: test_random_role_gemms.py.
"""

import random
from dataclasses import dataclass

import numpy as np
import pytest
from gemm_checks import check

import lowtide as lt

pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

KERNELS, SHAPES_EACH = 42, 5


def plain(acc):
    return acc


def bias_relu(acc, bias: lt.PerColumn):
    return lt.relu(acc + bias)


def everything(acc, c: lt.Full, row: lt.PerRow, bias: lt.PerColumn, alpha: lt.Scalar):
    return lt.gelu(alpha * acc + 0.5 * c + bias) - row


def silu_of_full(acc, c: lt.Full):
    return lt.silu(acc) * c


EPILOGUES = (None, plain, bias_relu, everything, silu_of_full)
SCHEDULES = (
    None,
    "grid.tile = [64, 64], k = 32, stages = 2, atoms = [2, 2, 1]",
    "grid.tile = [64, 128], k = 64, stages = 3, atoms = [1, 4, 1], fragment_buffers = 1",
    "grid.tile = [128, 64], order = column, k = 32, stages = 5, atoms = [4, 1, 1]",
    "grid.tile = [96, 64], order = row, k = 32, stages = 3, atoms = [2, 2, 1]",
    "grid.tile = [128, 128], scheduler = persistent, k = 32, stages = 4, atoms = [2, 2, 1]",
    "grid.tile = [128, 128], k = 32, stages = 3, atoms = [2, 2, 1], epilogue.path = direct",
    "grid.tile = [128, 128], k = 32, stages = 3, atoms = [2, 2, 1], epilogue.math = rows, epilogue.tile = [32, 128]",
    "grid.tile = [64, 64], k = 16, stages = 4, atom = mma.m16n8k8, atoms = [2, 2, 1]",
    "grid.tile = [128, 256], k = 32, stages = 3, atoms = [2, 4, 1]",
)


@dataclass(frozen=True)
class Case:
    number: int
    dtype: str
    d: str
    acc: str
    epilogue: int
    schedule: int
    static: bool


def cases() -> list[Case]:
    """The same cases every time; each schedule and each epilogue comes up."""
    rng = random.Random(20)
    found = []
    for number in range(KERNELS):
        dtype = rng.choice(("f16", "bf16"))
        acc = "f16" if dtype == "f16" and rng.random() < 0.25 else "f32"
        found.append(
            Case(
                number,
                dtype,
                rng.choice((dtype, dtype, "f32")),
                acc,
                number % len(EPILOGUES),
                number % len(SCHEDULES),
                rng.random() < 0.3,
            )
        )
    return found


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.number:02d}")
def test_random_gemms_agree_with_float64_within_the_derived_bound(case):
    rng = np.random.default_rng(case.number)
    kernel = None
    for _ in range(SHAPES_EACH):
        limit = 120 if case.acc == "f16" else 700
        m, n, k = (int(rng.integers(1, top)) for top in (400, 400, limit))
        extents = {"m": m, "n": n, "k": k} if case.static else {}
        spec = lt.GemmSpec(
            **extents, a=case.dtype, b=case.dtype, d=case.d, acc=case.acc, epilogue=EPILOGUES[case.epilogue]
        )
        if kernel is None or case.static:
            kernel = lt.compile_gemm(spec, target="sm_80", schedule=SCHEDULES[case.schedule])
        check(spec, kernel, (m, n, k), rng)


@pytest.mark.parametrize("layout", ["tt", "nn", "nt"])
@pytest.mark.parametrize("schedule", SCHEDULES[:4])
def test_the_other_layouts_agree_with_float64_within_the_derived_bound(layout, schedule):
    rng = np.random.default_rng(7)
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout=layout)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule=schedule)
    for _ in range(3):
        m, n, k = (int(rng.integers(1, top)) for top in (300, 300, 300))
        check(spec, kernel, (m, n, k), rng)


def test_there_are_at_least_two_hundred_combinations():
    assert KERNELS * SHAPES_EACH >= 200
    assert {case.schedule for case in cases()} == set(range(len(SCHEDULES)))
    assert {case.epilogue for case in cases()} == set(range(len(EPILOGUES)))
