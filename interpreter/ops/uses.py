"""The uses of operands by ops of levels nvvm and llvm, for the premise of program/dependence.py."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.dependence import Inside, Use
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.uses import use_of as instruction_use

# Ops that act only on registers, although their dialect's ops do more by default.
_COMPUTE = re.compile(r"sm\.ptx_(keep_pair|mask_or)")
_MEET = re.compile(r"sm\.ptx_(semaphore_(arrive|leave)|raise_max|tell_last)")
_VARY = re.compile(r"llvm\.(load|atomicrmw|cmpxchg)")

# The operands that are matrix elements or partial sums, by position; None: from that position on.
_DATA: Mapping[str, slice] = MappingProxyType(
    {
        "llvm.store": slice(0, 1),
        "sm.ptx_store": slice(0, 1),
        "sm.ptx_raise_max": slice(0, 1),
        "sm.ptx_wgmma_wait": slice(0, 1),
    }
)


def use_of(op: DecodedOp | Op) -> Use:
    """How an op, or the instruction that it decodes to, uses its operands."""
    if isinstance(op, Op):
        return instruction_use(op)
    if op.name == "llvm.inline_asm":
        return Use(inside=Inside(op.data.graph, instruction_use, *op.data.moves(op)))
    if _COMPUTE.fullmatch(op.name):
        return Use()
    varies = bool(_VARY.fullmatch(op.name))
    orders = op.acts or varies
    data = frozenset(op.operands[_DATA[op.name]]) if op.name in _DATA else frozenset()
    return Use(varies, orders, data, meets=bool(_MEET.fullmatch(op.name)))
