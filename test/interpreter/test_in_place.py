"""D in place of a full operand (C is D): right and free of races however it is stored; other overlaps are refused."""

import re

import numpy as np
import pytest

import lowtide as lt
from lowtide.errors import InterpreterError

M, N, K = 136, 72, 72
TILES = "grid.tile = [64, 64], k = 32"


def accumulate(acc, c: lt.Full, bias: lt.PerRow):
    return acc + 2.0 * c + bias


def spec_of():
    return lt.GemmSpec(a="f16", b="f16", d="f16", epilogue=accumulate)


def operands(seed=0, stride=N + 8):
    rng = np.random.default_rng(seed)
    drawn = {"a": (M, K), "b": (N, K), "bias": (M,), "c": (M, stride)}
    made = {name: rng.integers(-2, 3, shape).astype(np.float16) for name, shape in drawn.items()}
    return made | {"c": made["c"][:, :N]}


@pytest.mark.parametrize(
    ("target", "schedule"),
    [
        ("sm_80", TILES),
        ("sm_80", f"{TILES}, epilogue.path = direct"),
        ("sm_80", f"{TILES}, epilogue.math = rows, epilogue.tile = [32, 64]"),
        ("sm_80", f"{TILES}, epilogue.math = rows, epilogue.tile = [32, 32], epilogue.prefetch = 2"),
        ("sm_80", f"{TILES}, grid.k_division = split(2)"),
        ("sm_80", f"{TILES}, grid.k_division = stream_k, scheduler = persistent"),
        ("sm_90a", "grid.tile = [128, 64], tail = halves, roles = cooperative(1)"),
        ("sm_90a", "grid.tile = [64, 64], roles = pingpong(2)"),
        ("sm_90a", "grid.tile = [64, 64], roles = pingpong(2), epilogue.path = tma"),
        ("sm_90a", "grid.tile = [64, 64], grid.k_division = scatter(2), epilogue.path = direct"),
        ("sm_90a", "grid.tile = [128, 64], grid.cluster = [2, 1]"),
    ],
)
def test_d_in_place_of_an_operand_is_right_and_free_of_races(target, schedule):
    kernel = lt.compile_gemm(spec_of(), target=target, schedule=schedule)
    given = operands()
    expected = kernel.interpret(**given, level="problem", domain="exact")
    for level in ("cta", "epilogue", "nvvm", "ptx"):
        d = kernel.interpret(**given, out=given["c"], level=level, domain="exact", sms=2)
        np.testing.assert_array_equal(d, expected)


def added(acc, c: lt.Full):
    return acc + c


@pytest.mark.parametrize(
    ("target", "schedule"),
    [("sm_80", "grid.tile = [32, 32], k = 32, stages = 2"), ("sm_90a", "grid.tile = [64, 32], stages = 2")],
)
def test_groups_of_k_are_added_to_d_and_empty_groups_leave_it(target, schedule):
    spec = lt.GemmSpec(groups=lt.Groups(axis="k"), layout="nt", a="bf16", b="bf16", d="f32", epilogue=added)
    kernel, rng = lt.compile_gemm(spec, target=target, schedule=schedule), np.random.default_rng(0)
    given = lt.random_inputs(spec, 48, 40, 100, rng, groups=4)
    ends = given["ends"] = np.array([0, 30, 30, 90], np.int32)
    a, b = (rng.integers(-2, 3, given[name].shape).astype(given[name].dtype) for name in ("a", "b"))
    before = rng.integers(-2, 3, given["c"].shape).astype(np.float32)
    expected = before.copy()
    for group, (first, end) in enumerate(zip((0, *ends[:-1]), ends, strict=True)):
        expected[group] += a[first:end].astype(np.float32).T @ b[first:end].astype(np.float32)
    for level in ("cta", "ptx"):
        d = before.copy()
        kernel.interpret(a, b, c=d, ends=ends, out=d, level=level, sms=2)
        np.testing.assert_array_equal(d, expected)


