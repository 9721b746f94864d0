"""Kernels of groups of rows, at every level: each split, wrong ends, epilogues, layouts, and planted faults."""

import re
from functools import cache
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
from lowtide.verification.checking.splits import MANY, SPLITS, ends_of, groups_of

ROWS, COLUMNS, DEPTH, GROUPS = 90, 24, 40, 4
TYPES = {"a": "bf16", "b": "bf16", "d": "bf16"}
TARGETS = {"sm_80": "grid.tile = [32, 32], k = 32, stages = 2", "sm_90a": "grid.tile = [64, 32], stages = 2"}
LEAST = -(2**31)


@cache
def compiled(target: str) -> CompiledKernel:
    """For any extents and any number of groups."""
    return lt.compile_gemm(lt.GemmSpec(groups=None, **TYPES), target, TARGETS[target])


def inputs(ends: Any, groups: int = GROUPS) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (ROWS, DEPTH)), rng.integers(-4, 5, (groups, COLUMNS, DEPTH))
    return {"a": a, "b": b, "ends": np.array(ends, np.int32)}


def expected(given: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Each group's rows of A times its own B; -1 after the last group."""
    d, first = np.full((len(given["a"]), COLUMNS), -1, np.int64), 0
    for end, b in zip(given["ends"].tolist(), given["b"], strict=True):
        last = min(max(end, first), len(d))
        d[first:last] = given["a"][first:last] @ b.T
        first = last
    return d


def agrees(kernel: CompiledKernel, given: dict[str, NDArray[Any]], level: str, seed: int = 0) -> None:
    out = np.full((ROWS, COLUMNS), -1, np.int64)
    found = kernel.interpret(**given, out=out, level=level, domain="exact", seed=seed)
    np.testing.assert_array_equal(found, expected(given))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("target", TARGETS)
def test_each_split_is_right_in_one_threads_program(target: str, split: str) -> None:
    tile, _ = compiled(target).schedule.grid.tile
    agrees(compiled(target), inputs(ends_of(split, ROWS, tile, GROUPS)), "nvvm", seed=len(split))


@pytest.mark.parametrize(
    "fields",
    (
        "grid.cluster = [1, 2]",
        "grid.k_division = split(2)",
        "grid.cluster = [1, 2], grid.k_division = split(3)",
    ),
)
def test_ctas_may_share_rows_and_the_k_of_a_tile(fields: str) -> None:
    kernel = lt.compile_gemm(
        lt.GemmSpec(groups=None, **TYPES), "sm_90a", f"grid.tile = [64, 16], k = 16, stages = 2, {fields}"
    )
    for seed, split in enumerate(("groups end in each part of a tile", "a group of several waves follows a row", MANY)):
        groups = groups_of(split, None, GROUPS)
        agrees(kernel, inputs(ends_of(split, ROWS, 64, groups), groups), "nvvm", seed)
    for level in ("cta", "epilogue", "ptx"):
        agrees(kernel, inputs([60, 20, LEAST, 999]), level, 1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", TARGETS)
def test_each_level_takes_empty_groups_wrong_ends_and_rows_after_the_last_end(target: str, level: str) -> None:
    for seed, ends in enumerate(([0, 37, 37, 70], [60, 20, LEAST, 999])):
        agrees(compiled(target), inputs(ends), level, seed)


@pytest.mark.parametrize("target", TARGETS)
def test_there_are_more_groups_than_ctas_and_a_group_of_several_waves(target: str) -> None:
    agrees(compiled(target), inputs([*range(1, 6), ROWS], groups=6), "ptx")


def test_the_splits_of_check_take_these_forms() -> None:
    """Otherwise tests of all splits say little."""
    found = {name: ends_of(name, 150, 64, 4) for name in SPLITS}
    assert found["one group has all rows"] == (150, 150, 150, 150)
    assert found["the first group is empty"] == (0, 150, 150, 150)
    assert found["groups of few rows"] == (1, 3, 6, 10)
    assert found["groups end 1 after a tile"] == (65, 129, 150, 150)
    assert found["groups end in the middle of a tile"] == (32, 96, 150, 150)
    assert found["groups end in each part of a tile"] == (8, 32, 72, 128)
    assert found["a group of several waves follows a row"] == (1, 150, 150, 150)
    assert found["the last group ends before the last row"] == (146, 147, 148, 149)
    assert len(ends_of(MANY, 150, 64, groups_of(MANY, None, 4))) > 32
    assert groups_of(MANY, 4, 4) == groups_of("groups of few rows", None, 4) == 4
    assert found["ends decrease"] == (150, 149, 148, 147)


@cache
def stored_by_tma(start: str = "all_sums") -> CompiledKernel:
    """Tiles of two blocks of rows, each stored in three parts, through two buffers in turn."""
    fields = "grid.tile = [128, 24], k = 16, stages = 2, epilogue.tile = [64, 8], epilogue.buffers = 2"
    spec = lt.GemmSpec(n=COLUMNS, k=32, groups=None, **TYPES)
    given = f"{fields}, roles = cooperative(1), epilogue.path = tma, epilogue.start = {start}"
    return lt.compile_gemm(spec, "sm_90a", given)


TMA_ENDS = {
    "whole tiles": [128, 256, 256, 384],
    "a block is whole": [0, 70, 134, 262],
    "none is whole": [63, 63, 100, 120],
    "rows remain": [192, 200, 210, 330],
}


def rows_by_tma(ends: list[int]) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (ends[-1] + 20, 32)), rng.integers(-4, 5, (len(ends), COLUMNS, 32))
    return {"a": a, "b": b, "ends": np.array(ends, np.int32)}


@pytest.mark.parametrize("start", ["all_sums", "first_rows"])
@pytest.mark.parametrize("name", TMA_ENDS)
def test_tma_stores_whole_blocks_and_threads_store_blocks_with_rows_of_the_next_group(name: str, start: str) -> None:
    given, kernel = rows_by_tma(TMA_ENDS[name]), stored_by_tma(start)
    assert "sm.tma_store" in kernel.levels["epilogue"]
    assert ("sm.mma_wait_rows" in kernel.levels["epilogue"]) == (start == "first_rows")
    for level in ("epilogue", "nvvm", "ptx"):
        out = np.full((len(given["a"]), COLUMNS), -1, np.int64)
        found = kernel.interpret(**given, out=out, level=level, domain="exact", seed=len(name), sms=1)
        np.testing.assert_array_equal(found, expected(given))


def test_a_block_stored_by_threads_that_leaves_tma_stores_in_flight_is_found() -> None:
    """Waits count groups of stores, and a block stored by threads has none."""
    text = stored_by_tma().levels["epilogue"]
    in_branch = re.compile(r"(else \{\n\s+)sm\.tma_store_wait read 0\n")
    assert len(in_branch.findall(text)) == 6
    given = rows_by_tma(TMA_ENDS["a block is whole"])
    with pytest.raises(InterpreterError, match=r"\[race-with-open-read\]"):
        interpret(in_branch.sub(r"\1", text), given, domain="exact", sms=1)
    interpret(text, given, domain="exact", sms=1)


def own_rows(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn):
    return acc + c - row + column


FORMS: dict[str, dict[str, Any]] = {
    "operands of each kind, and their largest": {"epilogue": own_rows, "amax": True},
    "B as (K, N), known rows in whole tiles": {"layout": "tt", "m": 128, "n": 64, "k": 64, "groups": 3},
    "A as (K, M)": {"layout": "nn"},
    "A as (K, M), B as (K, N), of bytes": {"layout": "nt", "a": "s8", "b": "s8", "d": "s32"},
    "rows of D of an odd length": {"n": 21},
    "K = 0": {"k": 0},
    "products in f32": {"a": "f32", "b": "f32", "d": "f32"},
}


@pytest.mark.parametrize(("form", "target"), [(form, list(TARGETS)[at % 2]) for at, form in enumerate(FORMS)])
def test_defaults_of_other_problems_agree_with_float64(target: str, form: str) -> None:
    spec = lt.GemmSpec(**({"groups": 3, "n": COLUMNS, "k": DEPTH} | TYPES | FORMS[form]))
    kernel = lt.compile_gemm(spec, target)
    given = lt.random_inputs(spec, spec.m or ROWS, spec.n, spec.k, np.random.default_rng(1))
    found = kernel.interpret(**given, level="nvvm")
    compared = lt.compare(spec, found, *lt.reference_with_bound(spec, **given))
    assert compared.ok, compared.message
    if spec.amax:
        rows = given["ends"].max()
        assert np.float32(given["amax"][0]).astype(found.dtype) == np.abs(found[:rows]).max()


@pytest.mark.parametrize("target", TARGETS)
def test_d_of_any_row_length_is_stored_where_it_is_not_aligned(target: str) -> None:
    """Threads store single elements, since copying D would write the rows after the last group."""
    lowered = packing(compiled(target)._lowered)
    assert lowered is not None
    other = CompiledKernel(lowered)
    assert {x["name"]: x["base_alignment"] for x in other.manifest["arguments"]}["d"] == 2
    spec, rng = lt.GemmSpec(groups=None, **TYPES), np.random.default_rng(0)
    given = lt.random_inputs(spec, 70, 21, 41, rng, groups=3, alignments={"a": 2, "b": 2})
    found = other.interpret(**given, out=np.zeros((70, 21), numpy_dtype("bf16")), level="nvvm")
    compared = lt.compare(spec, found, *lt.reference_with_bound(spec, **given))
    assert compared.ok, compared.message


def test_a_store_beyond_its_group_is_found() -> None:
    text = compiled("sm_80").levels["cta"]
    name = text[: text.index(" = memref.subview")].rsplit("%", 1)[1]
    faulty = text.replace(f"into %{name}[", "into %D[")
    assert faulty != text
    given = inputs([70, 70, 70, 70])
    with pytest.raises(InterpreterError, match=r"\[d-row-of-none\]"):
        interpret(faulty, given, domain="exact")
    interpret(text, given, domain="exact")


def test_a_group_that_takes_the_matrix_of_another_shows() -> None:
    text = compiled("sm_80").levels["cta"]
    begin = text.index("tile.view %B[%group")
    faulty = text[:begin] + text[begin:].replace("%B[%group", "%B[%c0", 1)
    given = inputs([37, 50, 51, 90])
    assert (interpret(faulty, given, domain="exact") != expected(given)).any()
    assert (interpret(text, given, domain="exact") == expected(given)).all()
