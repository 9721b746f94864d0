"""Tracing: what is recorded of an epilogue function, and the IR that comes out."""

from __future__ import annotations

import functools
import re

import numpy as np
from mlir import ir

from lowtide.compiler.epilogue import functions as lt
from lowtide.compiler.epilogue.emit import emit, ir_type
from lowtide.compiler.epilogue.graph import trace
from lowtide.compiler.epilogue.operands import Full, PerColumn, PerRow, Scalar


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
        (value,) = emit(graph, list(block.arguments))
        ir.Operation.create("func.return", operands=[value])
    assert module.operation.verify()
    return module


def text_of(function, **types) -> str:
    with ir.Context(), ir.Location.unknown():
        return str(module_of(function, **types))


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
        return acc + c

    assert "math.exp" not in text_of(wasteful)


def test_zero_and_minus_zero_stay_two_constants():
    text = text_of(lambda acc: lt.maximum(acc, 0.0) + lt.maximum(acc, -0.0))
    assert "0.000000e+00" in text
    assert "-0.000000e+00" in text


def test_a_constant_result_is_allowed():
    assert "arith.constant 2.5" in text_of(lambda acc: 2.5, d="f32")


def test_vectors_take_the_place_of_scalars():
    text = text_of(lambda acc: lt.where(~(acc > 0), lt.gelu(acc), lt.cast(acc, "f16")), lanes=4)
    assert "math.erfc %" in text
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


def test_the_ir_reads_like_the_function():
    text = text_of(lambda acc: lt.relu(1.5 * acc))
    assert re.search(r"mulf .*\n.*maximumf .*\n.*truncf", re.sub(r".*constant.*\n", "", text))
