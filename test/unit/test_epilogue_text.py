"""Epilogues as text: read back to the same trace, the same for equal functions, refused where they are none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.cache.keys import spec_text
from lowtide.compiler.epilogue.evaluate import evaluate
from lowtide.compiler.epilogue.graph import trace
from lowtide.compiler.epilogue.operands import OperandKind, OperandType
from lowtide.compiler.epilogue.ready import READY
from lowtide.compiler.epilogue.signatures import operand_types
from lowtide.compiler.epilogue.text import TextEpilogue, epilogue_of_d, epilogue_text, graph_text
from lowtide.errors import SpecError


def everything(x: Any, acc: lt.Full, bias: lt.PerColumn["f32"], *, s: lt.PerRow["s32"], alpha: lt.Scalar) -> Any:  # noqa: F821
    chosen = lt.where((x > 0.0) & ~(s == 3) | (acc <= -0.0), lt.cast(x, "f16") * acc, -x + s)
    return lt.maximum(lt.silu(chosen) / alpha, bias - abs(acc)) + lt.where(x != float("inf"), lt.rsqrt(x * x), 1e-30)


def of_integers(acc: Any, bias: lt.PerColumn["s32"]) -> Any:  # noqa: F821
    return lt.clamp(acc * 2 + bias, -100, 3) - lt.where(True, 3, acc)


CASES: list[tuple[Callable[..., Any], str, str]] = [
    *((function, "f32", "bf16") for name, function in READY.items() if name not in ("none", "bias-relu-saved")),
    (everything, "f32", "bf16"),
    (of_integers, "s32", "s32"),
    (of_integers, "s32", "s8"),
    (READY["bias-relu"], "f64", "f64"),  # type: ignore[list-item]
    (READY["gelu"], "f32", "e4m3"),  # type: ignore[list-item]
    (lambda acc: 1.0, "f16", "f16"),
]


@pytest.mark.parametrize(("function", "acc", "d"), CASES)
def test_a_text_is_read_back(function: Callable[..., Any], acc: str, d: str) -> None:
    text = epilogue_text(function, acc, d)
    read = TextEpilogue(text)
    graph, again = trace(function, acc, d), read.graph()
    assert graph_text(again) == text and again.operands == graph.operands == read.operands
    rng = np.random.default_rng(0)
    sums, *operands = (np.rint(rng.normal(size=(4, 5)) * 3) for _ in range(1 + len(graph.operands)))
    np.testing.assert_array_equal(evaluate(graph, sums, operands), evaluate(again, sums, operands))


def test_kernels_of_a_function_and_of_its_text_have_one_key() -> None:
    def spec(epilogue: Any) -> lt.GemmSpec:
        return lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=epilogue)

    assert spec_text(spec(everything)) == spec_text(spec(TextEpilogue(epilogue_text(everything, "f32", "bf16"))))


def test_the_form() -> None:
    def epilogue(acc: Any, bias: lt.PerColumn, alpha: lt.Scalar) -> Any:
        return lt.relu(alpha * acc + bias)

    assert epilogue_text(epilogue, "f32", "bf16", {"bias": "f16"}) == (
        "(acc: f32, %bias: per_column f16, %alpha: scalar f32) -> bf16"
        " { %0 = mul %alpha, acc; %1 = add %0, %bias; %2 = max %1, 0.0; %2 }"
    )
    assert epilogue_text(None, "f32", "bf16") == ""


def paired(acc: Any, second: Any, bias: lt.PerColumn) -> Any:
    return {"y": lt.relu(acc + bias) * second, "second": second}


def reduced(acc: Any, bias: lt.PerColumn, target: Any) -> Any:
    y = acc + bias
    return {"y": y, "most": lt.amax(y, dim=0), "own": lt.gather(y, target)}


reduced.__annotations__["target"] = OperandType(OperandKind.PER_ROW, "s32")


@pytest.mark.parametrize(
    ("function", "sums", "text"),
    [
        (
            paired,
            2,
            "(acc: f32, acc2: f32, %bias: per_column bf16) -> (y: bf16, second: f32)"
            " { %0 = add acc, %bias; %1 = max %0, 0.0; %2 = mul %1, acc2; %2, acc2 }",
        ),
        (
            reduced,
            1,
            "(acc: f32, %bias: per_column bf16, %target: per_row s32) -> (y: bf16, most: column_max, own: row_value"
            " %target) { %0 = add acc, %bias; %0, %0, %0 }",
        ),
    ],
)
def test_results_reductions_and_pairs_are_read_back(function: Callable[..., Any], sums: int, text: str) -> None:
    types = {"second": "f32"} if sums > 1 else {}
    assert epilogue_text(function, "f32", "bf16", types, sums) == text
    read = TextEpilogue(text)
    graph, again = trace(function, "f32", "bf16", types=types, sums=sums), read.graph()
    assert [result for result, _ in again.results] == [result for result, _ in graph.results]
    assert again.operands == graph.operands and graph_text(again) == text
    given = {"a": "bf16", "b": "bf16", "d": "bf16", **({"pairs": "stacked"} if sums > 1 else {})}
    ours, theirs = (spec_text(lt.GemmSpec(**given, epilogue=each, result_types=types)) for each in (function, read))
    assert ours == theirs


def test_a_text_without_full_results_is_read_back() -> None:
    text = "(acc: f32, %t: per_row s32) -> (lse: row_logsumexp, wanted: row_value %t) { acc, acc }"
    assert graph_text(TextEpilogue(text).graph()) == text
    with pytest.raises(SpecError, match=r"\[text-results\]"):
        epilogue_of_d(text)


def test_given_types_are_for_operands_without_one() -> None:
    read = TextEpilogue(epilogue_text(everything, "f32", "bf16", {"acc": "f16", "bias": "f16", "alpha": "f16"}))
    assert [operand.dtype for operand in read.operands] == ["f16", "f32", "s32", "f32"]
    assert operand_types(read)["s"].kind is OperandKind.PER_ROW


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", r"its form is.*\[epilogue-text\]"),
        ("(acc: f32) -> bf16 { acc } ", r"its form is.*\[epilogue-text\]"),
        ("(acc: f99) -> bf16 { acc }", "'f99' is not an element type"),
        ("(acc: f32, %a: full bf16) -> bf16 { acc }", r"name 'a' is reserved.*\[epilogue-text\]"),
        ("(acc: f32, %x: row bf16) -> bf16 { acc }", r"is not an operand.*\[epilogue-text\]"),
        ("(acc: f32, %x: full bf16, %x: full bf16) -> bf16 { acc }", r"two operands.*\[epilogue-text\]"),
        ("(acc: f32) -> bf16 { %1 }", "'%1' is neither a number nor a value"),
        ("(acc: f32) -> bf16 { %0 = add acc, %1; %1 = neg acc; %0 }", r"'%1' is neither.*\[epilogue-text\]"),
        ("(acc: f32) -> bf16 { %0 = neg acc; %0 = neg acc; %0 }", r"defined twice.*\[epilogue-text\]"),
        ("(acc: f32) -> bf16 { %0 = system acc; %0 }", r"is not an operation.*\[epilogue-text\]"),
        ("(acc: f32) -> bf16 { %0 = add acc; %0 }", r"is not an operation.*\[epilogue-text\]"),
        ("(acc: f32) -> bf16 { %0 = cast acc; %0 }", "cast has a type"),
        ("(acc: f32) -> bf16 { %0 = cast<s8> acc; %0 }", "cast rounds to a float"),
        ("(acc: f32) -> (x: bf16, x: f32) { acc, acc }", r"two results.*\[epilogue-text\]"),
        ("(acc: f32) -> (x: bf16, y: bf16) { acc }", r"it has 2 results, but ends with 1.*\[epilogue-text\]"),
        ("(acc: f32) -> (x: row_range) { acc }", r"is not a result.*\[epilogue-text\]"),
        ("(acc: f32) -> (x: row_value) { acc }", r"is not a result.*\[epilogue-text\]"),
        ("(acc: f32) -> bf16 { %0 = gt acc, 1.0; %0 }", r"\[epilogue-comparison\]"),
        ("(acc: f32) -> bf16 { %0 = gt acc, 1.0; %1 = add %0, 1.0; %1 }", "a comparison used as a number"),
        ("(acc: s32) -> s32 { %0 = exp acc; %0 }", r"does not hold every s32.*\[integers-of-d\]"),
        ("(acc: f64) -> f64 { %0 = exp acc; %0 }", r"exp in f64.*\[epilogue-traced\]"),
        (f"(acc: s32) -> s32 {{ %0 = add acc, {'1' * 5000}; %0 }}", "is neither a number nor a value"),
        (
            f"(acc: s32) -> s32 {{ %0 = add acc, {'1' * 500}; %0 }}",
            "the constant of 1658 bits, which s32 does not hold",
        ),
    ],
)
def test_other_texts_are_refused(text: str, what: str) -> None:
    with pytest.raises(SpecError, match=what):
        TextEpilogue(text).graph()
