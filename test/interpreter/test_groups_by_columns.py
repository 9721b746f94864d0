"""Groups of rows, and padded ones, with D by columns: each split at every level, operands, results, planted faults."""

from functools import cache
from itertools import cycle
from typing import Any

import numpy as np
import pytest
import test_grouped_kernels as by_rows
import test_padded_groups as padded_by_rows
from test_grouped_kernels import COLUMNS, DEPTH, GROUPS, LEAST, ROWS, TARGETS, TYPES

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.interpreter.host import LEVELS
from lowtide.verification.checking.splits import COUNTS, SPLITS, ends_of, groups_of

GROUPED: dict[str, Any] = {"groups": None}
PADDED: dict[str, Any] = {"batch": None, "counts": True}


@cache
def compiled(target: str, is_padded: bool = False) -> CompiledKernel:
    kind = PADDED if is_padded else GROUPED
    return lt.compile_gemm(lt.GemmSpec(**kind, **TYPES, d_order="column"), target, TARGETS[target])


def agrees(kernel: CompiledKernel, given: dict[str, Any], level: str, seed: int = 0) -> None:
    """D (N, M), in padded groups (groups, N, M), is that of D by rows; -1 in rows of no group."""
    wanted = (padded_by_rows if "counts" in given else by_rows).expected(given).swapaxes(-1, -2)
    out = np.full(wanted.shape, -1, np.int64)
    found = kernel.interpret(**given, out=out, level=level, domain="exact", seed=seed)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("split", "target"), list(zip(SPLITS, cycle(TARGETS), strict=False)))
def test_each_split_is_right_in_one_threads_program(split: str, target: str) -> None:
    groups = groups_of(split, None, GROUPS)
    tile, _ = compiled(target).schedule.grid.tile
    agrees(compiled(target), by_rows.inputs(ends_of(split, ROWS, tile, groups), groups), "nvvm", seed=len(split))


@pytest.mark.parametrize(("split", "target"), list(zip(COUNTS, cycle(TARGETS), strict=False)))
def test_each_kind_of_counts_is_right_in_one_threads_program(split: str, target: str) -> None:
    tile, _ = compiled(target, is_padded=True).schedule.grid.tile
    given = padded_by_rows.inputs(ends_of(split, padded_by_rows.ROWS, tile, GROUPS, padded=True))
    agrees(compiled(target, is_padded=True), given, "nvvm", seed=len(split))


@pytest.mark.parametrize(("level", "target"), list(zip(LEVELS, cycle(TARGETS), strict=False)))
def test_each_level_takes_wrong_ends_and_wrong_counts(level: str, target: str) -> None:
    _, other = sorted(TARGETS, key=target.__ne__)
    agrees(compiled(target), by_rows.inputs([60, 21, LEAST, 999]), level, 1)
    agrees(compiled(other, is_padded=True), padded_by_rows.inputs([65, LEAST, 999]), level, 2)


def own_rows(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn):
    return {"d": acc + c * row + column, "sums": acc}


FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "of two types": (GROUPED, {"result_types": {"sums": "f32"}}),
    "in padded groups": (PADDED, {"d": "f32", "result_types": {"sums": "bf16"}}),
    # A thread holds neighbours in a column.
    "of products in f32": (GROUPED, {"a": "f32", "b": "f32", "d": "f32", "result_types": {"sums": "bf16"}}),
    "of bytes": (GROUPED, {"a": "s8", "b": "s8", "d": "s8", "result_types": {"sums": "s8"}}),
}


@pytest.mark.parametrize(("form", "target"), list(zip(FORMS, cycle(TARGETS), strict=False)))
def test_results_with_operands_of_each_kind_agree_with_float64(form: str, target: str) -> None:
    kind, fields = FORMS[form]
    spec = lt.GemmSpec(**(TYPES | fields), **kind, d_order="column", epilogue=own_rows)
    kernel = lt.compile_gemm(spec, target, TARGETS[target])
    outer = {"batch": 3} if spec.counts else {"groups": 3}
    given = lt.random_inputs(spec, ROWS + 1, COLUMNS, DEPTH, np.random.default_rng(1), **outer)
    found, (reference, bounds) = kernel.interpret(**given, level="nvvm"), lt.reference_with_bound(spec, **given)
    for name, values in found.items():
        compared = lt.compare(spec.of_result(name), values, reference[name], bounds[name])
        assert compared.ok and compared.judged, compared.message


def test_a_store_beyond_its_group_is_found() -> None:
    text = compiled("sm_80").levels["cta"]
    name = text[: text.index(" = memref.subview")].rsplit("%", 1)[1]
    faulty = text.replace(f"into %{name}[", "into %D[")
    assert faulty != text
    given = by_rows.inputs([70, 70, 70, 70])
    with pytest.raises(InterpreterError, match=r"D\[\d+, 7\d\] was written, but row 7\d is in no.*\[d-row-of-none\]"):
        interpret(faulty, given, domain="exact")
    interpret(text, given, domain="exact")
