"""Help for tests that run IR: the same numbers before and after a pass, and inputs for it."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from compiled import ready
from mlir import ir
from numpy.typing import NDArray

from lowtide.interpreter import Trace, interpret
from lowtide.verification.checking.tile_order import TileOrder

Array = NDArray[Any]


def run_of(module: str | ir.Module, inputs: Mapping[str, Any], sms: int = 2) -> tuple[Array, Trace]:
    """D on exact integers, and what was done for it: what another module is compared with."""
    trace = Trace()
    return interpret(ready(module), inputs, sms=sms, domain="exact", trace=trace), trace


def assert_same(
    before: str | ir.Module,
    after: str | ir.Module,
    inputs: Mapping[str, Any],
    orders: Iterable[int] = (0, 1, 2),
    sms: int = 2,
) -> Array:
    """Both modules give the same D, bit for bit, on exact integers, `after` under every order of agents; returns D.

    Each CTA computes the same work tiles in the same sequence in both.
    """
    return assert_as(run_of(before, inputs, sms), after, inputs, orders, sms)


def assert_as(
    before: tuple[Array, Trace],
    after: str | ir.Module,
    inputs: Mapping[str, Any],
    orders: Iterable[int] = (0, 1, 2),
    sms: int = 2,
) -> Array:
    """`assert_same`, of the `run_of` the module before."""
    expected, first = before
    for seed in orders:
        second = Trace()
        found = interpret(ready(after), inputs, sms=sms, seed=seed, domain="exact", trace=second)
        wrong = np.argwhere(found != expected)
        place = tuple(wrong[0].tolist()) if len(wrong) else ()
        assert not len(wrong), (
            f"order {seed}: D differs in {len(wrong)} of {expected.size} elements, first at {place}: "
            f"{found[place]}, not {expected[place]}"
        )
        assert_same_order(first, second)
    return expected


def assert_same_order(before: Trace, after: Trace) -> None:
    """The CTAs of two runs of one problem compute the same work tiles, each in the same sequence.

    At level nvvm the tiles are those that the agents of a CTA store to; each must keep to the sequence, and together
    they must store to every tile. Level problem has no CTAs: nothing is compared.
    """
    if before.level == "problem":
        return
    if not before.work:
        assert _stores(before) == _stores(after), "the stores into D differ, or come in another sequence"
        return
    order = TileOrder.of(before)
    assert after.work or order.stored is not None, "another launch writes D: nothing can be compared"
    different = order.difference(after)
    assert not different, different


def _stores(trace: Trace) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """By CTA and warp; what its role is called, level llvm does not know."""
    return {
        (cta, agent.partition(" (")[0]): [
            place for rows, columns in events for place in zip(rows.tolist(), columns.tolist(), strict=True)
        ]
        for cta, agents in trace.stores.items()
        for agent, events in agents.items()
    }


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
