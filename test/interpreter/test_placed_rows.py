"""Rows of D at an index: every level, with and without groups and rows of A at an index; rows that D does not have, or
that are not named, equal elements, and planted faults."""

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
from lowtide.runtime.row_indices import drawn_rows_of_d, places_in, random_places

ROWS, OF_A, COLUMNS, DEPTH, GROUPS = 90, 21, 24, 40, 4
ENDS = [0, 37, 37, 85]  # the last rows are in no group
OF_D, BEFORE = drawn_rows_of_d(ROWS), 7


def weighted(acc, weight: lt.PerRow):
    return weight * acc


def combined(gate, up):
    return gate + 3.0 * up


def both(acc, weight: lt.PerRow):
    return {"d": weight * acc, "plain": acc}


_MMA = "grid.tile = [32, 32], k = 32, stages = 2"
_TMA = "grid.tile = [64, 32], roles = cooperative(1), stages = 2"
_WEIGHTED = {"epilogue": weighted}
_EXPERTS = {"groups": None, "a_rows": True, **_WEIGHTED}
_ENDS_OF_LEVELS = ("problem", "epilogue", "ptx")

# By name: target, schedule, fields, levels (None: all).
CASES: dict[str, tuple[str, str | None, dict[str, Any], tuple[str, ...] | None]] = {
    "mma.sync": ("sm_80", _MMA, {}, None),
    "mma.sync, from registers, groups": ("sm_80", f"{_MMA}, epilogue.path = direct", _EXPERTS, ("smem", "nvvm", "ptx")),
    "mma.sync, by defaults": ("sm_80", None, {"groups": None, "n": COLUMNS - 1}, ("nvvm",)),
    "mma.sync, A as (K, M)": ("sm_80", f"{_MMA}, grid.scheduler = persistent", {"layout": "nn"}, ("ptx",)),
    "products in f32": ("sm_80", None, {"a": "f32", "b": "f32", "d": "f32", "layout": "tt"}, ("nvvm",)),
    "two results": ("sm_80", _MMA, {"epilogue": both, "result_types": {"plain": "f32"}}, _ENDS_OF_LEVELS),
    "8-bit floats": ("sm_90a", None, {"a": "e4m3", "b": "e4m3", "d": "e4m3", "groups": None}, ("nvvm",)),
    "wgmma, groups, gathered": ("sm_90a", _TMA, _EXPERTS, None),
    "wgmma, from registers": ("sm_90a", f"{_TMA}, epilogue.path = direct", _WEIGHTED, ("atoms", "ptx")),
    "wgmma in turns, clusters": ("sm_90a", "grid.tile = [64, 32], roles = pingpong(2), cluster = [2, 1]", {}, ("ptx",)),
    "wgmma, one tile of rows, after launches that pack": (
        "sm_90a",
        "grid.tile = [128, 32], roles = cooperative(2), launch = programmatic",
        {"m": ROWS},
        ("nvvm", "ptx"),
    ),
    "wgmma, pairs": ("sm_90a", _TMA, {"pairs": "stacked", "epilogue": combined, "groups": None}, _ENDS_OF_LEVELS),
}


@cache
def compiled(name: str) -> tuple[CompiledKernel, lt.GemmSpec]:
    target, schedule, fields, _ = CASES[name]
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "d_rows": True} | fields))
    return lt.compile_gemm(spec, target, schedule), spec


def inputs(spec: lt.GemmSpec) -> dict[str, NDArray[Any]]:
    """Small integers; an index that does not name all rows of D, and has elements outside of it."""
    rng, of_b = np.random.default_rng(0), (spec.n or COLUMNS) * (1 if spec.pairs is None else 2)
    of_a, shape = OF_A if spec.a_rows else ROWS, (of_b, DEPTH) if spec.layout[1] == "n" else (DEPTH, of_b)
    a = rng.integers(-2, 3, (of_a, DEPTH) if spec.layout[0] == "t" else (DEPTH, of_a))
    given = {"a": a, "b": rng.integers(-2, 3, (*[GROUPS] * spec.is_grouped, *shape))}
    if any(operand.name == "weight" for operand in spec.operands):
        given["weight"] = rng.integers(-3, 4, ROWS)
    if spec.is_grouped:
        given["ends"] = np.array(ENDS, np.int32)
    if spec.a_rows:
        given["a_rows"] = rng.integers(-1, OF_A + 1, ROWS).astype(np.int32)
    return given | {"d_rows": random_places(rng, ROWS)}


