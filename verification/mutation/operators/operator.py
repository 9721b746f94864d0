"""An operator: one kind of fault, where it can be planted, and the edit that plants it."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum

from lowtide.verification.mutation.edits import Edit

# Levels whose ops concern a whole CTA, and those with one thread's program.
CTA_LEVELS = ("cta", "smem", "pipelined", "atoms", "epilogue")
THREAD_LEVELS = ("nvvm", "llvm")


class Side(Enum):
    """Which part of a module a pattern is looked for in."""

    DEVICE = "device"
    HOST = "host"
    ANYWHERE = "anywhere"


class Kind(Enum):
    """What a fault concerns: the order of accesses, which work is done, or which data it is done on."""

    ORDER = "synchronization"
    WORK = "work"
    DATA = "data"


@dataclass(frozen=True)
class Operator:
    """One kind of fault: `edit` at each place in the text of one of `levels` that `pattern` finds.

    Patterns are of Python's `re`, in which `^` and `$` stand for the ends of a line.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...]
    pattern: re.Pattern[str]
    edit: Edit
    side: Side = Side.DEVICE


def either(words: Iterable[IntEnum]) -> str:
    """A pattern for words of an enum of a dialect, in the order of the enum."""
    return "|".join(map(str, sorted(words)))


def another(words: Iterable[IntEnum], never: Collection[IntEnum] = ()) -> dict[str, str]:
    """For each word of an enum the next one, or the first after the last; of those that are not in `never`."""
    known = sorted(words)
    chosen = [each for each in known if each not in never]
    return {
        str(each): str(next((other for other in chosen if other > each), next(o for o in chosen if o != each)))
        for each in known
    }


def rows(
    kind: Kind, levels: tuple[str, ...], pattern: str, *edits: tuple[str, Edit], side: Side = Side.DEVICE
) -> tuple[Operator, ...]:
    """An operator for each edit of what a pattern finds; `edits` are pairs of the operator's name and the edit."""
    compiled = re.compile(pattern, re.MULTILINE)
    return tuple(Operator(name, kind, levels, compiled, edit, side) for name, edit in edits)
