"""A product with a second full result, `pre` beside D, said in IR: each level gives both, through every path."""

import re

import numpy as np
import pytest

import lowtide as lt
from lowtide import runtime
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.errors import InterpreterError, LoadError
from lowtide.interpreter import interpret
from lowtide.runtime.verify import random_operands, verify_kernel
from lowtide.targets import get


def _relu(acc, bias: lt.PerColumn):
    return lt.relu(acc + bias)


def _sum(acc, bias: lt.PerColumn):
    return acc + bias


def _problem(target: str, schedule: str, **fields) -> str:
    """The module of `_relu`, with `pre`, the sum before it, beside D."""
    spec = lt.GemmSpec(**{"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": _relu} | fields)
    text = problem_text(spec, get(target), lt.Schedule.parse(schedule))
    d = re.search(r"%arg2: (memref<.*?>>) \{tile.name = \"d\"\}", text)
    assert d is not None
    edits = (
        (re.escape(d[0]), f'{d[0]}, %pre: {d[1]} {{tile.name = "pre"}}'),
        (r"into %arg2 ", "into (%arg2, %pre) "),
        (r"into \(%arg2, amax (%\w+)\)", r"into (%arg2, amax \1, %pre)"),
        (r"(tile.yield %\w+(?:, %\w+)?) : (.*)", r"%q = arith.truncf %1 : f32 to bf16\n\1, %q : \2, bf16"),
        (r"(    \} : .*)\n", rf"\1, {d[1]}\n"),
    )
    for pattern, written in edits:
        text = re.sub(pattern, written, text)
    if "amax" in text:  # results come first among the arguments
        text = re.sub(r"(, %pre: memref<.*?>> \{.*?\})(, %arg3: memref<1xf32> \{.*?\})", r"\2\1", text)
    return text


def test_a_spec_says_one_full_result():
    with make_context() as context:
        module = parse_text(_problem("sm_80", "grid.tile = [64, 64]"), context, "<problem>")
        with pytest.raises(lt.SpecError, match=r"one full result.*\[spec-full-results\]"):
            spec_of(module)


# By name: target, schedule, fields, levels.
CASES = {
    "through shared memory": ("sm_80", "grid.tile = [64, 64]", {}, None),
    "by rows, in parts": (
        "sm_80",
        "grid.tile = [64, 64], epilogue.math = rows, epilogue.tile = [32, 64]",
        {},
        ("epilogue", "ptx"),
    ),
    "from fragments": ("sm_80", "grid.tile = [64, 64], epilogue.path = direct", {}, ("epilogue", "ptx")),
    "by TMA": (
        "sm_90a",
        "grid.tile = [64, 64], roles = cooperative(1), epilogue.path = tma, epilogue.tile = [64, 32]",
        {"n": 72},
        ("cta", "epilogue", "nvvm", "ptx"),
    ),
    "swapped": ("sm_80", "grid.tile = [64, 64], grid.operands = swapped", {}, ("problem", "cta", "ptx")),
    "a batch": ("sm_80", "grid.tile = [64, 64]", {"batch": 2}, ("problem", "cta", "ptx")),
    "K in parts": ("sm_80", "grid.tile = [64, 64], k = 16, k_division = split(3)", {}, ("cta", "ptx")),
    "packed": ("sm_90a", "grid.tile = [64, 64], epilogue.pack = rows", {}, ("problem", "cta", "ptx")),
    "with an amax between": ("sm_80", "grid.tile = [64, 64]", {"amax": True}, ("problem", "cta", "nvvm", "ptx")),
}


@pytest.mark.parametrize("name", CASES)
def test_every_level_gives_both_results(name):
    target, schedule, fields, levels = CASES[name]
    kernel = lt.compile_ir(_problem(target, schedule, **fields))
    batch, has_amax, rng = fields.get("batch", ()), "amax" in fields, np.random.default_rng(0)
    outer = (batch,) if batch else ()
    a, b, bias = (rng.integers(-3, 4, shape) for shape in ((*outer, 70, 40), (*outer, 72, 40), 72))
    before = a @ b.swapaxes(-1, -2) + bias
    for level in levels or kernel.levels:
        pre, amax = np.zeros((*outer, 70, 72), np.int64), np.full(1, 1e9, np.float32)
        others = {"bias": bias, "pre": pre} | ({"amax": amax} if has_amax else {})
        d = kernel.interpret(a, b, **others, level=level, domain="exact")
        assert np.array_equal(pre, before) and np.array_equal(d, np.maximum(before, 0)), level
        assert not has_amax or amax[0] == np.maximum(before, 0).max(), level


def _inputs(batch: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
    shapes = {"a": (*batch, 70, 40), "b": (*batch, 72, 40), "d": (*batch, 70, 72), "pre": (*batch, 70, 72)}
    return {name: np.ones(shape, np.int64) for name, shape in shapes.items()} | {"bias": np.ones(72, np.int64)}


def test_a_result_of_integers_takes_wide_integers_and_floats_keep_their_type():
    text = problem_text(lt.GemmSpec(a="s8", b="s8", d="s32", acc="s32"), get("sm_80"), lt.Schedule())
    memref = "memref<?x?xi32, strided<[?, 1]>>"
    for old, new in (
        ('{tile.name = "d"}', f'{{tile.name = "d"}}, %pre: {memref} {{tile.name = "pre"}}'),
        ("into %arg2", "into (%arg2, %pre)"),
        ("tile.yield %acc : i32", "tile.yield %acc, %acc : i32, i32"),
        (f", {memref}\n", f", {memref}, {memref}\n"),
    ):
        text = text.replace(old, new)
    given = _inputs() | {"a": np.ones((70, 40), np.int8), "b": np.ones((72, 40), np.int8)}
    del given["bias"]
    d = interpret(text, given, domain="exact")
    assert (d == 40).all() and np.array_equal(given["pre"], d)
    with pytest.raises(InterpreterError, match=r"operand pre: .*\[array-dtype\]"):
        interpret(_problem("sm_80", "grid.tile = [64, 64]"), _inputs() | {"pre": np.zeros((70, 72))}, domain="exact")


def test_a_batch_shares_no_result():
    text = _problem("sm_80", "grid.tile = [64, 64]", batch=2)
    with pytest.raises(InterpreterError, match=r"operand pre: .*must have rank 3: .*\[matrix-rank\]"):
        interpret(text, _inputs((2,)) | {"pre": np.zeros((70, 72), np.int64)}, domain="exact")


@pytest.mark.parametrize("name", ["a", "bias", "d"])
def test_a_result_lies_apart_from_inputs_and_results(name):
    given = _inputs()
    memory = np.ones(70 * 72, np.int64)
    given |= {"pre": memory.reshape(70, 72), name: memory[: given[name].size].reshape(given[name].shape)}
    with pytest.raises(InterpreterError, match=rf"overlaps (input {name}|output pre),.*\[output-overlaps-input\]"):
        interpret(_problem("sm_80", "grid.tile = [64, 64]"), given, domain="exact")


def test_a_saved_kernel_shares_no_result_and_is_not_verified_by_d_alone():
    kernel = lt.compile_ir(_problem("sm_80", "grid.tile = [64, 64]", batch=3))
    for seed in range(16):
        operands, _ = random_operands(kernel.manifest, np.random.default_rng(seed))
        assert len(operands["pre"].shape) == 3
    with pytest.raises(LoadError, match=r"epilogue_program gives only D.*\[several-full-outputs\]"):
        verify_kernel(runtime.Kernel(kernel.manifest, kernel.ptx, None))
