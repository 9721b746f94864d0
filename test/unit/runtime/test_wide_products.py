"""Products to more than float64's precision: against exact fractions, and where plain products fall short."""

from fractions import Fraction

import numpy as np
import pytest

from lowtide.runtime.wide_products import exact_product, wide_product


def worst(product: np.ndarray, bound: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The largest error, in bounds."""
    ratios = []
    for row, column in np.ndindex(product.shape):
        terms = (Fraction(x) * Fraction(y) for x, y in zip(a[row].tolist(), b[:, column].tolist(), strict=True))
        error = abs(Fraction(float(product[row, column])) - sum(terms, Fraction(0)))
        ratios.append(float(error / Fraction(float(bound[row, column]))))
    return max(ratios)


@pytest.mark.parametrize(("depth", "spread"), [(1, 0), (100, 0), (300, 30), (40, 300)])
def test_a_wide_product_is_within_its_bound_of_the_exact_one(depth, spread):
    """`spread`: the elements' exponents lie within ± so much."""
    rng = np.random.default_rng(depth)
    a, b = (
        rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
        for shape in ((7, depth), (depth, 5))
    )
    assert worst(*wide_product(a, b), a, b) <= 1


def test_a_plain_product_is_not_within_that_bound():
    a, b = (np.random.default_rng(1).standard_normal(shape) for shape in ((7, 200), (200, 5)))
    _, bound = wide_product(a, b)
    assert worst(a @ b, bound, a, b) > 4


def test_what_cannot_be_sliced_has_no_bound():
    a, b = np.array([[1e300, 1.0]]), np.array([[1e300], [1.0]])
    product, bound = wide_product(a, b)
    assert np.isinf(product).all() and np.isinf(bound).all()
    product, bound = wide_product(np.array([[np.nan, 1.0]]), np.ones((2, 1)))
    assert np.isnan(product).all() and np.isinf(bound).all()


def test_narrower_accumulators_take_the_plain_product():
    a, b = (np.random.default_rng(2).standard_normal(shape) for shape in ((3, 9), (9, 4)))
    product, error = exact_product(a, b, "f32")
    assert np.array_equal(product, a @ b) and not error.any()
    assert exact_product(a, b, "f64")[1].all()


def test_a_product_without_terms_is_0() -> None:
    product, bound = exact_product(np.zeros((3, 0)), np.zeros((0, 4)), "f64")
    np.testing.assert_array_equal(product, np.zeros((3, 4)))
    np.testing.assert_array_less(bound, 1e-300)
