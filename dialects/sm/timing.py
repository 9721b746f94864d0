"""`#sm.timing` in Python: when a loop over K issues its copies, its stores and the reads of its slots.

The attribute `sm.timing` of an `scf.for` is written at level `pipelined`, and kept to level `nvvm`, whose passes obey
it. A loop without the attribute has all defaults.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from mlir import ir

from lowtide.dialects.sm import CopyIssue, SlotRead, StepForm, StoreStart

NAME = "sm.timing"


@dataclass(frozen=True)
class Timing:
    """The fields of the attribute. The words of each are described in ODS."""

    stores: StoreStart = StoreStart.all_sums
    copies: CopyIssue = CopyIssue.at_head
    slot: SlotRead = SlotRead.in_step
    steps: StepForm = StepForm.rolled

    @classmethod
    def of(cls, loop: ir.OpView) -> "Timing":
        """The timing of a loop."""
        if NAME not in loop.operation.attributes:
            return cls()
        words = dict(re.findall(r"(\w+) = (\w+)", str(loop.operation.attributes[NAME])))
        return cls(**{one.name: type(one.default)[words[one.name]] for one in fields(cls) if one.name in words})  # type: ignore[index]

    @classmethod
    def together(cls, timings: Iterable["Timing"]) -> "Timing":
        """The timing of several loops: each field is as in the last loop that says it."""
        return cls(**{name: word for timing in timings for name, word in timing.decided().items()})

    def write(self, loop: ir.OpView) -> None:
        """Make this the timing of a loop."""
        if self != Timing():
            loop.operation.attributes[NAME] = ir.Attribute.parse(f"#sm.timing<{self}>")

    def decided(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        return {one.name: word for one in fields(self) if (word := getattr(self, one.name)) != one.default}

    def __str__(self) -> str:
        return ", ".join(f"{name} = {word}" for name, word in self.decided().items())


def keep_timing(old: ir.OpView, new: ir.OpView) -> None:
    """Give a loop the timing of the loop that it replaces."""
    Timing.of(old).write(new)
