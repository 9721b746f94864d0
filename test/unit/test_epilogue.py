"""Tracing: what is recorded, what is refused and where the message points, and the IR that comes out."""

from __future__ import annotations

import ctypes
import functools
import inspect
import math
import re

import numpy as np
import pytest
from mlir import ir
from mlir.execution_engine import ExecutionEngine
from mlir.passmanager import PassManager

from lowtide.compiler.checking.bound import Interval, propagate
from lowtide.compiler.checking.reference import reference, reference_with_bound
from lowtide.compiler.epilogue import functions as lt
from lowtide.compiler.epilogue.emit import emit, ir_type
from lowtide.compiler.epilogue.evaluate import evaluate
from lowtide.compiler.epilogue.operands import RESERVED_NAMES, Full, PerColumn, PerRow, Scalar, trace
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import SpecError
from lowtide.passes.nvvm.expand_math import ExpandMath
from lowtide.targets import get

LEAKED = []


def fused(acc, c: Full, bias: PerColumn, row: PerRow, alpha: Scalar):
    return lt.relu(alpha * acc + 0.5 * c + bias - row)


def module_of(function, acc="f32", d="bf16", lanes=0) -> ir.Module:
    """A func of the traced epilogue, for inspection. Needs a context and location."""
    graph = trace(function, acc, d)
    types = [ir_type(name) for name in (acc, *(operand.dtype for operand in graph.operands), d)]
    if lanes:
        types = [ir.VectorType.get([lanes], type) for type in types]
    arguments = ", ".join(f"%a{index}: {type}" for index, type in enumerate(types[:-1]))
    module = ir.Module.parse(f"func.func @f({arguments}) -> {types[-1]} {{ llvm.unreachable }}")
    block = module.body.operations[0].regions[0].blocks[0]
    block.operations[0].operation.erase()
    with ir.InsertionPoint(block):
        value = emit(graph, list(block.arguments))
        ir.Operation.create("func.return", operands=[value])
    assert module.operation.verify()
    return module


def text_of(function, **types) -> str:
    with ir.Context(), ir.Location.unknown():
        return str(module_of(function, **types))


# --- what is recorded ---------------------------------------------------------------------------------------------


def test_no_epilogue_is_the_accumulator_rounded():
    assert text_of(None).count("arith.") == 1
    assert "arith.truncf %arg0 : f32 to bf16" in text_of(None)
    assert "arith." not in text_of(None, d="f32")


def test_operands_are_extended_computed_in_f32_and_rounded_once():
    text = text_of(fused, acc="f16", d="bf16")
    assert text.count("arith.extf") == 4  # acc, c, bias, row
    assert text.count("arith.truncf") == 1
    assert "f16" not in "".join(line for line in text.splitlines() if "addf" in line or "mulf" in line)


def test_shared_subexpressions_are_emitted_once():
    def squared(acc):
        return lt.exp(acc * 2.0) * lt.exp(acc * 2.0) + lt.exp(acc * 2.0)

    assert text_of(squared).count("math.exp") == 1


def test_what_the_result_does_not_need_is_not_emitted():
    def wasteful(acc, c: Full):
        lt.exp(c)
        return acc

    assert "math.exp" not in text_of(wasteful)


def test_zero_and_minus_zero_stay_two_constants():
    text = text_of(lambda acc: lt.maximum(acc, 0.0) + lt.maximum(acc, -0.0))
    assert "0.000000e+00" in text
    assert "-0.000000e+00" in text


def test_a_constant_result_is_allowed():
    assert "arith.constant 2.5" in text_of(lambda acc: 2.5, d="f32")


def test_vectors_take_the_place_of_scalars():
    text = text_of(lambda acc: lt.where(~(acc > 0), lt.gelu(acc), lt.cast(acc, "f16")), lanes=4)
    assert "math.erf %" in text
    assert "vector<4xf16>" in text


def test_powers_are_products():
    assert text_of(lambda acc: acc**3).count("arith.mulf") == 2


def test_relu_propagates_nan_by_maximumf():
    assert "arith.maximumf" in text_of(lt.relu)


def test_numpy_numbers_count_as_constants():
    text = text_of(lambda acc: np.float32(1.5) * acc + np.int64(2) - np.float64(0.5), d="f32")
    assert "arith.constant 1.5" in text
    assert text.count("arith.mulf") == 1


