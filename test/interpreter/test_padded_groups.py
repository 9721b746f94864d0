"""Padded groups of rows, at every level: counts of each kind, wrong counts, epilogues, layouts, and planted faults."""

import re
from functools import cache
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lowtide as lt
from lowtide.compiler.anywhere import packing
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.interpreter.host import LEVELS
from lowtide.verification.checking.splits import COUNTS, MANY, ends_of, groups_of

ROWS, COLUMNS, DEPTH, GROUPS = 70, 24, 40, 4
TYPES = {"a": "bf16", "b": "bf16", "d": "bf16"}
TARGETS = {"sm_80": "grid.tile = [32, 32], k = 32, stages = 2", "sm_90a": "grid.tile = [64, 32], stages = 2"}
LEAST = -(2**31)


@cache
def compiled(target: str) -> CompiledKernel:
    """For any extents and any number of groups."""
    return lt.compile_gemm(lt.GemmSpec(batch=None, counts=True, **TYPES), target, TARGETS[target])


def inputs(counts: Any, rows: int = ROWS) -> dict[str, NDArray[Any]]:
    rng, groups = np.random.default_rng(0), len(counts)
    a, b = rng.integers(-4, 5, (groups, rows, DEPTH)), rng.integers(-4, 5, (groups, COLUMNS, DEPTH))
    return {"a": a, "b": b, "counts": np.array(counts, np.int32)}


