"""Edits that make a module smaller: each takes a text and returns another one, or None if it does not apply.

A value whose op is removed is replaced by another available value of its type, or by zero. MLIR's canonicalize and cse
then remove loops of one step, unused code and the like.
"""

from collections.abc import Callable, Iterable

from mlir import ir
from mlir.passmanager import PassManager

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.dialects.diagnostics import Diagnostics
from lowtide.dialects.tile.schedule import Schedule
from lowtide.verification.reduction.failures import ops_in

_FRAME = frozenset(
    {"builtin.module", "gpu.module", "func.func", "tile.kernel", "gpu.func", "llvm.func", "llvm.mlir.global"}
)
_SYMBOL_TABLES = frozenset({"builtin.module", "gpu.module"})
_LOOP, _IF = "scf.for", "scf.if"


def erasable(text: str) -> list[int]:
    """The numbers of ops that may be removed: all but functions, their parents, and terminators."""
    with make_context() as context:
        module = parse_text(text, context, "<module>")  # owns its ops: must outlive them
        ops = ops_in(module)
        return [number for number, op in enumerate(ops) if op.name not in _FRAME and not _ends_block(op)]


def without(text: str, numbers: Iterable[int]) -> str | None:
    """The text without some ops and their regions. None if none of them can be removed."""

    def edit(module: ir.Module) -> bool:
        ops = ops_in(module)
        return any([_erase(ops[number]) for number in sorted(numbers, reverse=True)])  # all of them, inner first

    return _edited(text, edit)


def loops(text: str) -> list[int]:
    """The numbers of loops and branches with regions."""
    with make_context() as context:
        module = parse_text(text, context, "<module>")  # owns its ops: must outlive them
        ops = ops_in(module)
        return [number for number, op in enumerate(ops) if op.name in (_LOOP, _IF)]


def with_steps(text: str, number: int, steps: int) -> str | None:
    """The text with a loop of 0 or 1 steps; for a branch, with its second or its first side."""

    def edit(module: ir.Module) -> bool:
        op = ops_in(module)[number]
        if op.name == _IF:
            op.operands[0] = _constant(op, op.operands[0].type, steps)
        else:
            for position, value in enumerate((0, steps, 1)):
                op.operands[position] = _constant(op, op.operands[position].type, value)
        return True

    return simplified(_edited(text, edit) or "")


def simplified(text: str) -> str | None:
    """The text after MLIR's canonicalize and cse."""

    def edit(module: ir.Module) -> bool:
        PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        return True

    return _edited(text, edit) if text else None


def scheduled(text: str, change: Callable[[Schedule], Schedule | None]) -> str | None:
    """The text with another schedule, or, for a change to None, without one."""

    def edit(module: ir.Module) -> bool:
        schedule = Schedule.carried_by(module)
        carriers = [op for op in ops_in(module) if "schedule" in op.attributes]
        if schedule is None or not carriers:
            return False
        new = change(schedule)
        for op in carriers:
            if new is None:
                del op.attributes["schedule"]
            else:
                op.attributes["schedule"] = new.attribute()
        return True

    return _edited(text, edit)


def _edited(text: str, edit: Callable[[ir.Module], bool]) -> str | None:
    """The text after an edit; None if it does not apply, or makes an illegal module."""
    with make_context() as context, ir.Location.unknown(), Diagnostics(context):
        module = parse_text(text, context, "<module>")
        try:
            if not edit(module) or not module.operation.verify():
                return None
        except (ir.MLIRError, ValueError, IndexError):
            return None
        return str(module) + "\n"


def _ends_block(op: ir.Operation) -> bool:
    """Whether it is its block's last op, in blocks with terminators."""
    block = op.block
    return op.parent is not None and op.parent.name not in _SYMBOL_TABLES and list(block.operations)[-1].operation == op


def _erase(op: ir.Operation) -> bool:
    for result in op.results:
        if next(iter(result.uses), None) is None:
            continue
        other = _substitute(op, result.type)
        if other is None:
            return False
        result.replace_all_uses_with(other)
    op.erase()
    return True


def _substitute(op: ir.Operation, type_: ir.Type) -> ir.Value | None:
    """A value of a type before an op: one of its operands, a constant, or another value of its block."""
    for operand in op.operands:
        if operand.type == type_:
            return operand
    if isinstance(type_, ir.IndexType | ir.IntegerType | ir.FloatType):
        return _constant(op, type_, 0)
    before: list[ir.Value] = list(op.block.arguments)
    for other in op.block.operations:
        if other.operation == op:
            break
        before += list(other.operation.results)
    return next((value for value in reversed(before) if value.type == type_), None)


def _constant(op: ir.Operation, type_: ir.Type, value: int) -> ir.Value:
    """A constant of an integer or float type before an op, in the dialect of its function."""
    is_float = isinstance(type_, ir.FloatType)
    attribute = ir.FloatAttr.get(type_, float(value)) if is_float else ir.IntegerAttr.get(type_, value)
    name = "llvm.mlir.constant" if _is_llvm(op) else "arith.constant"
    with ir.InsertionPoint(op):
        return ir.Operation.create(name, results=[type_], attributes={"value": attribute}).result


def _is_llvm(op: ir.Operation) -> bool:
    around: ir.Operation | None = op.parent
    while around is not None:
        if around.name == "llvm.func":
            return True
        around = around.parent
    return False
