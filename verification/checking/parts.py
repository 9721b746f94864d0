"""D in parts: each product of a batch, each group of rows, and blocks of rows that stay in cache."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import A_ROWS, COUNTS, D_ROWS, ENDS, UNBATCHED, UNGROUPED
from lowtide.elements import SCALE_BLOCK
from lowtide.errors import SpecError
from lowtide.runtime.row_indices import places_in
from lowtide.words import ARRIVALS, SENDS

_OF_ROWS = (OperandKind.PER_ROW, OperandKind.TARGET)
_BY_K = (OperandKind.ROW_SCALE, OperandKind.COLUMN_SCALE)  # scales whose first dimension is that of blocks of K
_BLOCK = 1 << 16  # elements of D for which the epilogue is evaluated at once: the arrays stay in cache


def products(spec: GemmSpec, inputs: Mapping[str, Any]) -> Iterator[tuple[GemmSpec, dict[str, Any]]]:
    """Each product of a batch as a separate problem, with its part of each input; with `counts` of rows, only of the
    rows that count. Raises SpecError."""
    rows = None if spec.counts else spec.m
    one = replace(spec, batch=UNBATCHED, counts=False, arrivals=False, peers=False, lists=None, m=rows)
    inputs = {name: value for name, value in inputs.items() if not spec.arrivals or name not in (*ARRIVALS, *SENDS)}
    ranks = {"a": 2, "b": 2} | {operand.name: len(operand.shape(None, None)) for operand in spec.operands}
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    owners = {name: array.shape[0] for name, array in arrays.items() if array.ndim > ranks.get(name, 0) > 0}
    batches = {batch for batch in (*owners.values(), spec.batch) if isinstance(batch, int)}
    if len(batches) != 1:
        found = ", ".join(f"{name} {batch}" for name, batch in owners.items()) or "no input has a batch"
        raise SpecError(
            f"the spec's batch is {spec.batch}, the inputs': {found}; they must agree on one [reference-batch]"
        )
    for number in range(batches.pop()):
        own = {name: value[number] if name in owners else value for name, value in inputs.items()}
        yield one, _counted(spec, own, number) if spec.counts else own


def _counted(spec: GemmSpec, inputs: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The inputs of product `number` of a batch, with only the rows that count."""
    own = {name: np.asarray(value) for name, value in inputs.items()}
    count = max(0, int(own.pop(COUNTS)[number]))
    return {name: inputs[name] for name in own} | _of_rows(spec, own, slice(0, count))


