"""exp, tanh, erf, erfc and log from hardware operations: one formula each, for any implementation of `FloatOps`.

`FloatOps` has the few f32 operations that the formulas need. `expand-math` implements it by building IR, the tests
by numpy float32, so the errors stated here are measured on the same sequence of operations that is emitted.

The coefficients are minimax fits on the stated intervals (weighted least squares, reweighted until the error is
equalized), rounded to f32 one at a time with the others refitted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

V = TypeVar("V")
P = TypeVar("P")


class FloatOps(Protocol[V, P]):
    """f32 operations, each rounded to nearest; `exp2`, `log2` and `divide_approx` as the hardware approximates them."""

    def constant(self, value: float) -> V: ...
    def add(self, x: V, y: V) -> V: ...
    def subtract(self, x: V, y: V) -> V: ...
    def multiply(self, x: V, y: V) -> V: ...
    def negate(self, x: V) -> V: ...
    def fma(self, x: V, y: V, z: V) -> V: ...
    def maximum(self, x: V, y: V) -> V: ...
    def minimum(self, x: V, y: V) -> V: ...
    def absolute(self, x: V) -> V: ...
    def copysign(self, magnitude: V, sign: V) -> V: ...
    def divide_approx(self, x: V, y: V) -> V: ...
    def exp2(self, x: V) -> V: ...
    def log2(self, x: V) -> V: ...
    def less(self, x: V, y: V) -> P: ...
    def select(self, condition: P, x: V, y: V) -> V: ...


@dataclass(frozen=True)
class Error:
    """|computed − f(x·(1 + e))| ≤ relative·|f(x·(1 + e))| + absolute for an |e| ≤ argument, for f32 x, f in real
    numbers."""

    relative: float
    absolute: float = 0.0
    argument: float = 0.0


TINY = 2.0**-149  # the smallest subnormal f32: rounding costs half of it where no digits are left
LEAST_NORMAL = 2.0**-126  # the smallest normal f32

# PTX ISA 9.7.3 (floating-point instructions), taken as guarantees of the hardware.
EX2_APPROX = Error(2.0**-22, LEAST_NORMAL)  # .ftz: a subnormal result is 0
LG2_APPROX = Error(2.0**-22, 2.0**-22)  # absolute in (0.5, 2), relative outside
RSQRT_APPROX = Error(2.0**-22.4)
DIVIDE_APPROX = Error(2.0**-22, LEAST_NORMAL)  # .ftz; 2 ulp, divisors of 1 … 2¹²⁶; above that the quotient is 0
DIVIDE_APPROX_LIMIT = 2.0**126
ROUNDED = Error(2.0**-24, TINY / 2)  # add, subtract, multiply, fma, div.rn, sqrt.rn

# The least magnitude of a factor in the formula of exp. The hardware flushes a product below the least normal number to
# 0; exp alone may then be as large as that number divided by the factor.
LEAST_FACTOR_OF_EXP = 3 / 8
# Measured by a sweep of f32 (test_math_formulas.py), with the hardware's error at both ends of its range.
EXP = Error(1.25 * 2.0**-22, LEAST_NORMAL / LEAST_FACTOR_OF_EXP * (1 + 2.0**-16), 1.25 * 2.0**-24)
TANH = Error(2.0**-22, TINY)
ERF = Error(0.75 * 2.0**-22, TINY)
ERFC = Error(1.25 * 2.0**-22, 2.0**-23)
LOG = Error(1.5 * 2.0**-22, 2.0**-22)

_LOG2E = 1.44269504088896340736
_LN2 = 0.693147180559945309417

_TANH_SMALL = 0.625
_TANH_COEFFICIENTS = (
    -0.3333328068256378,
    0.13331405818462372,
    -0.05373651534318924,
    0.02062816731631756,
    -0.005692296661436558,
)
_ERF_SMALL = 0.875
_ERF_LARGE = 4.0  # erfc(4) < 2⁻²⁵: erf is 1 from here on
_ERF_COEFFICIENTS = (
    0.12837915122509003,
    -0.3761250674724579,
    0.1128196269273758,
    -0.026772279292345047,
    0.005002020858228207,
    -0.0006038806168362498,
)
_LOG2_ERFC_COEFFICIENTS = (
    -0.00020804601081181318,
    -1.6272004842758179,
    -0.9187378287315369,
    -0.15040145814418793,
    0.032289132475852966,
    -0.004446418955922127,
    0.00028840071172453463,
)
_LOG2_ERFC_FROM_0_COEFFICIENTS = (  # falls beyond the interval of the fit, [0, 9], too
    4.770991424152271e-08,
    -1.6279118061065674,
    -0.9183739423751831,
    -0.1486940234899521,
    0.02876025065779686,
    -0.0014081054832786322,
    -0.0010659275576472282,
    0.0003030991356354207,
    -2.6543113563093357e-05,
)


def exp(ops: FloatOps[V, P], x: V, scale: float = 1.0, factor: float = 1.0) -> V:
    """factor · e^(x·scale) = ± 2^(x·(scale·log₂e) + log₂|factor|), where the constants and the power are rounded. If
    `scale` is a power of two, the roundings are those of `EXP`. Otherwise, the relative error of the constant is up to
    2⁻²⁴, like that of a product x·scale, which is not computed here. With a factor other than 1, the error of the power
    grows by up to 2⁻²³ · |log₂|factor||. A subnormal result becomes 0. NaN stays NaN."""
    slope = ops.constant(scale * _LOG2E)
    if factor == 1.0:
        return ops.exp2(ops.multiply(x, slope))
    value = ops.exp2(ops.fma(x, slope, ops.constant(math.log2(abs(factor)))))
    return value if factor > 0 else ops.negate(value)


def tanh(ops: FloatOps[V, P], x: V) -> V:
    """|x| + |x|³·P(x²) near 0, 1 − 2/(e^{2|x|} + 1) from 0.625 on, and the sign of x. NaN stays."""
    magnitude = ops.absolute(x)
    square = ops.multiply(x, x)
    small = ops.fma(ops.multiply(_polynomial(ops, _TANH_COEFFICIENTS, square), square), magnitude, magnitude)
    grown = ops.exp2(ops.multiply(magnitude, ops.constant(2 * _LOG2E)))
    reciprocal = ops.divide_approx(ops.constant(1.0), ops.add(grown, ops.constant(1.0)))
    large = ops.fma(ops.constant(-2.0), reciprocal, ops.constant(1.0))
    return ops.copysign(ops.select(ops.less(magnitude, ops.constant(_TANH_SMALL)), small, large), x)


def erf(ops: FloatOps[V, P], x: V) -> V:
    """|x| + |x|·P(x²) near 0, 1 − 2^Q(|x|) from 0.875 on, Q fitted to log₂ erfc, and the sign of x. NaN stays."""
    magnitude = ops.absolute(x)
    small = ops.fma(_polynomial(ops, _ERF_COEFFICIENTS, ops.multiply(x, x)), magnitude, magnitude)
    bounded = ops.minimum(magnitude, ops.constant(_ERF_LARGE))
    tail = ops.exp2(_polynomial(ops, _LOG2_ERFC_COEFFICIENTS, bounded))
    large = ops.subtract(ops.constant(1.0), tail)
    return ops.copysign(ops.select(ops.less(magnitude, ops.constant(_ERF_SMALL)), small, large), x)


def erfc(ops: FloatOps[V, P], x: V, scale: float = 1.0, factor: float = 1.0) -> V:
    """factor · (1 − erf(x·scale)): factor · 2^Q(|x·scale|) with Q fitted to log₂ erfc, and 2 · factor minus that where
    x·scale is below 0. NaN stays. `factor`: a power of two. The coefficients of Q include the scale, and its constant
    includes the factor, so neither needs a product."""
    first, *others = (each * abs(scale) ** power for power, each in enumerate(_LOG2_ERFC_FROM_0_COEFFICIENTS))
    above = ops.exp2(_polynomial(ops, (first + math.log2(factor), *others), ops.absolute(x)))
    zero = ops.constant(0.0)
    is_below = ops.less(x, zero) if scale > 0 else ops.less(zero, x)
    return ops.select(is_below, ops.subtract(ops.constant(2.0 * factor), above), above)


def log(ops: FloatOps[V, P], x: V) -> V:
    """ln x = log₂x · ln 2: −∞ at 0, NaN below it. Near 1 the error is absolute (the hardware's)."""
    return ops.multiply(ops.log2(x), ops.constant(_LN2))


def _polynomial(ops: FloatOps[V, P], coefficients: Sequence[float], x: V) -> V:
    """c₀ + c₁x + c₂x² + …, by Horner's rule in fused steps."""
    value = ops.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = ops.fma(value, x, ops.constant(coefficient))
    return value
