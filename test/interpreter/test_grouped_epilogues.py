"""Groups of rows with pairs of columns, and operands with a vector for each group: every level, and planted faults."""

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
from lowtide.verification.checking.trials import domains_of

ROWS, COLUMNS, DEPTH, GROUPS = 90, 24, 40, 4
ENDS = [0, 37, 37, 70]  # empty groups, ends inside of tiles, and rows of no group


def combined(gate, up):
    return gate + 3.0 * up


def biased(gate, up, gate_bias: lt.PerColumn, up_bias: lt.PerColumn):
    return {"pre": gate + gate_bias, "d": lt.maximum(gate + gate_bias, up + up_bias)}


def routed(acc, bias: lt.PerColumn, weight: lt.PerRow):
    return weight * (acc + bias)


_TMA = "grid.tile = [64, 32], roles = cooperative(1), stages = 2, epilogue.path = tma"
_MMA = "grid.tile = [32, 32], k = 32, stages = 2"

# By name: target, schedule, fields, levels (None: all).
CASES: dict[str, tuple[str, str | None, dict[str, Any], tuple[str, ...] | None]] = {
    "wgmma, stores by TMA": ("sm_90a", _TMA, {"pairs": "stacked", "epilogue": combined}, None),
    "wgmma, two biases": ("sm_90a", _TMA, {"pairs": "stacked", "epilogue": biased}, ("cta", "ptx")),
    "wgmma in turn": (
        "sm_90a",
        "grid.tile = [64, 64], roles = pingpong(2), stages = 3",
        {"pairs": "interleaved", "epilogue": combined},
        ("cta", "ptx"),
    ),
    "wgmma, one accumulator": ("sm_90a", None, {"epilogue": routed}, None),
    "mma.sync, by defaults": ("sm_80", None, {"pairs": "stacked", "epilogue": combined}, ("nvvm",)),
    "mma.sync, interleaved, two biases": ("sm_80", _MMA, {"pairs": "interleaved", "epilogue": biased}, None),
    "mma.sync, one accumulator": ("sm_80", _MMA, {"epilogue": routed, "layout": "tt"}, ("epilogue", "ptx")),
    "TMA for mma.sync": (
        "sm_90a",
        "grid.tile = [64, 64], k = 16, stages = 2, roles = cooperative(1), atom = mma.m16n8k16",
        {"pairs": "stacked", "epilogue": combined},
        ("ptx",),
    ),
}


@cache
def compiled(name: str) -> tuple[CompiledKernel, lt.GemmSpec]:
    """The kernel of a case, for any extents and any number of groups, and its problem."""
    target, schedule, fields, _ = CASES[name]
    spec = lt.GemmSpec(groups=None, a="bf16", b="bf16", d="bf16", **fields)
    return lt.compile_gemm(spec, target, schedule), spec


def inputs(spec: lt.GemmSpec, *, shared: bool = False) -> dict[str, NDArray[Any]]:
    """A, B, the ends, and the operands. `shared`: all groups share the per-column operands."""
    rng, rows_of_b = np.random.default_rng(0), COLUMNS * (1 if spec.pairs is None else 2)
    of_b = (rows_of_b, DEPTH) if spec.layout == "tn" else (DEPTH, rows_of_b)
    given = {"a": rng.integers(-4, 5, (ROWS, DEPTH)), "b": rng.integers(-4, 5, (GROUPS, *of_b))}
    given["ends"] = np.array(ENDS, np.int32)
    of_columns = (COLUMNS,) if shared else (GROUPS, COLUMNS)
    names = [operand.name for operand in spec.operands if operand.name != "ends"]
    return given | {x: rng.integers(-3, 4, ROWS if x == "weight" else of_columns) for x in names}


def expected(spec: lt.GemmSpec, given: dict[str, NDArray[Any]]) -> dict[str, NDArray[np.int64]]:
    """Each result, computed by a loop over groups; -1 in rows after the last group."""
    found: dict[str, NDArray[np.int64]] = {}
    first = 0
    for group, end in enumerate(given["ends"].tolist()):
        b = given["b"][group] if spec.layout == "tn" else given["b"][group].T
        acc, rows, first = given["a"][first:end] @ b.T, slice(first, end), end
        own = {x: given[x][group] if given[x].ndim > 1 else given[x] for x in given if x.endswith("bias")}
        parts = {"stacked": np.split(acc, 2, axis=1), "interleaved": [acc[:, ::2], acc[:, 1::2]]}
        if spec.epilogue is routed:
            results = {"d": given["weight"][rows, None] * (acc + own["bias"])}
        elif spec.epilogue is biased:
            gate, up = parts[spec.pairs]
            results = {"pre": gate + own["gate_bias"], "d": np.maximum(gate + own["gate_bias"], up + own["up_bias"])}
        else:
            gate, up = parts[spec.pairs]
            results = {"d": gate + 3 * up}
        for name, values in results.items():
            found.setdefault(name, np.full((ROWS, COLUMNS), -1, np.int64))[rows] = values
    return found


