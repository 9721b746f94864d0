"""The amax of D in specs, manifests, and the check of a kernel that was run."""

import re
from pathlib import Path

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.runtime import verify
from lowtide.runtime.dtypes import from_bits, to_bits
from lowtide.runtime.operands import Operand
from lowtide.targets import get


def scaled(acc, amax: lt.Scalar):
    return acc * amax


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"a": "f64", "b": "f64", "d": "f64", "acc": "f64"},
            r"amax=True with f64 accumulators: an amax is f32.*\[amax-type\]",
        ),
        ({"epilogue": scaled}, r"'amax' has the name of a result: rename it.*\[result-name\]"),
    ],
    ids=["f64", "its name"],
)
def test_what_has_no_amax_is_refused(fields, message):
    with pytest.raises(lt.SpecError, match=message):
        lt.GemmSpec(**{"a": "bf16", "b": "bf16", "d": "bf16", "amax": True} | fields)


@pytest.fixture(scope="module", params=["f16", "e4m3"])
def kernel(request, tmp_path_factory):
    spec = lt.GemmSpec(a="e4m3", b="e4m3", d=request.param, amax=True)
    folder: Path = tmp_path_factory.mktemp("amax") / "kernel"
    lt.compile_gemm(spec, target="sm_90a", schedule="grid.tile = [64, 64]").save(folder)
    return lt.runtime.load(folder)


def test_a_saved_kernel_takes_one_f32_and_checks_it_by_d(kernel):
    (argument,) = (each for each in kernel.manifest["arguments"] if each["kind"] == "amax")
    assert (argument["name"], argument["shape"], argument["dtype"]) == ("amax", [1], "f32")
    operands, _ = verify.random_operands(kernel.manifest, np.random.default_rng(0))
    dtype = kernel.manifest["spec"]["d"]
    before = np.array([[1.25, -1000.3], [7.0, 0.0]])
    d = from_bits(to_bits(np.clip(before, -448, 448) if dtype == "e4m3" else before, dtype), dtype)
    for amax, is_right in ((1000.3, True), (999.0, dtype == "e4m3"), (7.0, False), (np.nan, False)):
        operands["amax"].elements()[0, 0] = to_bits(np.array([amax]), "f32")[0]
        message = verify.check_others(kernel.manifest, operands, d)
        assert (message == "") == is_right, (amax, message)
    operands["amax"].elements()[0, 0] = to_bits(np.array([np.nan]), "f32")[0]
    assert verify.check_others(kernel.manifest, operands, np.array([[np.nan, 1.0]])) == ""


def test_d_is_judged_by_its_own_value_where_an_amax_comes_first():
    text = problem_text(lt.GemmSpec(a="bf16", b="bf16", d="f16", amax=True), get("sm_80"), lt.Schedule())
    edits = (
        (r"(, %arg2: memref<.*?>> \{.*?\})(, %arg3: memref<.*?> \{.*?\})", r"\2\1"),
        (r"into \(%arg2, amax %arg3\)", "into (amax %arg3, %arg2)"),
        (r"tile.yield (%\w+), (%\w+) : (\w+), (\w+)", r"tile.yield \2, \1 : \4, \3"),
        (r"(    \} : .*), (memref<.*?>), (memref<1xf32>)\n", r"\1, \3, \2\n"),
    )
    turned = text
    for pattern, written in edits:
        turned = re.sub(pattern, written, turned)
    found, wanted = (lt.compile_ir(each).manifest["epilogue_program"] for each in (turned, text))
    assert turned != text and found == wanted and found["result"] != found["accumulator"]


@pytest.mark.parametrize("d", ["s32", "s8", "f32", "bf16"])
def test_the_problem_of_an_amax_of_integers_is_read_back(d):
    spec = lt.GemmSpec(a="s8", b="s8", d=d, acc="s32", amax=True)
    with make_context() as context:
        found = spec_of(parse_text(problem_text(spec, get("sm_80")), context, "<problem>"))
    assert found.whole and found.spec.amax and (found.spec.d, found.spec.acc) == (d, "s32")


def _operand(shape: tuple[int, ...], dtype: str, read_only: bool = False) -> Operand:
    strides = (shape[-1], 1) if len(shape) > 1 else (1,)
    return Operand(address=256, shape=shape, strides=strides, dtype=dtype, device=0, read_only=read_only)


@pytest.mark.parametrize(
    ("m", "read_only", "message"),
    [
        (0, False, r"\[results-of-nothing\]"),
        (64, True, r"amax.*\[output-read-only\]"),
    ],
)
def test_a_call_that_cannot_set_its_amax_is_refused(kernel, m, read_only, message):
    d = kernel.manifest["spec"]["d"]
    operands = {"a": _operand((m, 128), "e4m3"), "b": _operand((64, 128), "e4m3"), "d": _operand((m, 64), d)}
    with pytest.raises(lt.LaunchError, match=message):
        kernel.prepare(operands | {"amax": _operand((1,), "f32", read_only)}, {})


def test_a_check_judges_the_amax_too():
    spec = lt.GemmSpec(a="bf16", b="bf16", d="f16", amax=True)
    schedule = "grid.tile = [32, 32], k = 32, stages = 2, order = row, pack = none"
    text = lt.compile_gemm(spec, target="sm_80", schedule=schedule).levels["atoms"]
    assert lt.check(lt.compile_ir(text), budget=0.5, jobs=1).ok
    twice = re.sub(r"( *)(tile\.yield %\S+,) %acc : f16", r"\1%z = arith.addf %acc, %acc : f32\n\1\2 %z : f16", text)
    assert twice != text and not lt.check(lt.compile_ir(twice), budget=0.5, jobs=1).ok
