"""`verify` on a driver whose launches run numpy: right kernels pass, each planted fault is found."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_driver import GEMM_TYPES, FakeDriver
from sample_kernel import PTX, argument, kernel_from, op, ptx_of, sample_manifest

import lowtide as lt
from lowtide import runtime
from lowtide.errors import LoadError
from lowtide.runtime import __main__ as command
from lowtide.runtime.dtypes import from_bits, round_to, to_bits
from lowtide.runtime.epilogue import evaluate
from lowtide.runtime.expected import accumulator_growth, expected
from lowtide.runtime.verify import at_size, compare, random_operands, verify_kernel

STORED = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}
Matrix = np.ndarray


def matrix_at(address: int, rows: int, row_stride: int, columns: int, dtype: str) -> Matrix:
    """A view of (fake) device memory, rows with their stride."""
    kind = np.dtype(STORED[dtype])
    size = ((rows - 1) * row_stride + columns) * kind.itemsize
    flat = np.frombuffer((ctypes.c_char * size).from_address(address), dtype=kind)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (row_stride * kind.itemsize, kind.itemsize))


def gemm(dtype: str, accumulate: Callable[[Matrix, Matrix], Matrix], fault: str = "") -> Callable[[list[Any]], None]:
    """A kernel that computes D in numpy, with a fault where one is named."""

    def kernel(values: list[Any]) -> None:
        pa, lda, pb, ldb, pd, ldd, m, n, k, *_ = values
        a = from_bits(np.ascontiguousarray(matrix_at(pa, m, lda, k, dtype)), dtype)
        b = from_bits(np.ascontiguousarray(matrix_at(pb, n, ldb, k + (fault == "reads a pad"), dtype)), dtype)
        if fault == "reads a pad":
            b = b[:, 1:]
        if fault == "drops the last k":
            a = a[:, :-1]
            b = b[:, :-1]
        d = matrix_at(pd, m, ldd, n, dtype)
        result = accumulate(a, b)
        if fault == "one wrong element":
            result[m // 2, n // 2] += 0.75
        stored = to_bits(result, dtype)
        if dtype == "bf16":
            stored[np.isnan(result)] = 0x7FFF  # the GPU's NaN
        rows = m - 1 if fault == "last row unwritten" else m
        d[:rows] = stored[:rows]
        if fault == "store past a row":
            matrix_at(pd, m, ldd, n + 1, dtype)[m - 2, n] = 0
        if fault == "store past the end":
            matrix_at(pd, m + 1, ldd, n, dtype)[m, 0] = 0
        if fault == "store before the start":
            matrix_at(pd - 2, 1, ldd, 1, dtype)[0, 0] = 0

    return kernel


def in_f32(a: Matrix, b: Matrix) -> Matrix:
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float64)


def in_f16(a: Matrix, b: Matrix) -> Matrix:
    """Sums in f16, sixteen products at a time."""
    total = np.zeros((a.shape[0], b.shape[0]), dtype=np.float16)
    for k in range(0, a.shape[1], 16):
        total = (total.astype(np.float64) + a[:, k : k + 16] @ b[:, k : k + 16].T).astype(np.float16)
    return total.astype(np.float64)


def verify(install: Any, kernel: Any, manifest: dict[str, Any], types: Any = GEMM_TYPES, **more: Any) -> Any:
    fake = install(FakeDriver(types=types))
    fake.kernel = kernel
    outcome = verify_kernel(kernel_from(manifest), **more)
    assert not fake.memory
    return outcome


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_right_kernel_passes(install_driver: Any, dtype: str, seed: int) -> None:
    outcome = verify(install_driver, gemm(dtype, in_f32), sample_manifest(dtype=dtype), seed=seed)
    assert outcome.ok, outcome.message
    assert 0 < outcome.ratio <= 1
    assert (outcome.rows, outcome.code, outcome.device) == (70, "ptx", "Fake GPU")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("drops the last k", "elements out of bound, first D"),
        ("reads a pad", "elements out of bound"),
        ("one wrong element", r"1 elements out of bound, first D\[35, 22\]"),
        ("last row unwritten", r"45 elements of D were not written, first D\[69, 0\]"),
        ("store past a row", "the padding of D's rows was written"),
        ("store past the end", "bytes before or after D were written"),
        ("store before the start", "bytes before or after D were written"),
    ],
)
def test_each_planted_fault_is_found(install_driver: Any, fault: str, message: str) -> None:
    outcome = verify(install_driver, gemm("bf16", in_f32, fault), sample_manifest(), seed=4)
    assert not outcome.ok
    assert_matches(message, outcome.message)


def assert_matches(pattern: str, text: str) -> None:
    with pytest.raises(LoadError, match=pattern):
        raise LoadError(text)


@pytest.mark.parametrize("k", [96, 4096])
def test_f16_accumulators_have_their_own_bound_and_long_sums_are_exact(install_driver: Any, k: int) -> None:
    manifest = sample_manifest(dtype="f16", acc="f16")
    manifest["example"]["k"] = k
    assert verify(install_driver, gemm("f16", in_f16), manifest, seed=5).ok
    if k == 4096:
        wrong = verify(install_driver, gemm("f16", in_f16, "drops the last k"), manifest, seed=5)
        assert not wrong.ok


def test_the_bounds_growth_is_as_stated() -> None:
    assert accumulator_growth({"a": "bf16", "acc": "f32"}, 33) == 38 * 2.0**-23 / (1 - 38 * 2.0**-23)
    assert accumulator_growth({"a": "f32", "acc": "f32"}, 33) == 38 * 2.0**-24 / (1 - 38 * 2.0**-24)
    assert accumulator_growth({"a": "f16", "acc": "f16"}, 1024) == float("inf")


def test_promoted_sums_of_8_bit_floats_lose_what_the_longest_partial_sum_does() -> None:
    fast, promoted = ({"a": "e4m3", "acc": "f32", "fast": is_fast} for is_fast in (True, False))
    assert accumulator_growth(fast, 128) == 138 * 2.0**-13 / (1 - 138 * 2.0**-13)
    assert accumulator_growth(fast, 8192) == float("inf")
    partial, added = 138 * 2.0**-13, 258 * 2.0**-24
    own, of_adding = partial / (1 - partial), added / (1 - added)
    assert accumulator_growth(promoted, 8192) == pytest.approx(own + of_adding + own * of_adding)


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_every_layout_is_compared_as_it_lies(install_driver: Any, layout: str) -> None:
    manifest = sample_manifest()
    manifest["spec"]["layout"] = layout
    rows_a, rows_b = {"tn": ("m", "n"), "tt": ("m", "k"), "nn": ("k", "n"), "nt": ("k", "k")}[layout]
    extents = manifest["example"]
    at = {"m": ("a", rows_a == "k"), "n": ("b", rows_b == "k")}
    for index, dim in enumerate(("m", "k", "n")):
        argument_name, transposed = at.get(dim, ("a", rows_a == "k"))
        first = (dim == "k") == transposed
        manifest["host"][index] = op("memref.dim", [dim], [argument_name], index=0 if first else 1)

    def kernel(values: list[Any]) -> None:
        pa, lda, pb, ldb, pd, ldd, m, n, k = values
        assert (m, n, k) == (extents["m"], extents["n"], extents["k"])
        a = matrix_at(pa, m, lda, k, "bf16") if rows_a == "m" else matrix_at(pa, k, lda, m, "bf16").T
        b = matrix_at(pb, n, ldb, k, "bf16") if rows_b == "n" else matrix_at(pb, k, ldb, n, "bf16").T
        product = in_f32(*(from_bits(np.ascontiguousarray(x), "bf16") for x in (a, b)))
        matrix_at(pd, m, ldd, n, "bf16")[:] = to_bits(product, "bf16")

    outcome = verify(install_driver, kernel, manifest, seed=6)
    assert outcome.ok, outcome.message


PROGRAM = {
    "accumulator": "x",
    "ops": [
        op("arith.extf", ["c32"], ["c"]),
        op("arith.extf", ["bias32"], ["bias"]),
        op("arith.mulf", ["scaled"], ["x", "alpha"]),
        op("arith.addf", ["sum"], ["scaled", "c32"]),
        op("arith.addf", ["biased"], ["sum", "bias32"]),
        op("arith.constant", ["zero"], [], value=0.0),
        op("arith.maximumf", ["relu"], ["biased", "zero"]),
        op("arith.truncf", ["y"], ["relu"], type="bf16"),
    ],
    "result": "y",
}


@pytest.mark.parametrize("fault", ["", "bias by row", "relu before bias", "alpha dropped"])
def test_an_epilogue_is_checked_by_its_program(install_driver: Any, fault: str) -> None:
    extra = (argument("c", "full"), argument("bias", "per_column", alignment=2), argument("alpha", "scalar", "f32"))
    manifest = {**sample_manifest(*extra), "epilogue": "relu(alpha * acc + c + bias)", "epilogue_program": PROGRAM}
    manifest["host"].insert(-1, op("memref.row_stride", ["ldc"], ["c"]))
    manifest["host"][-1]["attributes"]["arguments"].append({"value": "ldc", "type": "i64"})

    def kernel(values: list[Any]) -> None:
        pa, lda, pb, ldb, pd, ldd, m, n, k, pc, pbias, alpha, ldc = values
        a, b, c = (
            from_bits(np.ascontiguousarray(matrix_at(*x, "bf16")), "bf16")
            for x in ((pa, m, lda, k), (pb, n, ldb, k), (pc, m, ldc, n))
        )
        bias = from_bits(np.ascontiguousarray(matrix_at(pbias, 1, n, n, "bf16")), "bf16")
        x = (1.0 if fault == "alpha dropped" else alpha) * in_f32(a, b) + c
        if fault == "bias by row":
            bias = np.resize(bias, (m, 1))
        y = np.maximum(x, 0) + bias if fault == "relu before bias" else np.maximum(x + bias, 0)
        matrix_at(pd, m, ldd, n, "bf16")[:] = to_bits(y, "bf16")

    outcome = verify(install_driver, kernel, manifest, (*GEMM_TYPES, "ptr", "ptr", "f32", "i64"), seed=7)
    assert outcome.ok == (not fault), outcome.message


def test_a_kernel_that_does_not_say_its_epilogue_cannot_be_verified(install_driver: Any) -> None:
    """As one compiled from a level below problem: that there is no epilogue does not follow."""
    with pytest.raises(
        LoadError,
        match=r"no epilogue_program to check D by.* compile it from level atoms or before.*\[no-epilogue-program\]",
    ):
        verify(install_driver, gemm("bf16", in_f32), {**sample_manifest(), "epilogue_program": None})


def with_conditions(acc: Any, row: lt.PerRow, column: lt.PerColumn) -> Any:
    return lt.where((acc > row) & (acc != column) | ~(acc < column), acc, column)


def an_operand(acc: Any, c: lt.Full) -> Any:
    return c


@pytest.mark.parametrize("d", ["bf16", "f32"])
@pytest.mark.parametrize("epilogue", [None, with_conditions, an_operand])
def test_what_the_compiler_writes_of_an_epilogue_is_understood(epilogue: Any, d: str) -> None:
    """`expected` holds the float64 reference, and no interval is wide where nothing is uncertain."""
    spec = lt.GemmSpec(m=24, n=40, k=16, a="bf16", b="bf16", d=d, epilogue=epilogue)
    manifest = lt.compile_gemm(spec, "sm_80").manifest
    held, exact = random_operands(manifest, np.random.default_rng(3))
    inputs = {name: array.values() for name, array in held.items()}
    (value, low, high), _ = expected(manifest, held, exact, np.arange(24))
    reference, bound = lt.reference_with_bound(spec, **inputs)
    rounded = round_to(reference, d)
    assert ((low <= rounded) & (rounded <= high)).all()
    assert (np.abs(value - reference) <= bound).all()
    assert ((high - low) < 0.1).mean() > 0.9


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("arith.andi", {"TT": "T", "TF": "F", "T?": "?", "FF": "F", "F?": "F", "??": "?"}),
        ("arith.ori", {"TT": "T", "TF": "T", "T?": "T", "FF": "F", "F?": "?", "??": "?"}),
        ("arith.xori", {"TT": "F", "TF": "T", "T?": "?", "FF": "F", "F?": "?", "??": "?"}),
    ],
)
def test_a_condition_of_conditions_is_as_certain_as_they_are(name: str, table: Mapping[str, str]) -> None:
    """True, false, or not known: 10 > 1, 1 > 10, and x > 1 for an x in [0, 2]. The selection shows what follows."""
    x = (np.array([0.5]), np.array([0.0]), np.array([2.0]))
    pairs = {"T": ["ten", "one"], "F": ["one", "ten"], "?": ["x", "one"]}
    outcomes = {"T": (10.0, 10.0), "F": (1.0, 1.0), "?": (1.0, 10.0)}
    for kinds, wanted in table.items():
        for first, second in (kinds, kinds[::-1]):
            ops = [
                op("arith.constant", ["one"], [], value=1.0),
                op("arith.constant", ["ten"], [], value=10.0),
                op("arith.cmpf", ["p"], pairs[first], predicate="ogt"),
                op("arith.cmpf", ["q"], pairs[second], predicate="ogt"),
                op(name, ["t"], ["p", "q"]),
                op("arith.select", ["y"], ["t", "ten", "one"]),
            ]
            (_, low, high), _ = evaluate({"accumulator": "x", "ops": ops, "result": "y"}, x, {}, "f32")
            assert (low.item(), high.item()) == outcomes[wanted], (first, second)


def test_a_run_time_extent_needs_an_example(install_driver: Any) -> None:
    manifest = sample_manifest()
    del manifest["example"]["n"]
    with pytest.raises(LoadError, match=r"example.n is None.*\[example-extent\]"):
        verify(install_driver, gemm("bf16", in_f32), manifest)


def test_nan_is_right_where_an_interval_is_infinite_and_wrong_elsewhere() -> None:
    interval = (np.array([[1.0, 1.0]]), np.array([[0.0, 0.5]]), np.array([[np.inf, 1.5]]))
    rows = np.arange(1)
    assert compare(np.array([[np.nan, 1.0]]), interval, 0.5, rows)[1] == ""
    assert "1 elements out of bound" in compare(np.array([[np.nan, np.nan]]), interval, 0.5, rows)[1]
    assert "1 elements out of bound" in compare(np.array([[np.nan, 2.0]]), interval, 0.5, rows)[1]


def test_where_no_interval_is_finite_there_is_no_verdict() -> None:
    interval = (np.array([[1.0]]), np.array([[0.0]]), np.array([[np.inf]]))
    assert "none of 1 elements can be judged" in compare(np.array([[1.0]]), interval, 0.5, np.arange(1))[1]


def test_rows_are_sampled_only_when_the_product_is_large(install_driver: Any) -> None:
    manifest = sample_manifest()
    manifest["example"] = {"m": 3000, "n": 600, "k": 601}
    outcome = verify(install_driver, gemm("bf16", in_f32), manifest, seed=8, most_rows=16)
    assert (outcome.ok, outcome.rows) == (True, 16)
    wrong = verify(install_driver, gemm("bf16", in_f32, "last row unwritten"), manifest, seed=8, most_rows=16)
    assert not wrong.ok


def test_the_command_prints_a_line_a_kernel_and_fails_if_one_does(
    install_driver: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = install_driver(FakeDriver(types=GEMM_TYPES))
    other_manifest = sample_manifest(target="sm_90a")
    good = str(runtime.save(tmp_path / "good", sample_manifest(), PTX, None))
    other = str(runtime.save(tmp_path / "other", other_manifest, ptx_of(other_manifest), None))
    fake.kernel = gemm("bf16", in_f32)
    assert command.main(["verify", good]) == 0
    text = capsys.readouterr().out
    assert f"ok   {good}: bf16 tn 70x45x33, Fake GPU, ptx for sm_80, error/bound 0." in text
    assert "1 of 1 kernels verified (seed" in text
    assert command.main(["verify", good, other, str(tmp_path / "none"), "--seed", "3"]) == 1
    text = capsys.readouterr().out
    assert f"FAIL {other}: kernel gemm was compiled for sm_90a" in text
    assert "none: no such directory" in text
    assert "1 of 3 kernels verified (seed 3)" in text
    fake.kernel = gemm("bf16", in_f32, "one wrong element")
    assert command.main(["verify", good]) == 1
    assert "out of bound" in capsys.readouterr().out


def test_run_time_extents_are_verified_at_the_sizes_given(
    install_driver: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = install_driver(FakeDriver(types=GEMM_TYPES))
    fake.kernel = gemm("bf16", in_f32)
    path = str(runtime.save(tmp_path / "k", sample_manifest(), PTX, None))
    assert command.main(["verify", path, "--size", "3x4x8", "--size", "20x10x16"]) == 0
    text = capsys.readouterr().out
    assert "bf16 tn 3x4x8," in text and "bf16 tn 20x10x16," in text and "1 of 1 kernels verified" in text
    manifest = sample_manifest()
    manifest["spec"] = {**manifest["spec"], "k": 64}
    with pytest.raises(
        LoadError, match=r"size: k = 8, but the kernel is compiled for 64; give that.*\[size-compiled\]"
    ):
        at_size(manifest, (3, 4, 8))
    for wrong in ("3x4", "3x4x0", "axbxc"):
        with pytest.raises(SystemExit):
            command.main(["verify", path, "--size", wrong])
        assert f"'{wrong}' is not M, N and K" in capsys.readouterr().err


def test_a_kernel_that_hangs_ends_the_process(
    install_driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = install_driver(FakeDriver(types=GEMM_TYPES))
    ended = threading.Event()
    status: list[int] = []

    def leave(code: int) -> None:
        status.append(code)
        ended.set()

    monkeypatch.setattr(command.os, "_exit", leave)
    fake.kernel = lambda values: assert_true(ended.wait(20))
    path = str(runtime.save(tmp_path / "k", sample_manifest(), PTX, None))
    assert command.main(["verify", path, "--timeout", "0.05"]) == 1
    assert status == [3]
    assert "did not end within 0.05 s" in capsys.readouterr().out


def assert_true(value: bool) -> None:
    assert value


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_rounding_agrees_with_numpys_casts(dtype: str) -> None:
    kind = STORED[dtype]
    rng = np.random.default_rng(0)
    values = rng.standard_normal(4000) * 2.0 ** rng.integers(-40 if dtype == "f16" else -155, 20, 4000)
    with np.errstate(over="ignore"):
        assert (round_to(values, dtype) == values.astype(kind).astype(np.float64)).all()


def test_bf16_rounding_is_to_nearest_even_with_subnormals_and_overflow() -> None:
    values = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-40, 3.39e38, 3.4e38, 2.0**-133, 2.0**-134])
    expected = [1.0, 1 + 2.0**-6, 1 + 2.0**-7, struct.unpack("f", b"\0\0\x7f\x7f")[0], np.inf, 2.0**-133, 0.0]
    assert round_to(values, "bf16").tolist() == expected
    assert from_bits(to_bits(values, "bf16"), "bf16").tolist() == expected
    assert np.isnan(from_bits(to_bits(np.array([np.nan]), "bf16"), "bf16")).all()


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("math.exp", np.exp),
        ("math.tanh", np.tanh),
        ("math.sqrt", np.sqrt),
        ("math.absf", np.abs),
        ("arith.negf", np.negative),
    ],
)
def test_intervals_hold_what_the_function_gives_anywhere_inside(name: str, function: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(1)
    center, radius = rng.uniform(0.5, 3, 500), 0.4
    if name == "math.absf":
        center -= 1.5
    program = {"accumulator": "x", "ops": [op(name, ["y"], ["x"])], "result": "y"}
    (value, low, high), _ = evaluate(program, (center, center - radius, center + radius), {}, "f32")
    assert np.allclose(value, function(center))
    for t in np.linspace(-0.999, 0.999, 21):
        inside = function((center + t * radius).astype(np.float32))
        assert ((low <= inside) & (inside <= high)).all()
    assert (high - low < 3 * np.exp(3.5)).all()


@pytest.mark.parametrize("predicate", ["olt", "ole", "ogt", "oge", "ult", "oeq", "une"])
def test_a_selection_takes_both_sides_only_where_the_predicate_is_uncertain(predicate: str) -> None:
    program = {
        "accumulator": "x",
        "ops": [
            op("arith.constant", ["c"], [], value=1.0),
            op("arith.constant", ["p"], [], value=10.0),
            op("arith.constant", ["q"], [], value=20.0),
            op("arith.cmpf", ["t"], ["x", "c"], predicate=predicate),
            op("arith.select", ["y"], ["t", "p", "q"]),
        ],
        "result": "y",
    }
    x = (np.array([0.0, 1.1, 2.0]), np.array([-0.5, 0.9, 1.5]), np.array([0.5, 1.3, 2.5]))
    value, low, high = (np.broadcast_to(v, 3).tolist() for v in evaluate(program, x, {}, "f32")[0])
    holds = {"lt": [1, 0, 0], "le": [1, 0, 0], "gt": [0, 1, 1], "ge": [0, 1, 1], "eq": [0, 0, 0], "ne": [1, 1, 1]}
    assert value == [10.0 if h else 20.0 for h in holds[predicate[1:]]]
    assert (low[1], high[1]) == (10.0, 20.0)
    assert (low[0], low[2]) == (high[0], high[2]) == (value[0], value[2])


def test_a_quotient_by_an_interval_around_zero_has_no_bound() -> None:
    program = {
        "accumulator": "x",
        "ops": [op("arith.constant", ["c"], [], value=1.0), op("arith.divf", ["y"], ["c", "x"])],
        "result": "y",
    }
    x = (np.array([0.1, 4.0]), np.array([-0.1, 3.9]), np.array([0.3, 4.1]))
    (_, low, high), _ = evaluate(program, x, {}, "f32")
    assert (low[0], high[0]) == (-np.inf, np.inf)
    assert 0.24 < low[1] < 0.25 < high[1] < 0.26


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([op("math.sin", ["y"], ["x"])], r"unknown op math.sin.*\[program-op\]"),
        ([op("arith.addf", ["y"], ["x", "z"])], r"undefined value 'z'.*\[program-value\]"),
        ([op("arith.extf", ["z"], ["x"])], r"its result 'y' is not defined.*\[program-result\]"),
        ([op("arith.truncf", ["y"], ["x"], type="f8")], r"truncf to 'f8'.*\[program-cast\]"),
        ([op("arith.cmpf", ["y"], ["x", "x"], predicate="ord")], r"predicate 'ord'.*\[program-predicate\]"),
    ],
)
def test_programs_that_are_not_known_are_refused(ops: list[Any], message: str) -> None:
    x = np.ones((1, 1))
    with pytest.raises(LoadError, match=message):
        evaluate({"accumulator": "x", "ops": ops, "result": "y"}, (x, x, x), {}, "f32")
