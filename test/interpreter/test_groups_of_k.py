"""Kernels of groups of K, at every level: each split, wrong ends, accumulation, other rows, and planted faults."""

import importlib
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
from lowtide.interpreter.api import launch_record
from lowtide.interpreter.host import LEVELS
from lowtide.interpreter.machine.options import Observers
from lowtide.interpreter.machine.reliances import Relied
from lowtide.verification.checking.splits import SPLITS, ends_of
from lowtide.verification.checking.trials import Finding, Source, Trial, outcomes

ROWS, COLUMNS, DEPTH, GROUPS = 40, 24, 100, 4
TYPES = {"a": "bf16", "b": "bf16", "d": "f32", "layout": "nt"}
TARGETS = {
    "sm_80": ("sm_80", "grid.tile = [32, 32], k = 32, stages = 3"),
    "sm_90a": ("sm_90a", "grid.tile = [64, 32], k = 32, stages = 3"),
}
LEAST = -(2**31)


def adds(acc, c: lt.Full):
    return acc + c


@cache
def compiled(name: str, epilogue: Any = None) -> CompiledKernel:
    """For any extents and any number of groups."""
    spec = lt.GemmSpec(groups=lt.Groups(axis="k"), epilogue=epilogue, **TYPES)
    return lt.compile_gemm(spec, *TARGETS[name])


def inputs(ends: Any) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (DEPTH, ROWS)), rng.integers(-4, 5, (DEPTH, COLUMNS))
    return {"a": a, "b": b, "ends": np.array(ends, np.int32)}


def expected(given: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """The product of the rows of A and B of each group."""
    d, ends = [], given["ends"].tolist()
    for before, end in zip([0, *ends[:-1]], ends, strict=True):
        first = min(max(before, 0), DEPTH)
        last = min(max(end, first), DEPTH)
        d.append(given["a"][first:last].T @ given["b"][first:last])
    return np.array(d)


def agrees(kernel: CompiledKernel, given: dict[str, NDArray[Any]], level: str, seed: int = 0) -> None:
    found = kernel.interpret(**given, level=level, domain="exact", seed=seed)
    np.testing.assert_array_equal(found, expected(given))


@pytest.mark.parametrize(("name", "split"), [(list(TARGETS)[at % 2], split) for at, split in enumerate(SPLITS)])
def test_each_split_is_right_in_one_threads_program(name: str, split: str) -> None:
    agrees(compiled(name), inputs(ends_of(split, DEPTH, 32, GROUPS)), "nvvm", seed=len(split))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", TARGETS)
def test_each_level_takes_empty_groups_wrong_ends_and_rows_after_the_last_end(name: str, level: str) -> None:
    for seed, ends in enumerate(([0, 37, 37, 90], [60, 20, LEAST, 999])):
        agrees(compiled(name), inputs(ends), level, seed)


@pytest.mark.parametrize("name", ["sm_80", "sm_90a"])
def test_nan_in_rows_of_other_groups_and_of_none_is_not_multiplied(name: str) -> None:
    """A zero in one operand would not do: 0 · NaN is NaN."""
    spec = lt.GemmSpec(groups=lt.Groups(axis="k"), **TYPES)
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(0), groups=3)
    given["ends"] = np.array([10, 50, 90], np.int32)
    for rows in (slice(50, 51), slice(90, None)):
        given["a"][rows], given["b"][rows] = np.nan, np.inf
    found = compiled(name).interpret(**given, level="ptx")
    expected, bound = lt.reference_with_bound(spec, **given)
    assert np.isnan(found[2]).all() and np.isnan(expected[2]).all()
    assert (np.abs(found - expected) <= bound)[:2].all()