def test_the_output_is_written_and_returned_and_no_other_array_is():
    kernel, given = lt.compile_gemm(spec_of(), "sm_80", schedule=TILES), operands()
    before = {name: array.copy() for name, array in given.items()}
    d = kernel.interpret(**given, level="cta")
    out = np.full((M, N + 8), -9, np.float16)
    assert kernel.interpret(**given, out=out[:, :N], level="cta").base is out
    np.testing.assert_array_equal(out[:, :N], d)
    assert (out[:, N:] == -9).all()
    for name, array in before.items():
        np.testing.assert_array_equal(given[name], array)
    kernel.interpret(**given, out=given["c"], level="cta")
    np.testing.assert_array_equal(given["c"], d)


READ_ONLY = np.zeros((M, N), np.float16)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (READ_ONLY, r".*\[out-read-only\]"),
        (
            np.zeros((M, N), np.float32),
            r"out: dtype is float32, D is f16; pass an array of float16.*\[out-dtype-of-d\]",
        ),
        ([[0.0] * N] * M, r"out: list is not a numpy array.*\[out-numpy\]"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused(out, said):
    with pytest.raises(InterpreterError, match=f"^{said}"):
        lt.compile_gemm(spec_of(), "sm_80", schedule=TILES).interpret(**operands(), out=out)


@pytest.mark.parametrize(
    ("row", "who"), [("%c0", r"CTA [12] warp \d lane \d+"), ("%later", r"CTA 1 warp \d lane \d+"), ("%m", None)]
)
def test_a_kernel_that_reads_what_another_thread_writes_is_found(row, who):
    schedule = f"{TILES}, epilogue.path = direct, grid.launch = serialized"
    text = lt.compile_gemm(spec_of(), "sm_80", schedule=schedule).levels["epilogue"]
    view = re.search(r"\n( *%\d+ = tile\.view (%\w+)\[)%m(, %n\] : .*)\n *%\d+ = sm\.load_global", text)
    shift = "\n%one = arith.constant 1 : index\n%later = arith.addi %m, %one : index\n"
    faulty = text[: view.start()] + shift + view[1] + row + view[3] + text[view.end(3) :]
    given = operands()
    inputs = {"a": given["a"], "b": given["b"], "d": given["c"], "c": given["c"], "bias": given["bias"]}
    if who is None:
        lt.interpreter.interpret(faulty, inputs, sms=3)
        return
    with pytest.raises(
        InterpreterError, match=rf"CTA [01] warp .*: race \(write after read\): writes what {who} read.*\[global-race\]"
    ):
        lt.interpreter.interpret(faulty, inputs, sms=3)


def test_an_element_that_no_cta_writes_is_found_in_place_too():
    text = lt.compile_gemm(spec_of(), "sm_80", schedule=TILES).levels["cta"]
    given = operands()
    inputs = {"a": given["a"], "b": given["b"], "d": given["c"], "c": given["c"], "bias": given["bias"]}
    assert "by [64, 64]" in text
    faulty = text.replace("of (%dim, ", "of (%few, ")
    faulty = faulty.replace("tile.work_tiles", "%few = arith.constant 64 : index\ntile.work_tiles")
    with pytest.raises(InterpreterError, match=r"64, 0.*\[d-unwritten\]"):
        lt.interpreter.interpret(faulty, inputs)


def test_other_overlaps_of_d_are_refused():
    kernel, given = lt.compile_gemm(spec_of(), "sm_80", schedule=TILES), operands()
    wide = np.zeros((M, 2 * N), np.float16)
    square = np.zeros((M, K), np.float16)
    for changes, out, name in (
        ({"c": wide[:, :N]}, wide[:, 8 : N + 8], "c"),
        ({"c": wide[:, :N]}, wide.reshape(2 * M, N)[:M], "c"),
        ({"a": square}, square[:, :N], "a"),
    ):
        with pytest.raises(InterpreterError, match=rf"input {name},.*\[output-overlaps-input\]"):
            kernel.interpret(**(given | changes), out=out)


def narrower(acc, c: lt.Full["f16"]):  # noqa: F821
    return acc + c


def test_an_operand_of_another_dtype_than_d_is_no_place_for_it():
    spec = lt.GemmSpec(a="f16", b="f16", d="f32", epilogue=narrower)
    given = {name: value for name, value in operands().items() if name != "bias"}
    with pytest.raises(InterpreterError, match=r"input c,.*\[output-overlaps-input\]"):
        lt.compile_gemm(spec, "sm_80", schedule=TILES).interpret(**given, out=given["c"], domain="exact")
