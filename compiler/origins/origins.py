"""The origins of ops: for an op of a step, the ops of the step before that it replaces or serves.

The last step is the PTX. Its instructions are its ops here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from lowtide.errors import IRError
from lowtide.keywords import nearest

PTX_PLACE = "09-ptx/kernel"


@dataclass(frozen=True)
class Row:
    """An op of a step: its line in the text, its name, and the lines of its origins in the text of the step before."""

    line: int
    op: str
    origins: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A step of a compilation. `place`: the name of its dump, such as `04-pipelined/02-pipeline-mainloop`; `before`:
    that of the step before, if there is one."""

    place: str
    before: str | None
    text: str
    rows: tuple[Row, ...]

    @property
    def level(self) -> str:
        """The name of the level that the step belongs to."""
        return self.place.partition("/")[0].partition("-")[2]

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def at_line(self) -> Mapping[int, int]:
        """The number of the op that begins in a line."""
        return {row.line: number for number, row in enumerate(self.rows)}

    @cached_property
    def became(self) -> Mapping[int, list[int]]:
        """The lines of this step's ops that come from a line of the step before."""
        found: dict[int, list[int]] = {}
        for row in self.rows:
            for origin in row.origins:
                found.setdefault(origin, []).append(row.line)
        return found


@dataclass(frozen=True)
class Op:
    """An op of a step. `number`: among the ops of the step, from 0. `line`: where it begins in the text, from 1."""

    place: str
    number: int
    line: int
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Origins:
    """The steps of a compilation. The first step is its input."""

    steps: tuple[Step, ...]

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        """The number of each step by its place, and of the last step of each level by the level's name."""
        by_place = {step.place: number for number, step in enumerate(self.steps)}
        return by_place | {step.level: number for number, step in enumerate(self.steps)}

    def step(self, place: str) -> Step:
        """The step of a place, such as `07-nvvm/01-convert-sm-to-nvvm`; for the name of a level, its last step.

        Raises IRError for another name."""
        return self.steps[self._number(place)]

    def ops(self, place: str) -> tuple[Op, ...]:
        """The ops of a step in the order of its text. Raises IRError as `step` does."""
        return tuple(self._ops(self.step(place), (row.line for row in self.step(place).rows)))

    def op(self, place: str, line: int) -> Op:
        """The op that begins in a line of a step's text. Raises IRError if none does."""
        step = self.step(place)
        if line not in step.at_line:
            near = min(step.at_line, key=lambda other: abs(other - line))
            raise IRError(f"no op begins in line {line} of {step.place}; one does in line {near} [op-line]")
        return next(self._ops(step, [line]))

    def of(self, op: Op, place: str | None = None) -> tuple[Op, ...]:
        """The ops that an op comes from, in the step before, or in an earlier one.

        There are none for an op that computes something for a whole loop or function. Raises IRError for a step that is
        not before the op's own."""
        last = self._number(op.place)
        first = max(last - 1, 0) if place is None else self._number(place)
        self._check(first <= last, first, "before", op)
        lines = [op.line]
        for step in reversed(self.steps[first + 1 : last + 1]):
            lines = _once(origin for line in lines for origin in step.rows[step.at_line[line]].origins)
        return tuple(self._ops(self.steps[first], lines)) if first < last else ()

    def became(self, op: Op, place: str | None = None) -> tuple[Op, ...]:
        """The ops that come from an op, in the step after, or in a later one. Raises IRError for a step that is not
        after the op's own."""
        first = self._number(op.place)
        last = min(first + 1, len(self.steps) - 1) if place is None else self._number(place)
        self._check(first <= last, last, "after", op)
        lines = [op.line]
        for step in self.steps[first + 1 : last + 1]:
            lines = _once(follower for line in lines for follower in step.became.get(line, ()))
        return tuple(self._ops(self.steps[last], sorted(lines))) if first < last else ()

    def _number(self, place: str) -> int:
        if place not in self._numbers:
            raise IRError(f"no step is named {place!r}{nearest(place, tuple(self._numbers))} [step-of-origins]")
        return self._numbers[place]

    def _check(self, holds: bool, number: int, where: str, op: Op) -> None:
        if not holds:
            raise IRError(f"{self.steps[number].place} is not {where} {op.place}; name a step that is [order-of-steps]")

    def _ops(self, step: Step, lines: Iterable[int]) -> Iterator[Op]:
        for line in lines:
            number = step.at_line[line]
            yield Op(step.place, number, line, step.rows[number].op, step.lines[line - 1].strip())


def _once(lines: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(lines))