def expected(spec: lt.GemmSpec, given: dict[str, NDArray[Any]], *, weighs: bool = True) -> NDArray[np.int64]:
    """D, in which all other rows are as before."""
    a = given["a"] if spec.layout[0] == "t" else given["a"].T
    if spec.a_rows:
        a = np.array([a[at] if 0 <= at < OF_A else np.zeros(DEPTH, int) for at in given["a_rows"].tolist()])
    factors, d = given["b"] if spec.is_grouped else given["b"][None], np.full((OF_D, spec.n or COLUMNS), BEFORE)
    weight, first = given.get("weight", np.ones(ROWS, int)) if weighs else np.ones(ROWS, int), 0
    for end, b in zip(ENDS if spec.is_grouped else [ROWS], factors, strict=True):
        for row in range(first, end):
            place, sums = int(given["d_rows"][row]), a[row] @ (b.T if spec.layout[1] == "n" else b)
            if 0 <= place < OF_D:
                d[place] = weight[row] * sums if spec.pairs is None else sums[:COLUMNS] + 3 * sums[COLUMNS:]
        first = end
    return d


def before(spec: lt.GemmSpec) -> Any:
    made = {each.name: np.full((OF_D, spec.n or COLUMNS), BEFORE) for each in spec.full_results}
    return made if len(made) > 1 else made["d"]


@pytest.mark.parametrize("name", CASES)
def test_levels_store_to_the_rows_that_the_index_names_and_to_no_others(name: str) -> None:
    kernel, spec = compiled(name)
    given = inputs(spec)
    for seed, level in enumerate(CASES[name][3] or kernel.levels):
        found = kernel.interpret(**given, out=before(spec), level=level, domain="exact", seed=seed, sms=2)
        results = found if isinstance(found, dict) else {"d": found}
        for result, values in results.items():
            np.testing.assert_array_equal(values, expected(spec, given, weighs=result == "d"), err_msg=level)


@pytest.mark.parametrize("name", ["mma.sync", "two results", "wgmma, groups, gathered"])
def test_defined_inputs_agree_with_float64_and_a_saved_kernel_launches(name: str) -> None:
    kernel, spec = compiled(name)
    groups = {"groups": GROUPS} if spec.is_grouped else {}
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(1), **groups)
    places = places_in(given["d_rows"], OF_D)
    assert (places < 0).any() and len({*places[places >= 0].tolist()}) == np.count_nonzero(places >= 0) < OF_D
    types = {each.name: np.float32 if each.dtype == "f32" else given["a"].dtype for each in spec.full_results}
    out = {name: np.full((OF_D, COLUMNS), BEFORE, dtype) for name, dtype in types.items()}
    zeros = {name: np.zeros_like(each) for name, each in out.items()}  # what a record has where nothing is written
    launched = run(kernel.ptx, records.launch_record(kernel.manifest, {**given, **out}, 4))
    own = kernel.interpret(**given, out={name: each.copy() for name, each in out.items()})
    for found, earlier in ((launched, zeros), (own if isinstance(own, dict) else {"d": own}, out)):
        wanted = lt.reference_with_bound(spec, **given, out=earlier)
        for result in out:
            parts = (x[result] if isinstance(x, dict) else x for x in wanted)
            compared = lt.compare(spec.of_result(result), found[result], *parts)
            assert compared.ok, (result, compared.message)
    with pytest.raises(lt.SpecError, match=r"\[reference-out\]"):
        lt.reference(spec, **given)


def test_a_reference_judges_rows_that_are_not_named() -> None:
    _, spec = compiled("mma.sync")
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(1))
    out = np.full((OF_D, COLUMNS), BEFORE, given["a"].dtype)
    d, bound = lt.reference_with_bound(spec, **given, out=out)
    (others,) = np.nonzero((bound == 0).all(axis=1))
    assert {*others.tolist()} == {*range(OF_D)} - {*given["d_rows"].tolist()}
    found = d.astype(out.dtype)
    assert lt.compare(spec, found, d, bound).ok
    found[others[0], 0] = 8
    assert not lt.compare(spec, found, d, bound).ok


