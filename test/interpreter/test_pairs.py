"""Pairs of columns: each level takes both accumulators of an element of D, for every way to copy B and to store D."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret, run
from lowtide.interpreter.ops.tile_epilogue import places_of_pairs
from lowtide.runtime import records


def combined(gate, up):
    return gate + 3.0 * up


def biased(gate, up, gate_bias: lt.PerColumn, up_bias: lt.PerColumn):
    return {"gate": gate + gate_bias, "up": up + up_bias, "d": lt.maximum(gate + gate_bias, up + up_bias)}


def residual(gate, up, c: lt.Full["f32"]):  # noqa: F821
    return 2.0 * gate - up + c


def _spec(**fields) -> lt.GemmSpec:
    return lt.GemmSpec(**{"a": "bf16", "b": "bf16", "d": "f32", "pairs": "stacked", "epilogue": combined} | fields)


_TMA = "grid.tile = [64, 96], roles = cooperative(1), k = 16, stages = 2, epilogue.path = tma"
_MMA = "grid.tile = [64, 64], k = 16, stages = 2"

# By name: target, schedule, fields, levels (None: all).
CASES = {
    "wgmma, stores by TMA with a narrow part": ("sm_90a", _TMA, {"d": "bf16"}, None),
    "wgmma, through shared memory": ("sm_90a", "grid.tile = [128, 64], k = 32, stages = 2", {}, ("ptx",)),
    "wgmma in turn": ("sm_90a", "grid.tile = [64, 64], roles = pingpong(2), stages = 3", {"d": "bf16"}, ("ptx",)),
    "known extents": ("sm_90a", _TMA, {"m": 70, "n": 72, "k": 40, "d": "bf16"}, ("cta", "ptx")),
    "interleaved": ("sm_90a", _TMA, {"pairs": "interleaved", "d": "bf16", "layout": "nn"}, ("problem", "cta", "ptx")),
    "apart": ("sm_90a", _TMA, {"pairs": "apart", "d": "bf16"}, None),
    "apart, wgmma in turn": (
        "sm_90a",
        "grid.tile = [64, 64], roles = pingpong(2), stages = 3",
        {"pairs": "apart", "d": "bf16", "layout": "nn", "n": 72, "k": 40},
        ("ptx",),
    ),
    "apart, mma.sync": ("sm_80", _MMA, {"pairs": "apart"}, ("problem", "ptx")),
    "a cluster that shares A": ("sm_90a", f"{_TMA}, grid.cluster = [1, 2]", {"d": "bf16"}, ("atoms", "ptx")),
    "K in parts": ("sm_90a", f"{_TMA}, k_division = split(2)", {"d": "bf16"}, ("ptx",)),
    "a tail in halves": (
        "sm_90a",
        "grid.tile = [256, 64], roles = cooperative(2), grid.tail = halves, epilogue.path = tma",
        {"d": "bf16"},
        ("ptx",),
    ),
    "TMA for mma.sync": ("sm_90a", f"{_MMA}, roles = cooperative(1), atom = mma.m16n8k16", {}, ("ptx",)),
    "three results, two biases": ("sm_90a", _TMA, {"d": "bf16", "epilogue": biased}, ("cta", "ptx")),
    "8-bit floats": ("sm_90a", "grid.tile = [64, 64], roles = cooperative(1)", {"a": "e4m3", "b": "e4m3"}, ("ptx",)),
    "mma.sync": ("sm_80", _MMA, {}, None),
    "mma.sync, by elements": ("sm_80", "sm80-unaligned", {"d": "bf16"}, ("ptx",)),
    "mma.sync, a ring that stays filled": (
        "sm_80",
        "grid.tile = [64, 64], k = 16, stages = 3, grid.scheduler = persistent, prologue = once",
        {},
        ("ptx",),
    ),
    "mma.sync, results of two types": (
        "sm_80",
        _MMA,
        {"epilogue": biased, "result_types": {"gate": "bf16"}},
        ("ptx",),
    ),
    "mma.sync, a full operand": ("sm_80", _MMA, {"epilogue": residual}, ("ptx",)),
    "f64": ("sm_80", "grid.tile = [32, 64]", {"a": "f64", "b": "f64", "d": "f64"}, ("ptx",)),
    "integers": ("sm_80", None, {"a": "s8", "b": "s8", "d": "s32", "epilogue": lambda x, y: x + 3 * y}, ("ptx",)),
    "FMA": ("sm_80", None, {"a": "f32", "b": "f32"}, ("ptx",)),
    "with an amax": ("sm_90a", _TMA, {"d": "bf16", "amax": True}, ("cta", "ptx")),
}


def _halves(product: np.ndarray, pairs: str) -> tuple[np.ndarray, np.ndarray]:
    n = product.shape[1] // 2
    return (product[:, ::2], product[:, 1::2]) if pairs == "interleaved" else (product[:, :n], product[:, n:])


@pytest.mark.parametrize("name", CASES)
def test_every_level_takes_both_accumulators(name):
    target, schedule, fields, levels = CASES[name]
    spec = _spec(**fields)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    m, n, k, rng = 70, 72, 40, np.random.default_rng(0)
    dtype = np.int8 if spec.a == "s8" else np.int64
    inputs = {
        each: rng.integers(-2, 3, (*shape[:-1], -(-shape[-1] // 16) * 16), dtype)[..., : shape[-1]]
        for each, shape in {"a": (k, m) if spec.layout == "nn" else (m, k), "b": (2 * n, k)}.items()
    }
    a = (inputs["a"].T if spec.layout == "nn" else inputs["a"]).astype(np.int64)
    if spec.pairs == "apart":  # three rows follow each matrix
        apart = np.full((2, n + 3, 48), 9, dtype)
        apart[:, :n, :k] = inputs["b"].reshape(2, n, k)
        inputs["b"] = apart[:, :n, :k]
    gate, up = _halves(a @ inputs["b"].reshape(2 * n, k).T, spec.pairs)
    if spec.epilogue is biased:
        inputs |= {"gate_bias": rng.integers(-3, 4, n), "up_bias": rng.integers(-3, 4, n)}
        gate, up = gate + inputs["gate_bias"], up + inputs["up_bias"]
        expected = {"gate": gate, "up": up, "d": np.maximum(gate, up)}
    elif spec.epilogue is residual:
        inputs |= {"c": rng.integers(-3, 4, (m, n))}
        expected = {"d": 2 * gate - up + inputs["c"]}
    else:
        expected = {"d": gate + 3 * up}
    if spec.amax:
        inputs["amax"] = np.full(1, 1e9, np.float32)
    for level in levels or kernel.levels:
        found = kernel.interpret(**inputs, level=level, domain="exact", sms=3)
        for result, values in (found if isinstance(found, dict) else {"d": found}).items():
            assert np.array_equal(values, expected[result]), (level, result)
        assert not spec.amax or inputs["amax"][0] == np.abs(expected["d"]).max(), level


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_open_extents_of_any_size(target):
    spec = _spec(d="bf16", epilogue=lt.swiglu)
    kernel = lt.compile_gemm(spec, target=target, schedule="grid.tile = [64, 64]")
    for m, n, k in ((1, 1, 1), (65, 9, 3), (8, 40, 0), (0, 16, 8)):
        inputs = lt.random_inputs(spec, m=m, n=n, k=k, rng=np.random.default_rng(1))
        found = kernel.interpret(**inputs).astype(np.float64)
        assert found.shape == (m, n)
        assert (np.abs(found - lt.reference(spec, **inputs)) <= lt.error_bound(spec, **inputs)).all()


@pytest.mark.parametrize(("target", "schedule"), [("sm_90a", None), ("sm_90a", _TMA), ("sm_80", _MMA)])
@pytest.mark.parametrize("pairs", ["stacked", "interleaved", "apart"])
def test_a_saved_kernel_launches_with_the_view_that_its_host_makes(target, schedule, pairs):
    spec = _spec(d="bf16", pairs=pairs, epilogue=lt.swiglu)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    inputs = lt.random_inputs(spec, m=70, n=72, k=40, rng=np.random.default_rng(0))
    arrays = {**inputs, "d": np.zeros((70, 72), inputs["a"].dtype)}
    found = run(kernel.ptx, records.launch_record(kernel.manifest, arrays, 4))["d"].astype(np.float64)
    reference, bound = lt.reference_with_bound(spec, **inputs)
    assert (np.abs(found - reference) <= bound).all()


def _found(text, kernel):
    """Whether D of an edited level differs from that of the problem."""
    rng = np.random.default_rng(2)
    inputs = {"a": rng.integers(-2, 3, (70, 48))[:, :40], "b": rng.integers(-2, 3, (144, 48))[:, :40]}
    expected = interpret(kernel.levels["problem"], inputs, domain="exact")
    try:
        return not np.array_equal(interpret(text, inputs, domain="exact"), expected)
    except InterpreterError:
        return True


FAULTS = {
    "the halves are exchanged": ("cta", r"^( *)\^bb0\(%acc: f32, (%acc_\d+): f32\)", r"\1^bb0(\2: f32, %acc: f32)"),
    "rows of one matrix": ("cta", r" halves : ", " : "),
    "the second half begins at the wrong place": ("epilogue", r"sm.extract (.*)\[0, 48\]", r"sm.extract \1[0, 32]"),
    "columns interleave": ("problem", r" pairs ", " pairs interleaved "),
}


@pytest.fixture(scope="module")
def faultless():
    return lt.compile_gemm(_spec(d="bf16"), target="sm_90a", schedule=_TMA)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_at_its_level(faultless, name):
    level, pattern, replacement = FAULTS[name]
    kernel = faultless
    text = kernel.levels[level]
    edited = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    assert edited != text
    assert _found(edited, kernel) and not _found(text, kernel)


def test_threads_that_do_not_hold_both_columns_are_refused():
    state = SimpleNamespace(violation=lambda op, text: InterpreterError(text))
    rows, columns = np.zeros((2, 4), np.int64), np.array([[0, 1, 4, 5], [2, 3, 6, 7]])
    own, others = places_of_pairs(state, None, rows, columns, 4)
    assert (own.tolist(), others.tolist()) == ([0, 1], [2, 3])
    with pytest.raises(InterpreterError, match=r"\[held-pairs\]"):
        places_of_pairs(state, None, rows, np.array([[0, 1, 2, 3], [4, 5, 6, 7]]), 4)
    with pytest.raises(InterpreterError, match=r"\[held-pairs\]"):
        places_of_pairs(state, None, np.array([[0, 0, 1, 1]] * 2), columns, 4)


def test_an_odd_number_of_rows_of_b_is_refused():
    kernel = lt.compile_gemm(_spec(), target="sm_80", schedule=_MMA)
    a, b = np.ones((8, 16), np.int64), np.ones((18, 16), np.int64)
    with pytest.raises(InterpreterError, match=r"shape \(17, 16\) has 17 rows; .*\[paired-rows\]"):
        kernel.interpret(a, b[:17], domain="exact")
    with pytest.raises(InterpreterError, match=r"\[paired-rows\]"):
        kernel.interpret(a, b, out=np.zeros((8, 8), np.float32), domain="exact")
