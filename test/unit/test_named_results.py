"""Epilogues that give several results by name: what they may return, their specs, references and verdicts."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.cli.console import problem_line
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.epilogue.text import epilogue_of_d, epilogue_text
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.interpreter import interpret
from lowtide.runtime.expected import expected
from lowtide.runtime.verify import compare as compare_rows
from lowtide.runtime.verify import random_operands
from lowtide.targets import get
from lowtide.verification.checking.expected_problem import expected_problem
from lowtide.verification.checking.interpretation import inputs_for, run
from lowtide.verification.checking.verdicts import against_exact, against_float64


def _both(acc: Any, bias: lt.PerColumn) -> Any:
    pre = acc + bias
    return {"pre": pre, "act": lt.relu(pre)}


def _spec(epilogue: Any = _both, **fields: Any) -> lt.GemmSpec:
    return lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": epilogue} | fields))


def _types(spec: lt.GemmSpec) -> dict[str, str]:
    return {result.name: result.dtype for result in spec.results}


def test_a_dict_and_a_dataclass_name_results_in_order() -> None:
    @dataclass
    class Saved:
        pre: Any
        act: Any

    def saved(acc: Any, bias: lt.PerColumn) -> Any:
        return Saved(**_both(acc, bias))

    for epilogue in (_both, saved):
        assert _types(_spec(epilogue, result_types={"pre": "f32"})) == {"pre": "f32", "act": "bf16"}
    assert _types(_spec(lambda acc: {"d": acc, "amax": acc})) == {"d": "bf16", "amax": "bf16"}
    assert _types(_spec(_both, amax=True)) == {"pre": "bf16", "act": "bf16", "amax": "f32"}


@pytest.mark.parametrize(
    ("epilogue", "fields", "fault"),
    [
        (lambda acc: {}, {}, r"returned no results; .*\[results-none\]"),
        (lambda acc: {"out": acc}, {}, r"the result's name 'out' is reserved.*\[results-name\]"),
        (lambda acc: {3: acc}, {}, r"\[results-name\]"),
        (lambda acc: {"pre": acc, "post": None}, {}, r"as result 'post': None; return the value .*\[epilogue-none\]"),
        (lambda acc: {"pre": acc, "post": acc > 0}, {}, r"\[epilogue-comparison\]"),
        (_both, {"result_types": {"post": "f32"}}, r"'post', which is not .* pre, act \[result-types-names\]"),
        (_both, {"result_types": {"pre": "f64"}}, r"pre='f64' with f32 accumulators: .*\[d-of-sums\]"),
        (_both, {"result_types": {"pre": "f33"}}, r"\[unknown-word\]"),
        (_both, {"result_types": 3}, r"must be a dict from names .*\[result-types-kind\]"),
        (lambda acc: {"d": acc, "amax": acc}, {"amax": True}, r"\[results-amax\]"),
    ],
)
def test_what_an_epilogue_cannot_return(epilogue: Any, fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(lt.SpecError, match=fault):
        _spec(epilogue, **fields)


def test_an_operand_has_no_result_s_name() -> None:
    def epilogue(acc: Any, pre: lt.PerColumn) -> Any:
        return {"pre": acc, "d": acc + pre}

    with pytest.raises(lt.SpecError, match=r"\[result-name\]"):
        _spec(epilogue)


def test_calls_that_take_d_alone_refuse_several() -> None:
    with pytest.raises(lt.SpecError, match=r"\[text-results\]"):
        epilogue_of_d(epilogue_text(_both, "f32", "bf16"))
    with pytest.raises(lt.SpecError, match=r"results pre, act cannot be tuned: .*\[results-tuned\]"):
        lt.tune(_spec(m=64, n=64, k=64))


def test_the_warning_of_an_unread_operand_names_the_results() -> None:
    def epilogue(acc: Any, bias: lt.PerColumn) -> Any:
        return {"pre": acc, "act": lt.relu(acc)}

    with pytest.warns(UserWarning, match="the results pre, act do not depend on the epilogue's operand 'bias'"):
        _spec(epilogue)


def test_the_problem_of_one_result_has_it_as_d() -> None:
    spec = _spec(result_types={"pre": "f32"}, amax=True)
    for name, dtype in (("pre", "f32"), ("act", "bf16")):
        own = spec.of_result(name)
        assert _types(own) == {"d": dtype, "amax": "f32"} and own.operands == spec.operands
        assert _types(replace(own, m=8)) == _types(own)
    plain = _spec(None)
    assert plain.of_result("d") is plain
    assert _types(_spec(lambda acc: {"act": acc}).of_result("act")) == {"d": "bf16"}


def test_a_spec_is_read_back_from_ir() -> None:
    for fields in ({"result_types": {"pre": "f32"}}, {"amax": True, "d": "e4m3"}, {"a": "s8", "b": "s8", "d": "s8"}):
        spec = _spec(**fields)
        text = problem_text(spec, get("sm_90a"))
        with make_context() as context:
            found = spec_of(parse_text(text, context, "<problem>")).spec
        assert (found.results, found.operands) == (spec.results, spec.operands)
        assert problem_text(found, get("sm_90a")) == text


def _on_problem(spec: lt.GemmSpec, domain: str) -> tuple[dict[str, Any], Any]:
    inputs = inputs_for(spec, (20, 24, 40), domain, 0)
    with make_context() as context:
        return inputs, run(parse_text(problem_text(spec, get("sm_80")), context, "<p>"), spec, inputs, domain=domain)


def test_every_result_is_judged() -> None:
    spec = _spec(result_types={"pre": "f32"})
    inputs, found = _on_problem(spec, "float")
    assert [found[name].dtype for name in found] == [np.float32, numpy_dtype("bf16")]
    verdict = against_float64(spec, inputs, found)
    assert verdict.ok and "pre: all 480 elements" in verdict.message and "act: all 480" in verdict.message
    for name in found:
        planted = {key: values.copy() for key, values in found.items()}
        planted[name][3, 5] += 1
        verdict = against_float64(spec, inputs, planted)
        assert not verdict.ok and verdict.message.startswith(f"{name}: 1 of 480 elements"), name
    swapped = dict(zip(found, reversed(found.values()), strict=True))
    assert not against_float64(spec, inputs, swapped).ok


def test_a_single_result_with_a_name_is_judged() -> None:
    spec = _spec(lambda acc: {"act": lt.relu(acc)})
    inputs, found = _on_problem(spec, "float")
    assert against_float64(spec, inputs, found).ok
    assert not against_float64(spec, inputs, {"act": found["act"] + 1}).ok


def test_every_result_is_judged_in_an_exact_domain() -> None:
    spec = _spec(amax=True)
    inputs, found = _on_problem(spec, "exact")
    wanted = lt.reference(spec, **inputs)
    assert list(wanted) == ["pre", "act"] and against_exact(spec, inputs, found, wanted).ok
    planted = found | {"act": found["act"] + (np.arange(24) == 7)}
    assert against_exact(spec, inputs, planted, wanted).message.startswith("act: 20 of 480 elements differ")
    inputs["amax"] += 1
    assert "the amax is" in against_exact(spec, inputs, found, wanted).message


def test_references_and_bounds_are_by_name() -> None:
    spec = _spec(result_types={"pre": "f32"})
    inputs = lt.random_inputs(spec, 16, 8, 24, np.random.default_rng(0))
    values, bounds = lt.reference_with_bound(spec, **inputs)
    for name in ("pre", "act"):
        own = spec.of_result(name)
        assert np.array_equal(values[name], lt.reference(own, **inputs))
        assert np.array_equal(bounds[name], lt.error_bound(spec, **inputs)[name])
    assert (bounds["pre"] < bounds["act"]).mean() > 0.4  # f32 is rounded to 24 bits, bf16 to 8; relu drops the others


def test_a_saved_kernel_says_how_each_result_is_computed() -> None:
    spec = _spec(m=16, n=24, k=40, result_types={"pre": "f32"})
    kernel = lt.compile_gemm(spec, target="sm_80")
    operands, exact = random_operands(kernel.manifest, np.random.default_rng(0))
    given = {name: x.values().astype(numpy_dtype("bf16")) for name, x in operands.items()}
    found = interpret(kernel.levels["problem"], given)
    rows = np.arange(16)
    for number, (name, values) in enumerate(found.items()):
        interval, bound = expected(kernel.manifest, operands, exact, rows, 0, number)
        assert compare_rows(values.astype(np.float64), interval, bound, rows)[1] == "", name
        other, its = expected(kernel.manifest, operands, exact, rows, 0, 1 - number)
        assert compare_rows(values.astype(np.float64), other, its, rows)[1] != "", name


def test_results_of_several_types_leave_one_scratch_in_rows() -> None:
    spec, given = _spec(result_types={"pre": "f32"}), "epilogue.path = smem, epilogue.math = registers"
    with pytest.raises(lt.ScheduleError, match=r"registers with results of f32 and bf16: .*\[results-types\]"):
        lt.compile_gemm(spec, target="sm_80", schedule=given)
    lt.compile_gemm(_spec(), target="sm_80", schedule=given)


def test_reports_name_the_results_and_their_types() -> None:
    spec = _spec(m=8, n=16, k=24, result_types={"pre": "f32"})
    assert "8x16x24 to pre (f32), act (bf16), f32 accumulators" in problem_line(spec, (8, 16, 24))
    assert "to bf16, f32" in problem_line(_spec(None), (8, 16, 24))


def test_a_dump_with_other_results_is_of_another_problem(tmp_path: Path) -> None:
    texts = [problem_text(_spec(result_types=types), get("sm_80")) for types in ({}, {"pre": "f32"})]
    other = tmp_path / "other.mlir"
    other.write_text(texts[1])
    with make_context() as context:
        module = parse_text(texts[0], context, "<own>")
        with pytest.raises(lt.IRError, match=r"types are .* pre \(f32\), act \(bf16\) .*\[other-problem\]"):
            expected_problem(tmp_path / "own.mlir", module, other)
