"""A traced epilogue as one line of text, and the function that such a text denotes.

    (acc: f32, %bias: per_column bf16, %alpha: scalar f32) -> bf16 { %0 = mul acc, %alpha; %1 = add %0, %bias; %1 }

The parentheses hold the types of the sums and of the operands, each operand with its kind, in the order of a call's
arguments. D's type follows the arrow. The braces hold one operation per node of the trace (`trace.Node` lists them),
inputs before users, and last D's element. A constant is written as a number where it is used: `1` is an integer, `1.0`
is not. `cast` names its type: `%2 = cast<f16> %1`.

The text is canonical: functions that compute the same by the same operations have the same text, in any process. Custom
ops carry it in place of a Python function.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lowtide.compiler.epilogue.graph import EpilogueGraph, trace
from lowtide.compiler.epilogue.operands import Operand, OperandKind, OperandType, name_error
from lowtide.compiler.epilogue.results import gives_d_alone
from lowtide.compiler.epilogue.signatures import annotated
from lowtide.compiler.epilogue.trace import ARITY, Node, Predicate, Traced
from lowtide.elements import ELEMENTS, element_type
from lowtide.errors import SpecError

_ACCUMULATOR = "acc"
_WHOLE = re.compile(r"\((?P<values>[^()]*)\) -> (?P<d>\w+) \{ (?:(?P<steps>[^{}]*); )?(?P<result>[^{};]+) \}")
_OPERAND = re.compile(r"%(?P<name>[A-Za-z_]\w*): (?P<kind>\w+) (?P<dtype>\w+)", re.ASCII)
_STEP = re.compile(r"(?P<result>%\d+) = (?P<op>\w+)(?:<(?P<attribute>\w+)>)? (?P<inputs>.+)", re.ASCII)
_KINDS = {kind.value: kind for kind in OperandKind if kind.is_of_epilogue}


def epilogue_text(
    function: Callable[..., Any] | None, acc: str, d: str, dtypes: Mapping[str, str] | None = None
) -> str:
    """The text of an epilogue for sums of type `acc` and a D of type `d`; "" for None.

    `dtypes`: element types by name, for operands whose annotations have none; by default D's. Raises SpecError, as
    compilation does.
    """
    if function is None:
        return ""
    return graph_text(trace(annotated(function, dtypes or {}), acc, d))


def graph_text(graph: EpilogueGraph) -> str:
    """The text of a traced epilogue. Raises SpecError unless D is its only full result."""
    if not gives_d_alone(result for result, _ in graph.results):
        raise SpecError(
            "an epilogue as text has only the result D: for several results, compile a GemmSpec [text-results]"
        )
    names: dict[int, str] = {}
    steps: list[str] = []
    for node in graph.nodes:
        if node.op in ("acc", "operand", "const"):
            names[id(node)] = _leaf(node, graph.operands)
            continue
        names[id(node)] = f"%{len(steps)}"
        attribute = "" if node.attribute is None else f"<{node.attribute}>"
        steps.append(f"%{len(steps)} = {node.op}{attribute} {', '.join(names[id(x)] for x in node.inputs)}; ")
    values = [f"{_ACCUMULATOR}: {graph.acc}", *(f"%{x.name}: {x.kind.value} {x.dtype}" for x in graph.operands)]
    return f"({', '.join(values)}) -> {graph.d} {{ {''.join(steps)}{names[id(graph.result)]} }}"


def _leaf(node: Node, operands: tuple[Operand, ...]) -> str:
    if node.op == "operand":
        assert isinstance(node.attribute, int)
        return f"%{operands[node.attribute].name}"
    return _ACCUMULATOR if node.op == "acc" else repr(node.attribute)


class TextEpilogue:
    """The epilogue that a text denotes: a function of the accumulator and the operands, traced like any other."""

    def __init__(self, text: str) -> None:
        """Raises SpecError, which quotes the error."""
        whole = _WHOLE.fullmatch(text)
        if whole is None:
            raise _error(text, "its form is (acc: f32, %x: kind type, …) -> type { %0 = op value, …; …; value }")
        first, *others = whole["values"].split(", ")
        self.text = text
        self.acc = _type(text, first.removeprefix(f"{_ACCUMULATOR}: "))
        self.d = _type(text, whole["d"])
        self.operands = tuple(_operand(text, part) for part in others)
        self._steps = [_step(text, part) for part in (whole["steps"] or "").split("; ") if part]
        self._result = whole["result"]
        self._check_names()
        self.__signature__ = inspect.Signature([*self._parameters()])

    def __call__(self, acc: Traced, *operands: Traced) -> Traced | Predicate:
        """Apply the operations of the text to traced values. Raises SpecError."""
        values: dict[str, Traced | Predicate] = {_ACCUMULATOR: acc}
        values |= {f"%{x.name}": value for x, value in zip(self.operands, operands, strict=True)}

        def value(word: str) -> Traced | Predicate:
            return values[word] if word in values else _constant(acc, word)

        for result, op, attribute, inputs in self._steps:
            values[result] = acc._tracer.repeated(op, [value(word) for word in inputs], attribute)
        return value(self._result)

    def graph(self) -> EpilogueGraph:
        """The text, traced again. Raises SpecError."""
        return trace(self, self.acc, self.d)

    def _parameters(self) -> Iterator[inspect.Parameter]:
        first = _ACCUMULATOR
        while any(operand.name == first for operand in self.operands):
            first += "_"
        yield inspect.Parameter(first, inspect.Parameter.POSITIONAL_ONLY)
        for operand in self.operands:
            kind = OperandType(operand.kind, None if operand.kind is OperandKind.SCALAR else operand.dtype)
            yield inspect.Parameter(operand.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)

    def _check_names(self) -> None:
        """Raises SpecError for a value that is used before its definition, or defined twice."""
        names = [operand.name for operand in self.operands]
        if len({*names}) < len(names):
            raise _error(self.text, "two operands have the same name")
        known = {_ACCUMULATOR, *(f"%{name}" for name in names)}
        for result, _, _, inputs in self._steps:
            for word in inputs:
                _check_value(self.text, word, known)
            if result in known:
                raise _error(self.text, f"{result} is defined twice")
            known.add(result)
        _check_value(self.text, self._result, known)


def _check_value(text: str, word: str, known: set[str]) -> None:
    if word in known:
        return
    try:
        (int if _is_whole(word) else float)(word)
    except ValueError:  # also for integers with thousands of digits
        raise _error(text, f"{word!r} is neither a number nor a value defined before") from None


def _constant(beside: Traced, word: str) -> Traced:
    tracer = beside._tracer
    return Traced(tracer, tracer.integer(int(word)) if _is_whole(word) else tracer.lift(float(word)))


def _is_whole(word: str) -> bool:
    return word.removeprefix("-").isdecimal()


def _operand(text: str, part: str) -> Operand:
    found = _OPERAND.fullmatch(part)
    if found is None or found["kind"] not in _KINDS:
        raise _error(text, f"{part!r} is not an operand: %name: kind type, with the kinds {', '.join(_KINDS)}")
    if (error := name_error(found["name"])) is not None:
        raise _error(text, error)
    return Operand(found["name"], _KINDS[found["kind"]], _type(text, found["dtype"]))


def _step(text: str, part: str) -> tuple[str, str, str | None, tuple[str, ...]]:
    found = _STEP.fullmatch(part)
    inputs = tuple(found["inputs"].split(", ")) if found else ()
    if found is None or ARITY.get(found["op"]) != len(inputs):
        raise _error(text, f"{part!r} is not an operation: %0 = op value, …, with the ops {', '.join(ARITY)}")
    attribute = found["attribute"]
    if (attribute is None) == (found["op"] == "cast"):
        raise _error(text, f"{part!r}: cast has a type, such as cast<f16>; other ops have none")
    if attribute is not None and not element_type(_type(text, attribute)).is_float:
        raise _error(text, f"{part!r}: cast rounds to a float")
    return found["result"], found["op"], attribute, inputs


def _type(text: str, name: str) -> str:
    if name not in ELEMENTS:
        raise _error(text, f"{name!r} is not an element type: {', '.join(ELEMENTS)}")
    return name


def _error(text: str, what: str) -> SpecError:
    return SpecError(
        f"the text of an epilogue, {text!r}: {what}; lowtide.torch.epilogue_text(function) writes one [epilogue-text]"
    )
