"""The epilogue: a Python function of the accumulator and named operands, each as one element.

    def epilogue(acc, c: lt.Full, bias: lt.PerColumn, alpha: lt.Scalar):
        return lt.relu(alpha * acc + 0.5 * c + bias)

The kind of an operand says which of its elements belongs to d[m, n]. `lt.Full["f32"]` sets the element type; by default
it is D's (f32 for a scalar). A function that returns a dict gives several results (`epilogue.results`). Everything is
computed in f32, whatever the types of the accumulator and the operands, and
rounded to D's type once. With f64 accumulators, operands, scalars and D are f64, and everything is computed in f64.

Integers are s32: an s32 accumulator, and elements of s8, u8 and s32 operands. Sums, differences, products, maxima and
minima of integers alone, including constants, are computed in s32 and wrap around. Any other operation first converts
them to f32, which is exact up to 2²⁴ and rounds to nearest beyond. An s8 or u8 D is rounded to nearest, ties to even,
and saturated; NaN becomes 0.
"""

import enum
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from types import FunctionType, MappingProxyType
from typing import Any

from lowtide.compiler.dtypes import choices
from lowtide.compiler.epilogue.results import AMAX, NO_D, D, Reduced, Result, ResultKind, named_values
from lowtide.compiler.epilogue.trace import (
    Node,
    Predicate,
    Traced,
    Tracer,
    in_order,
    is_integer,
    is_ours,
    number_fault,
    number_of,
)
from lowtide.elements import INTEGER_TYPE, SCALE_BLOCK, element_type, types_of_d
from lowtide.errors import SpecError
from lowtide.reductions import REDUCED_TYPE

_NOTHING: Mapping[str, str] = MappingProxyType({})
# Names of parameters of a kernel's call, of its interpretation, and of the reference.
RESERVED_NAMES = frozenset(
    {"a", "b", "d", "m", "n", "k"}
    | {"domain", "level", "max_steps", "out", "seed", "self", "sms", "spec", "stream", "workspace"}
)


def name_error(name: Any, what: str = "epilogue operand") -> str | None:
    """Why an operand, or a `what` such as a result, cannot have this name; None if it can."""
    if name in RESERVED_NAMES:
        return (
            f"the {what}'s name {name!r} is reserved; kernels and the tools that check them use "
            f"{', '.join(sorted(RESERVED_NAMES))}: rename it"
        )
    if not isinstance(name, str) or not (name.isascii() and name.isidentifier()) or iskeyword(name):
        return (
            f"the {what}'s name {name!r} cannot be passed or saved; names consist of ASCII letters, "
            "digits and _, and are not keywords of Python: rename it"
        )
    return None


class OperandKind(enum.Enum):
    """Which elements of an operand belong to d[m, n]. The value is the word that `tile.gemm` prints."""

    FULL = "full"
    PER_ROW = "per_row"
    PER_COLUMN = "per_column"
    SCALAR = "scalar"
    GROUP_SCALE = "group_scale"
    GROUP_ZERO = "group_zero"
    ROW_SCALE = "row_scale"
    COLUMN_SCALE = "column_scale"
    ROW_BLOCK_SCALE = "row_block_scale"
    COLUMN_BLOCK_SCALE = "column_block_scale"
    ENDS = "ends"
    TARGET = "target"

    @property
    def is_of_epilogue(self) -> bool:
        """Whether the region reads it. Other operands act in the sum, are the ends of groups of rows, or the columns of
        lt.gather."""
        return self in (OperandKind.FULL, OperandKind.PER_ROW, OperandKind.PER_COLUMN, OperandKind.SCALAR)

    @property
    def is_block_scale(self) -> bool:
        """Whether it scales sums of blocks of K. The epilogue does not see it."""
        return self.value.startswith(("row_", "column_"))


@dataclass(frozen=True)
class OperandType:
    """A kind and an element type (`None`: D's), from an annotation."""

    kind: OperandKind
    dtype: str | None = None


class _Kind(Traced):
    """Base of the kinds. Type checkers see them as traced values; they are never instantiated."""

    __slots__ = ()
    kind: OperandKind

    def __class_getitem__(cls, dtype: str) -> OperandType:
        return OperandType(cls.kind, dtype)


