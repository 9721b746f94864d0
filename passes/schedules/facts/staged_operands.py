"""Full operands of the epilogue that TMA loads to shared memory, and why it cannot load others."""

from lowtide.dialects.tile import OperandKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.support.agents.atoms import STMATRIX_BITS
from lowtide.passes.support.problem.problem import Problem

_UNIT_BITS = 128  # of the rows of a tensor map (CUDA driver API, cuTensorMapEncodeTiled)


def full_operands(problem: Problem) -> tuple[str, ...]:
    """The element types of the full operands that the epilogue reads."""
    kinds = zip(problem.kinds, problem.operands, strict=True)
    return tuple(element for kind, element in kinds if kind is OperandKind.full)


def staged_operands(schedule: Schedule, problem: Problem) -> tuple[str, ...]:
    """The element types of the full operands that TMA loads: all of them if TMA stores the results, else none."""
    return full_operands(problem) if schedule.epilogue.path is StorePath.tma else ()


def operand_slots(schedule: Schedule) -> int:
    """Slots for parts of staged operands; a narrower last part has its own slot."""
    return schedule.epilogue.prefetch or 1


def why_not_staged(problem: Problem) -> str | None:
    """Why TMA cannot load the full operands of a problem, as the end of a sentence; None if it can. If the length of
    rows is known only at run time, it is checked then."""
    full, length = full_operands(problem), problem.row_of_d
    narrow = next((name for name in full if element_type(name).bits < STMATRIX_BITS), None)
    if problem.d_is_column_major:
        return "by rows, and they lie by columns"
    if problem.is_grouped:
        return "in whole parts, and the rows of groups end anywhere"
    if narrow is not None:
        return f"of {STMATRIX_BITS} bits or more, not {narrow}"
    if length is not None and any(length * element_type(name).bits % _UNIT_BITS for name in full):
        return f"whose rows are multiples of 16 bytes, not of {length} elements"
    return None


def why_not_beside(schedule: Schedule) -> str | None:
    """As `why_not_staged`, for the fields of a schedule."""
    if schedule.k_division is not None:
        return "for tiles that one CTA computes, not with k_division"
    return None
