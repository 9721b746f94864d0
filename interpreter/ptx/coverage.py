"""The instructions of a kernel that the table lacks, found without running it."""

from collections.abc import Iterator

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.ptx.rows import ROWS
from lowtide.interpreter.ptx.syntax import Entry, Instruction

_OUTSIDE = frozenset({"bra", "ret", "exit", "call", "brx"})
"""Instructions that decoding handles, not the table."""


def uninterpreted(entry: Entry, domain: Domain) -> Iterator[InterpreterError]:
    """The errors of instructions without a row or with modifiers that their rows lack, in order, each name once."""
    seen = set()
    for each in entry.body:
        if not isinstance(each, Instruction) or each.name in seen or each.name.split(".")[0] in _OUTSIDE:
            continue
        seen.add(each.name)
        try:
            ROWS.form(each, domain)
        except InterpreterError as error:
            yield error
