"""Tracing: which epilogue functions are refused, and where the message points."""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np
import pytest

from lowtide.compiler.epilogue import functions as lt
from lowtide.compiler.epilogue.graph import trace
from lowtide.compiler.epilogue.operands import RESERVED_NAMES, Full, PerColumn, Scalar
from lowtide.compiler.epilogue.text import TextEpilogue, epilogue_text
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import SpecError
from lowtide.verification.checking.reference import reference, reference_with_bound

LEAKED = []


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


def calls_a_reduction(acc):
    return acc.sum(0)


def splits(acc):
    return acc.chunk(2, -1)


def combines_numbers(acc):
    return lt.where(acc > 0 & acc < 1, acc, 0.0)


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
    (branches, r"a branch: .* choose with lt\.where.*\[epilogue-traced\]"),
    (chains, r"a chain such as 0 < x < 1; choose with lt\.where"),
    (calls_math, r"use lt\.exp.*\[epilogue-traced\]"),
    (calls_numpy, r"numpy\.exp; use lt\.exp.*\[epilogue-traced\]"),
    (calls_numpy_where, r"numpy\.where; use lt\.where.*\[epilogue-traced\]"),
    (indexes, "indexing; the function sees one element"),
    (iterates, "iteration"),
    (
        calls_a_method,
        r"the attribute \.relu; a traced value has operators, but no methods; write lt\.relu\(x\) \[epilogue-traced\]$",
    ),
    (
        calls_a_reduction,
        r"the attribute \.sum; .* functions are lt\.cast, .*, lt\.where; .* cannot reduce, split",
    ),
    (
        splits,
        r"the attribute \.chunk; .* functions are lt\.cast, .*, lt\.where; .* cannot reduce, split",
    ),
    (combines_numbers, r"& \| \^ ~ of numbers; they combine comparisons in parentheses"),
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
    (chooses_without_a_condition, r"compare first.*\[epilogue-traced\]"),
    (divides_by_zero, "ZeroDivisionError"),
    (uses_a_leaked_value, r"another epilogue's trace.*\[epilogue-traced\]"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED_INSIDE, ids=lambda value: getattr(value, "__name__", ""))
def test_what_cannot_be_traced_is_refused_at_its_line(function, message):
    LEAKED.clear()
    trace(lambda acc: LEAKED.append(acc) or acc, "f32", "f32")
    with pytest.raises(SpecError, match=message) as caught:
        trace(function, "f32", "f32")
    line = inspect.getsourcelines(function)[1] + 1
    assert str(caught.value).startswith(f"{__file__}:{line}: ")


@pytest.mark.parametrize(
    ("function", "message"), [(unknown_cast, r"did you mean 'f16'.*\[cast-type\]"), (unknown_gelu, "'tanh'")]
)
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


async def asynchronous(acc):
    return acc


async def generating_asynchronously(acc):
    yield acc


REFUSED_OUTSIDE = [
    (without_a_kind, r"operand 'c' has no kind; annotate it with lt\.Full.*\[operand-kind\]"),
    (with_a_wrong_kind, r"'c'.*\[operand-kind\]"),
    (with_star, r"\[epilogue-parameter\]"),
    (with_default, r"'c' has a default.*\[epilogue-default\]"),
    (with_kind_on_the_accumulator, r"\[accumulator-kind\]"),
    (
        with_reserved_name,
        r"'b' is reserved; kernels .* use a, b, d, domain, k, level, m, .*, seed, self, sms, .*: rename it"
        r".*\[operand-name\]",
    ),
    (with_a_keyword_of_interpret, r"'level' is reserved.*\[operand-name\]"),
    (with_a_name_that_is_not_ascii, r"'größe' cannot be passed or saved.*\[operand-name\]"),
    (with_unknown_dtype, r"unknown dtype 'float32' of operand 'c': .* did you mean 'f32'.*\[operand-type\]"),
    (with_typed_scalar, r"scalars are f32.*\[scalar-type\]"),
    (with_unresolved_annotation, r"'nowhere\.Full' of 'c' cannot be evaluated.*\[annotation-evaluated\]"),
    (without_parameters, r"takes no accumulator.*\[epilogue-accumulator\]"),
    (returning_none, r"returned None.*\[epilogue-none\]"),
    (returning_a_condition, r"\[epilogue-comparison\]"),
    (returning_two, r"returned tuple.*\[epilogue-result\]"),
    (generating, r"returned generator.*\(without yield\).*\[epilogue-result\]"),
    (asynchronous, r"returned coroutine.*\(without async\).*\[epilogue-result\]"),
    (generating_asynchronously, r"returned async_generator; .* \(without async and yield\)"),
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("function", "message"), REFUSED_OUTSIDE, ids=lambda value: getattr(value, "__name__", ""))
def test_a_signature_or_result_that_cannot_be_is_refused_at_the_def(function, message):
    with pytest.raises(SpecError, match=message) as caught:
        trace(function, "f32", "f32")
    assert str(caught.value).startswith(f"{__file__}:{function.__code__.co_firstlineno}: ")


def rebinding(acc, bias: PerColumn, c: Full):
    bias += acc
    return acc * c


def reading_all(acc, bias: PerColumn, c: Full):
    bias += acc
    return bias * c


def test_an_operand_that_d_does_not_depend_on_draws_a_warning_at_the_def():
    with pytest.warns(UserWarning, match=r"D does not depend on the epilogue's operand 'bias', .*`x \+= y`") as caught:
        trace(rebinding, "f32", "f32")
    (found,) = caught
    assert (found.filename, found.lineno) == (__file__, rebinding.__code__.co_firstlineno)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace(reading_all, "f32", "f32")
        TextEpilogue(epilogue_text(reading_all, "f32", "f32").replace("%bias, acc", "%c, acc")).graph()  # a text may
