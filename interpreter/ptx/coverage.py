"""The instructions of a kernel and its functions that the table lacks, found without running it."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.ptx.function_addresses import reached
from lowtide.interpreter.ptx.rows import ROWS
from lowtide.interpreter.ptx.syntax import Entry, Instruction, Module
from lowtide.interpreter.ptx.table import Form

_OUTSIDE = frozenset({"bra", "ret", "exit", "call", "brx"})
"""Instructions that decoding handles, not the table."""
_OF_CALLS = ("st.param", "ld.param::func")  # accesses of variables of the thread (functions.py)


def uninterpreted(module: Module, entry: Entry, domain: Domain) -> Iterator[InterpreterError]:
    """The errors of instructions without a row, or in forms that their rows refuse, in order, each name once; also of
    the functions that the kernel calls."""
    seen = set()
    for each in chain.from_iterable(body.body for body in reached(module, entry)):
        if not isinstance(each, Instruction) or each.name in seen or each.name.split(".")[0] in _OUTSIDE:
            continue
        if each.name.startswith(_OF_CALLS):
            continue
        seen.add(each.name)
        try:
            _prepare(ROWS.form(each, domain))
        except InterpreterError as error:
            yield error


def _prepare(form: Form) -> None:
    """Raises InterpreterError for a form that the row refuses, such as a shape of a product."""
    with suppress(AttributeError, LookupError, StopIteration, TypeError, ValueError):  # it is named when it is decoded
        if form.row.is_value:
            form.row.handler(form)
        elif form.row.prepare is not None:
            form.row.prepare(form)
