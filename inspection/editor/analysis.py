"""What is known of a text: problems, ops, definitions with their uses. Data without MLIR, made by `analyze.py`."""

from dataclasses import dataclass, field

from lowtide.inspection.editor.text import Range


@dataclass(frozen=True)
class Problem:
    """What is wrong at a place. `code`: that of the broken rule, if it has one. `notes`: related places, each with a
    text."""

    place: Range
    message: str
    code: str | None = None
    severity: str = "error"
    notes: tuple[tuple[Range, str], ...] = ()


@dataclass(frozen=True)
class OpPlace:
    """An op: its full name, the place of the name, and the place of the whole op without its results."""

    name: str
    place: Range
    whole: Range


@dataclass(frozen=True)
class Definition:
    """A value, block, symbol or alias: where it is defined and used, and the types of the value, or the value of the
    alias; "" if it has none, or the text does not parse."""

    place: Range
    uses: tuple[Range, ...]
    meaning: str


@dataclass
class Analysis:
    """Places are offsets in bytes."""

    problems: list[Problem] = field(default_factory=list)
    ops: list[OpPlace] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)
    level: str | None = None
    """The level that the module names."""

    def definition(self, offset: int) -> Definition | None:
        """What is defined or used at a byte."""
        return next(
            (each for each in self.definitions if any(_has(place, offset) for place in (each.place, *each.uses))), None
        )

    def op_named_at(self, offset: int) -> OpPlace | None:
        """The op whose name is at a byte."""
        return next((op for op in self.ops if _has(op.place, offset)), None)

    def innermost(self, offset: int) -> OpPlace | None:
        """The smallest op around a byte, or the one that a result there belongs to."""
        around = [op for op in self.ops if op.whole[0] <= offset <= op.whole[1]]
        return max(around, key=lambda op: op.whole[0], default=None)


def _has(place: Range, offset: int) -> bool:
    return place[0] <= offset <= place[1]
