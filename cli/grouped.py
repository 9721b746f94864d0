"""Options shared by commands, as one parameter: a dataclass with a field per option."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it: each parameter that is a dataclass is replaced by the fields of the dataclass."""
    written = signature(command)
    groups: dict[str, Any] = {
        name: one.annotation for name, one in written.parameters.items() if is_dataclass(one.annotation)
    }

    @wraps(command)
    def of_options(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    options: list[Parameter] = []
    for name, one in written.parameters.items():
        own = signature(groups[name]).parameters.values() if name in groups else [one]
        options += [option.replace(kind=Parameter.KEYWORD_ONLY) for option in own]
    of_options.__signature__ = written.replace(parameters=options)  # type: ignore[attr-defined]
    of_options.__annotations__ = {option.name: option.annotation for option in options}
    return of_options
