"""The results of a kernel: the values that the epilogue returns, by name.

    def epilogue(acc, bias: lt.PerColumn):
        pre = acc + bias
        return {"pre": pre, "d": lt.gelu(pre)}

If the function returns one value, the result is D, named `d`. If it returns a dict or an instance of a dataclass, each
entry is a result, in order: a full result, or a reduction (`epilogue.reductions`).
"""

import enum
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from lowtide.errors import SpecError
from lowtide.reductions import REDUCTIONS, Reduction


class ResultKind(enum.Enum):
    """The kind of a result. The value is the word that `tile.gemm` prints."""

    FULL = "full"
    AMAX = "amax"
    ROW_SUM = "row_sum"
    ROW_MAX = "row_max"
    ROW_MIN = "row_min"
    ROW_LOGSUMEXP = "row_logsumexp"
    ROW_VALUE = "row_value"
    COLUMN_SUM = "column_sum"
    COLUMN_MAX = "column_max"
    COLUMN_MIN = "column_min"
    COLUMN_LOGSUMEXP = "column_logsumexp"
    COLUMN_VALUE = "column_value"
    ALL_SUM = "all_sum"
    ALL_MAX = "all_max"
    ALL_MIN = "all_min"
    ALL_LOGSUMEXP = "all_logsumexp"
    ABSENT = "absent"

    @property
    def reduction(self) -> Reduction | None:
        """The axis and the operation of a reduction; None for another kind."""
        return REDUCTIONS.get(self.value)


@dataclass(frozen=True)
class Result:
    """A result of a kernel: its name, kind and element type. A FULL result has the shape of D. AMAX is one f32, the
    largest absolute value of its node, before the value is clamped and rounded. Reductions are f32. If there is no full
    result, there is an ABSENT one: it has the shape of D and is not stored."""

    name: str
    kind: ResultKind
    dtype: str

    @property
    def is_returned(self) -> bool:
        """Whether calls return it. An AMAX is not returned: it is an operand that the kernel writes."""
        return self.kind not in (ResultKind.AMAX, ResultKind.ABSENT)


@dataclass(frozen=True)
class Reduced:
    """The value of lt.sum and the other reductions in an epilogue: the traced value of an element, the kind of the
    result, and for a ROW_VALUE the traced index of the column."""

    kind: ResultKind
    value: Any
    index: Any = None


D, AMAX, NO_D = "d", "amax", "no_d"  # names of results


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
    """Whether D is the only result that calls return. Then they return D, not a dict."""
    return [result.name for result in results if result.is_returned] == [D]


class OneResult:
    """An epilogue that returns the result `name` of `function` as D. For a reduction, D is the values that are reduced.
    `annotations`: those of the operands, in order."""

    def __init__(self, function: Callable[..., Any], name: str, annotations: Iterable[Any]) -> None:
        self._function = function
        self._name = name
        parameters, types = list(inspect.signature(function).parameters.values()), list(annotations)
        sums = len(parameters) - len(types)  # accumulators come first
        typed = [each.replace(annotation=own) for each, own in zip(parameters[sums:], types, strict=True)]
        self.__signature__ = inspect.Signature([*parameters[:sums], *typed])

    def __call__(self, *values: Any, **operands: Any) -> Any:
        found = named_values(self._function(*values, **operands), repr(self._function))[self._name]
        return found.value if isinstance(found, Reduced) else found
