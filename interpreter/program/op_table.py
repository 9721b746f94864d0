"""The table of handlers by op name. The contract of a handler: machine/execution.py."""

import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from lowtide.interpreter.program.batches import Bulk
from lowtide.interpreter.program.decoded import DecodedOp, Handler
from lowtide.interpreter.program.program import Program

#: Computes `op.data` before the run, from everything that does not depend on values.
Prepare: TypeAlias = Callable[[DecodedOp, Program], Any]


@dataclass(frozen=True)
class Implementation:
    handler: Handler
    prepare: Prepare | None
    resumable: bool
    by_warp: bool
    acts: bool
    bulk: Bulk | None = None
    decode: Prepare | None = None  # makes the instruction that replaces the op


class OpTable(dict[str, Implementation]):
    """Handlers by op name. `by_warp`: its ops are for warps and lanes, so an agent is a warp.

    `acts`: its ops do more than compute values, unless the entry of an op says otherwise.
    """

    def __init__(self, by_warp: bool = False, acts: bool = True) -> None:
        super().__init__()
        self.by_warp = by_warp
        self.acts = acts

    def implements(
        self, *names: str, prepare: Prepare | None = None, acts: bool | None = None, bulk: Bulk | None = None
    ) -> Callable[[Handler], Handler]:
        """Register the decorated function as the handler of `names`. `bulk`: how several run as one (batches.py)."""

        def enter(handler: Handler) -> Handler:
            resumable = inspect.isgeneratorfunction(handler)
            entry = Implementation(handler, prepare, resumable, self.by_warp, self.acts if acts is None else acts, bulk)
            self.update(dict.fromkeys(names, entry))
            return handler

        return enter

    def effects(
        self,
        *names: str,
        check: Callable[[Any, DecodedOp], None] | None = None,
        prepare: Prepare | None = None,
        bulk: Bulk | None = None,
    ) -> Callable[[Handler], Handler]:
        """As `implements`, for a function f(state, op, *values of the operands) that returns the value of the result,
        or the values of several results in order. `check` runs before it, and may raise."""

        def enter(function: Handler) -> Handler:
            self.implements(*names, prepare=prepare, bulk=bulk)(_on_values(function, check))
            return function

        return enter

    def decodes(self, *names: str) -> Callable[[Prepare], Prepare]:
        """Register the decorated function, which makes an instruction of an op, for `names`."""

        def enter(decode: Prepare) -> Prepare:
            entry = Implementation(decode, None, False, self.by_warp, self.acts, decode=decode)
            self.update(dict.fromkeys(names, entry))
            return decode

        return enter


def _on_values(function: Handler, check: Callable[[Any, DecodedOp], None] | None) -> Handler:
    def run(state: Any, op: DecodedOp) -> None:
        if check is not None:
            check(state, op)
        values = state.values
        _give(values, op.results, function(state, op, *[values[slot] for slot in op.operands]))

    def run_resumable(state: Any, op: DecodedOp) -> Generator[Any, None, None]:
        if check is not None:
            check(state, op)
        values = state.values
        result = yield from function(state, op, *[values[slot] for slot in op.operands])
        _give(values, op.results, result)

    return run_resumable if inspect.isgeneratorfunction(function) else run


def _give(values: list[Any], slots: tuple[int, ...], result: Any) -> None:
    if len(slots) == 1:
        values[slots[0]] = result
    elif slots:
        for slot, value in zip(slots, result, strict=True):
            values[slot] = value
