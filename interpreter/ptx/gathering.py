"""Barriers without .aligned, each as a block of its own (PTX ISA, "bar, barrier", "barrier.cluster").

The lanes of a warp may come to such a barrier apart (machine/lane_paths.py). A guard becomes a branch around it, so
that the other lanes do not stop there. Other barriers begin a block, at which lanes that come apart meet.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lowtide.interpreter.ptx.syntax import Guard, Instruction, Label, Name

_GATHERING = re.compile(r"barrier\.(cta\.|cluster\.)?(sync|arrive|red|wait)\b")

_BARRIERS = ("bar.", "barrier.")


def gathers(instruction: Instruction) -> bool:
    """Whether it waits for all lanes of its warp, which may arrive apart."""
    name = instruction.name
    return _GATHERING.match(name) is not None and "aligned" not in name.split(".")


def alone(body: Sequence[Label | Instruction]) -> Iterator[Label | Instruction]:
    """The body with labels around each such barrier, so that it is a block."""
    for number, each in enumerate(body):
        if isinstance(each, Instruction) and each.name.startswith(_BARRIERS) and not gathers(each):
            yield Label(f"at barrier {number}", each.line)
        if not isinstance(each, Instruction) or not gathers(each):
            yield each
            continue
        before, after = (Label(f"{side} barrier {number}", each.line) for side in ("before", "after"))
        if each.guard is not None:
            others = Guard(each.guard.register, not each.guard.negated)
            yield replace(each, name="bra", operands=(Name(after.name),), guard=others)
        yield before
        yield replace(each, guard=None)
        yield after
