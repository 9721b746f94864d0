"""Reductions as results: at each level, by every path, with infinities and NaN, and in exact domains."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.verification.checking.verdicts import against_exact, against_float64

_TARGET, _ROWS, _COLUMNS = lt.PerRow["s32"], lt.PerRow["f32"], lt.PerColumn["f32"]


def _rows(acc, c: lt.Full):
    x = acc + c
    return {"d": x, "squares": lt.sum(x * x, dim=1)}


def _all_kinds(acc, bias: lt.PerColumn, target: _TARGET):
    x = acc + bias
    return {
        "most": lt.amax(x, dim=1),
        "d": x,
        "least": lt.amin(x, dim=0),
        "lse": lt.logsumexp(x, dim=1),
        "wanted": lt.gather(x, target),
        "bias_gradient": lt.sum(x, dim=0),
        "total": lt.sum(x),
        "magnitude": lt.amax(abs(x)),
    }


def _sums(acc):
    return {"d": acc, "of_rows": lt.sum(acc, dim=1), "of_columns": lt.sum(acc, dim=0), "total": lt.sum(acc)}


def _no_d(acc, target: _TARGET):
    return {"lse": lt.logsumexp(acc, dim=1), "wanted": lt.gather(acc, target), "sums": lt.sum(acc, dim=0)}


def _spec(epilogue=_sums, **fields) -> lt.GemmSpec:
    return lt.GemmSpec(**{"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": epilogue} | fields)


_TMA, _PARTS = "roles = cooperative(1), epilogue.path = tma", "grid.tile = [64, 96]"

_ROLES = "grid.tile = [64, 64], roles = cooperative(1)"
_TILE = "grid.tile = [64, 64]"

# By name: target, schedule, epilogue, fields of the spec, levels (None: all).
CASES = {
    "rows": ("sm_90a", _ROLES, _rows, {}, None),
    "all kinds": ("sm_90a", _ROLES, _all_kinds, {}, ("problem", "cta", "atoms", "epilogue", "ptx")),
    "all kinds, by mma.sync": ("sm_80", _TILE, _all_kinds, {}, ("atoms", "ptx")),
    "two consumers": ("sm_90a", "grid.tile = [128, 64], roles = cooperative(2)", _rows, {}, ("ptx",)),
    "consumers in turn": ("sm_90a", "grid.tile = [64, 64], roles = pingpong(2)", _rows, {}, ("atoms",)),
    "by TMA, with a narrow part": ("sm_90a", f"{_PARTS}, {_TMA}, epilogue.tile = [64, 64]", _sums, {"n": 72}, ("ptx",)),
    "columns of two parts": ("sm_90a", f"grid.tile = [128, 64], {_TMA}", _sums, {"n": 72}, ("epilogue", "ptx")),
    "half tiles": (
        "sm_90a",
        f"grid.tile = [128, 64], {_TMA}, grid.tail = halves",
        _sums,
        {"m": 1100, "n": 72},
        ("epilogue",),
    ),
    "in rows": ("sm_80", "grid.tile = [64, 64], epilogue.tile = [32, 64]", _rows, {}, ("atoms", "ptx")),
    "from fragments": ("sm_80", "grid.tile = [64, 64], epilogue.path = direct", _rows, {}, ("ptx",)),
    "fma": ("sm_80", _TILE, _rows, {"a": "f32", "b": "f32", "d": "f32"}, ("epilogue",)),
    "swapped": ("sm_90a", f"{_TILE}, {_TMA}, grid.operands = swapped", _all_kinds, {"m": 72}, ("cta",)),
    "D by columns": ("sm_80", _TILE, _sums, {"d_order": "column"}, ("epilogue",)),
    "a batch": ("sm_80", _TILE, _all_kinds, {"batch": 2}, ("problem", "cta")),
    "no D": ("sm_90a", _ROLES, _no_d, {}, ("problem", "cta", "atoms", "epilogue", "nvvm")),
    "no D, swapped": ("sm_90a", f"{_ROLES}, grid.operands = swapped", _no_d, {"m": 72}, ("epilogue",)),
    "K in parts": ("sm_80", "grid.tile = [64, 64], k = 16, k_division = split(3)", _sums, {}, ("cta",)),
    "integers": ("sm_80", _TILE, _sums, {"a": "s8", "b": "s8", "d": "f32"}, ("epilogue",)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_level_gives_reductions(name):
    target, schedule, epilogue, fields, levels = CASES[name]
    spec = _spec(epilogue, **fields)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    inputs = lt.random_inputs(spec, spec.m or 70, spec.n or 72, 40, np.random.default_rng(0), batch=None)
    for level in levels or kernel.levels:
        verdict = against_float64(spec, inputs, kernel.interpret(**inputs, level=level))
        assert verdict.ok, (level, verdict.message)


def test_sums_are_exact_in_exact_domains():
    kernel = lt.compile_gemm(_spec(), target="sm_80", schedule="grid.tile = [64, 64]")
    rng = np.random.default_rng(0)
    inputs = {name: rng.integers(-3, 4, shape) for name, shape in (("a", (70, 24)), ("b", (40, 24)))}
    wanted = lt.reference(_spec(), **inputs)
    for level in ("problem", "cta", "atoms", "epilogue", "ptx"):
        found = kernel.interpret(**inputs, level=level, domain="exact")
        assert against_exact(_spec(), inputs, found, wanted).ok, level


@pytest.mark.parametrize("tiles", (30, 100))
def test_many_partial_results_of_a_column_are_reduced(tiles):
    """A thread loads eight partial results at a time, then the rest. More than 96 are first reduced in groups."""

    def epilogue(acc):
        return {"sums": lt.sum(acc, dim=0), "lse": lt.logsumexp(acc, dim=0)}

    spec = _spec(epilogue)
    schedule = "grid.tile = [16, 16], k = 16, atoms = [1, 1, 1], stages = 2"
    kernel = lt.compile_gemm(spec, target="sm_80", schedule=schedule)
    inputs = lt.random_inputs(spec, 16 * tiles - 3, 8, 8, np.random.default_rng(0))
    verdict = against_float64(spec, inputs, kernel.interpret(**inputs, level="nvvm"))
    assert verdict.ok, verdict.message


def _unbounded(acc, bias: _COLUMNS, of_row: _ROWS):
    x = acc + bias + of_row
    return {"d": x, "most": lt.amax(x, dim=1), "lse": lt.logsumexp(x, dim=1), "all": lt.logsumexp(x)}


@pytest.fixture(scope="module")
def unbounded():
    return lt.compile_gemm(_spec(_unbounded), target="sm_80", schedule="grid.tile = [64, 64]")


@pytest.mark.parametrize("level", ("problem", "atoms", "epilogue", "nvvm"))
def test_infinities_and_nan_are_defined(unbounded, level):
    kernel = unbounded
    zeros = np.zeros((8, 16), dtype=lt.random_inputs(_spec(_unbounded), 8, 8, 16, np.random.default_rng(0))["a"].dtype)
    bias = np.where(np.arange(100) == 70, 0.0, -np.inf).astype("f4")
    of_row = np.array([0, -np.inf, np.nan, 1000, -1000, 80, 0, 0], "f4")
    inputs = {"a": zeros, "b": np.zeros((100, 16), zeros.dtype), "bias": bias, "of_row": of_row}
    found = kernel.interpret(**inputs, level=level)
    # A column of 0 beside −inf: the logarithm is that column's value, without overflow.
    assert np.array_equal(found["lse"], of_row, equal_nan=True), found["lse"]
    assert np.array_equal(found["most"], of_row, equal_nan=True) and np.isnan(found["all"]).all()
    found = kernel.interpret(**inputs | {"bias": np.where(bias == 0, np.inf, bias).astype("f4")}, level=level)
    assert np.array_equal(found["lse"][[0, 3, 4]], [np.inf] * 3) and np.isnan(found["lse"][[1, 2]]).all()


def test_targets_outside_of_a_row_give_0():
    spec = lt.GemmSpec(a="bf16", b="bf16", d="f32", epilogue=_wanted)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64]")
    inputs = lt.random_inputs(spec, 8, 72, 16, np.random.default_rng(0))
    inputs["target"] = np.array([-1, 72, 2**31 - 1, -(2**31), 0, 71, 63, 64], np.int32)
    found = kernel.interpret(**inputs, level="ptx")
    assert np.array_equal(found["wanted"], np.concatenate([np.zeros(4), found["d"][np.arange(4, 8), [0, 71, 63, 64]]]))


def _wanted(acc, target: _TARGET):
    return {"d": acc, "wanted": lt.gather(acc, target)}
