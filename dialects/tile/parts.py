"""Parts of `#tile.schedule` in Python: dataclasses that check the values of their fields when they are made."""

from dataclasses import fields
from functools import cache
from typing import Any

from lowtide.dialects.tile.fields import Kind
from lowtide.errors import ScheduleError


def is_a(kind: Kind) -> dict[str, Kind]:
    """The metadata of a field of this kind."""
    return {"kind": kind}


class Part:
    """A part checks the values of its fields when it is made."""

    def __post_init__(self) -> None:
        for name, kind, default in entries_of(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if kind is not None and value is not None:
                object.__setattr__(self, name, checked_value(_path(self, name), kind, value))
            elif isinstance(default, Part) and not isinstance(value, type(default)):
                raise ScheduleError(
                    f"{_path(self, name)} = {value!r}; it takes a {type(default).__name__} [field-type]"
                )


@cache
def entries_of(part: type) -> tuple[tuple[str, Kind | None, Any], ...]:
    """The fields of a part: name, kind of values (None for a part), and default."""
    return tuple((entry.name, entry.metadata.get("kind"), entry.default) for entry in fields(part))


def _path(part: Part, name: str) -> str:
    return f"{type(part).__name__.lower()}.{name}"


def checked_value(name: str, kind: Kind, value: Any) -> Any:
    """The typed value of a field."""
    try:
        return kind.check(value)
    except (TypeError, ValueError) as error:
        why = f": {error}" if str(error) else ""
        raise ScheduleError(f"{name} = {value!r}{why}; it takes {kind.form} [field-form]") from None
