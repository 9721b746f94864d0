"""Verdicts on a D that was computed on random inputs: whether it is right, in a sentence."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowtide.compiler.checking.reference import Comparison, compare, reference_with_bound
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import SpecError

# Multiply-adds in float64 that a check may cost; of a larger product only some rows are compared.
_MOST_PRODUCTS = 2**32
_BYTES_PER_ELEMENT = 24  # of host memory, for a matrix, its float64 copy and the magnitudes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Element:
    """An element of D that is wrong, and how many are."""

    row: int
    column: int
    expected: float
    got: float
    count: int


@dataclass(frozen=True)
class Verdict:
    """Whether D is right, and a sentence that says how far off it is, or where it differs first.

    `is_judged` is False where nothing can be said of any element; `ok` is then False too. `element` is the first that
    differs, or of floats the worst.
    """

    ok: bool
    message: str
    is_judged: bool = True
    element: Element | None = None

    @property
    def word(self) -> str:
        """For the start of a line."""
        return "ok" if self.ok else "WRONG" if self.is_judged else "NOT JUDGED"


def check_memory(m: int, n: int, k: int) -> None:
    """Raise SpecError where the inputs and the check of a product would not fit into this machine's memory."""
    needed = _BYTES_PER_ELEMENT * (m * k + n * k + m * n)
    present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > present:
        raise SpecError(
            f"{m}x{n}x{k} takes about {needed / 2**30:,.0f} GiB of host memory to make and to check, this machine has "
            f"{present / 2**30:,.0f}; take a smaller problem, or only compile it"
        )


def against_float64(spec: GemmSpec, inputs: Mapping[str, Any], d: Array, seed: int = 0) -> Verdict:
    """D against float64 within the derived bound: all of it, or the first, the last and random rows of a large one."""
    m, n = spec.in_rows(d).shape
    k = inputs["a"].shape[1 if spec.layout[0] == "t" else 0]
    count = min(m, max(16, _MOST_PRODUCTS // max(1, n * k)))
    if count == m:
        expected, bound = reference_with_bound(spec, **inputs)
        found = compare(spec, d, expected, bound)
        return Verdict(found.ok, found.message, found.judged > 0, None if found.ok else _worst(found, d, expected))
    middle = np.random.default_rng(seed).choice(m - 2, size=count - 2, replace=False) + 1
    rows = np.sort(np.concatenate([[0, m - 1], middle]))
    some = replace(spec, m=None)
    part = spec.in_rows(spec.in_rows(d)[rows])
    found = compare(some, part, *reference_with_bound(some, **_rows_of(spec, inputs, rows)))
    worst = found.worst_index[0 if spec.d_order == "row" else 1]
    message = f"{found.message} (row {rows[worst]} of D; {count} of {m} rows compared)"
    return Verdict(found.ok, message, found.judged > 0)


def _worst(found: Comparison, d: Array, expected: Array) -> Element:
    row, column = found.worst_index
    return Element(row, column, float(expected[row, column]), float(d[row, column]), found.failed)


def _rows_of(spec: GemmSpec, inputs: Mapping[str, Any], rows: Array) -> dict[str, Any]:
    """The inputs that belong to some rows of D."""
    kinds = {operand.name: operand.kind.value for operand in spec.operands}
    result = dict(inputs)
    for name, kind in kinds.items():
        if kind == "per_row":
            result[name] = inputs[name][rows]
        elif kind == "full":
            result[name] = spec.in_rows(spec.in_rows(inputs[name])[rows])
    result["a"] = inputs["a"][rows] if spec.layout[0] == "t" else inputs["a"][:, rows]
    return result


def equality(d: Array, expected: Array) -> Verdict:
    """Whether two results of an exact domain are the same."""
    wrong = np.argwhere(d != expected)
    if not len(wrong):
        return Verdict(True, f"all {d.size} elements are equal")
    row, column = (int(index) for index in wrong[0])
    got, right = d[row, column].item(), expected[row, column].item()
    message = f"{len(wrong)} of {d.size} elements differ; the first: d[{row}, {column}] = {got}, should be {right}"
    return Verdict(False, message, True, Element(row, column, right, got, len(wrong)))
