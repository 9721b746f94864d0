"""Sums inside one mma in the domain `hopper`: what is kept, what is cut, and that levels agree to the bit."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.interpreter.numbers.tensor_cores import MMA_SYNC, WGMMA, is_known, multiply_add

E4M3 = "f8E4M3FN"


def sum_of(
    terms: list[float], c: float = 0.0, operand: str = "bf16", accumulator: str = "f32", unit: str = WGMMA
) -> float:
    """c plus the terms, each as a product by 1, in one instruction."""
    a, b = np.array([terms]), np.ones((1, len(terms)))
    return float(multiply_add(a, b, np.array([[c]]), (operand, operand), accumulator, unit)[0, 0])


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


def test_wgmma_of_fp8_keeps_13_bits_and_sums_of_14() -> None:
    small = [2.0**-6] * 2
    assert sum_of([2.0**7, *small], operand=E4M3) == 2.0**7 + 2.0**-5
    assert sum_of([2.0**8, *small], operand=E4M3) == 2.0**8  # each is cut
    assert sum_of([2.0**7, 2.0**7, *small[:1]], operand=E4M3) == 2.0**8  # 15 bits, cut to 14
    assert sum_of([1.0, 2.0**-9], operand=E4M3, accumulator="f16") == 1 + 2.0**-9
    assert sum_of([1.0], c=2.0**-14, operand=E4M3) == 1


def test_mma_sync_of_fp8_is_two_of_f16_and_an_addition() -> None:
    """Of each four of K, the lower two come first; the accumulator is added last, rounded to nearest."""

    def total(terms: list[float], c: float) -> float:
        return sum_of([*terms, *[0.0] * (32 - len(terms))], c, E4M3, "f32", MMA_SYNC)

    assert total([2.0**-9] * 2, c=2.0**17) == 2.0**17  # a tie of half a last bit goes to even
    assert total([2.0**-9] * 3, c=2.0**15) == 2.0**15 + 2.0**-7
    assert total([2.0**8, 0, -(2.0**8), 2.0**-9], c=0.0) == 2.0**-9
    assert total([2.0**-9] * 2, c=-(2.0**-8)) == 0
    assert is_known(MMA_SYNC, (E4M3, E4M3), "f32") and not is_known(MMA_SYNC, (E4M3, E4M3), "f16")


def test_the_last_13_bits_of_tf32_are_not_looked_at() -> None:
    assert sum_of([1 + 2.0**-10 + 2.0**-11, 1 - 2.0**-24], operand="tf32") == 2 + 2.0**-11


def test_a_sum_beyond_the_largest_number_is_infinite_and_one_of_zero_positive() -> None:
    most = 2.0**127 + (2.0**127 - 2.0**104)
    with np.errstate(over="ignore"):
        assert sum_of([2.0**103], c=most) == most  # below 2^128, and rounded towards zero
        assert sum_of([-(2.0**127)], c=-(2.0**127)) == -np.inf
    zero = sum_of([-0.0, -0.0], c=-0.0)
    assert zero == 0 and not np.signbit(zero)


def test_infinities_and_nan_go_through() -> None:
    assert sum_of([np.inf, 1.0]) == np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(sum_of([np.inf, -np.inf]))
    assert np.isnan(sum_of([1.0], c=np.nan))


@pytest.mark.parametrize(
    ("target", "types", "acc"),
    [
        ("sm_80", ("bf16", "bf16"), "f32"),
        ("sm_90a", ("bf16", "bf16"), "f32"),
        ("sm_80", ("tf32", "tf32"), "f32"),
        ("sm_90a", ("tf32", "tf32"), "f32"),
        ("sm_90a", ("e4m3", "e5m2"), "fast"),
    ],
)
def test_the_levels_from_atoms_on_have_the_same_bits(target: str, types: tuple[str, str], acc: str) -> None:
    spec = lt.GemmSpec(m=64, n=64, k=48, a=types[0], b=types[1], d="f32", acc=acc, layout="tn")
    kernel = lt.compile_gemm(spec, target=target)
    rng = np.random.default_rng(3)
    a, b = (np.ldexp(rng.standard_normal((64, 48)), rng.integers(-7, 8, (64, 48))) for _ in range(2))
    a, b = a.astype(numpy_dtype(types[0])), b.astype(numpy_dtype(types[1]))
    of_levels = [kernel.interpret(a, b, level=level, domain="hopper") for level in ("atoms", "nvvm", "ptx")]
    rounded_once = kernel.interpret(a, b, level="nvvm", domain="float")
    assert all(np.array_equal(of_levels[0], other) for other in of_levels[1:])
    assert not np.array_equal(of_levels[0], rounded_once)
