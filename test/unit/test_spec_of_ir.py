"""The problem read back off IR is the one that was compiled, at every level that still says it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide import targets
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import lower
from lowtide.compiler.epilogue.ready import READY, ready_epilogue
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec_of_ir import FoundProblem, spec_of
from lowtide.errors import IRError, SpecError

Epilogue = Callable[..., Any]


def every_op(acc: Any, c: lt.Full, r: lt.PerRow, s: lt.Scalar) -> Any:
    x = lt.cast(acc * s, "bf16") - 2.0
    chosen = lt.where((x > 0) & ~(x >= c) | (x != r) & (x < 3.0) | (x <= r) | (x == 0), lt.exp(-x), lt.erf(c) / 3.0)
    return lt.maximum(chosen, -lt.tanh(r)) + lt.silu(c) - lt.minimum(x, lt.log(x * x + 1))


def found_in(text: str) -> FoundProblem:
    return spec_of(parse_text(text, make_context(), "<text>"))


def spec_with(epilogue: Epilogue | None, acc: str = "f32", dtype: str = "bf16") -> lt.GemmSpec:
    return lt.GemmSpec(m=20, n=None, k=40, a=dtype, b=dtype, d=dtype, acc=acc, layout="nt", epilogue=epilogue)


@pytest.mark.parametrize("acc", ["f32", "f16"])
@pytest.mark.parametrize("epilogue", [*READY.values(), every_op], ids=[*READY, "every_op"])
def test_the_problem_of_ir_gives_the_same_reference_and_bound(epilogue: Epilogue | None, acc: str) -> None:
    spec = spec_with(epilogue, acc, "bf16" if acc == "f32" else "f16")
    found = found_in(problem_text(spec, targets.get("sm_80")))
    assert found.whole
    for field in ("m", "n", "k", "a", "b", "d", "acc", "layout", "operands"):
        assert getattr(found.spec, field) == getattr(spec, field)
    inputs = lt.random_inputs(spec, None, 36, None, np.random.default_rng(0))
    value, bound = lt.reference_with_bound(spec, **inputs)
    found_value, found_bound = lt.reference_with_bound(found.spec, **inputs)
    # In IR the constants are f32.
    for name in value if isinstance(value, dict) else (...,):
        np.testing.assert_allclose(found_value[name], value[name], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found_bound[name], bound[name], rtol=1e-3, atol=1e-6)


def test_the_epilogue_is_whole_down_to_level_atoms() -> None:
    levels = lower(problem_text(spec_with(READY["residual"]), targets.get("sm_80")), until="llvm").levels
    whole = {level: found_in(text).whole for level, text in levels.items()}
    assert whole == {level: level not in ("epilogue", "nvvm", "llvm") for level in levels}
    for text in levels.values():
        spec = found_in(text).spec
        assert (spec.m, spec.n, spec.k, spec.layout) == (20, None, 40, "nt")
        assert [operand.name for operand in spec.operands] == ["bias", "residual"]


def test_an_edited_epilogue_changes_the_reference() -> None:
    text = problem_text(spec_with(READY["bias"]), targets.get("sm_80"))
    spec, edited = (found_in(given).spec for given in (text, text.replace("arith.addf", "arith.subf")))
    inputs = lt.random_inputs(spec, None, 36, None, np.random.default_rng(0))
    difference = lt.reference(spec, **inputs) - lt.reference(edited, **inputs)
    np.testing.assert_allclose(difference, np.broadcast_to(2 * inputs["bias"].astype(float), difference.shape))


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        (
            "arith.maximumf",
            "arith.maxnumf",
            SpecError,
            r"the float64 reference has no arith.maxnumf.*\[reference-lacks\]",
        ),
        (
            "func.func @gemm",
            "func.func private @other()\n func.func @gemm",
            IRError,
            r"this one has 2.*\[one-function\]",
        ),
    ],
)
def test_what_no_spec_says_is_refused(old: str, new: str, error: type[Exception], message: str) -> None:
    text = problem_text(spec_with(READY["relu"]), targets.get("sm_80"))
    assert old in text
    with pytest.raises(error, match=message):
        found_in(text.replace(old, new))


def test_a_host_function_that_does_not_say_what_it_computes_is_refused() -> None:
    function = "func.func @gemm(%a: memref<2x2xf16>, %b: memref<2x2xf16>, %d: memref<2x2xf16>) { return }"
    with pytest.raises(SpecError, match=r"\[no-problem-in-ir\]"):
        found_in(function)
    with pytest.raises(IRError, match=r"takes a, b, results and the epilogue's operands.*\[function-arguments\]"):
        found_in("func.func @gemm() { return }")


def test_an_unknown_ready_epilogue_is_refused_with_the_names() -> None:
    with pytest.raises(
        SpecError, match=r"unknown epilogue 'geLU': valid are none, relu, .*did you mean 'gelu'\?.*\[ready-epilogue\]"
    ):
        ready_epilogue("geLU")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("level", "the epilogue operand's name 'level' is reserved"),
        ("class", "the epilogue operand's name 'class' cannot be passed or saved"),
        ("größe", "cannot be passed or saved"),
        ("two words", "cannot be passed or saved"),
        ("r", "the epilogue operand's name 'r' is given twice"),
    ],
)
def test_a_name_that_no_operand_can_have_is_refused_in_ir_too(name: str, message: str) -> None:
    text = problem_text(spec_with(every_op), targets.get("sm_80")).replace('"c"', f'"{name}"')
    with pytest.raises(IRError, match=rf"{message}.*\(tile\.name of argument \d\).*\[argument-name\]"):
        found_in(text)
