"""An operator: a kind of fault, the places where it applies, and the edit that injects it."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

from lowtide.verification.mutation.edits import Edit, drop, earlier, first, later, twice

# Levels with ops on a whole CTA, and levels with one thread's program.
CTA_LEVELS = ("cta", "smem", "pipelined", "atoms", "epilogue")
THREAD_LEVELS = ("nvvm", "llvm")
# For predicates that compare integers: those that treat the bound in the other way, and the opposites.
WITH_BOUND = {"ult": "ule", "slt": "sle", "sge": "sgt", "uge": "ugt", "ugt": "uge"}
INVERTED = {"ult": "uge", "slt": "sge", "sge": "slt", "uge": "ult", "ugt": "ule", "eq": "ne", "ne": "eq"}
_OF_LINES = {"dropped": drop, "first": first, "later": later, "earlier": earlier, "twice": twice}


class Side(Enum):
    """The part of a module in which a pattern is searched."""

    DEVICE = "device"
    HOST = "host"
    ANYWHERE = "anywhere"


class Kind(Enum):
    """What a fault affects: the order of accesses, the work that is done, or its data."""

    ORDER = "synchronization"
    WORK = "work"
    DATA = "data"


@dataclass(frozen=True)
class Operator:
    """One kind of fault: `edit` at each match of `pattern` in the text of one of `levels`.

    Patterns are those of Python's `re` in multiline mode.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...]
    pattern: re.Pattern[str]
    edit: Edit
    side: Side = Side.DEVICE


def either(words: Iterable[IntEnum]) -> str:
    """A pattern for the words of a dialect's enum, in the order of the enum."""
    return "|".join(map(str, sorted(words)))


def another(words: Iterable[IntEnum], never: Collection[IntEnum] = ()) -> dict[str, str]:
    """For each word of an enum, the next one, cyclically; words in `never` are left out."""
    known = sorted(words)
    chosen = [each for each in known if each not in never]
    return {
        str(each): str(next((other for other in chosen if other > each), next(o for o in chosen if o != each)))
        for each in known
    }


Levels = tuple[str, ...]
Faults = dict[tuple[Levels, str] | tuple[Levels, str, Side], Mapping[str, Edit]]
"""Edits by name of the operator, for the matches of a pattern in the text of some levels."""


def rows(kind: Kind, faults: Faults, side: Side = Side.DEVICE) -> tuple[Operator, ...]:
    """An operator for each edit. `side`: for patterns that give none."""
    return tuple(
        Operator(name, kind, levels, re.compile(pattern, re.MULTILINE), edit, *(own or [side]))
        for (levels, pattern, *own), edits in faults.items()
        for name, edit in edits.items()
    )


def statement(what: str, words: str, levels: Levels, pattern: str) -> tuple[Operator, ...]:
    """Faults in synchronization by a statement on a line of its own; `words` name edits, such as `dropped later`."""
    return rows(Kind.ORDER, {(levels, pattern): {f"{what} {word}": _OF_LINES[word] for word in words.split()}})
