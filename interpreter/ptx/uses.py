"""How instructions of PTX use their operands, for the premise of program/dependence.py."""

import re

from lowtide.interpreter.program.dependence import Use
from lowtide.interpreter.ptx.binding import Op
from lowtide.interpreter.ptx.syntax import Address, Group, Operand, Register

_VARY = re.compile(r"ld\.(?!param).*|ldmatrix\..*|atom\..*|mbarrier\.(try|test)_wait\..*")
_COMPUTE = re.compile(r"mma\.sync\..*")
_TIMED = re.compile(r"%(clock\w*|globaltimer\w*|smid|nsmid|warpid)\b")
# Whose plain registers, those that are no addresses, hold elements or partial sums.
_STORES = re.compile(r"(st|red|atom)\..*|stmatrix\..*")


def use_of(op: Op) -> Use:
    """How an instruction uses its operands. A guard must not vary where the instruction acts."""
    instruction = op.instruction
    name = instruction.name
    if _COMPUTE.fullmatch(name):
        return Use()
    loads = bool(_VARY.fullmatch(name))
    data = set(op.results)
    if _STORES.fullmatch(name):
        sources = instruction.operands[1:] if name.startswith("atom") else instruction.operands
        addresses = sum(len(_registers(operand)) for operand in sources if isinstance(operand, Address))
        data.update(op.operands[addresses : sum(len(_registers(operand)) for operand in sources)])
    return Use(loads or bool(_TIMED.search(instruction.text)), op.acts or loads, frozenset(data))


def _registers(operand: Operand) -> list[Register]:
    if isinstance(operand, Group):
        return [each for element in operand.elements for each in _registers(element)]
    if isinstance(operand, Address):
        parts = (operand.base, *(operand.coordinates or ()))
        return [each for part in parts for each in _registers(part)]
    return [operand] if isinstance(operand, Register) else []
