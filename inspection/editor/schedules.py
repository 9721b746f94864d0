"""The fields and words that may be written at a place in `#tile.schedule<…>` or in one of its parts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from lowtide.dialects.tile.agents import SHORTHANDS, Agents
from lowtide.dialects.tile.fields import Call, Kind, Name, Word
from lowtide.dialects.tile.parts import Part, entries_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.targets import COPY_ATOMS, MMA_ATOMS

_OPENING = re.compile(r"#tile\.(\w+)<")
_BRACKET = re.compile(r'(?:(\w+)\s*=\s*)?([<(\[])|([>)\]])|"[^"\n]*"?')
_FIELD = re.compile(r"\s*(\w*)")
_VALUE = re.compile(r"\s*(\w+)\s*=\s*([\w.]*)")
_ROLES = ("single", "cooperative(n)", "pingpong(n)")
_MOST = 20_000  # characters of a schedule before the cursor


@dataclass(frozen=True)
class Place:
    """A place in a schedule: the part of the schedule; the field whose value stands there, or None if a field may begin
    there; and the fields that the part gives before the place."""

    part: type[Part]
    field: str | None
    given: tuple[str, ...]


def place_in(before: str) -> Place | None:
    """The place at the end of a text; None if it is not in a schedule, or among the numbers of a value."""
    before = before[-_MOST:]
    for opening in reversed(list(_OPENING.finditer(before))):
        part, rest = _parts().get(opening[1]), before[opening.end() :]
        inner = _innermost(rest)
        if part is not None and inner is not None:
            return _in_part(part, *inner)
    return None


def part_around(before: str) -> type[Part] | None:
    """The part of the schedule that a place at the end of a text belongs to."""
    place = place_in(before + ",")
    return None if place is None else place.part


def choices(place: Place) -> Iterator[tuple[str, str]]:
    """What may be written there: texts, each with a description."""
    entries = {name: (kind, default) for name, kind, default in _entries(place.part) if _is_written(kind, default)}
    if place.field is None:
        for name, (kind, _) in entries.items():
            if name not in place.given:
                yield (f"{name} = <", "a part") if kind is None else (f"{name} = ", kind.form)
        if "agents" in entries and "agents" not in place.given:
            yield from ((f"{name} = ", "a shorthand for agents") for name in SHORTHANDS if name not in place.given)
    elif place.field in entries:
        kind, _ = entries[place.field]
        yield from () if kind is None else _values(place.field, kind)
    elif place.field == "roles":
        yield from ((word, "a shorthand for agents") for word in _ROLES)


def _entries(part: type[Part]) -> tuple[tuple[str, Kind | None, object], ...]:
    return entries_of(part)  # type: ignore[arg-type]


def _is_written(kind: Kind | None, default: object) -> bool:
    return kind is not None or isinstance(default, Part)  # all but the schedule's target


def _values(field: str, kind: Kind) -> Iterator[tuple[str, str]]:
    if isinstance(kind, Word):
        yield from ((word, kind.enum.__name__) for word in kind.own or kind.enum.__members__)
    elif isinstance(kind, Call):
        yield from ((f"{word}{kind.takes.get(word, '')}", kind.enum.__name__) for word in kind.enum)
    elif isinstance(kind, Name):
        yield from ((name, "an atom") for name in _atoms(field))


def _atoms(field: str) -> Iterable[str]:
    """The atoms of a field: copies from global memory; products without their types, which the problem determines."""
    if field == "copy":
        return (name for name, atom in COPY_ATOMS.items() if atom.source == "gmem")
    return dict.fromkeys(".".join(name.split(".")[:2]) for name in MMA_ATOMS)


@cache
def _parts() -> dict[str, type[Part]]:
    """The parts by the name of their attribute."""
    found: dict[str, type[Part]] = {}
    todo: list[type[Part]] = [Schedule, Agents]
    for part in todo:
        found[part.__name__.lower()] = part
        todo += (type(default) for _, kind, default in _entries(part) if kind is None and isinstance(default, Part))
    return found


def _innermost(rest: str) -> tuple[list[str], str] | None:
    """The fields whose parts are open at the end of a text that follows an opening bracket, and the text of the
    innermost part. None if the bracket is closed, or another kind of bracket is open."""
    opened: list[tuple[str, str, int]] = [("", "<", 0)]
    for bracket in _BRACKET.finditer(rest):
        if bracket[2]:
            opened.append((bracket[1] or "", bracket[2], bracket.end()))
        elif bracket[3]:
            opened.pop()
            if not opened:
                return None
    if any(kind != "<" for _, kind, _ in opened):
        return None
    return [name for name, _, _ in opened[1:]], rest[opened[-1][2] :]


def _in_part(part: type[Part], names: list[str], text: str) -> Place | None:
    for name in names:
        inner = next((default for field, _, default in _entries(part) if field == name), None)
        if not isinstance(inner, Part):
            return None
        part = type(inner)
    plain = text
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]", "", plain)) != plain:
        plain = shorter
    *earlier, last = plain.split(",")
    given = tuple(piece.partition("=")[0].strip() for piece in earlier)
    value = _VALUE.fullmatch(last)
    if value is not None:
        return Place(part, value[1], given)
    return Place(part, None, given) if _FIELD.fullmatch(last) else None