@pytest.mark.parametrize("name", ["sm_80", "sm_90a"])
def test_sums_are_added_to_d_which_an_empty_group_leaves_as_it_is(name: str) -> None:
    given = inputs([0, 70, 70, 100])
    before = np.random.default_rng(1).integers(-9, 10, (GROUPS, ROWS, COLUMNS))
    for level in ("problem", "pipelined", "ptx"):
        d = before.copy()
        found = compiled(name, adds).interpret(**given, c=d, out=d, level=level, domain="exact")
        np.testing.assert_array_equal(found, before + expected(given))
    np.testing.assert_array_equal(found[0], before[0])


def test_all_groups_may_share_a_full_operand() -> None:
    given, c = inputs([0, 70, 70, 100]), np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    found = compiled("sm_80", adds).interpret(**given, c=c, level="nvvm", domain="exact")
    np.testing.assert_array_equal(found, c + expected(given))


def several(acc, bias: lt.PerColumn, row: lt.PerRow):
    return {"d": lt.relu(acc + bias), "sums": acc * row}


FORMS: dict[str, dict[str, Any]] = {
    "known extents": {"m": 64, "n": 128, "k": 256},
    "rows of odd lengths": {"m": 37, "n": 21},
    "K = 0": {"k": 0},
    "several results": {"epilogue": several, "amax": True},
    "products in f32": {"a": "f32", "b": "f32"},
    "8-bit floats": {"a": "e4m3", "b": "e5m2"},
    "integers": {"a": "s8", "b": "u8", "d": "s32"},
}


@pytest.mark.parametrize(("form", "target"), [(form, ("sm_90a", "sm_80")[form == "integers"]) for form in FORMS])
def test_defaults_of_other_problems_agree_with_float64(target: str, form: str) -> None:
    spec = lt.GemmSpec(**({"groups": lt.Groups(3, "k"), "m": 40, "n": 24, "k": 150} | TYPES | FORMS[form]))
    kernel = lt.compile_gemm(spec, target)
    given = lt.random_inputs(spec, spec.m, spec.n, spec.k, np.random.default_rng(1))
    found = kernel.interpret(**given, level="nvvm")
    found = found if isinstance(found, dict) else {"d": found}
    values, bounds = (
        each if isinstance(each, dict) else {"d": each} for each in lt.reference_with_bound(spec, **given)
    )
    for name, array in found.items():
        compared = lt.compare(spec.of_result(name), array, values[name], bounds[name])
        assert compared.ok, compared.message
        assert array.shape == (3, spec.m, spec.n)
    if spec.amax:
        assert np.float32(given["amax"][0]) == np.abs(found["d"]).max()


@pytest.mark.parametrize(
    "fields",
    [
        "grid.cluster = [2, 1]",
        "grid.cluster = [1, 2]",
        "roles = cooperative(2), grid.tile = [128, 32]",
        "a.copy = staged.2",
    ],
)
def test_clusters_two_warpgroups_and_copies_by_threads_end_with_a_group(fields: str) -> None:
    spec = lt.GemmSpec(groups=lt.Groups(axis="k"), **TYPES)
    fields += "" if "grid.tile" in fields else ", grid.tile = [64, 32]"
    kernel = lt.compile_gemm(spec, "sm_90a", f"{fields}, k = 32, stages = 2")
    for level in ("atoms", "ptx"):
        agrees(kernel, inputs([0, 37, 37, 90]), level)


