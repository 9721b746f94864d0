"""The uses of operands by PTX instructions, for the premise of program/dependence.py."""

import re

from lowtide.interpreter.program.dependence import Use
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Address, Group, Immediate, Negated, Operand, Register

_VARY = re.compile(r"ld\.(?!param).*|ldmatrix\..*|wmma\.load\..*|atom\..*|mbarrier\.(try|test)_wait\..*")
_COMPUTE = re.compile(r"((mma|redux)\.sync|wmma\.mma)\..*")
_TIMED = re.compile(r"%(clock\w*|globaltimer\w*|smid|nsmid|warpid)\b")
# Instructions whose registers, other than addresses, hold elements or partial sums.
_ASK = re.compile(r"ld\.(relaxed|volatile)\..*")  # without .acquire, they order nothing
_STEP = re.compile(r"(add|sub)\.[bsu](16|32|64)")
_NOT_ZERO = re.compile(r"setp\.ne(\.and)?\.[bsu](16|32|64)")
_MEET = re.compile(
    r"(atom|red)\..*|ld\.(acquire|relaxed|volatile)\..*|st\.(release|relaxed|volatile)\..*|mbarrier\.(arrive|expect_tx|try_wait|test_wait).*"
)
_PATTERNED = re.compile(r"st\.(release|relaxed|volatile)\..*|fence\.(?!proxy|mbarrier_init).*|membar\..*")
_STORES = re.compile(r"(st|red|atom|stmatrix|wmma\.store)\..*")


def use_of(op: Op) -> Use:
    """How an instruction uses its operands. A guard must not vary if the instruction acts."""
    instruction = op.instruction
    name = instruction.name
    if _COMPUTE.fullmatch(name):
        return Use()
    if _STEP.fullmatch(name) or _NOT_ZERO.fullmatch(name):
        return _counting(op)
    loads = bool(_VARY.fullmatch(name))
    data = {*op.results, *op.kept}
    if _STORES.fullmatch(name):
        sources = instruction.operands[1:] if name.startswith("atom") else instruction.operands
        are_data = [not isinstance(operand, Address) for operand in sources for _ in _registers(operand)]
        data.update(slot for slot, is_data in zip(op.operands, are_data, strict=False) if is_data)
    if name.startswith("wgmma.mma_async"):
        first = len(op.kept)
        data.update(
            op.operands[
                first : first + len(_registers(held) if isinstance(held := instruction.operands[1], Group) else ())
            ]
        )
    asks, is_patterned = bool(_ASK.fullmatch(name)), bool(_PATTERNED.fullmatch(name))
    return Use(
        loads or bool(_TIMED.search(instruction.text)),
        op.acts or loads or is_patterned,
        frozenset(data),
        asks,
        bool(_MEET.fullmatch(name)),
        is_patterned,
    )


def _counting(op: Op) -> Use:
    """For an addition, whether it counts by one; for a comparison, the number that it compares with zero."""
    instruction = op.instruction
    target, first, second, *_ = instruction.operands
    is_plain = instruction.guard is None and isinstance(second, Immediate) and isinstance(first, Register)
    if instruction.name.startswith("setp"):
        is_zero = is_plain and isinstance(second, Immediate) and second.value == 0
        return Use(ends=frozenset(op.operands[:1]) if is_zero else frozenset())
    is_one = is_plain and isinstance(second, Immediate) and abs(second.value) == 1
    return Use(steps=is_one and target == first)


def _registers(operand: Operand) -> list[Register]:
    if isinstance(operand, Group):
        return [each for element in operand.elements for each in _registers(element)]
    if isinstance(operand, Address):
        parts = (operand.base, *(operand.coordinates or ()))
        return [each for part in parts for each in _registers(part)]
    if isinstance(operand, Negated):
        return [operand.register]
    return [operand] if isinstance(operand, Register) else []
