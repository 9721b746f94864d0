"""Help for tests that run IR: the same numbers before and after a pass, and inputs for it."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from mlir import ir
from numpy.typing import NDArray

from lowtide.interpreter import interpret

Array = NDArray[Any]


def assert_same(
    before: str | ir.Module,
    after: str | ir.Module,
    inputs: Mapping[str, Any],
    orders: Iterable[int] = (0, 1, 2),
    sms: int = 2,
) -> Array:
    """Both modules give the same D, bit for bit, on exact integers, `after` under every order of agents; returns D."""
    expected = interpret(before, inputs, sms=sms, domain="exact")
    for seed in orders:
        found = interpret(after, inputs, sms=sms, seed=seed, domain="exact")
        wrong = np.argwhere(found != expected)
        first = tuple(wrong[0].tolist()) if len(wrong) else ()
        assert not len(wrong), (
            f"order {seed}: D differs in {len(wrong)} of {expected.size} elements, first at {first}: "
            f"{found[first]}, not {expected[first]}"
        )
    return expected


def cast(inputs: Mapping[str, Any], dtype: Any) -> dict[str, Any]:
    """The arrays in another dtype, as the number domain "float" wants them; rows stay as far apart."""

    def one(array: Array) -> Array:
        if array.ndim != 2:
            return array.astype(dtype)
        rows = np.zeros((len(array), array.strides[0] // array.itemsize), dtype)
        rows[:, : array.shape[1]] = array
        return rows[:, : array.shape[1]]

    return {name: one(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()}


def integer_matrix(rng: np.random.Generator, rows: int, columns: int, padding: int = 0, largest: int = 3) -> Array:
    """A matrix of small integers whose rows lie `padding` elements further apart than they are long."""
    return rng.integers(-largest, largest + 1, (rows, columns + padding))[:, :columns]


def gemm_inputs(m: int, n: int, k: int, padding: int = 0, seed: int = 0, **operands: Any) -> dict[str, Any]:
    """a (M, K), b (N, K) and d (M, N) of small integers for a `tn` GEMM, rows padded; then epilogue operands."""
    rng = np.random.default_rng(seed)
    matrices = {"a": (m, k), "b": (n, k), "d": (m, n)}
    return {name: integer_matrix(rng, *shape, padding) for name, shape in matrices.items()} | operands
