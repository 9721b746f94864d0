"""Addresses of device functions, and the functions that a call by an address may reach.

PTX ISA, "Control Flow Instructions: call", ".calltargets", ".callprototype". A call lists its targets by a label
(.calltargets) or by a variable that is initialized with them; or it gives a prototype, and may reach each function of
the module that fits it and whose address the module takes.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from lowtide.interpreter.ptx.syntax import (
    Address,
    Entry,
    Formal,
    Function,
    Instruction,
    Module,
    Name,
    Register,
    Signature,
    Variable,
)
from lowtide.interpreter.ptx.table import bits_of

_START = 1 << 39  # above all data, and below generic addresses of shared memory
_APART = 16  # bytes


def addresses_of(module: Module) -> dict[str, int]:
    """The addresses of the functions of a module, by name; an alias has that of its function."""
    numbers: dict[int, int] = {}
    for each in module.functions.values():
        numbers.setdefault(id(each), len(numbers))
    return {name: _START + _APART * numbers[id(each)] for name, each in module.functions.items()}


def targets_of(module: Module, call: Instruction, entry: Entry, name: str) -> dict[str, Function]:
    """The functions that a call may reach, by name. `name` is its last operand, declared in `entry` or in the module.

    Raises InterpreterError if it is not one of targets.
    """
    if name in entry.call_targets:
        names: tuple[str, ...] = entry.call_targets[name]
    elif name in entry.prototypes:
        wanted = entry.prototypes[name]
        taken = _taken(module)
        names = tuple(each for each in taken if _fits(module.functions[each], wanted))
    else:
        tables = {each.name: each for each in (*module.variables, *entry.variables)}
        if name not in tables or not tables[name].pointers:
            raise call.error(
                f"{name} has no functions; a call by an address ends with a label of .calltargets or .callprototype, "
                "or with a variable that is initialized with functions [call-targets]"
            )
        names = tuple(pointer for _, pointer, _ in tables[name].pointers)
    missing = [each for each in names if each not in module.functions]
    if missing:
        raise call.error(f"{name} lists {missing[0]}, which is no function of this module [call-targets-known]")
    return {each: module.functions[each] for each in dict.fromkeys(names)}


def reached(module: Module, entry: Entry) -> list[Entry]:
    """The kernel, and the functions that it may call, also those that others call."""
    found = {id(entry): entry}
    todo = [entry]
    while todo:
        body = todo.pop()
        calls = [each for each in body.body if isinstance(each, Instruction) and each.name.startswith("call")]
        names = {each.name for call in calls for each in call.operands if isinstance(each, Name)}
        if any(isinstance(each, Register) for call in calls for each in call.operands):
            names.update(_taken(module))
        called = (module.functions[name].entry for name in module.functions if name in names)
        new = [each for each in called if id(each) not in found]
        found.update((id(each), each) for each in new)
        todo += new
    return list(found.values())


def _taken(module: Module) -> list[str]:
    """The functions whose addresses the module takes: in instructions, initializers or lists."""
    bodies = [*module.entries.values(), *(each.entry for each in module.functions.values())]
    variables = chain(module.variables, *(each.variables for each in bodies))
    found = {name for each in variables for _, name, _ in each.pointers}
    for body in bodies:
        found.update(chain.from_iterable(body.call_targets.values()))
        found.update(name for each in body.body if isinstance(each, Instruction) for name in _named(each))
    return [name for name in module.functions if name in found]


def _named(instruction: Instruction) -> Iterator[str]:
    """Names whose addresses an instruction takes."""
    for each in instruction.operands[1:] if not instruction.name.startswith("call") else ():
        base = each.base if isinstance(each, Address) else each
        if isinstance(base, Name):
            yield base.name


def _fits(function: Function, wanted: Signature) -> bool:
    """Whether a function has the results and parameters of a prototype, by their sizes."""
    found = function.signature
    return _sizes(found.results) == _sizes(wanted.results) and _sizes(found.parameters) == _sizes(wanted.parameters)


def _sizes(formals: Sequence[Formal]) -> list[tuple[str, int]]:
    """The space of each, and its bytes; for a register, its bits."""
    return [(each.space, each.size) if isinstance(each, Variable) else ("reg", bits_of(each.type)) for each in formals]