def _of_rows(spec: GemmSpec, arrays: Mapping[str, np.ndarray], rows: slice) -> dict[str, np.ndarray]:
    """A and the operands that have rows of D, or blocks of them from row 0 on, for some of these rows."""
    kinds = {x.name: x.kind for x in spec.operands}
    along = {name: 0 for name, kind in kinds.items() if kind in _OF_ROWS}
    along |= {name: spec.row_axis for name, kind in kinds.items() if kind is OperandKind.FULL}
    along |= {name: 1 for name, kind in kinds.items() if kind is OperandKind.ROW_SCALE}
    along |= {"a": int(spec.layout[0] == "n")}
    blocks = [name for name, kind in kinds.items() if kind is OperandKind.ROW_BLOCK_SCALE]
    found = {name: arrays[name][rows] if not axis else arrays[name][:, rows] for name, axis in along.items()}
    return found | {name: arrays[name][: -(-rows.stop // SCALE_BLOCK)] for name in blocks}


def products_or_zeros(spec: GemmSpec, inputs: Mapping[str, Any]) -> tuple[list[tuple[GemmSpec, dict[str, Any]]], int]:
    """The products of a batch, and their number; for an empty batch, a product of zeros with D's extents."""
    found = list(products(spec, inputs))
    if found:
        return found, len(found)
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    one = {
        name: np.zeros((1, *array.shape[1:]), array.dtype) if array.shape[:1] == (0,) else array
        for name, array in arrays.items()
    }
    return list(products(spec, one)), 0


def ends_of_groups(ends: Any, rows: int) -> np.ndarray:
    """The ends of groups as a kernel uses them: each is clamped to the range from the end before it to `rows`."""
    found: np.ndarray = np.minimum(np.maximum.accumulate(np.maximum(np.asarray(ends, np.int64), 0)), rows)
    return found


def counted_rows(counts: Any, rows: int) -> np.ndarray:
    """Whether each row of each product of a batch counts, (batch, rows): the first ones, as many as `counts` says."""
    found: np.ndarray = np.arange(rows) < np.asarray(counts, np.int64)[:, None]
    return found


def in_order(spec: GemmSpec, inputs: Mapping[str, Any]) -> tuple[GemmSpec, dict[str, Any]]:
    """The problem without rows at an index, and its inputs, in which A has the rows of the product in order. Its D has
    them in order too."""
    if spec.d_rows:
        spec, inputs = replace(spec, d_rows=False), {name: x for name, x in inputs.items() if name != D_ROWS}
    if not spec.a_rows:
        return spec, dict(inputs)
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    a, at = arrays["a"], arrays.pop(A_ROWS).astype(np.int64)
    exists = (at >= 0) & (at < len(a))
    taken = np.zeros((len(at), a.shape[1]), a.dtype)
    taken[exists] = a[at[exists]]
    return replace(spec, a_rows=False), {name: inputs[name] for name in arrays} | {"a": taken}


def written_rows(spec: GemmSpec, inputs: Mapping[str, Any], rows_of_d: int) -> np.ndarray | None:
    """Whether a kernel writes each row of D: the rows before the last end of groups of rows, or the rows that an index
    names. With `counts`, for each matrix of D. None if the kernel writes all of D."""
    if spec.counts:
        return counted_rows(inputs[COUNTS], rows_of_d)
    if not spec.rows_are_grouped and not spec.d_rows:
        return None
    places = places_in(inputs[D_ROWS], rows_of_d) if spec.d_rows else np.arange(rows_of_d)
    if spec.rows_are_grouped:
        places = places[: ends_of_groups(inputs[ENDS], len(places)).max(initial=0)]
    return np.isin(np.arange(rows_of_d), places)


def at_places(index: Any, before: Any, values: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """D, and its bounds, with rows of the product (M, N) stored at an index (M,). The other rows of D are those of
    `before`, exactly."""
    d = np.array(before, np.float64)
    bounds_of_d, places = np.zeros(d.shape), places_in(index, len(d))
    stored = places >= 0
    d[places[stored]], bounds_of_d[places[stored]] = values[stored], bounds[stored]
    return d, bounds_of_d


def grouped_products(spec: GemmSpec, inputs: Mapping[str, Any]) -> Iterator[tuple[slice, GemmSpec, dict[str, Any]]]:
    """For each group that has rows: the rows, and its product as a separate problem, with its part of each input.
    Raises SpecError."""
    one = replace(spec, groups=UNGROUPED, lists=None, m=None)
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    if ENDS not in arrays or arrays["b"].ndim != 3 or arrays[ENDS].shape != arrays["b"].shape[:1]:
        shapes = {name: array.shape for name, array in arrays.items() if name in ("b", ENDS)}
        raise SpecError(f"{shapes}: b has a matrix for each of the ends of groups [reference-groups]")
    of_columns = {x.name: len(x.shape(None, None)) for x in spec.operands if x.kind.is_of_columns}
    by_group = {name for name, rank in of_columns.items() if arrays[name].ndim > rank} | {"b"}
    first, count = 0, arrays["a"].shape[spec.layout[0] == "n"]
    for number, end in enumerate(ends_of_groups(arrays.pop(ENDS), count).tolist()):
        rows, first = slice(first, end), end
        own = {name: inputs[name] for name in arrays} | _of_rows(spec, arrays, rows)
        own |= {name: arrays[name][number] for name in by_group}
        if rows.start < rows.stop:
            yield rows, one, own


def products_of_groups_of_k(spec: GemmSpec, inputs: Mapping[str, Any]) -> list[tuple[GemmSpec, dict[str, Any]]]:
    """The product of each group of K as a separate problem, with its part of each input. Raises SpecError."""
    one, arrays = replace(spec, groups=UNGROUPED, k=None), {name: np.asarray(value) for name, value in inputs.items()}
    full = {x.name for x in spec.operands if x.kind is OperandKind.FULL and arrays[x.name].ndim == 3}
    ends = arrays.pop(ENDS, np.zeros(()))
    counts = {name: array.shape[:1] for name, array in arrays.items() if name in full} | {ENDS: ends.shape}
    if ends.ndim != 1 or {*counts.values()} != {ends.shape} or spec.group_count not in (None, len(ends)):
        raise SpecError(
            f"lengths {counts}: ends and full operands must have an element for each group [reference-k-groups]"
        )
    found = []
    block = 1 if spec.block_scales is None else SCALE_BLOCK
    for number, (first, end) in enumerate(ranges_of_k(ends, arrays["a"].shape[0], block)):
        own = {name: array[number] if name in full else inputs[name] for name, array in arrays.items()}
        own |= {name: arrays[name][first:end] for name in ("a", "b")}
        blocks = slice(first // block, -(-end // block) if end > first else first // block)
        for scales in () if spec.block_scales is None else spec.block_scales.operands:
            given = arrays[scales.name]
            own[scales.name] = given[blocks] if scales.kind in _BY_K else given[:, blocks]
        found.append((one, own))
    return found


def ranges_of_k(ends: Any, k: int, block: int = 1) -> list[tuple[int, int]]:
    """The range of K of each group, as a kernel computes it: the end before is clamped to [0, k], and then the end to
    [the end before, k]. Ends other than k are then rounded down to a multiple of `block`."""
    given = np.asarray(ends, np.int64)
    firsts = np.clip(np.concatenate([[0], given[:-1]]), 0, k) if len(given) else given
    spans = firsts, np.minimum(np.maximum(given, firsts), k)
    found = (np.where(each == k, each, each // block * block).tolist() for each in spans)
    return list(zip(*found, strict=True))


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    step = max(1, _BLOCK // max(1, shape[1]))
    return (slice(row, row + step) for row in range(0, shape[0], step))


def columns_of_pairs(array: np.ndarray, pairs: str) -> list[np.ndarray]:
    """The first and the second column of each pair, as arrays (M, N), of an array (M, 2 · N)."""
    if pairs == "interleaved":
        return [array[:, 0::2], array[:, 1::2]]
    return np.split(array, 2, axis=1)


def rows_of(value: np.ndarray, rows: slice) -> np.ndarray:
    """The part of a broadcastable operand for these rows of D."""
    return value[rows] if value.ndim == 2 and value.shape[0] > 1 else value
