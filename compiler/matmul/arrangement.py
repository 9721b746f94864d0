"""The GEMM that a product of arrays is, and the arrays as arguments of its kernel. Nothing is copied.

A (…, M, K) times B (…, K, N) is D (…, M, N), as in torch.matmul; the layout follows from the strides. If B is one
matrix and the strides of A and D allow it, their first dimensions become rows. Otherwise they become one batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.runtime.operands import Operand

ALIGNED = 16  # bytes, required of bases and strides by TMA and by the widest access of a thread
_RANKS = {"per_row": 1, "per_column": 1}  # of the kinds of operands, without a batch; all others have rank 2


@dataclass(frozen=True)
class Product:
    """The GEMM. `layout` and `d_order`: as in `GemmSpec`. `batch`: None for one product."""

    a: str
    b: str
    d: str
    layout: str
    d_order: str
    batch: int | None
    m: int
    n: int
    k: int
    inputs_aligned: bool
    """Whether the bases and strides of A and B are multiples of 16 bytes."""
    d_aligned: bool
    """Whether D's base, strides and row length are multiples of 16 bytes."""
    operands_aligned: bool = True
    """Whether those of each full operand are."""


class Shaped(Protocol):
    """An array; only its shape is read."""

    @property
    def shape(self) -> tuple[int, ...]: ...


def result_shape(a: Shaped, b: Shaped, columns: int = 1) -> tuple[int, ...]:
    """D's shape. `columns`: columns of D per column of B. Raises LaunchError for shapes that cannot be multiplied."""
    for name, operand in (("a", a), ("b", b)):
        if len(operand.shape) < 2:
            raise LaunchError(
                f"operand {name}: shape {tuple(operand.shape)} has rank {len(operand.shape)}, must have rank 2 or more:"
                " a vector is a matrix of one row, x[None, :], or of one column, x[:, None] [product-rank]"
            )
    (m, k), (rows, n) = a.shape[-2:], b.shape[-2:]
    if k != rows:
        raise LaunchError(
            f"operand b: shape {tuple(b.shape)} has {rows} rows, but a of shape {tuple(a.shape)} has {k} columns; a is"
            " (…, M, K) and b (…, K, N): pass b.mT if b is stored as (N, K) [product-k]"
        )
    return (*_common(a.shape[:-2], b.shape[:-2]), m, n * columns)


def result_record(a: Operand, b: Operand, dtype: str, columns: int = 1) -> Operand:
    """The record of a contiguous D that is not allocated yet. Raises LaunchError."""
    shape = result_shape(a, b, columns)
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return Operand(0, shape, tuple(strides), dtype, a.device)


def arrange(
    a: Operand, b: Operand, d: Operand, operands: Mapping[str, tuple[str, Operand]], columns: int = 1
) -> tuple[Product, dict[str, Operand]]:
    """The GEMM, and its operands by name. `operands`: the operands beside A, B and D by name, each with its kind.
    `columns`: columns of D per column of B, more than one if a byte of B holds several. Raises LaunchError for arrays
    with strides that no kernel can read."""
    shape = result_shape(a, b, columns)
    if d.shape != shape:
        raise LaunchError(
            f"out: shape is {d.shape}, but the product of {a.shape} and {b.shape} has shape {shape}: pass an array"
            " of it [out-of-product]"
        )
    given = {"a": a, "b": b, "d": d, **{name: operand for name, (_, operand) in operands.items()}}
    kinds = {"a": "matrix", "b": "matrix", "d": "full", **{name: kind for name, (kind, _) in operands.items()}}
    flat = (_with_rows(given, kinds) if len(b.shape) == 2 else None) or _with_batch(given, kinds)
    by_rows = {name: _is_by_rows(flat[name], name) for name in ("a", "b", "d")}
    turned = {name: by_rows.get(name, by_rows["d"] or kinds[name] != "full") for name in flat}
    lying = {name: x if turned[name] else _transposed(x) for name, x in flat.items()}
    (m, n), k = flat["d"].shape[-2:], a.shape[-1]
    product = Product(
        a=a.dtype,
        b=b.dtype,
        d=d.dtype,
        layout="".join("t" if by_rows[name] else "n" for name in ("a", "b")),
        d_order="row" if by_rows["d"] else "column",
        batch=flat["d"].shape[0] if len(flat["d"].shape) > 2 else None,
        m=m,
        n=n,
        k=k,
        inputs_aligned=_is_aligned(lying["a"]) and _is_aligned(lying["b"]),
        d_aligned=_is_aligned(lying["d"]) and _has_whole_rows(lying["d"]),
        operands_aligned=all(_is_aligned(lying[name]) for name, (kind, _) in operands.items() if kind == "full"),
    )
    return product, lying


