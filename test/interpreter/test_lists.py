"""Lists of matrices: every level, for groups of rows and batches, with matrices apart in memory, and planted faults."""

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

ROWS, COLUMNS, DEPTH, COUNT = 90, 24, 48, 4
ENDS, COUNTS = [0, 37, 37, 80], [90, 0, 13, 200]

_MMA = "grid.tile = [32, 32], k = 32, stages = 2"
_ROLES = "grid.tile = [64, 32], roles = cooperative(1), stages = 2"
_GROUPS: dict[str, Any] = {"groups": None}

# By name: target, schedule, fields, levels (None: all).
CASES: dict[str, tuple[str, str | None, dict[str, Any], tuple[str, ...] | None]] = {
    "groups, mma.sync": ("sm_80", _MMA, _GROUPS, None),
    "groups, wgmma": ("sm_90a", _ROLES, _GROUPS, None),
    "groups, wgmma, B (K, N), rows of A at an index": (
        "sm_90a",
        _ROLES,
        {"groups": COUNT, "layout": "tt", "a_rows": True},
        ("cta", "ptx"),
    ),
    "groups, loads to registers": ("sm_80", f"{_MMA.split(', stages')[0]}, copy = ld.global.4", _GROUPS, ("ptx",)),
    "groups, products in f32": ("sm_80", None, {"a": "f32", "b": "f32", "d": "f32", **_GROUPS}, ("nvvm",)),
    "groups, 8-bit floats": ("sm_90a", None, {"a": "e4m3", "b": "e4m3", **_GROUPS}, ("nvvm",)),
    "padded groups": ("sm_90a", _ROLES, {"batch": None, "counts": True}, ("problem", "pipelined", "ptx")),
    "a batch": ("sm_80", None, {"batch": COUNT, "k": DEPTH}, ("problem", "atoms", "ptx")),
    "a batch, a filled ring": (
        "sm_80",
        f"{_MMA}, scheduler = persistent, prologue = once",
        {"batch": COUNT, "k": DEPTH},
        ("pipelined", "nvvm"),
    ),
}


@cache
def compiled(name: str) -> tuple[CompiledKernel, lt.GemmSpec]:
    target, schedule, fields, _ = CASES[name]
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "lists": "b"} | fields))
    return lt.compile_gemm(spec, target, schedule), spec


def inputs(spec: lt.GemmSpec) -> dict[str, NDArray[Any]]:
    rng, outer = np.random.default_rng(0), [COUNT] * spec.is_batched
    of_b = (COLUMNS, DEPTH) if spec.layout == "tn" else (DEPTH, COLUMNS)
    given = {"a": rng.integers(-4, 5, (*outer, ROWS, DEPTH)), "b": rng.integers(-4, 5, (COUNT, *of_b))}
    given |= {"ends": np.array(ENDS, np.int32)} if spec.is_grouped else {}
    given |= {"counts": np.array(COUNTS, np.int32)} if spec.counts else {}
    return given | ({"a_rows": np.arange(ROWS, dtype=np.int32)[::-1].copy()} if spec.a_rows else {})


def expected(spec: lt.GemmSpec, given: dict[str, NDArray[Any]], out: NDArray[np.int64]) -> NDArray[np.int64]:
    d, first = out.copy(), 0
    for number, b in enumerate(given["b"] if spec.layout == "tn" else given["b"].swapaxes(1, 2)):
        if spec.is_batched:
            count = COUNTS[number] if spec.counts else ROWS
            d[number, :count] = given["a"][number, :count] @ b.T
        else:
            rows = given["a"][::-1] if spec.a_rows else given["a"]
            d[first : ENDS[number]] = rows[first : ENDS[number]] @ b.T
            first = ENDS[number]
    return d


def before(spec: lt.GemmSpec) -> NDArray[np.int64]:
    return np.full((*[COUNT] * spec.is_batched, ROWS, COLUMNS), 77)


@pytest.mark.parametrize("name", CASES)
def test_levels_read_the_matrices_of_a_list_where_they_lie(name: str) -> None:
    kernel, spec = compiled(name)
    given, out = inputs(spec), before(spec)
    for seed, level in enumerate(CASES[name][3] or kernel.levels):
        found = kernel.interpret(**given, out=out.copy(), level=level, domain="exact", seed=seed, sms=2)
        np.testing.assert_array_equal(found, expected(spec, given, out), err_msg=level)


@pytest.mark.parametrize("name", ["groups, mma.sync", "groups, wgmma"])
def test_defined_inputs_agree_with_float64_and_a_saved_kernel_launches(name: str) -> None:
    kernel, spec = compiled(name)
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(1), groups=COUNT)
    record = records.launch_record(kernel.manifest, {**given, "d": np.zeros((ROWS, COLUMNS), given["a"].dtype)}, 4)
    assert {f"b[{number}]" for number in range(COUNT)} < {*record.arrays}
    for found in (run(kernel.ptx, record)["d"], kernel.interpret(**given)):
        compared = lt.compare(spec, found, *lt.reference_with_bound(spec, **given))
        assert compared.ok, compared.message


def test_a_k_of_zero_gives_zeros() -> None:
    kernel, _ = compiled("groups, mma.sync")
    given = {"a": np.ones((5, 0), np.int64), "b": np.ones((2, 8, 0), np.int64), "ends": np.array([3, 5], np.int32)}
    assert not kernel.interpret(**given, domain="exact").any()


FAULTS = {
    "the matrix of the first group for all": ("cta", r"tile\.view %B\[%group", "tile.view %B[%c0"),
    "rows of the table with two integers": ("nvvm", r"%c2_i64 = arith\.constant 2", "%c2_i64 = arith.constant 1"),
    "the rows as the row stride": ("nvvm", r"(getelementptr %\d+)\[3\]", r"\1[1]"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_its_level(fault: str) -> None:
    (kernel, spec), (level, pattern, replacement) = compiled("groups, mma.sync"), FAULTS[fault]
    text, given, out = kernel.levels[level], inputs(spec), before(spec)
    edited = re.sub(pattern, replacement, text)
    assert edited != text

    def agrees(module: str) -> bool:
        try:
            found = interpret(
                module, {"a": given["a"], "b": given["b"], "d": out.copy(), "ends": given["ends"]}, domain="exact"
            )
            return np.array_equal(found, expected(spec, given, out))
        except InterpreterError as error:  # such as an access outside of the matrices
            assert error.code
            return False

    assert agrees(text) and not agrees(edited)
