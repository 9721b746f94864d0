"""The parts of a call (PTX ISA, "Control Flow Instructions: call")."""

from dataclasses import dataclass

from lowtide.interpreter.ptx.syntax import Group, Instruction, Name, Operand, Register


@dataclass(frozen=True)
class CallParts:
    """The parts of a call: the function is a name, or a register with its address, which may be one of `targets`."""

    results: tuple[Operand, ...]
    callee: str | Register
    arguments: tuple[Operand, ...]
    targets: str = ""


def parts_of(call: Instruction) -> CallParts:
    """The parts. Raises InterpreterError for a call of another form."""
    operands = list(call.operands)
    results = operands.pop(0).elements if operands and isinstance(operands[0], Group) else ()  # type: ignore[union-attr]
    callee = operands.pop(0) if operands else None
    arguments = operands.pop(0).elements if operands and isinstance(operands[0], Group) else ()  # type: ignore[union-attr]
    if isinstance(callee, Name):
        return CallParts(results, callee.name, arguments)
    targets = operands.pop(0) if operands else None
    if not isinstance(callee, Register) or not isinstance(targets, Name):
        raise call.error(
            "a call names a function, or a register with its address and then what it may be, by a label of "
            ".calltargets or .callprototype [call-indirect]"
        )
    return CallParts(results, callee, arguments, targets.name)
