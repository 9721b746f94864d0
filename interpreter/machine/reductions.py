"""Reductions of values, and their partial results in memory.

A partial result is a tuple of arrays. A logsumexp has two: the maximum, and the sum of the exponentials of the
differences from the maximum. If the maximum is infinite, the sum is of the exponentials themselves, so that the result
is right for infinities and NaN. Other reductions have one array.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lowtide.dialects.tile import ResultKind
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.types import Fragment
from lowtide.reductions import OF_NOTHING, REDUCED_TYPE, REDUCTIONS, Reduction

Values: TypeAlias = NDArray[Any]
Partial: TypeAlias = tuple[Values, ...]
WARP = 32


def reduction_of(kind: ResultKind) -> Reduction | None:
    """The axis and operation of a kind of results; None if it is not a reduction."""
    return REDUCTIONS.get(kind.name)


def of_nothing(domain: Domain, reduction: Reduction, shape: Sequence[int]) -> Partial:
    """Partial results of no values."""
    first = np.broadcast_to(domain.constant(OF_NOTHING[reduction.operation], REDUCED_TYPE), shape).copy()
    return (first, domain.full(tuple(shape), 0, REDUCED_TYPE)) if reduction.is_pair else (first,)


def of_values(domain: Domain, reduction: Reduction, values: Values) -> Partial:
    """The partial results of one value each."""
    if not reduction.is_pair:
        return (values,)
    return values, domain.apply("exp", REDUCED_TYPE, domain.subtract(values, _finite(values), REDUCED_TYPE))


def combined(domain: Domain, reduction: Reduction, x: Partial, y: Partial) -> Partial:
    """The partial results of the union of two sets of values, from those of each."""
    if reduction.operation in ("sum", "value"):
        return (domain.add(x[0], y[0], REDUCED_TYPE),)
    if reduction.operation in ("max", "min"):
        return ((domain.maximum if reduction.operation == "max" else domain.minimum)(x[0], y[0]),)
    most = domain.maximum(x[0], y[0])
    start = _finite(most)
    parts = []
    for largest, total in (x, y):
        factor = domain.apply("exp", REDUCED_TYPE, domain.subtract(largest, start, REDUCED_TYPE))
        parts.append(domain.multiply(total, factor, REDUCED_TYPE))
    return most, domain.add(parts[0], parts[1], REDUCED_TYPE)


def finished(domain: Domain, reduction: Reduction, partial: Partial) -> Values:
    """The results."""
    if not reduction.is_pair:
        return partial[0]
    most, total = partial
    return domain.add(_finite(most), domain.apply("log", REDUCED_TYPE, total), REDUCED_TYPE)


def along(domain: Domain, reduction: Reduction, values: Values, counts: Any = True) -> Partial:
    """The partial results along the last axis. Values that do not count are left out."""
    nothing = of_nothing(domain, reduction, values.shape)
    if not reduction.is_pair:
        return folded(domain, reduction, (np.where(counts, values, nothing[0]),))
    taken = np.where(counts, values, nothing[0])
    most = folded(domain, Reduction(reduction.axis, "max"), (taken,))[0]
    shifted = domain.subtract(taken, _finite(most)[..., None], REDUCED_TYPE)
    powers = np.where(counts, domain.apply("exp", REDUCED_TYPE, shifted), nothing[1])
    return most, folded(domain, Reduction(reduction.axis, "sum"), (powers,))[0]


def folded(domain: Domain, reduction: Reduction, partial: Partial) -> Partial:
    """The partial results along the last axis, reduced to one."""
    while partial[0].shape[-1] > 1:
        half = partial[0].shape[-1] // 2
        first, second, rest = ([x[..., part] for x in partial] for part in _parts(half))
        joined = combined(domain, reduction, tuple(first), tuple(second))
        partial = tuple(np.concatenate(pair, axis=-1) for pair in zip(joined, rest, strict=True))
    if not partial[0].shape[-1]:
        return of_nothing(domain, reduction, partial[0].shape[:-1])
    return tuple(x[..., 0] for x in partial)


def _parts(half: int) -> tuple[slice, slice, slice]:
    return slice(0, half), slice(half, 2 * half), slice(2 * half, None)


def _finite(most: Values) -> Values:
    return np.where(np.isinf(most), np.zeros_like(most), most)


# Partial results in memory --------------------------------------------------------------------------------------------


class Slots(NamedTuple):
    """The place of a tile's partial results: `number` rows of the matrix from row `first` on (with two arrays, twice as
    many), and in these rows the elements from `line` on."""

    matrix: Matrix
    first: int
    number: int
    line: int


def slots_of(reduction: Reduction, matrix: Matrix, origin: tuple[int, int], shape: Sequence[int], n: int) -> Slots:
    """The slots of the tile of a shape at `origin` of M × N. `n`: the extent that the tiles are numbered along."""
    across, line = (origin[1], origin[0]) if reduction.axis == "row" else origin
    width = shape[1 if reduction.axis == "row" else 0]
    rows = matrix.shape[0] // (2 if reduction.is_pair else 1)
    count = rows // max(1, -(-n // width))
    return Slots(matrix, across // width * count, count, line)


def write(
    state: AgentState,
    op: Described,
    slots: Slots,
    slot: Any,
    lines: Any,
    partial: Partial,
    lanes: NDArray[Any] | None = None,
) -> None:
    """Store partial results of lines, each in a slot of its tile; lines past the end of the matrix are dropped."""
    matrix, places = slots.matrix, slots.line + np.asarray(lines)
    chosen = places < matrix.shape[-1]
    if not chosen.any():
        return
    rows = (slots.first + np.broadcast_to(slot, places.shape)) * len(partial)
    for number, values in enumerate(partial):
        addresses = matrix.addresses(rows[chosen] + number, places[chosen])
        access = state.access(op) if lanes is None else state.access(op, lanes[chosen])
        payload = np.broadcast_to(values, places.shape)[chosen][:, None]
        state.machine.memory.store(access, addresses, payload, matrix.element.name)


# Fragments ------------------------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """The lines (rows or columns) of a fragment that each thread holds.

    `lines`: (threads, lines), the numbers of the lines. `values`: (threads, lines, values of a line), the numbers of
    the thread's values in each line. `sharing`: the number of warps that hold the same lines. `ranks`: (threads,), the
    place of the thread's warp among these warps.
    """

    values: NDArray[np.int64]
    lines: NDArray[np.int64]
    ranks: NDArray[np.int64]
    sharing: int


def held_lines(reduction: Reduction, type: Fragment) -> Held:
    """The lines of a fragment. Each thread must hold the same number of values of each of its lines."""
    rows, columns = type.tv.coordinates(type.shape[0])
    line, across = (rows, columns) if reduction.axis == "row" else (columns, rows)
    order = np.argsort(line, axis=1, kind="stable")
    ordered = np.take_along_axis(line, order, axis=1)
    number = len(np.unique(ordered[0]))
    values, lines = order.reshape(len(line), number, -1), ordered.reshape(len(line), number, -1)[:, :, 0]
    places: dict[int, list[tuple[int, int]]] = {}
    for warp in range(len(line) // WARP):
        own = slice(warp * WARP, (warp + 1) * WARP)
        places.setdefault(int(line[own].min()), []).append((int(across[own].min()), warp))
    ranks = np.zeros(len(line), np.int64)
    for sharing in places.values():
        for rank, (_, warp) in enumerate(sorted(sharing)):
            ranks[warp * WARP : (warp + 1) * WARP] = rank
    return Held(values, lines, ranks, max(map(len, places.values())))


def exchanged(domain: Domain, reduction: Reduction, lines: NDArray[np.int64], partial: Partial) -> Partial:
    """Partial results (lanes, lines) of whole warps, reduced over the lanes of a warp that hold the same lines. Lanes
    whose numbers differ in the lowest bit come first."""
    lanes = np.arange(len(lines))
    for bit in (1, 2, 4, 8, 16):
        other = lanes ^ bit
        if np.array_equal(lines[other], lines):
            partial = combined(domain, reduction, partial, tuple(x[other] for x in partial))
    return partial


def first_lanes(lines: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The lanes that store: in each warp, the first of the lanes that hold the same lines."""
    found, seen = np.zeros(len(lines), bool), set()
    for lane, own in enumerate(lines[:, 0].tolist()):
        key = lane // WARP, own
        found[lane] = key not in seen
        seen.add(key)
    return found
