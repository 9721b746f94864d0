"""Counts the instructions that a warp will run: follows one of its threads through the kernel, without memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lowtide.errors import Error
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.ptx.rows import ROWS
from lowtide.interpreter.ptx.syntax import Address, Entry, Group, Immediate, Instruction, Label, Module, Name, Register
from lowtide.interpreter.ptx.table import bits_of

_ENDS = frozenset({"ret", "exit", "trap"})
_OF_CALL = 2_000  # instructions of a function
_TO_TRAP = 40  # the most instructions between a branch and the trap to which it leads
_FLOATS = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"})


class Walk:
    """Walks of threads through a kernel, each with its special registers.

    A register is known if its value is an integer or a predicate that follows from the parameters and special
    registers. A branch on an unknown predicate is not taken if it goes backwards, and is taken every second time if it
    goes forwards, so that a loop whose end is unknown ends. Of two sides, one that only leads to a trap is not taken.
    `parameters`: the bits of the parameters that are known, by
    name.
    """

    def __init__(self, module: Module, entry: Entry, domain: Domain, parameters: Mapping[str, int]) -> None:
        self.module, self.body, self.domain, self.parameters = module, entry.body, domain, parameters
        self.labels = {each.name: at for at, each in enumerate(self.body) if isinstance(each, Label)}
        self._functions: dict[str, Callable[..., Any] | None] = {}

    def steps(self, special: Mapping[str, int], most: int) -> tuple[int, bool]:
        """The number of instructions of a walk, which ends after `most`; and whether it met an unknown branch or this
        limit. `special`: the thread's special registers by name."""
        values: dict[str, Any] = {}
        at = count = 0
        is_rough, met = False, set[Instruction]()
        while at < len(self.body) and count < most:
            each, at = self.body[at], at + 1
            if not isinstance(each, Instruction):
                continue
            count += 1
            holds, name = _holds(each, values), each.name.split(".")[0]
            if name in _ENDS and holds:
                return count, is_rough
            if name in ("bra", "brx", *_ENDS):
                is_rough |= holds is None or name == "brx"
                to = self.labels.get(getattr(each.operands[0], "name", ""), at) if each.operands else at
                if holds is None and self._stops(at) != self._stops(to):
                    holds = self._stops(at)
                is_taken = holds is None and to > at and each in met
                met ^= {each}
                at = to if holds or is_taken else at
            elif name == "call" and holds is not False:
                called, is_unknown = self._called(each, special, most - count)
                count, is_rough = count + called, is_rough or is_unknown
            elif holds is not False:
                self._set(each, values, special, is_known=holds is True)
        return count, is_rough or count >= most

    def _stops(self, at: int) -> bool:
        """Whether the code at a place only leads to a trap or a failed assertion."""
        for _ in range(_TO_TRAP):
            each = self.body[at] if at < len(self.body) else None
            at += 1
            if isinstance(each, Label):
                continue
            if each is None or each.guard is not None or each.name in ("ret", "exit"):
                return False
            if each.name == "trap" or any(isinstance(o, Name) and o.name == "__assertfail" for o in each.operands):
                return True
            if each.name.split(".")[0] == "bra":
                at = self.labels.get(getattr(each.operands[0], "name", ""), len(self.body))
        return False

    def _called(self, each: Instruction, special: Mapping[str, int], most: int) -> tuple[int, bool]:
        """The number of instructions of a function whose arguments are unknown, and whether that number is uncertain. A
        recursive function ends at the limit `most`."""
        names = [operand.name for operand in each.operands if isinstance(operand, Name)]
        called = next((self.module.functions[name] for name in names if name in self.module.functions), None)
        if called is None or most <= 1:
            return 0, True
        return Walk(self.module, called.entry, self.domain, {}).steps(special, min(most, _OF_CALL))

    def _set(self, each: Instruction, values: dict[str, Any], special: Mapping[str, int], is_known: bool) -> None:
        """Set the registers that an instruction writes. Unless `is_known`, they become unknown."""
        if not each.operands:
            return
        target, *sources = each.operands
        found = self._computed(each, sources, values, special) if is_known else None
        results = target.elements if isinstance(target, Group) else (target,)
        parts = found if isinstance(found, tuple) and len(found) == len(results) else (found,) * len(results)
        for result, part in zip(results, parts, strict=True):
            if isinstance(result, Register):
                values[result.name] = part

    def _computed(
        self, each: Instruction, sources: list[Any], values: dict[str, Any], special: Mapping[str, int]
    ) -> Any:
        """The value of a result; None if it is unknown."""
        if each.name.startswith("ld.param"):
            return self._parameter(each, sources[0])
        if each.name not in self._functions:
            self._functions[each.name] = self._function(each)
        function = self._functions[each.name]
        given = [_value(source, values, special) for source in sources]
        if function is None or any(value is None for value in given):
            return None
        try:
            found = function(*given)
        except (Error, ArithmeticError, ValueError, TypeError, IndexError, AttributeError):
            return None
        return found if isinstance(found, int | bool | tuple) else None

    def _function(self, each: Instruction) -> Callable[..., Any] | None:
        """The Python function that computes an instruction on integers; None if there is none."""
        try:
            form = ROWS.form(each, self.domain)
            if not form.row.is_value or _FLOATS & {*form.types}:
                return None
            function: Callable[..., Any] = form.row.handler(form)
        except (Error, ValueError, KeyError, TypeError):
            return None
        return function

    def _parameter(self, each: Instruction, source: Any) -> int | None:
        """The integer that ld.param loads; None if it is unknown."""
        if not isinstance(source, Address) or not isinstance(source.base, Name):
            return None
        bits, kind = self.parameters.get(source.base.name), each.name.split(".")[-1]
        if bits is None or kind in _FLOATS or ".v" in each.name:
            return None
        width = bits_of(kind)
        found = bits >> 8 * source.offset & (1 << width) - 1
        return found - (1 << width) if found >> (width - 1) else found


def _holds(each: Instruction, values: Mapping[str, Any]) -> bool | None:
    """Whether the guard of an instruction holds; None if it is unknown."""
    if each.guard is None:
        return True
    found = values.get(each.guard.register.name)
    return None if found is None else bool(found) != each.guard.negated


def _value(source: Any, values: Mapping[str, Any], special: Mapping[str, int]) -> Any:
    """An operand; None if it is unknown."""
    if isinstance(source, Register):
        return values.get(source.name)
    if isinstance(source, Immediate):
        return source.value
    return special.get(source.name) if isinstance(source, Name) else None