def test_partials_and_keyword_operands_are_traced():
    def scaled(factor, acc, *, bias: PerColumn):
        return factor * acc + bias

    graph = trace(functools.partial(scaled, 3.0), "f32", "f16")
    assert [operand.name for operand in graph.operands] == ["bias"]


def test_string_annotations_see_the_enclosing_function():
    kind = Full

    def local(acc, c: kind):
        return acc + c if kind is not None else acc

    assert trace(local, "f32", "f16").operands[0].kind is Full.kind


def test_a_subscript_names_the_element_type():
    def typed(acc, c: Full["f32"]):  # noqa: F821, UP037
        return acc + c

    assert trace(typed, "f32", "f16").operands[0].dtype == "f32"


# --- what is refused ----------------------------------------------------------------------------------------------


def branches(acc):
    return acc if acc > 0 else 0.0


def chains(acc):
    return lt.where(0 < acc < 1, acc, 0.0)


def calls_math(acc):
    return math.exp(acc)


def calls_numpy(acc):
    return np.exp(acc)


def calls_numpy_where(acc):
    return np.where(acc > 0, acc, 0.0)


def indexes(acc, c: Full):
    return acc + c[0]


def iterates(acc):
    return sum(acc)


def calls_a_method(acc):
    return acc.relu()


def adds_an_array(acc):
    return np.zeros(3) + acc


def multiplies_by_an_array(acc):
    return np.ones((2, 2)) * acc


def chooses_an_array(acc):
    return lt.maximum(acc, np.zeros(1))


def adds_a_complex_number(acc):
    return acc + np.complex128(1)


def adds_an_array_of_text(acc):
    return acc + np.array("a")


def folds_a_huge_constant(acc):
    return acc * lt.sqrt(1e39)


def adds_text(acc):
    return acc + "1"


def adds_a_bool(acc):
    return acc + True


def huge_constant(acc):
    return acc * 1e39


def takes_a_root(acc):
    return acc**0.5


def calculates_with_a_condition(acc):
    return acc * (acc > 0)


def chooses_without_a_condition(acc):
    return lt.where(acc, acc, 0.0)


def unknown_cast(acc):
    return lt.cast(acc, "fp16")


def unknown_gelu(acc):
    return lt.gelu(acc, "tan")


def divides_by_zero(acc):
    return acc * (1 / 0)


def uses_a_leaked_value(acc):
    return acc + LEAKED[0]


