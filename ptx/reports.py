"""The report on a run of a kernel: its kind, the broken rule, and the lines that take part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from numpy.typing import NDArray

from lowtide.errors import Error, without_codes
from lowtide.interpreter.machine.reliances import Reliance
from lowtide.interpreter.ptx.source_lines import Sources
from lowtide.interpreter.ptx.syntax import Instruction, Module
from lowtide.ptx.kinds import KINDS
from lowtide.ptx.words import in_words_of_ptx

_LINE = r"(?:(?:`([^`]*)` )?at |^){}:(\d+)"


@dataclass(frozen=True)
class Place:
    """A line of the PTX that takes part in a verdict, and the lines of the kernel's source that it comes from:
    innermost first, each after the first a call of the function before it."""

    line: int
    text: str = ""
    source: Sources = ()

    def __str__(self) -> str:
        return f"line {self.line}" + (f": {', called at '.join(map(str, self.source))}" if self.source else "")

    def as_dict(self) -> dict[str, Any]:
        """The place as data for JSON."""
        lines = [{**asdict(each), "function": each.function or None} for each in self.source]
        return {"line": self.line, "text": self.text, "source": lines}


@dataclass(frozen=True)
class Report:
    """`kind` is one of `KINDS`. `orders` says whether the verdict holds for every order of warps, if `check` asked.

    `relies` are rules of the PTX ISA that the kernel breaks but hardware forgives. `places` are the lines of PTX that
    take part, the access that broke a rule first. `arrays` are the results, by name; empty if the run did not end.
    `notes` are further remarks.
    """

    kind: str
    message: str
    code: str | None = None
    places: tuple[Place, ...] = ()
    orders: str = ""
    relies: tuple[Reliance, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", in_words_of_ptx(self.message))
        object.__setattr__(self, "orders", in_words_of_ptx(self.orders))
        object.__setattr__(self, "notes", tuple(in_words_of_ptx(note) for note in self.notes))

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found."""
        return self.kind == "ok"

    @property
    def status(self) -> int:
        """The exit status: 0 right, 1 wrong, 2 if it cannot be said."""
        return KINDS[self.kind].status

    def as_dict(self) -> dict[str, Any]:
        """The report as data for JSON, without the arrays."""
        return {
            "kind": self.kind,
            "status": self.status,
            "message": self.message,
            "code": self.code,
            "places": [each.as_dict() for each in self.places],
            "orders": self.orders,
            "relies": [asdict(each) for each in self.relies],
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }

    @property
    def verdict(self) -> str:
        """The kind, with what the kernel relies on."""
        return self.kind + (f", relies on {', '.join(each.name for each in self.relies)}" if self.relies else "")

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.message}"]
        lines += [f"  {place}" for place in self.places]
        lines += [f"  orders: {self.orders}"] if self.orders else []
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def broken(error: Error, kind: str, module: Module | None, file: str) -> Report:
    """The report of an error, with the lines that its message names."""
    return Report(kind, without_codes(str(error)), error.code, places_in(str(error), module, file))


def places_in(message: str, module: Module | None, file: str) -> tuple[Place, ...]:
    """The lines of a file that a message names, in order, each once."""
    known = {} if module is None else _instructions(module)
    places: dict[int, Place] = {}
    for shown, number in re.findall(_LINE.format(re.escape(file)), message, re.MULTILINE):
        line = int(number)
        there = known.get(line, [])
        found = next((each for each in there if each.describe().startswith(f"`{shown}`")), there[0] if there else None)
        text, sources = ("", ()) if found is None else (" ".join(found.text.split()), found.sources)
        places.setdefault(line, Place(line, text, sources))
    return tuple(places.values())


def _instructions(module: Module) -> dict[int, list[Instruction]]:
    """The instructions of each line."""
    found: dict[int, list[Instruction]] = {}
    for entry in (*module.entries.values(), *(each.entry for each in module.functions.values())):
        for each in entry.body:
            if isinstance(each, Instruction):
                found.setdefault(each.line, []).append(each)
    return found
