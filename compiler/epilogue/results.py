"""The results of a kernel: what the epilogue returns, by name.

    def epilogue(acc, bias: lt.PerColumn):
        pre = acc + bias
        return {"pre": pre, "d": lt.gelu(pre)}

A function that returns one value gives D, named `d`. A dict, or an instance of a dataclass, gives a full result for
each of its entries, in order.
"""

import enum
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from lowtide.errors import SpecError


class ResultKind(enum.Enum):
    """What a result has an element for. The value is the word that `tile.gemm` prints."""

    FULL = "full"
    AMAX = "amax"


@dataclass(frozen=True)
class Result:
    """A result of a kernel: its name, kind and element type. One such as D is FULL; AMAX is one f32, the largest
    absolute value of its node, before that is clamped and rounded."""

    name: str
    kind: ResultKind
    dtype: str


D, AMAX = "d", "amax"  # names of results


def named_values(returned: Any, where: str) -> dict[str, Any]:
    """The returned values by the names of their results. `where`: the function's place, for messages.

    Raises SpecError if there are none.
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
    """Whether D is the only full result: then calls return it, and not a dict."""
    return [result.name for result in results if result.kind is ResultKind.FULL] == [D]


class OneResult:
    """An epilogue that returns one of the results of another one, as D. `annotations`: of the operands, in order."""

    def __init__(self, function: Callable[..., Any], name: str, annotations: Iterable[Any]) -> None:
        self._function = function
        self._name = name
        accumulator, *operands = inspect.signature(function).parameters.values()
        typed = [each.replace(annotation=own) for each, own in zip(operands, annotations, strict=True)]
        self.__signature__ = inspect.Signature([accumulator, *typed])

    def __call__(self, *values: Any, **operands: Any) -> Any:
        return named_values(self._function(*values, **operands), repr(self._function))[self._name]