def _common(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The first dimensions of D: those of A and B, which must agree unless one has none."""
    if first == second or not second:
        return first
    if not first:
        return second
    raise LaunchError(
        f"operands a and b: their batches, {first} and {second}, differ; make them equal, or pass a single matrix as"
        " one operand: expand one of them (torch.expand copies nothing) [batches-differ]"
    )


def _with_rows(given: Mapping[str, Operand], kinds: Mapping[str, str]) -> dict[str, Operand] | None:
    """One product, with the first dimensions as rows. None if the strides do not allow it."""
    found = dict(given)
    for name, operand in given.items():
        kept = {"matrix": 1, "full": 1, "per_row": 0}.get(kinds[name])  # dimensions after the rows
        if name == "b" or kept is None:
            continue
        outer = len(operand.shape) - kept
        rows = _merged(operand.shape[:outer], operand.strides[:outer])
        if rows is None:
            return None
        found[name] = replace(
            operand, shape=(rows[0], *operand.shape[outer:]), strides=(rows[1], *operand.strides[outer:])
        )
    return found


def _with_batch(given: Mapping[str, Operand], kinds: Mapping[str, str]) -> dict[str, Operand]:
    """A batch of products, with the first dimensions as one. Raises LaunchError if the strides do not allow it."""
    found = {}
    for name, operand in given.items():
        outer = len(operand.shape) - _RANKS.get(kinds[name], 2)
        if outer <= 0:
            found[name] = operand
            continue
        one = _merged(operand.shape[:outer], operand.strides[:outer])
        if one is None:
            raise LaunchError(
                f"operand {name}: its first dimensions, {operand.shape[:outer]} with strides {operand.strides[:outer]},"
                " cannot be merged into one; reshape it to three dimensions, which copies it, or call once for each"
                " [batch-as-one]"
            )
        found[name] = replace(
            operand, shape=(one[0], *operand.shape[outer:]), strides=(one[1], *operand.strides[outer:])
        )
    return found


def _merged(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """Several dimensions as one: its extent and stride. None if the elements are not evenly spaced."""
    if 0 in shape:
        return 0, strides[-1]
    extent, stride = 1, None
    for own, apart in zip(reversed(shape), reversed(strides), strict=True):
        if own == 1:
            continue
        if stride is None:
            stride = apart
        elif apart != extent * stride:
            return None
        extent *= own
    return extent, strides[-1] if stride is None else stride


def _is_by_rows(operand: Operand, name: str) -> bool:
    """Whether the last dimension is contiguous, rather than the one before. If both are, the longer one decides."""
    (rows, columns), (row, column) = operand.shape[-2:], operand.strides[-2:]
    last, before = column == 1 or columns <= 1, row == 1 or rows <= 1
    if not last and not before:
        raise LaunchError(
            f"operand {name}: strides {operand.strides} of shape {operand.shape}: the elements of its rows or of its"
            " columns must be contiguous: pass a contiguous copy [matrix-contiguous]"
        )
    return last and (not before or columns >= rows)


def _transposed(operand: Operand) -> Operand:
    *outer, rows, columns = operand.shape
    *apart, row, column = operand.strides
    return replace(operand, shape=(*outer, columns, rows), strides=(*apart, column, row))


def _has_whole_rows(operand: Operand) -> bool:
    """Whether rows are multiples of 16 bytes, the unit of TMA stores."""
    return operand.shape[-1] * element_type(operand.dtype).bytes % ALIGNED == 0


def _is_aligned(operand: Operand) -> bool:
    size = element_type(operand.dtype).bytes
    outer = zip(operand.shape[:-1], operand.strides[:-1], strict=True)
    return operand.address % ALIGNED == 0 and all(extent == 1 or apart * size % ALIGNED == 0 for extent, apart in outer)
