"""How ops of levels nvvm and llvm use their operands, for the premise of program/dependence.py."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from lowtide.interpreter.program.dependence import Inside, Use
from lowtide.interpreter.program.program import DecodedOp
from lowtide.interpreter.ptx.uses import use_of as instruction_use

# Ops that act on nothing but registers, though their dialect's do more by default.
_TIMED = "clock|globaltimer|smid|nsmid|warpid"  # special registers that may differ from run to run, and within one
_COMPUTE = re.compile(
    rf"nvvm\.(mma\.sync|elect\.sync|shfl\.sync|mapa|read\.ptx\.sreg\.(?!{_TIMED})\S+)|gpu\..*_(id|dim)|sm\.ptx_(keep_pair|mask_or|round)"
)
_MEET = re.compile(r"nvvm\.mbarrier\.(arrive|test).*|sm\.ptx_(semaphore_(arrive|leave)|raise_max)")
_VARY = re.compile(r"llvm\.(load|atomicrmw|cmpxchg)|nvvm\.(ldmatrix|mbarrier\.test\.wait.*)|nvvm\.read\.ptx\.sreg\..*")

# The operands that are matrix elements or partial sums, by position; None: from that one on.
_DATA: Mapping[str, slice] = MappingProxyType(
    {
        "llvm.store": slice(0, 1),
        "sm.ptx_store": slice(0, 1),
        "sm.ptx_raise_max": slice(0, 1),
        "nvvm.stmatrix": slice(1, None),
        "nvvm.wgmma.mma_async": slice(0, 1),
        "sm.ptx_wgmma": slice(0, -1),
        "sm.ptx_wgmma_wait": slice(0, 1),
    }
)


def use_of(op: DecodedOp) -> Use:
    """How an op uses its operands."""
    if op.name == "llvm.inline_asm":
        return Use(inside=Inside(op.data.graph, instruction_use, *op.data.moves(op)))
    if _COMPUTE.fullmatch(op.name):
        return Use()
    varies = bool(_VARY.fullmatch(op.name))
    orders = op.acts or varies
    data = frozenset(op.operands[_DATA[op.name]]) if op.name in _DATA else frozenset()
    return Use(varies, orders, data, meets=bool(_MEET.fullmatch(op.name)))
