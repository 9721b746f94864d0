"""Verdicts on results computed from random inputs: whether they are right, in a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from lowtide.compiler.block_scales import of_rows
from lowtide.compiler.epilogue.results import D, Result, ResultKind
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import COUNTS, D_ROWS, ENDS
from lowtide.elements import INTEGER_TYPE, SCALE_BLOCK, element_type
from lowtide.errors import SpecError
from lowtide.interpreter.machine.allocations import physical_memory
from lowtide.runtime.row_indices import places_in
from lowtide.runtime.verify import amax_difference
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.parts import ends_of_groups, in_order, products, products_of_groups_of_k
from lowtide.verification.checking.reference import reference_with_bound, result_with_bound

# Multiply-adds in float64 that a check may cost; for a larger product only some rows are compared.
_MOST_PRODUCTS = 2**32
_BYTES_PER_ELEMENT = 24  # of host memory, for a matrix, its float64 copy and the magnitudes

Array = np.ndarray[Any, Any]
Results: TypeAlias = Array | Mapping[str, Array]
"""The return value of a run: D, or full results by name."""


@dataclass(frozen=True)
class Element:
    """A wrong element of D, and the number of wrong ones."""

    row: int
    column: int
    expected: float
    got: float
    count: int
    matrix: int | None = None  # of a batch

    @property
    def name(self) -> str:
        """`d[row, column]`, in a batch `d[matrix, row, column]`."""
        place = (self.row, self.column) if self.matrix is None else (self.matrix, self.row, self.column)
        return f"d[{', '.join(map(str, place))}]"


@dataclass(frozen=True)
class Verdict:
    """Whether D is right, with a sentence on its error, or on the first difference.

    `is_judged` is False if no element can be judged; `ok` is then False too. `element` is the first that differs, or
    for floats the worst.
    """

    ok: bool
    message: str
    is_judged: bool = True
    element: Element | None = None

    @property
    def word(self) -> str:
        """For the start of a line."""
        return "ok" if self.ok else "WRONG" if self.is_judged else "NOT JUDGED"


def check_memory(m: int, n: int, k: int, matrices: int = 1, padding: int = 0, rows_between: int = 0) -> None:
    """Raise SpecError if the inputs and the check of a product would not fit into this machine's memory.

    `padding` elements follow each row, and `rows_between` rows each matrix.
    """
    elements = (
        (max(one, other) + rows_between) * (max(one, other) + padding) if padding or rows_between else one * other
        for one, other in ((m, k), (n, k), (m, n))
    )
    needed = _BYTES_PER_ELEMENT * sum(elements) * matrices
    present = physical_memory()
    if needed > present:
        count = f"{matrices} of " if matrices > 1 else ""
        raise SpecError(
            f"{count}{m}x{n}x{k} takes about {needed / 2**30:,.0f} GiB of host memory to make and to check, this "
            f"machine has {present / 2**30:,.0f}; take a smaller problem, or only compile it [host-memory]"
        )


def against_float64(spec: GemmSpec, inputs: Mapping[str, Any], d: Results, seed: int = 0) -> Verdict:
    """Compares D, or each of several results, with float64, within the derived bound. If they are right, also
    checks the other results, which the run wrote to arrays among the inputs.

    All of D, or the first, the last and random rows of a large one; for a large batch the first, the last and random
    matrices.
    """
    arrays, verdicts = by_name(spec, d), {}
    for result in spec.returned_results:
        own = arrays[result.name]
        if result.kind.reduction is None:
            verdicts[result.name] = _of_d(spec.of_result(result.name), inputs, own, seed)
        else:
            verdicts[result.name] = _of_reduction(spec, result, inputs, own)
    verdict = _of_all(verdicts)
    for result in spec.results:
        if result.kind is ResultKind.AMAX and verdict.ok:
            first = spec.full_results[0]
            values = np.asarray(arrays[first.name], np.float64)
            message = amax_difference(np.asarray(inputs[result.name]), values, first.dtype)
            verdict = Verdict(False, message) if message else verdict
    return verdict


def by_name(spec: GemmSpec, d: Results) -> dict[str, Array]:
    """The results of a run by name: D alone is an array."""
    return dict(d) if isinstance(d, Mapping) else {spec.returned_results[0].name: d}


def _of_all(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The verdict on the first wrong full result; if all are right, a verdict with the sentences on all of them."""
    right: list[str] = []
    for name, verdict in verdicts.items():
        message = verdict.message if list(verdicts) == [D] else f"{name}: {verdict.message}"
        if not verdict.ok:
            return replace(verdict, message=message)
        right.append(message)
    return Verdict(True, "; ".join(right))


