"""Refuse arguments that a call does not take, with the names that it takes and the nearest one."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

from lowtide.errors import ArgumentError

CallableT = TypeVar("CallableT", bound=Callable[..., Any])
ClassT = TypeVar("ClassT", bound=type)
NO_HINTS: Mapping[str, str] = MappingProxyType({})


def nearest(given: object, known: Iterable[str]) -> str:
    """`; did you mean 'stream'?` for `steam`; empty if no known name is similar."""
    close = difflib.get_close_matches(str(given), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_keywords(function: CallableT) -> CallableT:
    """Decorate a function: unknown arguments raise ArgumentError."""
    return _checked(function, function.__name__, NO_HINTS)


def check_fields(hints: Mapping[str, str] = NO_HINTS) -> Callable[[ClassT], ClassT]:
    """Decorate a dataclass: unknown fields raise ArgumentError. `hints` says what to do instead, by field name."""

    def decorate(owner: ClassT) -> ClassT:
        type.__setattr__(owner, "__init__", _checked(vars(owner)["__init__"], owner.__name__, hints))
        return owner

    return decorate


def _checked(function: CallableT, called: str, hints: Mapping[str, str]) -> CallableT:
    signature = inspect.signature(function)
    known = [one.name for one in signature.parameters.values() if one.name != "self"]

    @functools.wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        try:
            signature.bind(*args, **given)
        except TypeError as error:
            unknown = next((name for name in given if name not in signature.parameters), "")
            hint = f"; {hints[unknown]}" if unknown in hints else nearest(unknown, known)
            raise ArgumentError(f"{called}: {error}; it takes {', '.join(known)}{hint} [unknown-argument]") from None
        return function(*args, **given)

    return cast(CallableT, checked)