class Full(_Kind):
    """An operand of shape (M, N): element (m, n) for d[m, n]. Rows may be padded; the last dimension is contiguous."""

    __slots__ = ()
    kind = OperandKind.FULL


class PerRow(_Kind):
    """An operand of shape (M,): element m for d[m, n]."""

    __slots__ = ()
    kind = OperandKind.PER_ROW


class PerColumn(_Kind):
    """An operand of shape (N,): element n for d[m, n]."""

    __slots__ = ()
    kind = OperandKind.PER_COLUMN


class Scalar(_Kind):
    """One f32, passed by value at each call; one f64 with f64 accumulators."""

    __slots__ = ()
    kind = OperandKind.SCALAR


_KINDS = "lt.Full, lt.PerRow, lt.PerColumn or lt.Scalar"


@dataclass(frozen=True)
class Operand:
    """A named operand beside A and B: its kind and element type. The types are f16, bf16, f32, s8, u8, s32, from sm_89
    on e4m3 and e5m2, and only f64 with f64 accumulators."""

    name: str
    kind: OperandKind
    dtype: str
    group: int | None = None
    """The number of elements of K that share a GROUP_SCALE or GROUP_ZERO, which act in the sum, not in the epilogue."""
    count: int | None = None
    """The number of groups of rows, for ENDS (`None`: known at run time)."""

    def shape(self, m: int | None, n: int | None, k: int | None = None) -> tuple[int | None, ...]:
        """The shape if D has m rows and n columns and sums have k products (`None`: known at run time)."""
        if self.group is not None:
            return (None if k is None else k // self.group, n)
        shapes = {
            OperandKind.FULL: (m, n),
            OperandKind.PER_ROW: (m,),
            OperandKind.TARGET: (m,),
            OperandKind.PER_COLUMN: (n,),
            OperandKind.ENDS: (self.count,),
            OperandKind.ROW_SCALE: (_blocks(k), m),
            OperandKind.COLUMN_SCALE: (_blocks(k), n),
            OperandKind.ROW_BLOCK_SCALE: (_blocks(m), _blocks(k)),
            OperandKind.COLUMN_BLOCK_SCALE: (_blocks(n), _blocks(k)),
        }
        return shapes.get(self.kind, ())


def _blocks(extent: int | None) -> int | None:
    """The number of blocks with scales of their own along an extent."""
    return None if extent is None else -(-extent // SCALE_BLOCK)


@dataclass(frozen=True, eq=False)
class EpilogueGraph:
    """A traced epilogue: a node for each result. They are computed in the type `computes_in` from the accumulators
    (of type `acc`; `sums`: 1, or 2 for pairs of columns) and the operands' elements; those of full results are rounded
    to their types. `nodes`: all nodes needed, inputs before users."""

    acc: str
    operands: tuple[Operand, ...]
    results: tuple[tuple[Result, Node], ...]
    nodes: tuple[Node, ...]
    sums: int = 1

    @classmethod
    def of(
        cls, acc: str, operands: tuple[Operand, ...], *results: tuple[Result, Node], sums: int = 1
    ) -> "EpilogueGraph":
        """The graph of these results."""
        nodes = dict.fromkeys(node for _, root in results for node in in_order(root))
        return cls(acc, operands, results, tuple(nodes), sums)

    @property
    def region_operands(self) -> tuple[int, ...]:
        """The indices of the operands that the region reads, in order."""
        return tuple(index for index, operand in enumerate(self.operands) if operand.kind.is_of_epilogue)

    @property
    def result(self) -> Node:
        """The node of D, the first full result."""
        return next(node for result, node in self.results if result.kind is ResultKind.FULL)

    @property
    def d(self) -> str:
        """The element type of D."""
        return next(result.dtype for result, _ in self.results if result.kind is ResultKind.FULL)

    @property
    def computes_in(self) -> str:
        """The element type of every step: f32, or f64 for f64 accumulators."""
        return element_type(self.acc).computes_in


def trace(
    function: Callable[..., Any] | None,
    acc: str,
    d: str,
    amax: bool = False,
    types: Mapping[str, str] = _NOTHING,
    sums: int = 1,
) -> EpilogueGraph:
    """Trace `function` (`None`: D is the rounded accumulator) for accumulator type `acc`. Its first `sums` parameters
    are accumulators: two for pairs of columns. Results have the type that `types` has for their name, else `d`. With
    `amax`, also trace the f32 value that is converted to the first result.

    Raises `SpecError`, with the line, if the function cannot be traced, an operand has no kind, or a result is not a
    number or has no valid name. Warns if no result depends on an operand, or on one accumulator of a pair.
    """
    tracer = Tracer(element_type(acc).computes_in)

    def graph_of(operands: tuple[Operand, ...], values: Mapping[str, Any], nodes: Mapping[str, Node]) -> EpilogueGraph:
        results = [(_result_of(values[name], name, types.get(name, d), tracer.dtype), nodes[name]) for name in nodes]
        if all(result.kind is not ResultKind.FULL for result, _ in results):
            results.insert(0, (Result(NO_D, ResultKind.ABSENT, tracer.dtype), results[0][1]))
        if amax and results[0][0].kind is ResultKind.ABSENT:
            raise SpecError(
                "amax=True with reductions alone: an amax is of the first full result; return lt.amax(abs(x))"
                " [reduction-amax]"
            )
        if amax:
            first = next(value for value in values.values() if not isinstance(value, Reduced))
            results.append((Result(AMAX, ResultKind.AMAX, tracer.dtype), tracer.real(first)))
        return EpilogueGraph.of(acc, operands, *results, sums=sums)

    is_integer_sum = not element_type(acc).is_float
    starts = [tracer.node("acc", (), index or None, is_integer_sum) for index in range(sums)]
    if function is None:
        if sums > 1:
            raise SpecError(
                "pairs of columns need an epilogue that takes both accumulators: def epilogue(gate, up)"
                " [pairs-epilogue]"
            )
        value, own = Traced(tracer, starts[0]), types.get(D, d)
        return graph_of((), {D: value}, {D: _clamped(tracer, _as_output(tracer, value, own), own)})
    if not callable(function):
        raise SpecError(_no_function(function))
    parameters = _parameters(function, sums)
    operands = tuple(_operand(function, parameter, d, tracer.dtype) for parameter in parameters[sums:])
    positional: list[Any] = [Traced(tracer, start) for start in starts]
    by_name: dict[str, Any] = {}
    for index, parameter in enumerate(parameters[sums:]):
        is_integer = not element_type(operands[index].dtype).is_float
        value = Traced(tracer, tracer.node("operand", (), index, is_integer))
        if parameter.kind is parameter.KEYWORD_ONLY:
            by_name[parameter.name] = value
        else:
            positional.append(value)
    try:
        returned = function(*positional, **by_name)
    except SpecError:
        raise
    except Exception as error:
        raise SpecError(
            f"{_raised_at(error, function)}: the epilogue raised {type(error).__name__}: {error}; use only operators, "
            "constants and lowtide's functions (lt.exp, lt.where, …) [epilogue-raised]"
        ) from error
    values, nodes = named_values(returned, _defined_at(function)), {}
    for name, value in values.items():
        fault = None if name == D else name_error(name, "result")
        if fault is not None:
            raise SpecError(f"{_defined_at(function)}: {fault} [results-name]")
        own = types.get(name, d)
        if isinstance(value, Reduced):
            nodes[name] = tracer.real(value.value)
        else:
            nodes[name] = _clamped(tracer, _result(tracer, value, function, own, name), own)
    graph = graph_of(_with_target(operands, values, nodes, _defined_at(function)), values, nodes)
    _warn_of_unread(function, graph)
    return graph


def _result_of(value: Any, name: str, dtype: str, computed: str) -> Result:
    """The result of a value that the function returned. Raises SpecError for a reduction of f64."""
    if not isinstance(value, Reduced):
        return Result(name, ResultKind.FULL, dtype)
    if computed != REDUCED_TYPE:
        raise SpecError(
            f"the result {name!r} is a reduction in {computed}: reductions are {REDUCED_TYPE}; return the values, and "
            "reduce these [reduction-type]"
        )
    return Result(name, value.kind, REDUCED_TYPE)


def _with_target(
    operands: tuple[Operand, ...], values: Mapping[str, Any], nodes: Mapping[str, Node], where: str
) -> tuple[Operand, ...]:
    """The operands; the index of lt.gather becomes a TARGET. Raises SpecError if that operand is of another kind or
    type, if the epilogue also computes with it, or if there are several."""
    found = {
        value.index._node.attribute
        for value in values.values()
        if isinstance(value, Reduced) and value.index is not None
    }
    if not found:
        return operands
    (index, *others) = sorted(found)
    own = operands[index]
    read = {node.attribute for root in nodes.values() for node in in_order(root) if node.op == "operand"}
    if own.kind is not OperandKind.PER_ROW or own.dtype != INTEGER_TYPE or others or index in read:
        raise SpecError(
            f"{where}: lt.gather takes its columns from {own.name!r}, {own.kind.value} of {own.dtype}; they are one "
            f'operand lt.PerRow["{INTEGER_TYPE}"] that nothing else reads [gather-index]'
        )
    return (*operands[:index], Operand(own.name, OperandKind.TARGET, own.dtype), *operands[index + 1 :])


def _warn_of_unread(function: Callable[..., Any], graph: EpilogueGraph) -> None:
    """Warn about operands that no result depends on, if the function is a user's. An epilogue read from text or IR may
    have such operands: it takes those of its call."""
    read = {node.attribute for node in graph.nodes if node.op == "operand"}
    unread = [repr(graph.operands[index].name) for index in graph.region_operands if index not in read]
    plain = _plain(function)
    if not unread or plain is None or is_ours(plain.__globals__.get("__name__", "")):
        return
    names = [result.name for result, _ in graph.results if result.kind is ResultKind.FULL]
    start = "D does not depend" if names == [D] else f"the results {', '.join(names)} do not depend"
    warnings.warn_explicit(
        f"{start} on the epilogue's operand {', '.join(unread)}, which every call must pass: use it in the "
        "value that the function returns (`x += y` only rebinds the name x), or remove the parameter",
        UserWarning,
        plain.__code__.co_filename,
        plain.__code__.co_firstlineno,
        registry=plain.__globals__.setdefault("__warningregistry__", {}),
    )


def operand_types(function: Callable[..., Any] | None, sums: int = 1) -> dict[str, OperandType]:
    """The operands of an epilogue by name, from its annotations; they follow `sums` accumulators. Raises `SpecError` as
    `trace` does."""
    if function is None:
        return {}
    if not callable(function):
        raise SpecError(_no_function(function))
    types: dict[str, OperandType] = {}
    for parameter in _parameters(function, sums)[sums:]:
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
        for parameter in _parameters(function, sums)
    ]
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return typed


def _no_function(given: object) -> str:
    return (
        f"epilogue is {type(given).__name__} {given!r}; it must be a function of the accumulator, or None for none"
        " [epilogue-function]"
    )


def _known_type(function: Callable[..., Any], parameter: inspect.Parameter) -> OperandType:
    """The kind and type of an operand. Raises SpecError if its annotation gives no kind."""
    found = _operand_type(function, parameter)
    if found is None:
        raise SpecError(
            f"{_defined_at(function)}: the epilogue operand {parameter.name!r} has no kind; annotate it with {_KINDS}"
            " (only GemmSpec(pairs=…) has a second accumulator) [operand-kind]"
        )
    return found


def _clamped(tracer: Tracer, result: Node, d: str) -> Node:
    """Clamp the result to the finite values of a D that is only stored; NaN stays NaN."""
    if not element_type(d).is_converted_to:
        return result
    largest = element_type(d).largest
    low, high = (tracer.node("const", (), value) for value in (-largest, largest))
    is_clamped = result.op == "max" and result.inputs[1] is low and result.inputs[0].op == "min"
    if is_clamped and result.inputs[0].inputs[1] is high:
        return result
    return tracer.node("max", (tracer.node("min", (result, high)), low))


def _parameters(function: Callable[..., Any], sums: int = 1) -> list[inspect.Parameter]:
    """The function's parameters, `sums` accumulators first. Raises `SpecError` for an unsupported signature."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (NameError, TypeError, ValueError) as error:
        raise SpecError(
            f"epilogue {function!r} has no signature to read ({error}); wrap it in a def [epilogue-signature]"
        ) from error
    where = _defined_at(function)
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
                "put an accumulator before the operands [accumulator-kind]"
            )
    return parameters


def _operand(function: Callable[..., Any], parameter: inspect.Parameter, d: str, computes_in: str) -> Operand:
    where, name = _defined_at(function), parameter.name
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
    if isinstance(annotation, type) and issubclass(annotation, _Kind) and annotation is not _Kind:
        return OperandType(annotation.kind)
    return annotation if isinstance(annotation, OperandType) else None


def _evaluated(function: Callable[..., Any], name: str, annotation: str) -> Any:
    code = _plain(function)
    scope: dict[str, Any] = {}
    if code is not None:
        scope |= inspect.getclosurevars(code).nonlocals
    try:
        return eval(annotation, dict(code.__globals__) if code is not None else {}, scope)
    except Exception as error:
        raise SpecError(
            f"{_defined_at(function)}: the annotation {annotation!r} of {name!r} cannot be evaluated ({error}); "
            "import lowtide at the top of the module, or leave out `from __future__ import annotations`"
            " [annotation-evaluated]"
        ) from error


def _as_output(tracer: Tracer, value: object, d: str) -> Node:
    """The value as it is rounded to D's type: integers unchanged for an integer D, otherwise converted.

    Raises SpecError for a D of s32 and a value that is not an integer.
    """
    if element_type(d).is_float:
        return tracer.real(value)
    node = tracer.integer(value) if is_integer(value) and not isinstance(value, Traced) else tracer.lift(value)
    if d == INTEGER_TYPE and not node.is_integer:
        raise SpecError(
            f"a float: the value is {tracer.dtype}, which does not hold every {d} of D: compute with integers alone "
            "(+ − ×, lt.maximum, lt.minimum, lt.where of integer operands and constants), or take d='f32'"
            " [integers-of-d]"
        )
    return node


def _result(tracer: Tracer, returned: object, function: Callable[..., Any], d: str, name: str) -> Node:
    """The node of the value returned for a result, which may be a constant."""
    start = f"{_defined_at(function)}: the epilogue returned" + (f" as result {name!r}:" if name != D else "")
    if inspect.iscoroutine(returned):
        returned.close()  # otherwise Python warns that it was never awaited
    if returned is None:
        raise SpecError(f"{start} None; return the value of {name}'s element [epilogue-none]")
    if isinstance(returned, Predicate):
        raise SpecError(f"{start} a comparison; return lt.where(condition, x, y) [epilogue-comparison]")
    if not isinstance(returned, Traced) and number_of(returned) is None:
        ways = {"generator": "yield", "coroutine": "async", "async_generator": "async and yield"}
        way_out = f" (without {ways[kind]})" if (kind := type(returned).__name__) in ways else ""
        raise SpecError(
            f"{start} {kind}; it must return one number made from its arguments, or a constant{way_out}"
            " [epilogue-result]"
        )
    is_whole = is_integer(returned) and not element_type(d).is_float
    if (fault := number_fault(returned, INTEGER_TYPE if is_whole else tracer.dtype)) is not None:
        raise SpecError(f"{start} {'; '.join(fault)} [epilogue-constant]")
    try:
        return _as_output(tracer, returned, d)
    except SpecError as error:
        raise SpecError(f"{start} {error}") from error


def _plain(function: Callable[..., Any]) -> FunctionType | None:
    """The Python function behind a callable (partial, method, object with __call__), if there is one."""
    inner: Any = inspect.unwrap(function)
    while hasattr(inner, "func"):
        inner = inner.func
    if not isinstance(inner, FunctionType):
        inner = getattr(inner, "__func__", vars(type(inner)).get("__call__"))
    return inner if isinstance(inner, FunctionType) else None


def _defined_at(function: Callable[..., Any]) -> str:
    code = _plain(function)
    return f"{code.__code__.co_filename}:{code.__code__.co_firstlineno}" if code is not None else repr(function)


def _raised_at(error: Exception, function: Callable[..., Any]) -> str:
    """The user's innermost line in the traceback."""
    where, trace = _defined_at(function), error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if not is_ours(frame.f_globals.get("__name__", "")):
            where = f"{frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where
