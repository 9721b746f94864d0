"""Reductions as results of an epilogue: lt.sum, lt.amax, lt.amin, lt.logsumexp and lt.gather.

    def epilogue(acc, residual: lt.Full):
        x = acc + residual
        return {"d": x, "squares": lt.sum(x * x, dim=1)}

Names and `dim` are those of torch, for the matrix (M, N): `dim=1` (or -1) reduces each row over N, `dim=0` (or -2)
reduces each column over M, and without `dim` all elements are reduced to one. An epilogue can only return a reduction,
not compute with it, because it needs the values of all tiles. Given arrays, the functions use numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lowtide.compiler.epilogue.results import Reduced, ResultKind
from lowtide.compiler.epilogue.trace import Traced, refuse

_AXES = {None: "all", 0: "column", -2: "column", 1: "row", -1: "row"}


def sum(x: Any, dim: int | None = None) -> Any:
    """The sum of the values, in f32. Of no values: 0."""
    return _reduced("sum", np.sum, x, dim)


def amax(x: Any, dim: int | None = None) -> Any:
    """The largest value; NaN if a value is NaN. For the largest magnitude: lt.amax(abs(x))."""
    return _reduced("max", np.max, x, dim)


def amin(x: Any, dim: int | None = None) -> Any:
    """The smallest value; NaN if a value is NaN."""
    return _reduced("min", np.min, x, dim)


def logsumexp(x: Any, dim: int | None = None) -> Any:
    """The logarithm of the sum of the exponentials, computed relative to the largest value.

    −inf if all values are −inf, inf if one of them is inf, NaN if one of them is NaN.
    """
    return _reduced("logsumexp", _logsumexp, x, dim)


def gather(x: Any, index: Any, dim: int = 1) -> Any:
    """For each row, the value in the column `index`, or 0 if there is no such column. `index` is an operand
    `lt.PerRow["s32"]` that the epilogue uses for nothing else. Like torch.gather with one index for each row, without
    the last dimension."""
    if not isinstance(x, Traced):
        return np.take_along_axis(np.asarray(x), np.asarray(index)[:, None], axis=1)[:, 0]
    if _AXES.get(dim) != "row":
        return refuse(f"lt.gather with dim={dim!r}", "it takes a column of each row: dim=1")
    if not isinstance(index, Traced) or index._node.op != "operand":
        return refuse("lt.gather with a computed index", 'pass an operand of the epilogue, lt.PerRow["s32"]')
    return Reduced(ResultKind.ROW_VALUE, x, index)


def _reduced(operation: str, of_arrays: Callable[..., Any], x: Any, dim: int | None) -> Any:
    if dim not in _AXES or isinstance(dim, bool):
        return refuse(f"a reduction with dim={dim!r}", "the dimensions of (M, N) are 0 (or -2) and 1 (or -1)")
    if isinstance(x, Traced):
        return Reduced(ResultKind(f"{_AXES[dim]}_{operation}"), x)
    return of_arrays(np.asarray(x), axis=dim)


def _logsumexp(x: Any, axis: int | None) -> Any:
    return np.logaddexp.reduce(x, axis=axis) if axis is not None else np.logaddexp.reduce(x.reshape(-1))