@pytest.mark.parametrize(("rows", "k", "of_d"), [(4, 16, 3), (4, 0, 3), (0, 16, 3), (4, 16, 0)])
def test_extents_of_zero(rows: int, k: int, of_d: int) -> None:
    kernel, _ = compiled("mma.sync")
    given = {"a": np.ones((rows, k), np.int64), "b": np.ones((8, k), np.int64)}
    given["d_rows"] = np.array([2, 0, -1, 3], np.int32)[:rows]
    for level in ("problem", "nvvm"):
        found = kernel.interpret(**given, out=np.full((of_d, 8), BEFORE), level=level, domain="exact")
        stored = [k, BEFORE, k] if rows else [BEFORE] * 3
        assert found.tolist() == [[each] * 8 for each in stored[:of_d]]


FAULTS = {
    "rows of D in order": ("cta", r"(tile\.store %\d+ into )%\d+\[", r"\1%D["),
    "rows of A as rows of D": ("cta", r"take_rows %D at", "take_rows %A at"),
    "negative rows count as rows": ("nvvm", r"(%\d+ = llvm\.load .* -> i32\n *%\d+ = arith\.cmpi )ult", r"\1slt"),
    "all rows count as rows": ("nvvm", r"(-> i32\n *%\d+ = arith\.cmpi )ult, (%\d+), %\w+", r"\1uge, \2, %c0_i32"),
    "rows past the last one are stored": (
        "nvvm",
        r"(arith\.andi )(%\d+), (%\d+)( : i1\n *%\d+ = arith\.select)",
        r"\1\3, \3\4",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_its_level(fault: str) -> None:
    (kernel, spec), (level, pattern, replacement) = compiled("mma.sync"), FAULTS[fault]
    text, given = kernel.levels[level], inputs(spec)
    edited = re.sub(pattern, replacement, text)
    assert edited != text
    given["d_rows"][0] = places_in(given["d_rows"], OF_D).max()  # row 0 is stored by threads that have no row, too
    given["d_rows"][1:] = np.where(given["d_rows"][1:] == given["d_rows"][0], -1, given["d_rows"][1:])

    def agrees(module: str) -> bool:
        try:
            found = interpret(module, {**given, "d": before(spec)}, domain="exact")
            return np.array_equal(found, expected(spec, given))
        except lt.Error as error:  # such as an access outside of D
            assert error.code
            return False

    assert agrees(text) and not agrees(edited)


def test_two_rows_that_are_stored_into_one_are_refused_and_are_a_race_in_ptx() -> None:
    kernel, spec = compiled("mma.sync")
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(1))
    given["d_rows"][[0, 1, 3, 70]] = 5, 1000, 1000, 5  # only the rows that D has count
    given["d_rows"][[row for row in range(ROWS) if given["d_rows"][row] == 5 and row not in (0, 70)]] = -1
    out = np.zeros((OF_D, COLUMNS), given["a"].dtype)
    for level in ("problem", "ptx"):
        with pytest.raises(InterpreterError, match=r"rows 0 and 70 .* row 5 of D, .*\[row-stored-twice\]"):
            kernel.interpret(**given, out=out, level=level)
    record = records.launch_record(kernel.manifest, {**given, "d": out}, 4)
    with pytest.raises(InterpreterError, match=r"race \(write after write\).*\[global-race\]"):
        run(kernel.ptx, record)
    given["d_rows"][70] = -1
    kernel.interpret(**given, out=out)


def test_operands_that_do_not_fit_are_refused() -> None:
    kernel, spec = compiled("wgmma, groups, gathered")
    given, out = inputs(spec), before(spec)
    for wrong, code in ((given["d_rows"][:-1], "dims-differ"), (given["d_rows"].astype(np.int64), "array-dtype")):
        with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
            kernel.interpret(**(given | {"d_rows": wrong}), out=out, domain="exact")
    with pytest.raises(InterpreterError, match=r"out= of a kernel \[rows-of-d-unsaid\]"):
        kernel.interpret(**given, domain="exact")
