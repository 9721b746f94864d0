"""Fields of launch.json, with their places for messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from lowtide.errors import LaunchError
from lowtide.launches import Extents

KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "launch": (
            *("name", "kernel", "grid", "block", "cluster", "shared_bytes", "cooperative", "params", "arrays"),
            *("relocations", "tolerance"),
        ),
        "array": ("dtype", "shape", "strides", "address", "address_mod_256", "relocations"),
        "parameter": (
            *("kind", "array", "offset_bytes", "type", "value", "dims", "box", "strides_bytes", "element"),
            *("element_strides", "swizzle", "interleave", "fill", "hex", "pointers", "tensor_maps", "bytes"),
            *("bytes_per_cta", "size"),
        ),
        "tolerance": ("rtol", "atol"),
    }
)
"""The fields that the objects of launch.json have. Others are remarks."""
_CLOSE = 0.8  # of difflib's ratio: a misspelled field
_SHORT = 4  # characters of a shortened field


def _meant(name: str, known: Iterable[str]) -> str | None:
    """The field that a name may stand for by mistake; None for a remark."""
    plain = name.lower().replace("-", "_")
    shortened = [each for each in known if len(plain) >= _SHORT and each.startswith(plain)]
    return next(iter(shortened or get_close_matches(plain, known, 1, _CLOSE)), None)


@dataclass(frozen=True)
class Fields:
    """An object of JSON, with its place for messages."""

    fields: Any
    place: str

    def __post_init__(self) -> None:
        if not isinstance(self.fields, dict):
            raise LaunchError(f"{self.place}: an object is expected, not {self.fields!r:.60} [launch-file-object]")

    def get(self, name: str, default: Any = None) -> Any:
        found = self.fields.get(name, default)
        return default if found is None else found

    def needed(self, name: str) -> Any:
        if name in self.fields and self.fields[name] is None:
            raise LaunchError(f"{self.place}: {name!r} is null; write its value there [launch-file-null]")
        if name not in self.fields:
            raise LaunchError(f"{self.place}: {name!r} is missing [launch-file-field]")
        return self.fields[name]

    def items(self, name: str) -> list[Any]:
        """A list; empty if it is missing."""
        value = self.get(name, [])
        if not isinstance(value, list):
            raise LaunchError(f"{self.place}: {name!r} is a list, not {value!r:.60} [launch-file-items]")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.needed(name) if default is None else self.get(name, default)
        return whole(value, f"{self.place}: {name!r}")

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        value = self.needed(name) if default is None else self.get(name, default)
        if not isinstance(value, list | tuple):
            raise LaunchError(
                f"{self.place}: {name!r} is a list of whole numbers, not {value!r:.60} [launch-file-list]"
            )
        return tuple(whole(each, f"{self.place}: {name!r}") for each in value)

    def sides(self, name: str, default: tuple[int, ...] | None = None) -> Extents:
        found = self.integers(name, default)
        if not 1 <= len(found) <= 3:
            raise LaunchError(f"{self.place}: {name!r} has one to three sides, not {len(found)} [launch-file-sides]")
        x, y, z = (*found, 1, 1)[:3]
        return x, y, z

    def part(self, value: Any, where: str) -> Fields:
        return Fields(value, f"{self.place}: {where}")

    def check(self, kind: str) -> Fields:
        """Returns the object itself. Raises LaunchError for a field whose name is almost one of such an object."""
        for name in self.fields:
            meant = None if name in KNOWN[kind] else _meant(str(name), KNOWN[kind])
            if meant is not None:
                raise LaunchError(
                    f"{self.place}: {name!r} is no field; write {meant!r}, or give a remark another name"
                    " [launch-file-misspelled]"
                )
        return self


def whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise LaunchError(f"{what}: a whole number is expected, not {value!r:.60} [launch-file-integer]")
    if not -(1 << 63) <= value < 1 << 63:
        raise LaunchError(f"{what}: {value:.6g} does not fit into 64 bits [launch-file-integer-bits]")
    return value
