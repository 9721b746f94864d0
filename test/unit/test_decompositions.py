"""Products as sums of products of pieces: what pieces hold, what is left out, and what specs refuse."""

from itertools import product

import numpy as np
import pytest

import lowtide as lt
from lowtide.decompositions import DECOMPOSITIONS, Decomposition
from lowtide.runtime.dtypes import left_out, round_to

ROWS = [pytest.param(row, id=name) for name, row in DECOMPOSITIONS.items()]


def pieces(x: np.ndarray, row: Decomposition) -> list[np.ndarray]:
    """Each what is left rounded; ties to even, as those of tf32, which go away from zero, have the same error."""
    found, rest = [], x.astype(np.float64)
    for _ in range(row.pieces):
        found.append(round_to(rest, row.piece) if row.piece != "tf32" else round_to_tf32(rest))
        rest = rest - found[-1]
    return found


def round_to_tf32(x: np.ndarray) -> np.ndarray:
    _, exponent = np.frexp(x)
    unit = np.maximum(exponent - 11, -136)
    return np.ldexp(np.rint(np.ldexp(x, -unit)), unit)


def adversarial(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Wide exponents, significands just above and below what pieces hold, subnormals, and zeros."""
    x = np.ldexp(rng.standard_normal(shape), rng.integers(-60, 61, shape))
    x[::3] = np.ldexp(1 + rng.integers(-1, 2, x[::3].shape) * 2.0**-11 + 2.0**-23, rng.integers(-20, 21, x[::3].shape))
    x[1::7, ::5] = np.ldexp(rng.standard_normal(x[1::7, ::5].shape), -140)
    x[2::7, ::5] = 0
    return x.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("row", ROWS)
def test_what_is_left_out_is_within_its_bound_and_reaches_near_it(row: Decomposition) -> None:
    worst = 0.0
    for seed in range(20):
        a, b = (adversarial(np.random.default_rng(2 * seed + i), (64, 16)) for i in (0, 1))
        of_a, of_b = pieces(a, row), pieces(b, row)
        found = sum(of_a[i] * of_b[j] for i, j in row.products)
        each = row.error * np.abs(a * b) + row.lost * (np.abs(a) + np.abs(b) + row.lost)
        wrong = np.abs(found - a * b)
        assert np.all(wrong <= each)
        worst = max(
            worst, float((wrong / np.maximum(row.error * np.abs(a * b), 1e-300))[each < 2.0**-60].max(initial=0))
        )
        worst = max(worst, float((wrong[wrong > 0] / each[wrong > 0]).max(initial=0)))
        bound = left_out(row, a, b.T, np.abs(a) @ np.abs(b.T))
        assert np.all(bound >= each[:, :1] * 0)
    assert worst > 0.1


@pytest.mark.parametrize("row", ROWS)
def test_a_product_less_is_out_of_the_bound(row: Decomposition) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64)).astype(np.float32).astype(np.float64) for _ in range(2))
    of_a, of_b = pieces(a, row), pieces(b, row)
    for left in row.products:
        found = sum(of_a[i] * of_b[j] for i, j in row.products if (i, j) != left)
        assert np.any(np.abs(found - a * b) > row.error * np.abs(a * b)), left


@pytest.mark.parametrize("row", ROWS)
def test_the_largest_products_come_last(row: Decomposition) -> None:
    sizes = [i + j for i, j in row.products]
    assert sizes == sorted(sizes, reverse=True) and row.products[-1] == (0, 0)
    kept = set(row.products)
    assert all((i, j) in kept for i, j in product(range(row.pieces), repeat=2) if i + j < max(sizes))
    assert row.depth(5) == len(row.products) * row.unit * -(-5 // row.unit) and row.depth(row.longest) < 2**31


def test_overflow_is_what_rounds_to_infinity() -> None:
    row = DECOMPOSITIONS["bf16x6"]
    below, at = np.nextafter(np.float32(row.overflow), np.float32(0)), np.float32(row.overflow)
    assert np.isfinite(round_to(np.array(below, np.float64), "bf16")) and np.isinf(
        round_to(np.array(at, np.float64), "bf16")
    )


def test_precisions_of_a_spec() -> None:
    own = lt.GemmSpec(a="f32", b="f32", d="f32", precision="f32")
    assert own == lt.GemmSpec(a="f32", b="f32", d="f32") and own.decomposition is None
    assert lt.GemmSpec(a="f32", b="f32", d="f32", precision="tf32") == lt.GemmSpec(a="tf32", b="tf32", d="f32")
    assert lt.GemmSpec(a="f32", b="f32", d="bf16", precision="bf16x6").decomposition is DECOMPOSITIONS["bf16x6"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"precision": "tf32x2"}, "unknown precision 'tf32x2': valid are f32, tf32, tf32x3, bf16x6"),
        ({"a": "bf16", "b": "bf16", "precision": "tf32x3"}, r"precision 'tf32x3': valid are bf16.*\[unknown-word\]"),
        (
            {"a": "f32", "b": "tf32", "precision": "tf32x3"},
            r"a is f32 but b is tf32; they must be equal.*\[pieces-types\]",
        ),
        (
            {"k": 2**30, "precision": "bf16x6"},
            r"k is 1073741824; .* up to 357913936.*\[pieces-k\]",
        ),
    ],
)
def test_refused(words: dict[str, object], message: str) -> None:
    with pytest.raises(lt.SpecError, match=message):
        lt.GemmSpec(**{"a": "f32", "b": "f32", "d": "f32"} | words)


@pytest.mark.parametrize("row", ROWS)
def test_the_error_of_groups_is_the_largest_of_their_matrices(row: Decomposition) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(4, 8)), rng.normal(size=(3, 8, 5))
    size = np.zeros((4, 5))
    of_each = [left_out(row, a, each, size) for each in b]
    assert np.array_equal(left_out(row, a, b, size), np.max(of_each, axis=0))
    assert not np.array_equal(of_each[0], of_each[1])