@pytest.mark.parametrize("name", CASES)
def test_levels_agree_with_a_loop_over_groups(name: str) -> None:
    kernel, spec = compiled(name)
    for seed, level in enumerate(CASES[name][3] or kernel.levels):
        given = inputs(spec, shared=seed % 2 == 1)
        results = expected(spec, given)
        out = {result: np.full((ROWS, COLUMNS), -1, np.int64) for result in results}
        given_out = out if len(out) > 1 else out["d"]
        kernel.interpret(**given, out=given_out, level=level, domain="exact", seed=seed, sms=3)
        for result, values in results.items():
            np.testing.assert_array_equal(out[result], values, err_msg=f"{result} of level {level}")


@pytest.mark.parametrize("name", ["wgmma, two biases", "mma.sync, one accumulator"])
def test_defined_inputs_agree_with_float64_and_a_saved_kernel_launches(name: str) -> None:
    kernel, spec = compiled(name)
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(0), groups=GROUPS)
    names = [result.name for result in spec.returned_results]
    arrays = {**given, **{result: np.zeros((ROWS, COLUMNS), given["a"].dtype) for result in names}}
    found = run(kernel.ptx, records.launch_record(kernel.manifest, arrays, 4))
    reference, bound = lt.reference_with_bound(spec, **given)
    for result in names:
        one = (reference, bound) if len(names) == 1 else (reference[result], bound[result])
        rows = slice(0, int(given["ends"][-1]))
        assert (np.abs(found[result].astype(np.float64)[rows] - one[0][rows]) <= one[1][rows]).all()


FAULTS = {
    "the matrices of another group": (r"%B\[%c0, %group, ", "%B[%c0, %c0, "),
    "the vector of another group": (r"(memref\.subview %\w+\[)%group, 0\]", r"\1%c0, 0]"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_level_cta(fault: str) -> None:
    (kernel, spec), (pattern, replacement) = compiled("wgmma, two biases"), FAULTS[fault]
    text, given = kernel.levels["cta"], inputs(spec)
    edited, results = re.sub(pattern, replacement, text), expected(spec, given)
    assert edited != text

    def agrees(module: str) -> bool:
        found = interpret(module, given, domain="exact")
        return all(np.array_equal(found[x][: ENDS[-1]], values[: ENDS[-1]]) for x, values in results.items())

    assert agrees(text) and not agrees(edited)


def test_operands_that_do_not_fit_the_groups_are_refused() -> None:
    kernel, spec = compiled("mma.sync, one accumulator")
    given = inputs(spec)
    with pytest.raises(InterpreterError, match=r"\[dims-differ\]"):
        kernel.interpret(**(given | {"bias": given["bias"][:3]}), domain="exact")
    with pytest.raises(InterpreterError, match=r"must have rank 2, or 1 if groups share it: .* \[matrix-rank\]"):
        kernel.interpret(**(given | {"bias": given["bias"][None]}), domain="exact")
    with pytest.raises(InterpreterError, match=r"\[matrix-rank\]"):  # each group has its own B
        kernel.interpret(**(given | {"b": given["b"][0]}), domain="exact")


def test_number_domains_are_those_of_the_epilogue_even_if_drawn_groups_have_no_rows() -> None:
    """With one row, most drawn ends are 0 for all groups. Then the epilogue makes no comparison, and the domain
    `field`, which has none, would be chosen wrongly."""
    spec = lt.GemmSpec(groups=2, a="bf16", b="bf16", d="bf16", epilogue=lt.relu)
    problem = lt.compile_gemm(spec, "sm_80", _MMA).levels["problem"]
    assert domains_of(problem, (1, 16, 8), ends=(0, 0))[0] == "field"
    assert domains_of(problem, (1, 16, 8), ends=(1, 1))[0] == "exact"
