"""Several full results, by name and with types of their own: each level gives all of them, through every path."""

import re

import numpy as np
import pytest

import lowtide as lt
from lowtide import runtime
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.errors import InterpreterError, LoadError
from lowtide.interpreter import interpret
from lowtide.runtime.verify import random_operands, verify_kernel
from lowtide.targets import get


def _with_pre(acc, bias: lt.PerColumn):
    pre = acc + bias
    return {"pre": pre, "d": lt.relu(pre)}


def _with_sums(acc, bias: lt.PerColumn, c: lt.Full):
    pre = acc + bias + c
    return {"d": lt.relu(pre), "pre": pre, "twice": pre + pre}


def _spec(**fields) -> lt.GemmSpec:
    return lt.GemmSpec(**{"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": _with_pre} | fields)


_TMA = "roles = cooperative(1), epilogue.path = tma"
_F32 = {"result_types": {"pre": "f32"}}

# By name: target, schedule, fields, levels (None: all).
CASES = {
    "one type, through shared memory": ("sm_80", "grid.tile = [64, 64]", {}, ("ptx",)),
    "two types, through shared memory": ("sm_80", "grid.tile = [64, 64]", _F32, None),
    "from fragments": ("sm_80", "grid.tile = [64, 64], epilogue.path = direct", _F32, ("ptx",)),
    "narrow stores": ("sm_80", "grid.tile = [64, 64], epilogue.store = 4", _F32, ("ptx",)),
    "three, beside a full operand": (
        "sm_80",
        "grid.tile = [64, 64], epilogue.tile = [32, 64]",
        {"epilogue": _with_sums, "result_types": {"twice": "f32"}},
        ("ptx",),
    ),
    "one type, by TMA": ("sm_90a", f"grid.tile = [64, 64], {_TMA}", {"n": 72}, ("ptx",)),
    "two types, by TMA, with a narrow part": (
        "sm_90a",
        f"grid.tile = [64, 96], {_TMA}, epilogue.tile = [64, 64]",
        {"n": 72} | _F32,
        None,
    ),
    "two types, by TMA from two buffers each": (
        "sm_90a",
        f"grid.tile = [64, 64], {_TMA}, epilogue.tile = [64, 32], epilogue.buffers = 2",
        {"n": 72} | _F32,
        ("ptx",),
    ),
    "the wide type first, by TMA": (
        "sm_90a",
        f"grid.tile = [64, 64], {_TMA}",
        {"n": 72, "d": "f32", "result_types": {"d": "f16"}},
        ("ptx",),
    ),
    "swapped": (
        "sm_90a",
        f"grid.tile = [64, 64], {_TMA}, grid.operands = swapped",
        {"m": 72, "result_types": {"pre": "f16"}},
        ("cta", "ptx"),
    ),
    "a batch": ("sm_90a", f"grid.tile = [64, 64], {_TMA}", {"n": 72, "batch": 2} | _F32, ("ptx",)),
    "K in parts": ("sm_80", "grid.tile = [64, 64], k = 16, k_division = split(3)", _F32, ("ptx",)),
    "shares of columns": (
        "sm_90a",
        "grid.tile = [64, 64], roles = cooperative(1), k = 16, k_division = scatter(2)",
        {"n": 72, "k": 40} | _F32,
        ("ptx",),
    ),
    "packed": ("sm_90a", "grid.tile = [64, 64], epilogue.pack = rows", _F32, ("ptx",)),
    "with an amax": ("sm_80", "grid.tile = [64, 64]", {"amax": True} | _F32, ("cta", "ptx")),
    "8-bit floats": ("sm_90a", "grid.tile = [64, 64]", {"result_types": {"pre": "e4m3"}}, ("ptx",)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_level_gives_all_results(name):
    target, schedule, fields, levels = CASES[name]
    kernel = lt.compile_gemm(_spec(**fields), target=target, schedule=schedule)
    m, rng = fields.get("m", 70), np.random.default_rng(0)
    outer = (fields["batch"],) if "batch" in fields else ()
    a, b = (rng.integers(-3, 4, (*outer, rows, 40)) for rows in (m, 72))
    operands = {"bias": rng.integers(-3, 4, 72)}
    before = a @ b.swapaxes(-1, -2) + operands["bias"]
    if fields.get("epilogue") is _with_sums:
        operands["c"] = rng.integers(-3, 4, (m, 72))
        before = before + operands["c"]
    expected = {"d": np.maximum(before, 0), "pre": before, "twice": 2 * before}
    if "amax" in fields:
        operands["amax"] = np.full(1, 1e9, np.float32)
    for level in levels or kernel.levels:
        found = kernel.interpret(a, b, **operands, level=level, domain="exact")
        assert all(np.array_equal(values, expected[result]) for result, values in found.items()), level
        assert "amax" not in fields or operands["amax"][0] == np.abs(before).max(), level


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_open_extents_of_any_size(target):
    kernel = lt.compile_gemm(_spec(**_F32), target=target, schedule="grid.tile = [64, 64]")
    rng = np.random.default_rng(1)
    for m, n, k in ((1, 1, 1), (65, 9, 3), (8, 16, 0), (0, 16, 8)):
        a, b, bias = (rng.integers(-3, 4, shape) for shape in ((m, k), (n, k), n))
        for level in ("ptx",):
            found = kernel.interpret(a, b, bias=bias, level=level, domain="exact")
            before = a @ b.T + bias
            assert np.array_equal(found["pre"], before) and np.array_equal(found["d"], np.maximum(before, 0))


def test_pairs_of_results_that_few_lanes_store_are_exchanged_outside_of_branches():
    """All lanes of a warp execute `sm.ptx_keep_pair`, so LLVM must not copy it into both sides of a branch."""
    kernel = lt.compile_gemm(_spec(m=1, n=3, k=16), target="sm_90a")
    a, b, bias = np.ones((1, 16), np.int64), np.ones((3, 16), np.int64), np.arange(3)
    found = kernel.interpret(a, b, bias=bias, level="ptx", domain="exact")
    assert "shfl.sync" in kernel.ptx and found["pre"].tolist() == [[16, 17, 18]]


def test_results_are_written_to_halves_of_one_matrix():
    kernel = lt.compile_gemm(_spec(), target="sm_80", schedule="grid.tile = [64, 64]")
    rng = np.random.default_rng(2)
    a, b, bias = (rng.integers(-3, 4, shape).astype(numpy_dtype("bf16")) for shape in _SHAPES)
    whole = np.zeros((70, 144), a.dtype)
    out = {"pre": whole[:, :72], "d": whole[:, 72:]}
    found = kernel.interpret(a, b, bias=bias, out=out)
    assert all(found[name] is out[name] for name in out)
    before = a.astype(np.float32) @ b.astype(np.float32).T + bias.astype(np.float32)
    assert np.array_equal(whole.astype(np.float32), np.hstack([before, np.maximum(before, 0)]))
    with pytest.raises(InterpreterError, match=r"overlaps output .*\[output-overlaps-input\]"):
        kernel.interpret(a, b, bias=bias, out={"pre": whole[:, :72], "d": whole[:, 71:143]})


_SHAPES = ((70, 40), (72, 40), 72)


def test_outputs_that_the_kernel_does_not_give_are_refused():
    kernel = lt.compile_gemm(_spec(), target="sm_80", schedule="grid.tile = [64, 64]")
    a, b, bias = (np.ones(shape, np.int64) for shape in _SHAPES)
    for out, code in (({"post": a}, "out-names"), (a, "out-by-name"), ({"pre": 3}, "out-numpy")):
        with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
            kernel.interpret(a, b, bias=bias, out=out, domain="exact")


def _inputs(batch: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
    shapes = {"a": (*batch, 70, 40), "b": (*batch, 72, 40), "d": (*batch, 70, 72), "pre": (*batch, 70, 72)}
    return {name: np.ones(shape, np.int64) for name, shape in shapes.items()} | {"bias": np.ones(72, np.int64)}


def _problem(**fields) -> str:
    return problem_text(_spec(**fields), get("sm_80"), lt.Schedule.parse("grid.tile = [64, 64]"))


def test_a_result_of_integers_takes_wide_integers_and_floats_keep_their_type():
    spec = lt.GemmSpec(a="s8", b="s8", d="s32", acc="s32", epilogue=lambda acc: {"d": acc, "pre": acc})
    given = _inputs() | {"a": np.ones((70, 40), np.int8), "b": np.ones((72, 40), np.int8)}
    del given["bias"]
    found = interpret(problem_text(spec, get("sm_80"), lt.Schedule()), given, domain="exact")
    assert (found["d"] == 40).all() and np.array_equal(given["pre"], found["d"])
    with pytest.raises(InterpreterError, match=r"operand d: .*\[array-dtype\]"):
        interpret(_problem(), _inputs() | {"d": np.zeros((70, 72))}, domain="exact")


def test_a_batch_shares_no_result():
    with pytest.raises(InterpreterError, match=r"operand pre: .*must have rank 3: .*\[matrix-rank\]"):
        interpret(_problem(batch=2), _inputs((2,)) | {"pre": np.zeros((70, 72), np.int64)}, domain="exact")


@pytest.mark.parametrize("name", ["a", "bias", "d"])
def test_a_result_lies_apart_from_inputs_and_results(name):
    given = _inputs()
    memory = np.ones(70 * 72, np.int64)
    given |= {"pre": memory.reshape(70, 72), name: memory[: given[name].size].reshape(given[name].shape)}
    with pytest.raises(InterpreterError, match=rf"overlaps (input {name}|output (d|pre)),.*\[output-overlaps-input\]"):
        interpret(_problem(), given, domain="exact")


def test_a_module_without_full_results_is_no_spec():
    text = problem_text(lt.GemmSpec(a="bf16", b="bf16", d="bf16", amax=True), get("sm_80"))
    for pattern, written in (
        (r"into \(%arg2, (amax %\w+)\)", r"into \1"),
        (r"tile.yield %\w+, (%\w+) : bf16, f32", r"tile.yield \1 : f32"),
        (r"memref<[^<]*<\[\?, 1\]>>, memref<1xf32>\n", "memref<1xf32>\n"),
    ):
        text, count = re.subn(pattern, written, text)
        assert count == 1
    with make_context() as context, pytest.raises(lt.ScheduleError, match=r"\[no-full-result\]"):
        spec_of(parse_text(text, context, "<problem>"))


def test_a_saved_kernel_shares_no_result_and_says_how_each_is_computed():
    kernel = lt.compile_gemm(_spec(batch=3), target="sm_80", schedule="grid.tile = [64, 64]")
    for seed in range(16):
        operands, _ = random_operands(kernel.manifest, np.random.default_rng(seed))
        assert {*operands} == {"a", "b", "bias"}
    program = {**kernel.manifest["epilogue_program"]}
    assert program.pop("others")
    broken = runtime.Kernel({**kernel.manifest, "epilogue_program": program}, kernel.ptx, None)
    with pytest.raises(LoadError, match=r"2 full outputs, but epilogue_program gives 1.*\[program-results\]"):
        verify_kernel(broken)


def test_a_store_that_is_left_out_or_goes_to_another_result_is_found():
    kernel = lt.compile_gemm(_spec(m=70, n=72, k=40), target="sm_80", schedule="grid.tile = [64, 64]")
    text, rng = kernel.levels["epilogue"], np.random.default_rng(3)
    inputs = {name: rng.integers(-3, 4, shape) for name, shape in zip(("a", "b", "bias"), _SHAPES, strict=True)}
    first, second = re.findall(r"(%\w+) = tile.view %(?:D|arg0)\[%m, %n\]", text)
    assert list(interpret(text, inputs, domain="exact")) == ["pre", "d"]
    to_other = text.replace(f"{first} = tile.view %D[", f"{first} = tile.view %arg0[")
    left_out = "\n".join(line for line in text.splitlines() if f"to {second} by" not in line)
    for planted, name in ((to_other, "pre"), (left_out, "D")):
        assert planted != text
        with pytest.raises(InterpreterError, match=rf"{name}\[0, 0\] was never written.*\[d-unwritten\]"):
            interpret(planted, inputs, domain="exact")
