"""Sums inside one mma in the domain `hopper`: what is kept, what is cut, and that levels agree to the bit."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.interpreter.numbers.tensor_cores import multiply_add


def sum_of(terms: list[float], c: float = 0.0, operand: str = "bf16", accumulator: str = "f32") -> float:
    """c plus the terms, each as a product by 1, in one instruction."""
    a, b = np.array([terms]), np.ones((1, len(terms)))
    return float(multiply_add(a, b, np.array([[c]]), (operand, operand), accumulator)[0, 0])


def test_terms_keep_25_bits_below_the_largest_exponent() -> None:
    assert sum_of([1.0, *[2.0**-25] * 4]) == 1 + 2.0**-23
    assert sum_of([1.0, *[2.0**-26] * 8]) == 1  # each is cut, though their sum is 2^-23
    assert sum_of([1.0, *[-(2.0**-26)] * 8]) == 1  # cut towards zero, on both sides


def test_an_f32_sum_is_rounded_towards_zero_and_an_f16_sum_to_nearest() -> None:
    assert sum_of([1.0, 2.0**-24, 2.0**-25]) == 1
    assert sum_of([-1.0, -(2.0**-24), -(2.0**-25)]) == -1
    assert sum_of([1.0, 2.0**-11, 2.0**-12], operand="f16", accumulator="f16") == 1 + 2.0**-10
    assert sum_of([1.0, 2.0**-11], operand="f16", accumulator="f16") == 1  # a tie goes to even


def test_the_accumulator_is_a_term_like_the_others() -> None:
    assert sum_of([2.0**-26] * 8, c=1.0) == 1
    assert sum_of([1.0, *[2.0**-3] * 4], c=2.0**24) == 2.0**24  # of a last bit of 2


def test_a_product_counts_with_the_sum_of_its_factors_exponents() -> None:
    """1.5 · 1.5 = 2.25 has the exponent 0 here; with its own, 1, what is added to it would be cut."""
    left, right = np.array([[1.5, -1.5, *[2.0**-25] * 4]]), np.array([[1.5, 1.5, *[1.0] * 4]])
    assert multiply_add(left, right, np.zeros((1, 1)), ("bf16", "bf16"), "f32")[0, 0] == 2.0**-23


def test_infinities_and_nan_go_through() -> None:
    assert sum_of([np.inf, 1.0]) == np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(sum_of([np.inf, -np.inf]))
    assert np.isnan(sum_of([1.0], c=np.nan))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_levels_from_atoms_on_have_the_same_bits(target: str) -> None:
    kernel = lt.compile_gemm(lt.GemmSpec(m=64, n=64, k=48, a="bf16", b="bf16", d="f32", layout="tn"), target=target)
    rng = np.random.default_rng(3)
    a, b = (np.ldexp(rng.standard_normal((64, 48)), rng.integers(-7, 8, (64, 48))) for _ in range(2))
    a, b = a.astype(numpy_dtype("bf16")), b.astype(numpy_dtype("bf16"))
    of_levels = [kernel.interpret(a, b, level=level, domain="hopper") for level in ("atoms", "nvvm", "ptx")]
    rounded_once = kernel.interpret(a, b, level="nvvm", domain="float")
    assert all(np.array_equal(of_levels[0], other) for other in of_levels[1:])
    assert not np.array_equal(of_levels[0], rounded_once)
