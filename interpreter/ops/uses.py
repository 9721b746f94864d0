"""How ops of levels nvvm and llvm use their operands, for the premise of program/dependence.py."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from lowtide.interpreter.program.dependence import Use
from lowtide.interpreter.program.ir_types import Scalar, Struct, Vector
from lowtide.interpreter.program.program import DecodedOp

# Ops that act on nothing but registers, though their dialect's do more by default.
_TIMED = "clock|globaltimer|smid|nsmid|warpid"  # special registers that may differ from run to run, and within one
_COMPUTE = re.compile(rf"nvvm\.(mma\.sync|elect\.sync|mapa|read\.ptx\.sreg\.(?!{_TIMED})\S+)|gpu\..*_(id|dim)")
_VARY = re.compile(r"llvm\.(load|atomicrmw|cmpxchg)|nvvm\.(ldmatrix|mbarrier\.test\.wait.*)|nvvm\.read\.ptx\.sreg\..*")
# Assembly that returns what it finds in memory, or the answer to a poll.
_ASSEMBLY = re.compile(r"\b(ld\.(?!param)|ldmatrix|atom\.|(try|test)_wait)|%(clock|globaltimer|smid)")

# The operands that are matrix elements or partial sums, by position; None: from that one on.
_DATA: Mapping[str, slice] = MappingProxyType(
    {
        "llvm.store": slice(0, 1),
        "sm.ptx_store": slice(0, 1),
        "nvvm.stmatrix": slice(1, None),
        "nvvm.wgmma.mma_async": slice(0, 1),
        "sm.ptx_wgmma_wait": slice(0, 1),
    }
)


def use_of(op: DecodedOp) -> Use:
    """How an op uses its operands."""
    if op.name == "llvm.inline_asm":
        data = [slot for slot, type in zip(op.operands, op.operand_types, strict=True) if _is_number(type)]
        return Use(bool(_ASSEMBLY.search(op.attributes["asm_string"])), True, frozenset(data))
    if _COMPUTE.fullmatch(op.name):
        return Use()
    varies = bool(_VARY.fullmatch(op.name))
    orders = op.acts or varies
    return Use(varies, orders, frozenset(op.operands[_DATA[op.name]]) if op.name in _DATA else frozenset())


def _is_number(type: object) -> bool:
    """Whether matrix elements have this type: registers of wgmma, by themselves or together."""
    if isinstance(type, Struct):
        return all(_is_number(element) for element in type.elements)
    element = type.element if isinstance(type, Vector) else type
    return isinstance(element, Scalar) and element.is_float