def _of_reduction(spec: GemmSpec, result: Result, inputs: Mapping[str, Any], found: Array) -> Verdict:
    """The verdict on a reduction. It needs all values of the product, so for a large product it is not compared."""
    if spec.rows_are_grouped and not np.any(np.asarray(inputs[ENDS]) > 0):
        return Verdict(True, "no row belongs to a group")
    a, b = (np.asarray(inputs[name]) for name in "ab")
    n = b.shape[-2 if spec.layout[1] == "n" else -1] * spec.rows_per_byte
    if a.size * n > _MOST_PRODUCTS:
        return Verdict(True, f"not compared: it takes {a.size * n:.1e} products in float64")
    given = {name: value for name, value in inputs.items() if name not in ("a", "b")}
    own = compare(spec, np.asarray(found), *result_with_bound(spec, result, a, b, **given))
    return Verdict(own.ok, own.message, own.judged > 0)


def _of_d(spec: GemmSpec, inputs: Mapping[str, Any], d: Array, seed: int) -> Verdict:
    if spec.d_rows:
        return _of_placed(spec, inputs, d, seed)
    k = inputs["a"].shape[-1 if spec.layout[0] == "t" else -2]
    spec, inputs = in_order(spec, inputs)
    if spec.counts and not np.any(np.asarray(inputs[COUNTS]) > 0):
        return Verdict(True, "no row counts")
    if spec.is_batched or spec.k_is_grouped:
        whole = d.size * k <= _MOST_PRODUCTS
        return _of_whole(spec, inputs, d) if whole else _of_some_matrices(spec, inputs, d, k, seed)
    m, n = spec.in_rows(d).shape
    if spec.is_grouped and not np.any(ends_of_groups(inputs[ENDS], m)):
        return Verdict(True, "no row belongs to a group")
    count = min(m, max(16, _MOST_PRODUCTS // max(1, n * k)))
    if count == m:
        return _of_whole(spec, inputs, d)
    middle = np.random.default_rng(seed).choice(m - 2, size=count - 2, replace=False) + 1
    rows = np.sort(np.concatenate([[0, m - 1], middle]))
    some = replace(spec, m=None, block_scales=of_rows(spec.block_scales))
    part = spec.in_rows(spec.in_rows(d)[rows])
    found = compare(some, part, *reference_with_bound(some, **_rows_of(spec, inputs, rows)))
    worst = found.worst_index[spec.row_axis]
    message = f"{found.message} (row {rows[worst]} of D; {count} of {m} rows compared)"
    return Verdict(found.ok, message, found.judged > 0)


def _of_placed(spec: GemmSpec, inputs: Mapping[str, Any], d: Array, seed: int) -> Verdict:
    """The verdict on the rows of D that are stored at an index: those of a product with only these rows, in order."""
    places = places_in(inputs[D_ROWS], len(d))
    stored = np.flatnonzero(places >= 0)
    if not stored.size:
        return Verdict(True, "no row is stored")
    one, own = in_order(spec, inputs)
    verdict = _of_d(replace(one, m=None), _rows_of(one, own, stored), d[places[stored]], seed)
    if verdict.element is None:
        return verdict
    row = int(stored[verdict.element.row])
    message = f"{verdict.message} (of the {len(stored)} stored rows; row {row} of the product, {places[row]} of D)"
    return replace(verdict, message=message, element=replace(verdict.element, row=int(places[row])))


def _of_whole(spec: GemmSpec, inputs: Mapping[str, Any], d: Array) -> Verdict:
    expected, bound = reference_with_bound(spec, **inputs)
    found = compare(spec, d, expected, bound)
    row, column = found.worst_index
    place = (row, column) if d.ndim == 2 else (*divmod(row, d.shape[1]), column)
    return Verdict(
        found.ok, found.message, found.judged > 0, None if found.ok else _at(d, expected, place, found.failed)
    )


def _of_some_matrices(spec: GemmSpec, inputs: Mapping[str, Any], d: Array, k: int, seed: int) -> Verdict:
    """The verdict on the first matrix that is not right; if all are, on the last one compared."""
    count = min(len(d), max(2, _MOST_PRODUCTS // max(1, d[0].size * k)))
    others = np.random.default_rng(seed).choice(len(d), size=count, replace=False)
    chosen = {0, len(d) - 1, *others.tolist()[2:]}
    compared = f"{len(chosen)} of {len(d)} matrices compared"
    verdict = Verdict(True, compared)
    parts = products_of_groups_of_k(spec, inputs) if spec.k_is_grouped else products(spec, inputs)
    for number, (one, own) in enumerate(parts):
        rows = own["a"].shape[0 if spec.layout[0] == "t" else 1]
        if verdict.ok and number in chosen and rows:
            counted = spec.in_rows(spec.in_rows(d[number])[:rows])
            verdict = _of_d(one, own, counted if spec.counts else d[number], seed)
            verdict = replace(verdict, message=f"{verdict.message} (matrix {number} of D; {compared})")
    return verdict


def _at(d: Array, expected: Array, place: tuple[int, ...], count: int) -> Element:
    if len(place) < 2:  # of a vector
        d, expected, place = d[None], expected[None], (0, *place)
    *matrix, row, column = place
    right, got = (int(each) if each.dtype.kind in "iu" else float(each) for each in (expected[place], d[place]))
    return Element(row, column, right, got, count, matrix[0] if matrix else None)


def _rows_of(spec: GemmSpec, inputs: Mapping[str, Any], rows: Array) -> dict[str, Any]:
    """The inputs for some rows of D; scales of blocks of rows become scales of rows."""
    kinds = {operand.name: operand.kind.value for operand in spec.operands}
    result = dict(inputs)
    for name, kind in kinds.items():
        if kind in ("per_row", "target"):
            result[name] = inputs[name][rows]
        elif kind == "full":
            result[name] = spec.in_rows(spec.in_rows(inputs[name])[rows])
        elif kind == "ends":
            count = inputs["a"].shape[spec.layout[0] == "n"]
            result[name] = np.searchsorted(rows, ends_of_groups(inputs[name], count)).astype(np.int32)
        elif kind == "row_scale":
            result[name] = inputs[name][:, rows]
        elif kind == "row_block_scale":
            result[name] = inputs[name][rows // SCALE_BLOCK].T
    result["a"] = inputs["a"][rows] if spec.layout[0] == "t" else inputs["a"][:, rows]
    return result


def against_exact(spec: GemmSpec, inputs: Mapping[str, Any], d: Results, expected: Results) -> Verdict:
    """Whether the full results equal the expected ones in an exact domain and, if they do, whether the other results
    among the inputs, set by the run, are right. Results are not rounded there, but clamped to narrow integers: then no
    amax is judged."""
    arrays, wanted, first = by_name(spec, d), by_name(spec, expected), (spec.full_results or spec.results)[0]
    verdict = _of_all({name: equality(arrays[name], own) for name, own in wanted.items()})
    is_whole = element_type(first.dtype).is_float or first.dtype == INTEGER_TYPE
    for result in spec.results:
        if result.kind is ResultKind.AMAX and verdict.ok and is_whole:
            (amax,), largest = (
                np.asarray(inputs[result.name]),
                np.float32(np.max(np.abs(wanted[first.name]), initial=0)),
            )
            verdict = verdict if amax == largest else Verdict(False, f"the amax is {amax:g}, should be {largest:g}")
    return verdict


def are_equal(d: Results, other: Results) -> bool:
    """Whether two runs of one kernel gave the same results."""
    if isinstance(d, Mapping) and isinstance(other, Mapping):
        return all(np.array_equal(values, other[name]) for name, values in d.items())
    return np.array_equal(np.asarray(d), np.asarray(other))


def equality(d: Array, expected: Array) -> Verdict:
    """Whether two results of an exact domain are equal."""
    wrong = np.argwhere(d != expected)
    if not len(wrong):
        return Verdict(True, f"all {d.size} elements are equal")
    first = _at(d, expected, tuple(map(int, wrong[0])), len(wrong))
    message = (
        f"{len(wrong)} of {d.size} elements differ; the first: {first.name} = {first.got}, should be {first.expected}"
    )
    return Verdict(False, message, True, first)
