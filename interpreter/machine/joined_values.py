"""Joins the values of several agents to one value with the lanes of all, and takes it apart again."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.interpreter.numbers.packed import Mixed, Packed
from lowtide.interpreter.numbers.registers import Half, Number, Pair, Unreadable, is_raw

APART = object()
"""Returned if the values of agents cannot be joined: they are of different kinds, or must not be read now."""


def joined(values: Sequence[Any], counts: Sequence[int]) -> Any:
    """Join the values of several agents to one value. `counts`: the number of lanes of each. APART if they cannot be
    joined."""
    first = values[0]
    if type(first) is Number and (found := _of_numbers(values, counts, first.dtype)) is not None:
        return found
    if not _has_lanes(first) and all(value is first for value in values):
        return APART if isinstance(first, Unreadable) else first
    if all(is_raw(value) for value in values):
        return _of_raw(values, counts)
    if any(type(value) is not type(first) for value in values):
        return APART
    if isinstance(first, Number | Packed):
        if any(value.dtype != first.dtype for value in values):
            return APART
        if isinstance(first, Number):
            rows = [np.broadcast_to(value.payload, (count,)) for value, count in zip(values, counts, strict=True)]
            return Number(np.concatenate(rows), first.dtype)
        shapes = {value.payload.shape[1:] for value in values}
        if len(shapes) > 1:
            return APART
        (shape,) = shapes
        rows = [np.broadcast_to(value.payload, (count, *shape)) for value, count in zip(values, counts, strict=True)]
        return Packed(np.concatenate(rows), first.dtype)
    if isinstance(first, Pair):
        low, high = (joined([getattr(value, half) for value in values], counts) for half in ("low", "high"))
        return APART if low is APART or high is APART else Pair(low, high)
    if isinstance(first, Half) and all(value.is_high == first.is_high for value in values):
        number = joined([value.number for value in values], counts)
        return APART if number is APART else Half(number, first.is_high)
    return APART


def _of_numbers(values: Sequence[Any], counts: Sequence[int], dtype: str) -> Number | None:
    """The fast path for the most frequent case: all values are Numbers of this type with an element for each lane.
    Otherwise None."""
    payloads = []
    for value, count in zip(values, counts, strict=True):
        if type(value) is not Number or value.dtype != dtype or np.shape(value.payload) != (count,):
            return None
        payloads.append(value.payload)
    return Number(np.concatenate(payloads), dtype)


def _has_lanes(value: Any) -> bool:
    """Whether a value has an element for each lane. Agents may share such a value."""
    if isinstance(value, Pair | Half):
        return True
    return bool(np.ndim(value.payload if isinstance(value, Number | Packed) else value))


def _of_raw(values: Sequence[Any], counts: Sequence[int]) -> Any:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if not arrays:
        if all(value == values[0] for value in values):
            return values[0]
        return np.repeat(np.array(values), counts)
    dtype = arrays[0].dtype
    is_predicate = dtype == np.bool_
    rows = []
    for value, count in zip(values, counts, strict=True):
        if isinstance(value, np.ndarray):
            if value.dtype != dtype or value.shape != (count,):
                return APART
            rows.append(value)
        elif isinstance(value, bool | np.bool_) != is_predicate:
            return APART
        else:
            rows.append(np.full(count, value, dtype))
    return np.concatenate(rows)


def by_warp(value: Any, count: int, lanes: int) -> Sequence[Any]:
    """The value of each of `count` warps. If all lanes of a warp have the same integer, it is one integer."""
    if not isinstance(value, np.ndarray):
        return [part(value, slice(at * lanes, (at + 1) * lanes)) for at in range(count)]
    rows = value.reshape(count, lanes)
    uniform = (rows == rows[:, :1]).all(axis=1)
    return [row[0].item() if same else row for row, same in zip(rows, uniform.tolist(), strict=True)]


def part(value: Any, lanes: slice) -> Any:
    """The part of a value that belongs to some lanes."""
    if isinstance(value, np.ndarray):
        return value[lanes]
    if isinstance(value, Number):
        return Number(value.payload[lanes], value.dtype) if np.ndim(value.payload) else value
    if isinstance(value, Packed):
        return Packed(value.payload[lanes], value.dtype) if len(value.payload) > 1 else value
    if isinstance(value, Pair):
        return Pair(part(value.low, lanes), part(value.high, lanes))
    if isinstance(value, Half):
        return Half(part(value.number, lanes), value.is_high)
    if isinstance(value, Mixed):
        return Mixed(value.condition[lanes], part(value.first, lanes), part(value.second, lanes))
    return value
