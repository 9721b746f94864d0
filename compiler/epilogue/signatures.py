"""The signature of an epilogue: its parameters, the kinds and types of its operands, and its place in the source."""

import functools
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from lowtide.compiler.dtypes import choices
from lowtide.compiler.epilogue.operands import Kind, Operand, OperandKind, OperandType, name_error
from lowtide.compiler.epilogue.trace import is_ours
from lowtide.elements import types_of_d
from lowtide.errors import SpecError

_KINDS = "lt.Full, lt.PerRow, lt.PerColumn or lt.Scalar"


def operand_types(function: Callable[..., Any] | None, sums: int = 1) -> dict[str, OperandType]:
    """The operands of an epilogue by name, from its annotations; they follow `sums` accumulators. Raises `SpecError` as
    `trace` does."""
    if function is None:
        return {}
    check_callable(function)
    types: dict[str, OperandType] = {}
    for parameter in parameters_of(function, sums)[sums:]:
        types[parameter.name] = _known_type(function, parameter)
    return types


def annotated(function: Callable[..., Any], dtypes: Mapping[str, str], sums: int = 1) -> Callable[..., Any]:
    """The same epilogue, with `dtypes` (by name) for operands whose annotations have no type; `sums` accumulators come
    before them. Raises `SpecError`."""
    types = operand_types(function, sums)
    open_ = [name for name, type in types.items() if type.dtype is None and type.kind is not OperandKind.SCALAR]
    if not any(name in dtypes for name in open_):
        return function

    @functools.wraps(function, updated=())
    def typed(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    parameters = [
        parameter.replace(annotation=OperandType(types[parameter.name].kind, dtypes[parameter.name]))
        if parameter.name in open_ and parameter.name in dtypes
        else parameter
        for parameter in parameters_of(function, sums)
    ]
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return typed


def check_callable(given: object) -> None:
    """Raises `SpecError` for an epilogue that cannot be called."""
    if not callable(given):
        raise SpecError(
            f"epilogue is {type(given).__name__} {given!r}; it must be a function of the accumulator, or None for none"
            " [epilogue-function]"
        )


def _known_type(function: Callable[..., Any], parameter: inspect.Parameter) -> OperandType:
    """The kind and type of an operand. Raises SpecError if its annotation gives no kind."""
    found = _operand_type(function, parameter)
    if found is None:
        raise SpecError(
            f"{defined_at(function)}: the epilogue operand {parameter.name!r} has no kind; annotate it with {_KINDS}"
            " (for a second accumulator, use GemmSpec(pairs=…)) [operand-kind]"
        )
    return found


def parameters_of(function: Callable[..., Any], sums: int = 1) -> list[inspect.Parameter]:
    """The function's parameters, `sums` accumulators first. Raises `SpecError` for an unsupported signature."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (NameError, TypeError, ValueError) as error:
        raise SpecError(
            f"epilogue {function!r} has no signature to read ({error}); wrap it in a def [epilogue-signature]"
        ) from error
    where = defined_at(function)
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise SpecError(
            f"{where}: the epilogue takes no accumulator; make it the first parameter: def epilogue(acc, …)"
            " [epilogue-accumulator]"
        )
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    if len(parameters) < sums or any(parameter.kind in by_name for parameter in parameters[:sums]):
        raise SpecError(
            f"{where}: with pairs of columns the epilogue's first two parameters are accumulators; write "
            "def epilogue(gate, up, …) [pairs-accumulators]"
        )
    for parameter in parameters:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise SpecError(
                f"{where}: epilogue parameter {str(parameter)!r} takes several operands; name each one, with its kind"
                " [epilogue-parameter]"
            )
        if parameter.default is not inspect.Parameter.empty:
            raise SpecError(
                f"{where}: epilogue parameter {parameter.name!r} has a default, but every call passes all operands: "
                "remove the default, or make it a constant in the body [epilogue-default]"
            )
    for number, parameter in enumerate(parameters[:sums]):
        if _operand_type(function, parameter) is not None:
            which = "first" if number == 0 else "second"
            raise SpecError(
                f"{where}: the epilogue's {which} parameter, {parameter.name!r}, is the accumulator and has no kind; "
                "remove its annotation, or put an accumulator before the operands [accumulator-kind]"
            )
    return parameters


def operand_of(function: Callable[..., Any], parameter: inspect.Parameter, d: str, computes_in: str) -> Operand:
    """The operand of a parameter of an epilogue, in a type that the epilogue computes with. Raises `SpecError`."""
    where, name = defined_at(function), parameter.name
    if (error := name_error(name)) is not None:
        raise SpecError(f"{where}: {error} [operand-name]")
    type = _known_type(function, parameter)
    if type.kind is OperandKind.SCALAR:
        if type.dtype not in (None, computes_in):
            raise SpecError(
                f"{where}: the scalar {name!r} of {type.dtype!r}: scalars are {computes_in} here; write lt.Scalar"
                " [scalar-type]"
            )
        return Operand(name, type.kind, computes_in)
    dtype = d if type.dtype is None else type.dtype
    valid = types_of_d(computes_in)
    if dtype in types_of_d() and dtype not in valid:
        raise SpecError(
            f"{where}: operand {name!r} of {dtype}, but the epilogue computes in {computes_in}: {choices(dtype, valid)}"
            " [operand-computes]"
        )
    if dtype not in valid:
        raise SpecError(f"{where}: unknown dtype {dtype!r} of operand {name!r}: {choices(dtype, valid)} [operand-type]")
    return Operand(name, type.kind, dtype)


def _operand_type(function: Callable[..., Any], parameter: inspect.Parameter) -> OperandType | None:
    """The kind and type of an annotation, `None` if it has no kind. Strings are evaluated in the function's module."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = _evaluated(function, parameter.name, annotation)
    if isinstance(annotation, type) and issubclass(annotation, Kind) and annotation is not Kind:
        return OperandType(annotation.kind)
    return annotation if isinstance(annotation, OperandType) else None


def _evaluated(function: Callable[..., Any], name: str, annotation: str) -> Any:
    code = plain_function(function)
    scope: dict[str, Any] = {}
    if code is not None:
        scope |= inspect.getclosurevars(code).nonlocals
    try:
        return eval(annotation, dict(code.__globals__) if code is not None else {}, scope)
    except Exception as error:
        raise SpecError(
            f"{defined_at(function)}: the annotation {annotation!r} of {name!r} cannot be evaluated ({error}); "
            "import lowtide at the top of the module, or leave out `from __future__ import annotations`"
            " [annotation-evaluated]"
        ) from error


def plain_function(function: Callable[..., Any]) -> FunctionType | None:
    """The Python function behind a callable (partial, method, object with __call__), if there is one."""
    inner: Any = inspect.unwrap(function)
    while hasattr(inner, "func"):
        inner = inner.func
    if not isinstance(inner, FunctionType):
        inner = getattr(inner, "__func__", vars(type(inner)).get("__call__"))
    return inner if isinstance(inner, FunctionType) else None


def defined_at(function: Callable[..., Any]) -> str:
    """The file and line of an epilogue's definition, for messages."""
    code = plain_function(function)
    return f"{code.__code__.co_filename}:{code.__code__.co_firstlineno}" if code is not None else repr(function)


def raised_at(error: Exception, function: Callable[..., Any]) -> str:
    """The user's innermost line in the traceback."""
    where, trace = defined_at(function), error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if not is_ours(frame.f_globals.get("__name__", "")):
            where = f"{frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where
