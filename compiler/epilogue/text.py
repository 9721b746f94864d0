"""A traced epilogue as one line of text, and the function that such a text denotes.

    (acc: f32, %bias: per_column bf16, %alpha: scalar f32) -> bf16 { %0 = mul acc, %alpha; %1 = add %0, %bias; %1 }

The parentheses hold the types of the sums and of the operands, each operand with its kind, in the order of a call's
arguments. D's type follows the arrow. The braces hold one operation per node of the trace (`trace.Node` lists them),
inputs before users, and last D's element. A constant is written as a number where it is used: `1` is an integer, `1.0`
is not. `cast` names its type: `%2 = cast<f16> %1`.

Pairs of columns have a second accumulator, `acc2`. With several results, each has a name, with its type or the kind of
its reduction, and the braces end with an element of each. A value in one column of each row names the operand that has
the columns:

    (acc: f32, acc2: f32) -> (hidden: bf16, up: bf16) { %0 = mul acc, acc2; %0, acc2 }
    (acc: f32, %target: per_row s32) -> (lse: row_logsumexp, wanted: row_value %target) { acc, acc }

The text is canonical: functions that compute the same by the same operations have the same text, in any process. Custom
ops carry it in place of a Python function.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lowtide.compiler.epilogue.graph import EpilogueGraph, trace
from lowtide.compiler.epilogue.operands import Operand, OperandKind, OperandType, name_error
from lowtide.compiler.epilogue.results import D, Reduced, Result, ResultKind, gives_d_alone
from lowtide.compiler.epilogue.signatures import annotated
from lowtide.compiler.epilogue.trace import ARITY, Node, Predicate, Traced
from lowtide.elements import ELEMENTS, element_type
from lowtide.errors import SpecError
from lowtide.reductions import REDUCTIONS

_ACCUMULATOR, _SECOND = "acc", "acc2"
_WHOLE = re.compile(
    r"\((?P<values>[^()]*)\) -> (?P<results>\w+|\([^()]+\)) \{ (?:(?P<steps>[^{}]*); )?(?P<last>[^{};]+) \}"
)
_RESULT = re.compile(r"(?P<name>[A-Za-z_]\w*): (?P<word>\w+)(?: %(?P<index>[A-Za-z_]\w*))?", re.ASCII)
_OPERAND = re.compile(r"%(?P<name>[A-Za-z_]\w*): (?P<kind>\w+) (?P<dtype>\w+)", re.ASCII)
_STEP = re.compile(r"(?P<result>%\d+) = (?P<op>\w+)(?:<(?P<attribute>\w+)>)? (?P<inputs>.+)", re.ASCII)
_KINDS = {kind.value: kind for kind in OperandKind if kind.is_of_epilogue}
_NOT_RETURNED = (ResultKind.ABSENT, ResultKind.AMAX)


def epilogue_text(
    function: Callable[..., Any] | None, acc: str, d: str, dtypes: Mapping[str, str] | None = None, sums: int = 1
) -> str:
    """The text of an epilogue for sums of type `acc` and a D of type `d`; "" for None.

    `dtypes`: element types by name, for operands whose annotations have none, by default D's; and for full results,
    also D's by default. `sums`: 2 for pairs of columns. Raises SpecError, as compilation does.
    """
    if function is None:
        return ""
    given = dtypes or {}
    return graph_text(trace(annotated(function, given, sums), acc, d, types=given, sums=sums))


def graph_text(graph: EpilogueGraph) -> str:
    """The text of a traced epilogue."""
    names: dict[int, str] = {}
    steps: list[str] = []
    for node in graph.nodes:
        if node.op in ("acc", "operand", "const"):
            names[id(node)] = _leaf(node, graph.operands)
            continue
        names[id(node)] = f"%{len(steps)}"
        attribute = "" if node.attribute is None else f"<{node.attribute}>"
        steps.append(f"%{len(steps)} = {node.op}{attribute} {', '.join(names[id(x)] for x in node.inputs)}; ")
    sums = [f"{name}: {graph.acc}" for name in (_ACCUMULATOR, _SECOND)[: graph.sums]]
    values = [*sums, *(f"%{x.name}: {_kind_of_call(x).value} {x.dtype}" for x in graph.operands)]
    returned = [(result, names[id(node)]) for result, node in graph.results if result.kind not in _NOT_RETURNED]
    target = next((x.name for x in graph.operands if x.kind is OperandKind.TARGET), "")
    if gives_d_alone(result for result, _ in returned) and returned[0][0].kind is ResultKind.FULL:
        results = graph.d
    else:
        results = f"({', '.join(_result_text(result, target) for result, _ in returned)})"
    return f"({', '.join(values)}) -> {results} {{ {''.join(steps)}{', '.join(name for _, name in returned)} }}"


def _kind_of_call(operand: Operand) -> OperandKind:
    """The kind with which the operand is passed: the columns of lt.gather are one for each row."""
    return OperandKind.PER_ROW if operand.kind is OperandKind.TARGET else operand.kind


def _result_text(result: Result, target: str) -> str:
    if result.kind is ResultKind.FULL:
        return f"{result.name}: {result.dtype}"
    index = f" %{target}" if result.kind is ResultKind.ROW_VALUE else ""
    return f"{result.name}: {result.kind.value}{index}"


def _leaf(node: Node, operands: tuple[Operand, ...]) -> str:
    if node.op == "operand":
        assert isinstance(node.attribute, int)
        return f"%{operands[node.attribute].name}"
    if node.op == "acc":
        return _SECOND if node.attribute else _ACCUMULATOR
    return repr(node.attribute)


class TextEpilogue:
    """The epilogue that a text denotes: a function of the accumulators and the operands, traced like any other.

    `sums`: the number of accumulators. `results`: of each result the name, its type or the word of its reduction, and
    the operand that has its columns, or None. `d`: D's type, or that of the first full result, else that of sums.
    """

    def __init__(self, text: str) -> None:
        """Raises SpecError, which quotes the error."""
        whole = _WHOLE.fullmatch(text)
        if whole is None:
            raise _error(text, "its form is (acc: f32, %x: kind type, …) -> type { %0 = op value, …; …; value }")
        first, *others = whole["values"].split(", ")
        self.text = text
        self.acc = _type(text, first.removeprefix(f"{_ACCUMULATOR}: "))
        self.sums = 2 if others[:1] == [f"{_SECOND}: {self.acc}"] else 1
        self.operands = tuple(_operand(text, part) for part in others[self.sums - 1 :])
        self.results = _results(text, whole["results"], {operand.name for operand in self.operands})
        full = [word for _, word, _ in self.results if word in ELEMENTS]
        self.d = full[0] if full else self.acc
        self._steps = [_step(text, part) for part in (whole["steps"] or "").split("; ") if part]
        self._values = tuple(whole["last"].split(", "))
        self._check_names()
        self.__signature__ = inspect.Signature([*self._parameters()])

    def __reduce__(self) -> tuple[Any, ...]:
        return TextEpilogue, (self.text,)

    @property
    def result_types(self) -> dict[str, str]:
        """The types of the full results, by name."""
        return {name: word for name, word, _ in self.results if word in ELEMENTS}

    def __call__(self, *given: Traced) -> Any:
        """Apply the operations of the text to traced values, accumulators first. Returns D's element, or a dict of
        results. Raises SpecError."""
        acc, operands = given[0], given[self.sums :]
        values: dict[str, Traced | Predicate] = dict(zip((_ACCUMULATOR, _SECOND), given[: self.sums], strict=False))
        values |= {f"%{x.name}": value for x, value in zip(self.operands, operands, strict=True)}

        def value(word: str) -> Traced | Predicate:
            return values[word] if word in values else _constant(acc, word)

        for result, op, attribute, inputs in self._steps:
            values[result] = acc._tracer.repeated(op, [value(word) for word in inputs], attribute)
        found: dict[str, Any] = {}
        for (name, word, index), last in zip(self.results, self._values, strict=True):
            own = value(last)
            column = None if index is None else values[f"%{index}"]
            found[name] = own if word in ELEMENTS else Reduced(ResultKind(word), own, column)
        return found[D] if self.is_of_d else found

    @property
    def is_of_d(self) -> bool:
        """Whether the only result is D."""
        return [(name, word) for name, word, _ in self.results] == [(D, self.d)]

    def graph(self) -> EpilogueGraph:
        """The text, traced again. Raises SpecError."""
        return trace(self, self.acc, self.d, types=self.result_types, sums=self.sums)

    def _parameters(self) -> Iterator[inspect.Parameter]:
        for name in (_ACCUMULATOR, _SECOND)[: self.sums]:
            while any(operand.name == name for operand in self.operands):
                name += "_"
            yield inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
        for operand in self.operands:
            kind = OperandType(operand.kind, None if operand.kind is OperandKind.SCALAR else operand.dtype)
            yield inspect.Parameter(operand.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)

    def _check_names(self) -> None:
        """Raises SpecError for a value that is used before its definition, or defined twice."""
        names = [operand.name for operand in self.operands]
        if len({*names}) < len(names):
            raise _error(self.text, "two operands have the same name")
        known = {*(_ACCUMULATOR, _SECOND)[: self.sums], *(f"%{name}" for name in names)}
        for result, _, _, inputs in self._steps:
            for word in inputs:
                _check_value(self.text, word, known)
            if result in known:
                raise _error(self.text, f"{result} is defined twice")
            known.add(result)
        if len(self._values) != len(self.results):
            raise _error(self.text, f"it has {len(self.results)} results, but ends with {len(self._values)} values")
        for word in self._values:
            _check_value(self.text, word, known)


def epilogue_of_d(text: str) -> TextEpilogue:
    """The epilogue of a text whose only result is D, of one accumulator. Raises SpecError."""
    found = TextEpilogue(text)
    if not found.is_of_d or found.sums > 1:
        raise SpecError(
            f"the epilogue {text!r} gives {', '.join(name for name, _, _ in found.results)} from {found.sums} sums; a"
            " call of a product takes one with the result d alone: for others, compile a GemmSpec [text-results]"
        )
    return found


def _results(text: str, words: str, operands: set[str]) -> tuple[tuple[str, str, str | None], ...]:
    """Of each result the name, its type or the word of its reduction, and the operand that has its columns, or None."""
    if not words.startswith("("):
        return ((D, _type(text, words), None),)
    found = []
    for part in words[1:-1].split(", "):
        each = _RESULT.fullmatch(part)
        is_value = each is not None and each["word"] == ResultKind.ROW_VALUE.value
        known = each is not None and (each["word"] in ELEMENTS or each["word"] in REDUCTIONS)
        if each is None or not known or is_value != (each["index"] in operands):
            raise _error(text, f"{part!r} is not a result: name: type, name: reduction, or name: row_value %operand")
        found.append((each["name"], each["word"], each["index"]))
    if len({name for name, _, _ in found}) < len(found):
        raise _error(text, "two results have the same name")
    return tuple(found)


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