FAULTS = {
    "windows of both operands reach into the next group": (
        "sm_80",
        "cta",
        r"tile.view %subview\w*\[%\w+, %(m|n)\]",
        None,
    ),
    "loads of both operands reach into the next group": ("sm_90a", "atoms", r"(sm.tma_load %\w+\[)%\w+", r"\1%dim_3"),
    "a first coordinate is one less": ("sm_90a", "nvvm", r"arith.constant 1073741824 ", "arith.constant 1073741823 "),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_of_the_next_group_show_where_they_are_summed(fault: str) -> None:
    name, level, pattern, replacement = FAULTS[fault]
    text, given = compiled(name).levels[level], inputs([10, 37, 50, 80])
    other = re.sub(
        pattern,
        replacement or (lambda found: re.sub(r"%subview\w*", "%A" if found[1] == "m" else "%B", found[0])),
        text,
    )
    assert other != text
    try:
        differs = (interpret(other, given, domain="exact") != expected(given)).any()
    except InterpreterError as error:
        differs = "[out-of-bounds]" in str(error)
    assert differs
    assert (interpret(text, given, domain="exact") == expected(given)).all()


def test_an_empty_group_without_its_step_of_zeros_is_found() -> None:
    """The readers of a ring wait for a first step of each tile."""
    text, given = compiled("sm_90a").levels["cta"], inputs([10, 10, 50, 80])
    last = re.search(r"(%\w+) = arith.maxsi (%\w+), %\w+ : index\n(?=.*\n.*memref.subview)", text)
    assert last is not None
    faulty = text.replace(f"to {last[1]} step", f"to {last[2]} step")
    assert faulty != text
    assert (interpret(faulty, given, domain="exact") == expected(given)).all()  # until agents wait for each other
    with pytest.raises(InterpreterError, match=r"\[agents-deadlock\]"):
        lowered = lt.compile_ir(faulty)
        interpret(lowered.levels["atoms"], given, domain="exact")


def test_the_end_of_a_group_that_is_not_there_is_not_read() -> None:
    text, given = compiled("sm_80").levels["cta"], inputs([10, 10, 50, 80])
    own = re.search(r"memref.load (%\w+)\[%batch\]", text)
    assert own is not None
    faulty = text.replace(own[0], f"memref.load {own[1]}[%beyond]").replace(
        "order(<grouped 8>) one_shot {", "order(<grouped 8>) one_shot {\n%beyond = arith.addi %batch, %c1 : index", 1
    )
    with pytest.raises(InterpreterError, match=r"\[vector-element\]"):
        interpret(faulty, given, domain="exact")


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_with_ragged_maps_rely_on_addresses_that_wrap_around(target: str) -> None:
    kernel, relied, spec = compiled(target), Relied(), lt.GemmSpec(groups=lt.Groups(axis="k"), **TYPES)
    given = lt.random_inputs(spec, 40, 24, 100, np.random.default_rng(0), groups=2)
    run(kernel.ptx, launch_record(kernel.levels["llvm"], given), observers=Observers(relied=relied))
    assert [each.name for each in relied.places] == (["wrapped-addresses"] if target == "sm_90a" else [])
    assert all(place.endswith("[box-wraps]") for place in relied.places.values())


def test_k_is_at_most_what_coordinates_of_tensor_maps_can_say() -> None:
    assert '"with groups of K, K must be at most 2^30: split the problem"' in compiled("sm_90a").levels["atoms"]


def test_check_runs_each_split_of_the_rows_of_k(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the runs, which take long."""
    tried: list[Trial] = []

    def take(tasks: Any, *rest: Any) -> Any:
        tried.extend(task.trial for task in tasks)
        raise StopIteration

    check = importlib.import_module("lowtide.verification.checking.check")
    monkeypatch.setattr(check, "_run", take)
    spec = lt.GemmSpec(m=8, n=16, k=40, groups=lt.Groups(3, "k"), **TYPES)
    with pytest.raises(StopIteration):
        lt.check(
            lt.compile_gemm(spec, "sm_80", "grid.tile = [16, 16], k = 16, stages = 2, atoms = [1, 1, 1]"), budget=5
        )
    own = {trial.ends for trial in tried if trial.extents == (8, 16, 40)}
    assert own == {ends_of(split, 40, 16, 3) for split in SPLITS}
    trial = next(trial for trial in tried if trial.ends == (16, 32, 40))
    problem = lt.compile_gemm(spec, "sm_80").levels["problem"]
    assert all(outcome.finding is Finding.right for outcome in outcomes(problem, [Source("problem", problem)], trial))
