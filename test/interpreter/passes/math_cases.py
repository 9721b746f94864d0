"""Epilogues of math functions, for the passes on math ops."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from compiled import spec

import lowtide as lt
from lowtide.passes.support.ir import math_formulas

SCHEDULE = "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], epilogue.path = direct"
ABSOLUTE = spec(epilogue=lambda acc: abs(acc - 1.0))


@dataclass(frozen=True)
class Formula:
    """A kernel whose epilogue is a function of the accumulator, that function in float64, and the error allowed."""

    spec: lt.GemmSpec
    exact: Callable[[Any], Any]
    error: math_formulas.Error


def _formula(epilogue: Any, exact: Callable[[Any], Any], error: math_formulas.Error) -> Formula:
    return Formula(spec(d="f32", epilogue=epilogue), exact, error)


FORMULAS: Mapping[str, Formula] = MappingProxyType(
    {
        "exp": _formula(lambda acc: lt.exp(0.125 * acc), lambda x: np.exp(0.125 * x), math_formulas.EXP),
        "tanh": _formula(lambda acc: lt.tanh(0.125 * acc), lambda x: np.tanh(0.125 * x), math_formulas.TANH),
        "erfc": _formula(
            lambda acc: lt.erfc(0.125 * acc), lambda x: np.vectorize(math.erfc)(0.125 * x), math_formulas.ERFC
        ),
        "erf": _formula(
            lambda acc: lt.erf(0.125 * acc), lambda x: np.vectorize(math.erf)(0.125 * x), math_formulas.ERF
        ),
        "log": _formula(lambda acc: lt.log(acc * acc + 0.5), lambda x: np.log(x * x + 0.5), math_formulas.LOG),
    }
)
