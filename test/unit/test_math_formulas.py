"""The formulas behind expand-math hold their stated errors, with the hardware's own error at both ends of its range."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lowtide.passes.nvvm.expand_math import FACTORS, MOST_FACTOR_OF_EXP
from lowtide.passes.support.ir import math_formulas as formulas

ERF = np.vectorize(math.erf, otypes=[np.float64])
ERFC = np.vectorize(math.erfc, otypes=[np.float64])


def flushed(x):
    """0 in place of subnormal numbers."""
    return np.where(np.abs(x) < formulas.LEAST_NORMAL, np.copysign(np.float32(0), x), x)


class NumpyOps:
    """f32 operations in numpy. `push` in [−1, 1] moves each approximate result by that share of its error limit."""

    def __init__(self, push: float = 0.0) -> None:
        self.push = push

    def _approx(self, exact, error):
        spread = np.where(np.isfinite(exact), np.abs(exact) * error.relative, 0.0)
        return np.float32(exact + self.push * spread)

    def constant(self, value):
        return np.float32(value)

    def add(self, x, y):
        return np.add(x, y, dtype=np.float32)

    def subtract(self, x, y):
        return np.subtract(x, y, dtype=np.float32)

    def multiply(self, x, y):
        return np.multiply(x, y, dtype=np.float32)

    def negate(self, x):
        return -x

    def fma(self, x, y, z):
        return np.float32(np.float64(x) * np.float64(y) + np.float64(z))

    def maximum(self, x, y):
        return np.maximum(x, y)

    def minimum(self, x, y):
        return np.minimum(x, y)

    def absolute(self, x):
        return np.abs(x)

    def copysign(self, magnitude, sign):
        return np.copysign(magnitude, sign)

    def divide_approx(self, x, y):
        quotient = self._approx(np.float64(x) / np.float64(y), formulas.DIVIDE_APPROX)
        return np.where(np.abs(y) > formulas.DIVIDE_APPROX_LIMIT, np.float32(0), flushed(quotient))

    def exp2(self, x):
        return flushed(self._approx(np.exp2(np.float64(x)), formulas.EX2_APPROX))

    def log2(self, x):
        exact = np.log2(np.float64(x))
        near_one = (x > 0.5) & (x < 2)
        error = np.where(near_one, formulas.LG2_APPROX.absolute, np.abs(exact) * formulas.LG2_APPROX.relative)
        return np.float32(exact + self.push * np.where(np.isfinite(error), error, 0))

    def less(self, x, y):
        return x < y

    def select(self, condition, x, y):
        return np.where(condition, x, y)


def every_float(step: int, lowest: float, highest: float) -> np.ndarray:
    """Every step-th f32 in [lowest, highest], both signs where the range has them."""
    bits = np.arange(0, 0x7F800000, step, dtype=np.uint32)
    positive = bits.view(np.float32)
    values = np.concatenate([positive, -positive])
    return values[(values >= lowest) & (values <= highest)]


CASES = {
    "exp": (formulas.exp, np.exp, formulas.EXP, every_float(4099, -110, 88.7)),
    "exp(-1.6x)": (
        lambda ops, x: formulas.exp(ops, x, -1.6),
        lambda x: np.exp(x * -1.6),
        # The argument's error grows by that of the product that is saved.
        replace(formulas.EXP, argument=formulas.EXP.argument + 2.0**-24),
        every_float(4099, -55, 68),
    ),
    **{
        f"{factor} · exp(-x/2)": (
            lambda ops, x, factor=factor: formulas.exp(ops, x, -0.5, factor),
            lambda x, factor=factor: factor * np.exp(x * -0.5),
            # The error is that of exp, and of the product that is saved.
            formulas.Error(
                formulas.EXP.relative + formulas.ROUNDED.relative,
                formulas.EXP.absolute * abs(factor),
                formulas.EXP.argument,
            ),
            every_float(4099, -170, 180),
        )
        for factor in (formulas.LEAST_FACTOR_OF_EXP, -MOST_FACTOR_OF_EXP)
    },
    "tanh": (formulas.tanh, np.tanh, formulas.TANH, every_float(4099, -100, 100)),
    "erf": (formulas.erf, ERF, formulas.ERF, every_float(4099, -12, 12)),
    "erfc": (formulas.erfc, ERFC, formulas.ERFC, every_float(4099, -math.inf, math.inf)),
    "log": (formulas.log, np.log, formulas.LOG, every_float(4099, 1e-45, 3.4e38)),
    **{
        f"{factor} · erfc(-x/√2)": (
            lambda ops, x, factor=factor: formulas.erfc(ops, x, -math.sqrt(0.5), factor),
            lambda x, factor=factor: factor * ERFC(x * -math.sqrt(0.5)),
            # The argument's error is that of the product that is saved.
            replace(formulas.ERFC, absolute=formulas.ERFC.absolute * factor, argument=2.0**-24),
            every_float(4099, -math.inf, math.inf),
        )
        for factor in FACTORS
    },
}


def worst_shares(name: str, *pushes: float) -> list[float]:
    """For each push, the largest error of the formula as a share of its stated limit."""
    formula, exact, limit, x = CASES[name]
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64))
        moved = [exact(x.astype(np.float64) * (1.0 + side * limit.argument)) for side in (-1.0, 1.0)]
        allowed = limit.relative * np.abs(want) + limit.absolute + np.max(np.abs(np.array(moved) - want), axis=0)
        found = []
        for push in pushes:
            got = formula(NumpyOps(push), x).astype(np.float64)
            error = np.where(got == want, 0.0, np.abs(got - want))
            found.append(float(np.max(np.where(error == 0, 0, error / np.where(allowed == 0, 1e-300, allowed)))))
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_error_stays_within_the_stated_one_which_is_not_slack(name):
    assert 0.5 < max(worst_shares(name, -1.0, 0.0, 1.0)) <= 1.0


@pytest.mark.parametrize(
    ("name", "x", "want"),
    [
        ("exp", math.inf, math.inf),
        ("exp", -math.inf, 0.0),
        ("exp", 1e30, math.inf),
        ("exp", -1e30, 0.0),
        ("exp", 0.0, 1.0),
        ("exp", math.nan, math.nan),
        ("tanh", math.inf, 1.0),
        ("tanh", -math.inf, -1.0),
        ("tanh", -0.0, -0.0),
        ("tanh", 1e30, 1.0),
        ("tanh", math.nan, math.nan),
        ("erf", math.inf, 1.0),
        ("erf", -1e30, -1.0),
        ("erf", -0.0, -0.0),
        ("erf", math.nan, math.nan),
        ("erfc", math.inf, 0.0),
        ("erfc", -math.inf, 2.0),
        ("erfc", 1e30, 0.0),
        ("erfc", math.nan, math.nan),
        ("log", 0.0, -math.inf),
        ("log", -1.0, math.nan),
        ("log", math.inf, math.inf),
        ("log", math.nan, math.nan),
    ],
)
def test_the_ends_of_the_range_come_out_right(name, x, want):
    with np.errstate(all="ignore"):
        got = float(CASES[name][0](NumpyOps(), np.float32(x)))
    assert (math.isnan(got) and math.isnan(want)) or (got == want and math.copysign(1, got) == math.copysign(1, want))


def test_a_wrong_coefficient_is_seen(monkeypatch):
    wrong = (formulas._TANH_COEFFICIENTS[0] * (1 + 1e-5), *formulas._TANH_COEFFICIENTS[1:])
    monkeypatch.setattr(formulas, "_TANH_COEFFICIENTS", wrong)
    assert worst_shares("tanh", 0.0) > [1.0]
