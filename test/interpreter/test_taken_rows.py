"""Rows of A at an index: every level, with and without groups, with rows that A does not have, and planted faults."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret, run
from lowtide.runtime import records

ROWS, OF_A, COLUMNS, DEPTH, GROUPS = 90, 21, 24, 40, 4
ENDS = [0, 37, 37, 90]


def combined(gate, up):
    return gate + 3.0 * up


_MMA = "grid.tile = [32, 32], k = 32, stages = 2"
_TMA = "grid.tile = [64, 32], roles = cooperative(1), stages = 2"

# By name: target, schedule, fields, levels (None: all).
CASES: dict[str, tuple[str, str | None, dict[str, Any], tuple[str, ...] | None]] = {
    "mma.sync": ("sm_80", _MMA, {}, None),
    "mma.sync, groups, by defaults": ("sm_80", None, {"groups": None}, ("nvvm",)),
    "mma.sync, several tiles a CTA": ("sm_80", f"{_MMA}, grid.scheduler = persistent", {}, ("ptx",)),
    "8-bit floats": ("sm_90a", None, {"a": "e4m3", "b": "e4m3", "groups": None}, ("nvvm",)),
    "products in f32": ("sm_80", None, {"a": "f32", "b": "f32", "d": "f32", "layout": "tt"}, ("nvvm",)),
    "wgmma": ("sm_90a", _TMA, {}, ("cta", "atoms", "ptx")),
    "wgmma, groups, TMA stores": ("sm_90a", f"{_TMA}, epilogue.path = tma", {"groups": None}, None),
    "wgmma, groups of pairs": (
        "sm_90a",
        _TMA,
        {"groups": None, "pairs": "stacked", "epilogue": combined},
        ("problem", "epilogue", "ptx"),
    ),
}


@cache
def compiled(name: str) -> tuple[CompiledKernel, lt.GemmSpec]:
    target, schedule, fields, _ = CASES[name]
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "a_rows": True} | fields))
    return lt.compile_gemm(spec, target, schedule), spec


def inputs(spec: lt.GemmSpec) -> dict[str, NDArray[Any]]:
    """A has fewer rows than the product. Some are taken several times, and some indices are outside of A."""
    rng, of_b = np.random.default_rng(0), COLUMNS * (1 if spec.pairs is None else 2)
    shape = (of_b, DEPTH) if spec.layout == "tn" else (DEPTH, of_b)
    given = {"a": rng.integers(-4, 5, (OF_A, DEPTH)), "b": rng.integers(-4, 5, (*[GROUPS] * spec.is_grouped, *shape))}
    index = rng.integers(-1, OF_A + 1, ROWS).astype(np.int32)
    index[:3], index[-2:] = (-(2**31), OF_A, 2**31 - 1), (0, OF_A - 1)
    if spec.is_grouped:
        given["ends"] = np.array(ENDS, np.int32)
    return given | {"a_rows": index}


def expected(spec: lt.GemmSpec, given: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    taken = np.array([given["a"][at] if 0 <= at < OF_A else np.zeros(DEPTH, int) for at in given["a_rows"].tolist()])
    factors = given["b"] if spec.is_grouped else given["b"][None]
    ends, first, parts = ENDS if spec.is_grouped else [ROWS], 0, []
    for end, b in zip(ends, factors, strict=True):
        sums = taken[first:end] @ (b.T if spec.layout == "tn" else b)
        parts.append(sums if spec.pairs is None else sums[:, :COLUMNS] + 3 * sums[:, COLUMNS:])
        first = end
    return np.concatenate(parts)


@pytest.mark.parametrize("name", CASES)
def test_levels_take_the_rows_that_the_index_says_and_zeros_for_others(name: str) -> None:
    kernel, spec = compiled(name)
    given = inputs(spec)
    for seed, level in enumerate(CASES[name][3] or kernel.levels):
        found = kernel.interpret(**given, level=level, domain="exact", seed=seed, sms=2)
        np.testing.assert_array_equal(found, expected(spec, given), err_msg=level)


@pytest.mark.parametrize("name", ["mma.sync", "wgmma, groups of pairs"])
def test_defined_inputs_agree_with_float64_and_a_saved_kernel_launches(name: str) -> None:
    kernel, spec = compiled(name)
    groups = {"groups": GROUPS} if spec.is_grouped else {}
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(1), **groups)
    assert given["a_rows"].min() < 0 and given["a_rows"].max() >= len(given["a"])
    arrays = {**given, "d": np.zeros((ROWS, COLUMNS), given["a"].dtype)}
    for found in (run(kernel.ptx, records.launch_record(kernel.manifest, arrays, 4))["d"], kernel.interpret(**given)):
        compared = lt.compare(spec, found, *lt.reference_with_bound(spec, **given))
        assert compared.ok, compared.message


def test_k_of_zero_and_one_row_of_a() -> None:
    kernel, _ = compiled("mma.sync")
    for rows, k in ((1, 16), (5, 0)):
        given = {"a": np.ones((rows, k), np.int64), "b": np.ones((8, k), np.int64)}
        given["a_rows"] = np.array([0, 7, -1, 0], np.int32)
        found = kernel.interpret(**given, domain="exact")
        assert found.tolist() == [[k * (at == 0)] * 8 for at in given["a_rows"].tolist()]


FAULTS = {
    "rows of A in order": ("cta", r"tile\.view %0\[%m", "tile.view %A[%m"),
    "negative rows count as rows": ("nvvm", r"(%\d+ = llvm\.load .* -> i32\n *%\d+ = arith\.cmpi )ult", r"\1slt"),
    "all rows count as rows": ("nvvm", r"(-> i32\n *%\d+ = arith\.cmpi )ult, (%\d+), %\w+", r"\1uge, \2, %c0_i32"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_its_level(fault: str) -> None:
    (kernel, spec), (level, pattern, replacement) = compiled("mma.sync"), FAULTS[fault]
    text, given = kernel.levels[level], inputs(spec)
    edited = re.sub(pattern, replacement, text)
    assert edited != text

    def agrees(module: str) -> bool:
        try:
            return np.array_equal(interpret(module, given, domain="exact"), expected(spec, given))
        except InterpreterError as error:  # such as an access outside of A
            assert error.code
            return False

    assert agrees(text) and not agrees(edited)


def test_an_index_of_another_length_or_type_is_refused() -> None:
    kernel, spec = compiled("wgmma, groups, TMA stores")
    given, out = inputs(spec), np.zeros((ROWS, COLUMNS), np.int64)
    for wrong, code in ((given["a_rows"][:-1], "dims-differ"), (given["a_rows"].astype(np.int64), "array-dtype")):
        with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
            kernel.interpret(**(given | {"a_rows": wrong}), out=out, domain="exact")
