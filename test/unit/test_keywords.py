"""Every public function refuses an argument that it does not take, with the names that it takes."""

import inspect
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.epilogue import functions, gated, reductions
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.matmul import calls
from lowtide.compiler.spec import _INSTEAD

TYPES: dict[str, Any] = {"a": "bf16", "b": "bf16", "d": "bf16"}
# Functions of epilogues are called while they are traced, which names the line.
FUNCTIONS = [
    *(
        getattr(lt, name)
        for name in lt.__all__
        if inspect.isfunction(getattr(lt, name))
        and not any(hasattr(module, name) for module in (functions, gated, reductions))
    ),
    *(getattr(lt.runtime, name) for name in ("load", "load_bundle")),
    CompiledKernel.save,
    lt.runtime.Kernel.save,
    lt.GemmSpec,
    lt.BlockScales,
]
TAKE_OPERANDS = ("reference", "error_bound", "reference_with_bound")  # by name, and refuse unknown ones themselves


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_an_unknown_argument_is_refused_with_the_known_ones(function: Callable[..., Any]) -> None:
    if function.__name__ in TAKE_OPERANDS:
        assert "operands" in inspect.signature(function).parameters
        return
    known = [name for name in inspect.signature(function).parameters if name != "self"]
    wrong = known[-1] + "s"
    with pytest.raises(lt.ArgumentError) as caught:
        function(**{name: None for name in inspect.signature(function).parameters}, **{wrong: 1})
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, lt.SpecError)
    assert f"unexpected keyword argument '{wrong}'; it takes {', '.join(known)}" in str(caught.value)
    assert str(caught.value).endswith(f"; did you mean {known[-1]!r}? [unknown-argument]")


def test_missing_and_positional_fields_are_refused_with_the_names() -> None:
    for given in ((), (4096, 4096, 4096)):
        with pytest.raises(
            lt.ArgumentError,
            match=r"GemmSpec: .*; it takes m, n, k, batch, counts, arrivals, peers, groups, .*\[unknown-argument\]",
        ):
            lt.GemmSpec(*given)  # type: ignore[call-arg, misc]


@pytest.mark.parametrize(("name", "instead"), _INSTEAD.items())
def test_fields_of_other_libraries_are_answered_with_what_to_do(name: str, instead: str) -> None:
    with pytest.raises(lt.ArgumentError) as caught:
        lt.GemmSpec(**TYPES, **{name: 1})
    assert str(caught.value).endswith(f"; {instead} [unknown-argument]")


def test_a_spec_is_replaced_and_pickled_as_any_dataclass() -> None:
    spec = lt.GemmSpec(**TYPES)
    assert replace(spec, m=3).m == 3 and pickle.loads(pickle.dumps(spec)) == spec
    with pytest.raises(lt.ArgumentError, match=r"did you mean 'layout'.*\[unknown-argument\]"):
        replace(spec, layuot="nt")


def test_calls_name_the_nearest_of_their_options_and_operands() -> None:
    kernel = lt.compile_gemm(lt.GemmSpec(**TYPES), "sm_80")
    with pytest.raises(
        lt.InterpreterError,
        match=r"unknown operand 'sed'; this kernel takes a, b, d; did you mean 'seed'.*\[operands-of-kernel\]",
    ):
        kernel.interpret(None, None, sed=1)
    for call in (kernel, kernel.bind, kernel.workspace_bytes):
        with pytest.raises(
            lt.LaunchError,
            match=r"unknown operand 'steam'; the operands are a, b; did you mean 'stream'.*\[operand-unknown\]",
        ):
            call(None, None, steam=0)
    for multiply in (lt.matmul, lt.matmul.explain):
        with pytest.raises(
            lt.LaunchError, match=r"unknown operand epiloge.*; did you mean 'epilogue'.*\[product-operand-unknown\]"
        ):
            multiply(None, None, epiloge=None)
    options = inspect.signature(lt.matmul).parameters.values()
    assert tuple(one.name for one in options if one.kind is one.KEYWORD_ONLY) == calls._OPTIONS


def test_lists_of_matrices_are_refused_with_what_one_call_takes() -> None:
    with pytest.raises(
        lt.LaunchError, match=r"operand a: list is not an array; a call multiplies one A and one B.*\[operand-array\]"
    ):
        lt.matmul([None], [None])
