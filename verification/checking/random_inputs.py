"""Random inputs of a spec. Their padding is NaN, or the least integer, so that reading it shows."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.epilogue.operands import Operand, OperandKind
from lowtide.compiler.epilogue.results import ResultKind
from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type
from lowtide.errors import SpecError
from lowtide.keywords import check_keywords
from lowtide.passes.schedules.facts.alignment import FULL
from lowtide.runtime.dtypes import random_numbers
from lowtide.runtime.kinds import STALE
from lowtide.runtime.row_indices import random_places
from lowtide.words import APART, ARRIVALS, SENDS

_WIDEST = 16  # bytes of an access
_SHARED = 0.25  # of the inputs of a batch
_WAIT = 1000  # ms, the longest wait for a shard
_MOST_GROUPS = 5  # that are drawn


def stale(spec: GemmSpec) -> dict[str, Any]:
    """Arrays for the results that a call takes as operands, by name, with what an earlier call may have left."""
    return {each.name: np.full(1, STALE, np.float32) for each in spec.results if each.kind is ResultKind.AMAX}


@check_keywords
def random_inputs(
    spec: GemmSpec,
    m: int | None,
    n: int | None,
    k: int | None,
    rng: np.random.Generator,
    row_padding: int = 0,
    alignments: Mapping[str, int] = MappingProxyType({}),
    batch: int | None = None,
    shared: Collection[str] | None = None,
    batch_padding: int = 0,
    batches: Mapping[str, int] = MappingProxyType({}),
    groups: int | None = None,
) -> dict[str, Any]:
    """`a`, `b` and the other inputs of a call, by name, for extents `m`, `n` and `k` (`None`: the spec's). Floats are
    normally distributed, integers are any of their type, and scalars are Python floats.

    Rows: those of A, B and scales of blocks begin at multiples of 16 bytes from the first, as most kernels require.
    With `alignments`, bytes by the name of an input, they begin at odd multiples of a smaller number. At least
    `row_padding` elements follow each row, and as many more as that needs. In full operands exactly `row_padding`
    follow, unless `alignments` has bytes for "full". Padding is NaN, so that a read of it shows.

    Batches: there are `batch` matrices (`None`: the spec's number). Those named in `shared` have no batch dimension
    (`None`: some are drawn, but not A). `batch_padding` rows of NaN follow each matrix of the other inputs.
    In A and B, as many bytes follow as `batches` has by name, if these are fewer than 16.

    Groups: the ends of `groups` groups (`None`: the spec's number, or at most 5 if it is known only at run time) are
    drawn, and do not decrease; `counts` are drawn, too. Indices of rows of D are drawn for a D of m + m // 4 + 1 rows.
    They name different rows, but not all, and some rows that D does not have.

    Raises `SpecError` for extents that contradict the spec's or are unknown.
    """
    rows_of_d, columns_of_d = _settle(spec, "m", m), _settle(spec, "n", n)
    terms = _settle(spec, "k", k)
    of_a = (rows_of_d, terms) if spec.layout[0] == "t" else (terms, rows_of_d)
    of_a = (rows_of_d // 2 + 1, terms) if spec.a_rows else of_a
    columns_of_b = columns_of_d * (1 if spec.pairs in (None, APART) else 2)
    of_b = (columns_of_b // spec.rows_per_byte, terms) if spec.layout[1] == "n" else (terms, columns_of_b)
    outer = (_settle(spec, "batch", batch),) if spec.is_batched else ()
    of_groups = _groups(spec, groups, rng)

    def count(name: str) -> tuple[int, ...]:
        if shared is not None:
            return () if name in shared else outer
        may_be_shared = bool(outer) and name not in ("a", *(spec.lists or ""))
        return () if may_be_shared and rng.random() < _SHARED else outer

    inputs = stale(spec)
    for name, dtype, (rows, columns) in (("a", spec.a, of_a), ("b", spec.stored_b, of_b)):
        stride = row_stride(columns + row_padding, alignments.get(name, _WIDEST), element_type(dtype).bytes)
        gap = elements_apart(batches.get(name, _WIDEST), element_type(dtype).bytes)
        own = of_groups if of_groups and name == "b" and not spec.k_is_grouped else count(name)
        own = (2,) if spec.pairs == APART and name == "b" else own
        values = random_numbers(rng, (*own, rows, columns), dtype)
        inputs[name] = padded_matrix(values, dtype, stride, batch_padding, gap)
    for operand in spec.operands:
        if operand.kind is OperandKind.SCALAR:
            inputs[operand.name] = float(np.float32(rng.standard_normal()))
            continue
        if operand.kind is OperandKind.ENDS:
            extent = terms if spec.k_is_grouped else rows_of_d
            drawn = rng.integers(0, extent + 1, outer if spec.counts else of_groups).astype(np.int32)
            inputs[operand.name] = drawn if spec.counts else np.sort(drawn)
            continue
        if operand.name in ARRIVALS and spec.arrivals:
            inputs[operand.name] = _arrival(operand, _settle(spec, "batch", batch), rng)
            continue
        if operand.name in SENDS and spec.peers:  # to no rank
            inputs[operand.name] = np.zeros((*outer, *operand.shape(None, None)[1:]), np.int32)
            continue
        if operand.kind is OperandKind.A_ROWS:  # some are outside of A
            inputs[operand.name] = rng.integers(-1, of_a[0] + 1, rows_of_d).astype(np.int32)
            continue
        if operand.kind is OperandKind.D_ROWS:
            inputs[operand.name] = random_places(rng, rows_of_d)
            continue
        if operand.kind is OperandKind.TARGET:  # some are outside of the row
            targets = rng.integers(-1, columns_of_d + 2, (*count(operand.name), rows_of_d))
            inputs[operand.name] = targets.astype(np.int32)
            continue
        extents = [extent for extent in operand.shape(rows_of_d, columns_of_d, terms) if extent is not None]
        if operand.kind is OperandKind.FULL and spec.d_order == "column":
            extents.reverse()
        own = _of_each_group(spec, operand, of_groups, rng)
        values = random_numbers(rng, (*count(operand.name), *own, *extents), operand.dtype)
        if operand.kind is OperandKind.FULL or operand.kind.is_block_scale:
            stride = values.shape[-1] + row_padding
            if operand.kind.is_block_scale:
                stride = row_stride(stride, alignments.get(operand.name, _WIDEST), element_type(operand.dtype).bytes)
            elif alignments.get(FULL, 1) > 1:
                stride = row_stride(stride, alignments[FULL], element_type(operand.dtype).bytes)
            inputs[operand.name] = padded_matrix(values, operand.dtype, stride, batch_padding)
        else:
            inputs[operand.name] = values.astype(numpy_dtype(operand.dtype))
    return inputs


def _arrival(operand: Operand, shards: int, rng: np.random.Generator) -> np.ndarray:
    """An operand for shards that are all there, at the epoch 1, for any rank."""
    values = {OperandKind.ARRIVED: [1] * shards, OperandKind.TURN: [int(rng.integers(shards)), 1, _WAIT]}
    return np.array(values.get(operand.kind, [0, 0, 0, 0]), np.int32)


def _of_each_group(
    spec: GemmSpec, operand: Operand, groups: tuple[int, ...], rng: np.random.Generator
) -> tuple[int, ...]:
    """(groups,) if the operand has a part for each group, otherwise (). For an operand of columns of groups of rows,
    one of the two is drawn."""
    if spec.rows_are_grouped and operand.kind.is_of_columns:
        return () if rng.random() < _SHARED else groups
    return groups if spec.k_is_grouped and operand.kind is OperandKind.FULL else ()


def _groups(spec: GemmSpec, groups: int | None, rng: np.random.Generator) -> tuple[int, ...]:
    """The number of groups of rows; () without groups."""
    if not spec.is_grouped:
        return ()
    return (
        (int(rng.integers(1, _MOST_GROUPS + 1)),)
        if groups is spec.group_count is None
        else (_settle(spec, "group_count", groups),)
    )


def _settle(spec: GemmSpec, name: str, value: int | None) -> int:
    """The extent, from the argument or the spec."""
    fixed = getattr(spec, name)
    if value is None and fixed is None:
        raise SpecError(
            f"{name} is a run-time argument of this spec; say which value the inputs are for [reference-extent]"
        )
    if value is not None and fixed is not None and value != fixed:
        raise SpecError(f"{name} = {value} contradicts the spec's {fixed}; leave it None [reference-fixed]")
    settled = fixed if value is None else value
    assert isinstance(settled, int)
    return settled


def row_stride(least: int, alignment: int, element_bytes: int) -> int:
    """The row stride in elements, at least `least`: a multiple of the alignment in bytes; below 16 bytes, an odd
    one."""
    unit = max(1, alignment // element_bytes)
    units = -(-least // unit)
    return unit * (units + (alignment < _WIDEST and units % 2 == 0))


def elements_apart(alignment: int, element_bytes: int) -> int:
    """Elements between the matrices of a batch with aligned rows, for a batch stride of a smaller alignment."""
    return alignment // element_bytes if alignment < _WIDEST else 0


def padded_matrix(
    values: np.ndarray, dtype: str, row_stride: int, rows_between: int = 0, elements_between: int = 0
) -> np.ndarray:
    """`values` (…, rows, columns) in `dtype`, with rows `row_stride` elements apart; NaN, or the least integer,
    between.

    `rows_between` such rows, and more elements, follow each matrix of a batch.
    """
    *outer, rows, columns = values.shape
    poison = np.nan if element_type(dtype).is_float else element_type(dtype).lowest
    whole = (rows + rows_between) * row_stride
    buffer = np.full((*outer, whole + elements_between), poison, dtype=numpy_dtype(dtype))
    each = buffer[..., :whole].reshape(*outer, rows + rows_between, row_stride)  # a view: an axis is split
    each[..., :rows, :columns] = values.astype(numpy_dtype(dtype))
    return each[..., :rows, :columns]
