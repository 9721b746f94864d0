"""The amax of D: what every level makes of it, edges and NaN, and faults that must show."""

import re
from dataclasses import replace

import numpy as np
import pytest
from compiled import spec

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.verification.checking.trials import Finding, Source, Trial, outcomes

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")


def biased(acc, bias: lt.PerColumn):
    return 0.5 * acc + bias


def added(acc, c: lt.Full):
    return acc + c


# By name: the problem, target and schedule, a shape that no tile divides, levels, and a batch.
CASES = {
    "mma.sync, through shared memory": (spec(d="f16"), "sm_80", "grid.tile = [64, 64]", (70, 72, 40), LEVELS, None),
    "from fragments, of an epilogue": (
        spec("nn", dtype="f16", epilogue=biased),
        "sm_80",
        "grid.tile = [64, 64], epilogue.path = direct",
        (66, 200, 24),
        ("cta", "epilogue", "nvvm", "ptx"),
        None,
    ),
    "by rows, in parts": (
        spec(epilogue=biased),
        "sm_80",
        "grid.tile = [64, 64], epilogue.math = rows, epilogue.tile = [32, 64]",
        (100, 40, 24),
        ("epilogue", "ptx"),
        None,
    ),
    "wgmma, D of 8-bit floats": (
        spec(dtype="e4m3", d="e4m3"),
        "sm_90a",
        "grid.tile = [64, 32], k = 128, stages = 2",
        (70, 48, 144),
        LEVELS,
        None,
    ),
    "D by columns": (spec(d_order="column"), "sm_90a", "grid.tile = [64, 64]", (72, 70, 40), ("cta", "nvvm"), None),
    "in turn, beside loads of an operand": (
        spec(epilogue=added),
        "sm_90a",
        "grid.tile = [64, 64], roles = pingpong(2), epilogue.path = tma",
        (140, 72, 40),
        ("nvvm", "ptx"),
        None,
    ),
    "a tail in halves": (
        spec(),
        "sm_90a",
        "grid.tile = [256, 64], k = 16, tail = halves",
        (700, 64, 40),
        ("cta", "nvvm"),
        None,
    ),
    "K in parts": (
        spec(),
        "sm_80",
        "grid.tile = [64, 64], k = 16, k_division = split(3)",
        (70, 72, 80),
        ("cta", "nvvm", "ptx"),
        None,
    ),
    "shares of the columns": (
        spec(),
        "sm_90a",
        "grid.tile = [64, 64], k = 16, k_division = scatter(2), epilogue.path = direct",
        (70, 72, 80),
        ("cta", "nvvm"),
        None,
    ),
    "a batch": (spec(batch=None), "sm_80", "grid.tile = [64, 64]", (40, 48, 24), ("problem", "cta", "ptx"), 3),
}


def amax_of(run, inputs) -> np.float32:
    """What `run` leaves in an amax that is larger before."""
    amax = np.full(1, 1e9, np.float32)
    run({**inputs, "amax": amax})
    return amax[0]


@pytest.mark.parametrize("name", CASES)
def test_every_level_finds_the_largest_of_what_is_rounded(name):
    plain, target, schedule, (m, n, k), levels, batch = CASES[name]
    kernel = lt.compile_gemm(replace(plain, amax=True), target=target, schedule=schedule)
    inputs = lt.random_inputs(plain, m, n, k, np.random.default_rng(1), batch=batch)
    values, bounds = lt.reference_with_bound(replace(plain, d="f32"), **inputs)
    least, most = np.max(np.abs(values) - bounds), np.max(np.abs(values) + bounds)
    for level in levels:
        found = amax_of(lambda given, level=level: kernel.interpret(**given, level=level, sms=2), inputs)
        assert least <= found <= most, level


SMALL = spec(d="f16")


@pytest.fixture(scope="module")
def small():
    return lt.compile_gemm(replace(SMALL, amax=True), target="sm_80", schedule="grid.tile = [64, 64]")


@pytest.mark.parametrize(("m", "k"), [(0, 16), (70, 0)])
def test_an_amax_of_nothing_is_zero(small, m, k):
    inputs = lt.random_inputs(SMALL, m, 72, k, np.random.default_rng(2))
    for level in LEVELS:
        assert amax_of(lambda given, level=level: small.interpret(**given, level=level), inputs) == 0, level


@pytest.mark.parametrize(("value", "is_found"), [(np.nan, np.isnan), (-np.inf, np.isposinf), (-1000.0, np.isfinite)])
def test_nan_is_larger_than_all_numbers_and_signs_do_not_count(small, value, is_found):
    inputs = lt.random_inputs(SMALL, 70, 72, 16, np.random.default_rng(3))
    inputs["a"][69] = value
    inputs["b"][...] = np.abs(inputs["b"])
    for level in LEVELS:
        found = amax_of(lambda given, level=level: small.interpret(**given, level=level, sms=2), inputs)
        assert is_found(found) and not found < 1000, level


@pytest.mark.parametrize("domain", ["exact", "float"])
def test_trials_judge_the_amax_of_each_level_by_itself(small, domain):
    trial = Trial((70, 72, 40), domain=domain)
    faulty = re.sub(r" *tile\.launch @gemm_clear .*\n", "", small.levels["cta"])
    sources = [Source("cta", text) for text in (small.levels["cta"], faulty)]
    right, wrong = outcomes(small.levels["problem"], sources, trial)
    assert (right.finding, wrong.finding) == (Finding.right, Finding.wrong), wrong.message
    assert "the amax is" in wrong.message


# What has to be done right: D is right with each of these.
FAULTS = (
    ("not set to zero", "cta", r" *tile\.launch @gemm_clear .*\n", "", None),
    (
        "of the rounded elements",
        "cta",
        r"( *)tile\.yield (%\S+), %acc",
        r"\1%z = arith.extf \2 : f16 to f32\n\1tile.yield \2, %z",
        None,
    ),
    (
        "a store in place of an atomic operation",
        "llvm",
        r"red\.relaxed\.gpu\.global\.max\.u32",
        "st.global.b32",
        "race",
    ),
)


@pytest.mark.parametrize(("name", "level", "pattern", "written", "message"), FAULTS, ids=[each[0] for each in FAULTS])
def test_a_planted_fault_shows(small, name, level, pattern, written, message):
    text = re.sub(pattern, written, small.levels[level])
    assert text != small.levels[level]
    inputs = lt.random_inputs(SMALL, 70, 72, 40, np.random.default_rng(4))
    if message is not None:
        with pytest.raises(InterpreterError, match=message):
            amax_of(lambda given: interpret(text, given, sms=2), inputs)
        return
    found = [amax_of(lambda given, of=of: interpret(of, given, sms=2), inputs) for of in (text, small.levels[level])]
    assert found[0] != found[1]
