"""The results of a kernel: the values that the epilogue returns, by name.

    def epilogue(acc, bias: lt.PerColumn):
        pre = acc + bias
        return {"pre": pre, "d": lt.gelu(pre)}

If the function returns one value, the result is D, named `d`. If it returns a dict or an instance of a dataclass, each
entry is a full result, in order.
"""

import enum
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from lowtide.errors import SpecError


class ResultKind(enum.Enum):
    """The kind of a result. The value is the word that `tile.gemm` prints."""

    FULL = "full"
    AMAX = "amax"


@dataclass(frozen=True)
class Result:
    """A result of a kernel: its name, kind and element type. A FULL result has the shape of D; AMAX is one
    f32, the largest absolute value of its node, before the value is clamped and rounded."""

    name: str
    kind: ResultKind
    dtype: str


D, AMAX = "d", "amax"  # names of results


def named_values(returned: Any, where: str) -> dict[str, Any]:
    """The returned values by the names of their results. `where`: the location of the function, for messages.

    Raises SpecError if a dict or dataclass has no entries.
    """
    if isinstance(returned, Mapping):
        values = dict(returned)
    elif is_dataclass(returned) and not isinstance(returned, type):
        values = {field.name: getattr(returned, field.name) for field in fields(returned)}
    else:
        return {D: returned}
    if not values:
        raise SpecError(
            f"{where}: the epilogue returned no results; return the value of d's element, or a dict of names and values"
            " [results-none]"
        )
    return values


def gives_d_alone(results: Iterable[Result]) -> bool:
    """Whether D is the only full result. Then calls return D, not a dict."""
    return [result.name for result in results if result.kind is ResultKind.FULL] == [D]


class OneResult:
    """An epilogue that returns the result `name` of `function` as D. `annotations`: those of the operands, in order."""

    def __init__(self, function: Callable[..., Any], name: str, annotations: Iterable[Any]) -> None:
        self._function = function
        self._name = name
        parameters, types = list(inspect.signature(function).parameters.values()), list(annotations)
        sums = len(parameters) - len(types)  # accumulators come first
        typed = [each.replace(annotation=own) for each, own in zip(parameters[sums:], types, strict=True)]
        self.__signature__ = inspect.Signature([*parameters[:sums], *typed])

    def __call__(self, *values: Any, **operands: Any) -> Any:
        return named_values(self._function(*values, **operands), repr(self._function))[self._name]