REFUSED_INSIDE = [
    (branches, r"a branch: .* choose with lt\.where"),
    (chains, r"a chain such as 0 < x < 1; choose with lt\.where"),
    (calls_math, r"use lt\.exp"),
    (calls_numpy, r"numpy\.exp; use lt\.exp"),
    (calls_numpy_where, r"numpy\.where; use lt\.where"),
    (indexes, "indexing; the function sees one element"),
    (iterates, "iteration"),
    (calls_a_method, r"lt\.relu\(x\)"),
    (adds_an_array, r"an array of shape \(3,\).*make it an operand: .* lt\.Full"),
    (multiplies_by_an_array, r"an array of shape \(2, 2\).*make it an operand"),
    (chooses_an_array, r"an array of shape \(1,\).*make it an operand"),
    (adds_a_complex_number, "complex128 beside a traced value; constants are real numbers"),
    (adds_an_array_of_text, "an array of <U1 beside a traced value"),
    (folds_a_huge_constant, r"1e\+39, beyond the largest f32"),
    (adds_text, "str beside a traced value"),
    (adds_a_bool, "bool beside a traced value"),
    (huge_constant, r"1e\+39, beyond the largest f32"),
    (takes_a_root, r"lt\.sqrt"),
    (calculates_with_a_condition, r"a comparison used as a number|arithmetic on a comparison"),
    (chooses_without_a_condition, "compare first"),
    (divides_by_zero, "ZeroDivisionError"),
    (uses_a_leaked_value, "another epilogue's trace"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED_INSIDE, ids=lambda value: getattr(value, "__name__", ""))
def test_what_cannot_be_traced_is_refused_at_its_line(function, message):
    LEAKED.clear()
    trace(lambda acc: LEAKED.append(acc) or acc, "f32", "f32")
    with pytest.raises(SpecError, match=message) as caught:
        trace(function, "f32", "f32")
    line = inspect.getsourcelines(function)[1] + 1
    assert str(caught.value).startswith(f"{__file__}:{line}: ")


@pytest.mark.parametrize(("function", "message"), [(unknown_cast, "did you mean 'f16'"), (unknown_gelu, "'tanh'")])
def test_unknown_names_are_refused_with_the_nearest(function, message):
    with pytest.raises(SpecError, match=message):
        trace(function, "f32", "f32")


def without_a_kind(acc, c):
    return acc + c


def with_a_wrong_kind(acc, c: float):
    return acc + c


def with_star(acc, *rest: Full):
    return acc


def with_default(acc, c: Full = None):
    return acc


def with_kind_on_the_accumulator(acc: Full):
    return acc


def with_reserved_name(acc, b: Full):
    return acc + b


def with_a_keyword_of_interpret(acc, level: PerColumn):
    return acc + level


def with_a_name_that_is_not_ascii(acc, größe: PerColumn):
    return acc + größe


def with_unknown_dtype(acc, c: Full["float32"]):  # noqa: F821, UP037
    return acc + c


def with_typed_scalar(acc, alpha: Scalar["f16"]):  # noqa: F821, UP037
    return acc * alpha


def with_unresolved_annotation(acc, c: nowhere.Full):  # noqa: F821
    return acc + c


def without_parameters():
    return 1.0


def returning_none(acc):
    acc + 1.0


def returning_a_condition(acc):
    return acc > 0


def returning_two(acc):
    return acc, acc


def generating(acc):
    yield acc


REFUSED_OUTSIDE = [
    (without_a_kind, r"operand 'c' has no kind; annotate it with lt\.Full"),
    (with_a_wrong_kind, "operand 'c' has no kind"),
    (with_star, r"named one by one"),
    (with_default, "'c' has a default"),
    (with_kind_on_the_accumulator, "is the accumulator and takes no kind"),
    (
        with_reserved_name,
        "'b' is taken; kernels .* use a, b, d, domain, k, level, m, .*, seed, self, sms, .*: rename it",
    ),
    (with_a_keyword_of_interpret, "'level' is taken"),
    (with_a_name_that_is_not_ascii, "'größe' cannot be passed or saved; operands are named by ASCII letters"),
    (with_unknown_dtype, r"unknown dtype 'float32' of operand 'c': .* did you mean 'f32'"),
    (with_typed_scalar, "scalars are f32"),
    (with_unresolved_annotation, r"'nowhere\.Full' of 'c' cannot be evaluated"),
    (without_parameters, "takes no accumulator"),
    (returning_none, "returned None"),
    (returning_a_condition, r"return lt\.where"),
    (returning_two, "returned tuple"),
    (generating, "returned generator"),
]


def test_every_keyword_of_a_kernels_calls_is_reserved():
    """Else an operand of that name could not be given."""
    calls = (CompiledKernel.__call__, CompiledKernel.bind, CompiledKernel.interpret, reference, reference_with_bound)
    named = {
        parameter.name
        for call in calls
        for parameter in inspect.signature(call).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    assert named <= RESERVED_NAMES


@pytest.mark.parametrize(("function", "message"), REFUSED_OUTSIDE, ids=lambda value: getattr(value, "__name__", ""))
def test_a_signature_or_result_that_cannot_be_is_refused_at_the_def(function, message):
    with pytest.raises(SpecError, match=message) as caught:
        trace(function, "f32", "f32")
    assert str(caught.value).startswith(f"{__file__}:{function.__code__.co_firstlineno}: ")


# --- what it computes ---------------------------------------------------------------------------------------------


EPILOGUES = {
    "fused": lambda acc, y: lt.relu(1.5 * acc + 0.5 * y) - y / 3.0,
    "abs": lambda acc, y: abs(-acc) + y,
    "divide": lambda acc, y: acc / (1.0 + y * y),
    "extrema": lambda acc, y: lt.clamp(acc, -0.5, y) + lt.minimum(acc, y),
    "exp": lambda acc, y: lt.exp(acc) - y,
    "tanh": lambda acc, y: lt.tanh(acc) * y,
    "erf": lambda acc, y: lt.erf(acc + y),
    "log": lambda acc, y: lt.log(1e-3 + acc * acc),
    "sigmoid": lambda acc, y: lt.sigmoid(acc) * y,
    "silu": lambda acc, y: lt.silu(4.0 * acc),
    "gelu": lambda acc, y: lt.gelu(acc),
    "gelu tanh": lambda acc, y: lt.gelu(acc, approximate="tanh"),
    "sqrt": lambda acc, y: lt.sqrt(acc * acc) + lt.rsqrt(0.01 + y * y),
    "power": lambda acc, y: acc**3 - y**2,
    "where": lambda acc, y: lt.where((acc > y) & ~(acc == 0.25) | (y < -1.0), acc * 2.0, y),
}


def two_operands(function):
    def epilogue(acc, y: PerRow):
        return function(acc, y)

    return epilogue


def sample(count=1500):
    rng = np.random.default_rng(7)
    acc = np.concatenate([rng.normal(0, 2, count), rng.normal(0, 30, count // 3), [0.0, 0.25, 1.0, -1.0]])
    return acc.astype(np.float32), rng.normal(0, 1, acc.size).astype(np.float32)


@pytest.mark.parametrize("name", EPILOGUES)
def test_the_same_function_runs_in_numpy(name):
    acc, y = (x.astype(np.float64) for x in sample())
    graph = trace(two_operands(EPILOGUES[name]), "f32", "f32")
    with np.errstate(all="ignore"):
        direct = EPILOGUES[name](acc, y)
    np.testing.assert_allclose(evaluate(graph, acc, [y]), direct, rtol=1e-13)


def run_compiled(function, acc: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The emitted IR with its math expanded, compiled for the CPU at hand."""
    with ir.Context(), ir.Location.unknown():
        module = module_of(function, d="f32")
        ExpandMath().run(module, get("sm_80"))
        PassManager.parse("builtin.module(convert-to-llvm,reconcile-unrealized-casts)").run(module.operation)
        engine = ExecutionEngine(module, opt_level=0)
        compiled = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("f"))  # takes pointers, the result's last
        x, other, result = (ctypes.c_float() for _ in range(3))
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in (x, other, result)))
        results = []
        for x.value, other.value in zip(acc.tolist(), y.tolist(), strict=True):
            compiled(pointers)
            results.append(result.value)
        return np.array(results)


def worst_error(name: str, compiled_name: str) -> float:
    """Error of the compiled epilogue against float64 of another, as a share of the latter's bound."""
    acc, y = sample()
    graph = trace(two_operands(EPILOGUES[name]), "f32", "f32")
    got = run_compiled(two_operands(EPILOGUES[compiled_name]), acc, y)
    wide = acc.astype(np.float64)
    interval = propagate(graph, Interval(wide, wide), [y.astype(np.float64)])
    want = evaluate(graph, wide, [y.astype(np.float64)])
    bound = np.maximum(interval.high - want, want - interval.low)
    checked = np.isfinite(bound)  # eˣ overflows f32 for some
    assert np.count_nonzero(checked) > 0.9 * checked.size
    return float(np.max(np.abs(got - want)[checked] / np.maximum(bound, 1e-300)[checked]))


@pytest.mark.parametrize("name", EPILOGUES)
def test_the_compiled_epilogue_stays_in_its_interval(name):
    assert worst_error(name, name) <= 1.0


@pytest.mark.parametrize(("name", "other"), [("gelu", "gelu tanh"), ("fused", "extrema"), ("silu", "sigmoid")])
def test_another_epilogue_leaves_the_interval(name, other):
    assert worst_error(name, other) > 10.0


def test_an_open_comparison_takes_both_sides():
    graph = trace(lambda acc: lt.where(acc > 0.0, 5.0, -3.0), "f32", "f32")
    interval = propagate(graph, Interval(np.array([[-1.0, 1.0, -2.0]]), np.array([[1.0, 2.0, -1.0]])), [])
    assert interval.low.tolist() == [[-3.0, 5.0, -3.0]]
    assert interval.high.tolist() == [[5.0, 5.0, -3.0]]


def test_a_divisor_that_may_be_zero_has_no_bound():
    graph = trace(lambda acc: 1.0 / acc, "f32", "f32")
    interval = propagate(graph, Interval(np.array([[-1.0, 1.0]]), np.array([[1.0, 2.0]])), [])
    assert np.isinf(interval.high[0, 0])
    assert np.isinf(interval.low[0, 0])
    assert interval.low[0, 1] == pytest.approx(0.5)


def test_the_ir_reads_like_the_function():
    text = text_of(lambda acc: lt.relu(1.5 * acc))
    assert re.search(r"mulf .*\n.*maximumf .*\n.*truncf", re.sub(r".*constant.*\n", "", text))


def test_the_numpy_erf_is_erf():
    x = np.concatenate([np.linspace(-7, 7, 20001), 10.0 ** np.arange(-300, 1)])
    exact = np.array([math.erf(value) for value in x])
    np.testing.assert_allclose(lt.erf(x), exact, rtol=1e-14)
    assert np.isnan(lt.erf(math.nan))