def expected(given: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """The first rows of each matrix of A times its own B; -1 in the other rows."""
    d = given["a"] @ given["b"].swapaxes(1, 2)
    for of_group, count in zip(d, given["counts"].tolist(), strict=True):
        of_group[max(count, 0) :] = -1
    return d


def agrees(kernel: CompiledKernel, given: dict[str, NDArray[Any]], level: str, seed: int = 0) -> None:
    out = np.full((*given["a"].shape[:2], COLUMNS), -1, np.int64)
    found = kernel.interpret(**given, out=out, level=level, domain="exact", seed=seed)
    np.testing.assert_array_equal(found, expected(given))


@pytest.mark.parametrize(("split", "target"), list(zip(COUNTS, cycle(TARGETS), strict=False)))
def test_each_kind_of_counts_is_right_in_one_threads_program(split: str, target: str) -> None:
    tile, _ = compiled(target).schedule.grid.tile
    agrees(compiled(target), inputs(ends_of(split, ROWS, tile, GROUPS, padded=True)), "nvvm", seed=len(split))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", TARGETS)
def test_each_level_takes_groups_without_rows_full_ones_and_wrong_counts(target: str, level: str) -> None:
    for seed, counts in enumerate(([0, 37], [999, LEAST, 65])):
        agrees(compiled(target), inputs(counts), level, seed)


def test_the_counts_of_check_take_these_forms() -> None:
    """Otherwise tests of all of them say little."""
    found = {name: ends_of(name, 150, 64, 4, padded=True) for name in COUNTS}
    assert next(iter(found.values())) == (150, 150, 150, 150)
    assert found["the first group is empty"] == (0, 150, 150, 150)
    assert found["the last group is empty"] == (75, 75, 75, 0)
    assert found["only one group has rows"] == (0, 0, 150, 0)
    assert found["groups of few rows"] == (1, 2, 3, 4)
    assert found["groups end 1 after a tile"] == (65,) * 4
    assert found["groups end in each part of a tile"] == (8, 24, 40, 56)
    many = ends_of(MANY, 150, 64, groups_of(MANY, None, 4), padded=True)
    assert len(many) > 32 and 0 in many and max(many) > 32
    assert min(found["counts are negative"]) < 0 and max(found["counts are beyond the rows"]) > 150


def own_rows(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn):
    return acc + c - row + column


def two(acc, column: lt.PerColumn):
    return {"d": lt.relu(acc + column), "pre": acc}


_TMA = "grid.tile = [128, 24], k = 16, stages = 2, epilogue.tile = [64, 8], roles = cooperative(1), epilogue.path = tma"
# By name: target, schedule, fields.
FORMS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "operands of each kind, and their largest": ("sm_80", TARGETS["sm_80"], {"epilogue": own_rows, "amax": True}),
    "stores by TMA, two results": ("sm_90a", _TMA, {"epilogue": two, "n": COLUMNS, "k": 32}),
    "wgmma in turn": ("sm_90a", "grid.tile = [64, 64], roles = pingpong(2), stages = 3", {"epilogue": own_rows}),
    "A as (K, M)": ("sm_90a", None, {"layout": "nn"}),
    "A as (K, M), B as (K, N)": ("sm_80", TARGETS["sm_80"], {"layout": "nt"}),
    "known extents": ("sm_90a", None, {"m": 140, "n": 64, "k": 64, "batch": 3}),
    "pairs of columns": ("sm_90a", None, {"pairs": "stacked", "epilogue": lt.swiglu}),
    "interleaved pairs": ("sm_80", TARGETS["sm_80"], {"pairs": "interleaved", "epilogue": lt.swiglu}),
    "rows of an odd length": ("sm_80", None, {"n": 21}),
    "K = 0": ("sm_90a", None, {"k": 0}),
    "products in f32": ("sm_80", None, {"a": "f32", "b": "f32", "d": "f32"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_other_problems_agree_with_float64(form: str) -> None:
    target, schedule, fields = FORMS[form]
    spec = lt.GemmSpec(**({"batch": None, "counts": True} | TYPES | fields))
    kernel, rng = lt.compile_gemm(spec, target, schedule), np.random.default_rng(1)
    extents = (spec.m or 152, spec.n or COLUMNS, DEPTH if spec.k is None else spec.k)
    given = lt.random_inputs(spec, *extents, rng, batch=3) | {"counts": np.array([70, 0, 131], np.int32)}
    found = kernel.interpret(**given, level="nvvm")
    values, bounds = lt.reference_with_bound(spec, **given)
    for result in spec.full_results:
        arrays = [x[result.name] if isinstance(x, dict) else x for x in (found, values, bounds)]
        compared = lt.compare(spec, *arrays)
        assert compared.ok and compared.judged == (70 + 131) * extents[1], compared.message
    if spec.amax:
        largest = max(np.abs(found[0, :70]).max(), np.abs(found[2, :131]).max())
        assert np.float32(given["amax"][0]).astype(found.dtype) == largest


def test_d_of_any_row_length_is_stored_where_it_is_not_aligned() -> None:
    """Threads store single elements, since copying D would write the rows that do not count."""
    lowered = packing(compiled("sm_90a")._lowered)
    assert lowered is not None
    other, spec = CompiledKernel(lowered), lt.GemmSpec(batch=None, counts=True, **TYPES)
    assert {x["name"]: x["base_alignment"] for x in other.manifest["arguments"]}["d"] == 2
    rng = np.random.default_rng(0)
    given = lt.random_inputs(spec, 70, 21, 41, rng, batch=2, alignments={"a": 2, "b": 2})
    found = other.interpret(**given, out=np.zeros((2, 70, 21), numpy_dtype("bf16")), level="nvvm")
    compared = lt.compare(spec, found, *lt.reference_with_bound(spec, **given))
    assert compared.ok, compared.message


def test_tma_stores_whole_blocks_and_threads_store_blocks_with_rows_that_do_not_count() -> None:
    target, schedule, fields = FORMS["stores by TMA, two results"]
    kernel = lt.compile_gemm(lt.GemmSpec(batch=None, counts=True, **TYPES, **fields), target, schedule)
    branches = kernel.levels["epilogue"].split("sm.tma_store ")
    assert len(branches) > 2 and "sm.store_global" in branches[1]


def test_a_store_of_rows_that_do_not_count_is_found() -> None:
    text = compiled("sm_80").levels["cta"]
    name = text[: text.index(" = memref.subview")].rsplit("%", 1)[1]
    faulty, given = text.replace(f"into %{name}[", "into %D["), inputs([70, 31, 70])
    assert faulty != text
    with pytest.raises(InterpreterError, match=r"D\[1, 31, 0\] was written.*\[d-row-of-none\]"):
        interpret(faulty, given, domain="exact")
    interpret(text, given, domain="exact")


def test_a_row_that_counts_and_is_not_stored_is_found() -> None:
    text, given = compiled("sm_80").levels["cta"], inputs([70, 31, 32])
    fewer = re.compile(r"(%\w+ = memref\.subview .*)%rows_end,")
    faulty = fewer.sub(r"%fewer = arith.constant 31 : index\n\1%fewer,", text)
    with pytest.raises(InterpreterError, match=r"D\[0, 31, 0\] was never written.*\[d-unwritten\]"):
        interpret(faulty, given, domain="exact")
    interpret(faulty, inputs([31, 0, 31]), domain="exact")


def test_a_batch_of_fewer_matrices_than_counts_is_found() -> None:
    text, given = compiled("sm_80").levels["cta"], inputs([37, 50, 51])
    faulty = re.sub(r"batch\(%batch of %\w+\)", "batch(%batch of %c1)", text)
    assert faulty != text
    with pytest.raises(InterpreterError, match=r"3 ends for a batch of 1.*\[work-ends-batch\]"):
        interpret(faulty, given, domain="exact")


@pytest.mark.parametrize(("name", "counts"), [("maxsi", [LEAST, 5]), ("minsi", [3, 999])])
def test_a_count_that_is_not_clamped_is_found(name: str, counts: list[int]) -> None:
    text, given = compiled("sm_80").levels["nvvm"], inputs(counts)
    of_counts = re.compile(rf"(= llvm\.load .* -> i32\n(?:.*\n){{0,2}}.* = arith\.){name} (%\w+), %\w+ :")
    assert len(of_counts.findall(text)) == 1
    faulty = of_counts.sub(rf"\1{name} \2, \2 :", text)

    def is_right(module: str) -> bool:
        given["d"] = np.full((2, ROWS, COLUMNS), -1, np.int64)
        try:
            return bool((interpret(module, given, domain="exact") == expected(given)).all())
        except InterpreterError:
            return False

    assert is_right(text) and not is_right(faulty)


def test_a_group_that_takes_the_rows_of_another_shows() -> None:
    text = compiled("sm_80").levels["cta"]
    begin = text.index("tile.view %A[%batch")
    faulty, given = text[:begin] + text[begin:].replace("%A[%batch", "%A[%c0", 1), inputs([37, 50, 51])
    assert (interpret(faulty, given, domain="exact") != expected(given))[1, :50].any()
    counted = np.arange(ROWS) < given["counts"][:, None]
    assert (interpret(text, given, domain="exact") == expected(given))[counted].all()
