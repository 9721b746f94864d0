"""Reductions of rows in groups of rows, also beside rows of D at an index: every level, several splits, and rows of no
group, which are not written."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.epilogue.backward import routed_gated_backward
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret, run
from lowtide.runtime import records
from lowtide.runtime.row_indices import drawn_rows_of_d
from lowtide.verification.checking.splits import SPLITS, ends_of
from lowtide.verification.checking.trials import Finding, Source, Trial, outcomes

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
ROWS, COLUMNS, DEPTH, GROUPS, BEFORE = 90, 40, 40, 4, 7.0
TYPES: dict[str, Any] = {"a": "bf16", "b": "bf16", "d": "bf16"}


def norms(acc, bias: lt.PerColumn):
    return {"d": acc + bias, "squares": lt.sum((acc + bias) * (acc + bias), dim=1)}


def losses(acc, target: lt.PerRow["s32"]):  # noqa: F821
    return {"d": acc, "lse": lt.logsumexp(acc, dim=1), "wanted": lt.gather(acc, target), "most": lt.amax(acc, dim=1)}


# By name: target, schedule, fields, levels.
CASES: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "mma.sync": ("sm_80", "grid.tile = [32, 32], k = 32, stages = 2", {"epilogue": norms}, LEVELS),
    "wgmma": ("sm_90a", "grid.tile = [64, 32], stages = 2, epilogue.path = tma", {"epilogue": norms}, LEVELS),
    "wgmma in turn, an index, a maximum": (
        "sm_90a",
        "grid.tile = [64, 32], roles = pingpong(2), stages = 3",
        {"epilogue": losses, "a_rows": True},
        ("cta", "ptx"),
    ),
    "wgmma, gradients of experts": (
        "sm_90a",
        "grid.tile = [64, 32], roles = cooperative(1), stages = 2",
        {"epilogue": routed_gated_backward("silu"), "a_rows": True, "layout": "tt"},
        ("epilogue", "ptx"),
    ),
    "mma.sync, rows of D at an index": (
        "sm_80",
        "grid.tile = [32, 32], k = 32, stages = 2",
        {"epilogue": norms, "d_rows": True},
        LEVELS,
    ),
    "wgmma, rows of A and D at an index": (
        "sm_90a",
        "grid.tile = [64, 32], roles = cooperative(1), stages = 2",
        {"epilogue": losses, "a_rows": True, "d_rows": True},
        ("problem", "epilogue", "ptx"),
    ),
}


@cache
def compiled(name: str) -> tuple[CompiledKernel, lt.GemmSpec]:
    """For any extents and any number of groups."""
    target, schedule, fields, _ = CASES[name]
    spec = lt.GemmSpec(**({"groups": None} | TYPES | fields))
    return lt.compile_gemm(spec, target, schedule), spec


def agrees(name: str, level: str, ends: Any, seed: int) -> None:
    kernel, spec = compiled(name)
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(seed), groups=GROUPS)
    given["ends"] = np.array(ends, np.int32)
    out = {x.name: np.full(ROWS, BEFORE, np.float32) for x in spec.reductions}
    whole = drawn_rows_of_d(ROWS) if spec.d_rows else ROWS, COLUMNS
    out |= {x.name: np.full(whole, BEFORE, numpy_dtype("bf16")) for x in spec.full_results}
    earlier = {name: x.copy() for name, x in out.items()}
    found = kernel.interpret(**given, out=out, level=level, seed=seed, sms=2)
    wanted, bounds = lt.reference_with_bound(spec, **given, **({"out": earlier} if spec.d_rows else {}))
    last = min(max(*ends, 0), ROWS)
    if spec.d_rows:
        d, is_written = np.asarray(found.pop("d"), np.float64), np.isfinite(bounds["d"])
        assert (np.abs(d - wanted["d"]) <= bounds["d"])[is_written].all() and (d[~is_written] == BEFORE).all(), level
    for result in spec.reductions if spec.d_rows else spec.returned_results:
        values = np.asarray(found[result.name], np.float64)
        assert (values[last:] == BEFORE).all(), (level, result.name)
        error = np.abs(values - wanted[result.name])[:last]
        assert (error <= bounds[result.name][:last]).all(), (level, ends, result.name)


@pytest.mark.parametrize("name", CASES)
def test_levels_are_within_the_bound_and_rows_of_no_group_are_not_written(name: str) -> None:
    for seed, level in enumerate(CASES[name][3]):
        agrees(name, level, ([0, 37, 37, 70], [60, 20, -(2**31), 999])[seed % 2], seed)


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_is_right(split: str) -> None:
    agrees("mma.sync", "nvvm", ends_of(split, ROWS, 32, GROUPS), len(split))


def test_a_saved_kernel_stores_rows_of_d_at_an_index_and_reductions_in_order() -> None:
    kernel, spec = compiled("mma.sync, rows of D at an index")
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(5), groups=GROUPS)
    last, out = int(given["ends"][-1]), {"d": np.zeros((drawn_rows_of_d(ROWS), COLUMNS), numpy_dtype("bf16"))}
    arrays = {**given, **out, "squares": np.zeros(ROWS, np.float32)}
    found = run(kernel.ptx, records.launch_record(kernel.manifest, arrays, 4))
    wanted, bounds = lt.reference_with_bound(spec, **given, out=out)
    assert (np.abs(found["squares"] - wanted["squares"]) <= bounds["squares"])[:last].all() and last
    assert (np.abs(np.asarray(found["d"], np.float64) - wanted["d"]) <= bounds["d"]).all()


@pytest.mark.parametrize("domain", ["exact", "field"])
def test_a_check_compares_reductions_beside_rows_of_d_at_an_index(domain: str) -> None:
    kernel, _ = compiled("mma.sync, rows of D at an index")
    trial = Trial((ROWS, COLUMNS, DEPTH), domain=domain, ends=(20, 37, 37, 70))
    levels = [Source(name, kernel.levels[name]) for name in ("problem", "atoms")]
    found = list(outcomes(kernel.levels["problem"], levels, trial))
    assert all(each.finding is Finding.right and "squares: all 90" in each.message for each in found), found


FAULTS = {
    "elements of rows of no group are reduced": (
        "cta",
        "row_sum %subview from",
        "row_sum %arg0 from",
        r"\[uninitialised-read\]",
    ),
    "partial results of rows of the next group are stored": (
        "epilogue",
        "into %subview_5[",
        "into %arg0[",
        r"\[global-race\]",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_rows_of_other_groups_and_of_none_are_found(name: str) -> None:
    (kernel, spec), (level, old, new, code) = compiled("mma.sync"), FAULTS[name]
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(0), groups=GROUPS)
    given |= {"squares": np.zeros(ROWS, np.float32), "d": np.zeros((ROWS, COLUMNS), numpy_dtype("bf16"))}
    given["ends"], text = np.array([20, 37, 37, 70], np.int32), kernel.levels[level]
    interpret(text, given)
    assert text.count(old) == 1
    with pytest.raises(InterpreterError, match=code):
        interpret(text.replace(old, new), given)
