"""Extents of 0 in the spec: no D and no launch, or D = epilogue(0), at every level and for every kind of kernel."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret


def shifted(acc, c: lt.Full, bias: lt.PerRow):
    return acc + c + bias


def spec_of(m, n, k, layout="tn"):
    return lt.GemmSpec(m=m, n=n, k=k, a="f16", b="f16", d="f16", layout=layout, epilogue=shifted)


def given(m, n, k, layout):
    shapes = {"a": (m, k) if layout[0] == "t" else (k, m), "b": (n, k) if layout[1] == "n" else (k, n)}
    operands = {name: np.ones(shape, np.float16) for name, shape in shapes.items()}
    c = np.arange(m * n, dtype=np.float16).reshape(m, n)
    return operands | {"c": c, "bias": np.arange(m).astype(np.float16)}


@pytest.mark.parametrize(
    ("target", "schedule", "layout"),
    [("sm_80", None, "tt"), ("sm_90a", None, "nn"), ("sm_90a", "roles = pingpong(2)", "tn"), ("sm_80", "k = 32", "nt")],
)
def test_a_kernel_for_k_of_0_gives_the_epilogue_of_0_at_every_level(target, schedule, layout):
    kernel = lt.compile_gemm(spec_of(40, 24, 0, layout), target=target, schedule=schedule)
    operands = given(40, 24, 0, layout)
    for level in kernel.levels:
        d = kernel.interpret(**operands, level=level)
        np.testing.assert_array_equal(d, operands["c"] + operands["bias"][:, None])


def test_zeros_in_place_of_unaligned_matrices_without_k_are_aligned():
    """So what is packed elsewhere is not packed for K = 0. `lowtide fuzz` found it."""
    kernel = lt.compile_gemm(spec_of(40, 24, 0), "sm_80", "a.pack = rows, b.pack = rows, grid.tile = [32, 32]")
    operands = given(40, 24, 0, "tn")
    d = np.zeros((40, 24), np.float16)
    inputs = {"a": operands["a"], "b": operands["b"], "d": d, "c": operands["c"], "bias": operands["bias"]}
    found = interpret(kernel.levels["nvvm"], inputs, offsets={"a": 2, "b": 8})
    np.testing.assert_array_equal(found, operands["c"] + operands["bias"][:, None])


@pytest.mark.parametrize("extents", [(40, 32, 0), (40, 0, 16)])
def test_an_operand_that_is_packed_transposed_may_be_empty(extents):
    """Its transpose then has an extent of 0 too. `lowtide fuzz` found it."""
    m, n, k = extents
    spec = lt.GemmSpec(m=m, n=n, k=k, a="s8", b="s8", d="s32", acc="s32", layout="tt")
    kernel = lt.compile_gemm(spec, "sm_90a")
    inputs = lt.random_inputs(spec, *extents, np.random.default_rng(0))
    for level in kernel.levels:
        np.testing.assert_array_equal(kernel.interpret(**inputs, level=level), np.zeros(extents[:2], np.int32))


@pytest.mark.parametrize("extents", [(0, 24, 16), (40, 0, 16), (0, 0, 0)])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_kernel_for_m_or_n_of_0_gives_an_empty_d(target, extents):
    kernel = lt.compile_gemm(spec_of(*extents), target=target)
    assert all(kernel.interpret(**given(*extents, "tn"), level=level).shape == extents[:2] for level in kernel.levels)


def test_an_extent_of_0_is_checked_at_every_level():
    kernel = lt.compile_gemm(spec_of(40, 24, 0), target="sm_80")
    assert kernel.manifest["spec"]["k"] == kernel.manifest["example"]["k"] == 0
    for level in kernel.levels:
        with pytest.raises(
            InterpreterError,
            match=r"operand a: extent 1 of shape \(40, 16\) is 16, .* compiled for 0.*\[matrix-extent\]",
        ):
            kernel.interpret(**given(40, 24, 16, "tn"), level=level)


def test_the_code_is_that_for_an_extent_known_at_run_time():
    """Packing apart: there is nothing to copy where K is 0."""
    unpacked = "a.pack = none, b.pack = none"
    codes = [lt.compile_gemm(spec_of(40, 24, k), "sm_80", schedule=unpacked).ptx for k in (0, None)]
    assert codes[0] == codes[1]


def test_a_schedule_that_needs_a_known_k_is_refused():
    with pytest.raises(lt.Error, match=r"unroll = full.*\[k-known\]"):
        lt.compile_gemm(spec_of(40, 24, 0), "sm_80", schedule="unroll = full")
