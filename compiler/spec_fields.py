"""Values of a spec's fields: extents, and words of a list."""

import operator

from lowtide.compiler.dtypes import choices
from lowtide.errors import SpecError

LARGEST_EXTENT = 2**31 - 1  # indices within tiles are 32-bit, and so are extents


def extent_of(name: str, value: object, least: int = 0) -> int | None:
    """An extent as an int, or None for run time."""
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        extent = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise SpecError(
            f"{name} is {value!r} ({type(value).__name__}); it must be an integer of at least {least}, or None for a "
            "run-time argument [extent-kind]"
        ) from None
    if extent < least:
        raise SpecError(
            f"{name} is {extent}; it must be at least {least}, or None for a run-time argument [extent-least]"
        )
    if extent > LARGEST_EXTENT:
        raise SpecError(
            f"{name} is {extent}; extents are {least} to 2**31-1 ({LARGEST_EXTENT}): split the problem [extent-most]"
        )
    return extent


def check_word(what: str, name: str, value: object, valid: tuple[str, ...]) -> None:
    """Raises SpecError unless `value` is one of the `valid` words of the field `name`."""
    if value not in valid or not isinstance(value, str):
        where = "" if what == name else f" for {name}"
        raise SpecError(f"unknown {what} {value!r}{where}: {choices(value, valid)} [unknown-word]")
