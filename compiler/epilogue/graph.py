"""The graph of an epilogue, traced by calling its function once with values that record what is done to them."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lowtide.compiler.epilogue.operands import Operand, OperandKind, name_error
from lowtide.compiler.epilogue.results import AMAX, NO_D, D, Reduced, Result, ResultKind, named_values
from lowtide.compiler.epilogue.signatures import (
    check_callable,
    defined_at,
    operand_of,
    parameters_of,
    plain_function,
    raised_at,
)
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
from lowtide.elements import INTEGER_TYPE, element_type
from lowtide.errors import SpecError
from lowtide.reductions import REDUCED_TYPE

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class EpilogueGraph:
    """A traced epilogue: a node for each result. Nodes are computed in the type `computes_in` from the accumulators (of
    type `acc`; `sums`: 1, or 2 for pairs of columns) and the operands' elements. Full results are rounded to their
    types. `nodes`: all nodes needed, inputs before users."""

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
                "amax=True needs a full result, but all results are reductions; return lt.amax(abs(x)) instead"
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
                "pairs of columns without an epilogue: pass one that takes both accumulators, def epilogue(gate, up)"
                " [pairs-epilogue]"
            )
        value, own = Traced(tracer, starts[0]), types.get(D, d)
        return graph_of((), {D: value}, {D: _clamped(tracer, _as_output(tracer, value, own), own)})
    check_callable(function)
    parameters = parameters_of(function, sums)
    operands = tuple(operand_of(function, parameter, d, tracer.dtype) for parameter in parameters[sums:])
    returned = _called(function, tracer, starts, parameters[sums:], operands)
    values, nodes = named_values(returned, defined_at(function)), {}
    for name, value in values.items():
        fault = None if name == D else name_error(name, "result")
        if fault is not None:
            raise SpecError(f"{defined_at(function)}: {fault} [results-name]")
        own = types.get(name, d)
        if isinstance(value, Reduced):
            nodes[name] = tracer.real(value.value)
        else:
            nodes[name] = _clamped(tracer, _result(tracer, value, function, own, name), own)
    graph = graph_of(_with_target(operands, values, nodes, defined_at(function)), values, nodes)
    _warn_of_unread(function, graph)
    return graph


def _called(
    function: Callable[..., Any],
    tracer: Tracer,
    starts: Sequence[Node],
    parameters: Sequence[inspect.Parameter],
    operands: Sequence[Operand],
) -> Any:
    """What the function returns for these accumulators, and for operands given as its other parameters want. Raises
    SpecError, with the line, if it raises."""
    positional: list[Any] = [Traced(tracer, start) for start in starts]
    by_name: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        is_integer = not element_type(operands[index].dtype).is_float
        value = Traced(tracer, tracer.node("operand", (), index, is_integer))
        if parameter.kind is parameter.KEYWORD_ONLY:
            by_name[parameter.name] = value
        else:
            positional.append(value)
    try:
        return function(*positional, **by_name)
    except SpecError:
        raise
    except Exception as error:
        raise SpecError(
            f"{raised_at(error, function)}: the epilogue raised {type(error).__name__}: {error}; use only operators, "
            "constants and lowtide's functions (lt.exp, lt.where, …) [epilogue-raised]"
        ) from error


def _result_of(value: Any, name: str, dtype: str, computed: str) -> Result:
    """The result of a value that the function returned. Raises SpecError for a reduction of f64."""
    if not isinstance(value, Reduced):
        return Result(name, ResultKind.FULL, dtype)
    if computed != REDUCED_TYPE:
        raise SpecError(
            f"the result {name!r} is a reduction in {computed}, but reductions are in {REDUCED_TYPE}; return the "
            "values, and reduce them in another kernel [reduction-type]"
        )
    return Result(name, value.kind, REDUCED_TYPE)


def _with_target(
    operands: tuple[Operand, ...], values: Mapping[str, Any], nodes: Mapping[str, Node], where: str
) -> tuple[Operand, ...]:
    """The operands, with the kind TARGET for the index of lt.gather. Raises SpecError if the index has another kind or
    type than lt.gather takes, if the epilogue also computes with it, or if there are several indices."""
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
            f"{where}: lt.gather takes its columns from {own.name!r}, {own.kind.value} of {own.dtype}; pass one "
            f'operand lt.PerRow["{INTEGER_TYPE}"], and use it for nothing else [gather-index]'
        )
    return (*operands[:index], Operand(own.name, OperandKind.TARGET, own.dtype), *operands[index + 1 :])


def _warn_of_unread(function: Callable[..., Any], graph: EpilogueGraph) -> None:
    """Warn about operands that no result depends on, if the function is a user's. An epilogue read from text or IR may
    have such operands: it takes those of its call."""
    read = {node.attribute for node in graph.nodes if node.op == "operand"}
    unread = [repr(graph.operands[index].name) for index in graph.region_operands if index not in read]
    plain = plain_function(function)
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
    start = f"{defined_at(function)}: the epilogue returned" + (f" as result {name!r}:" if name != D else "")
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
