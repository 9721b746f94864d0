"""The scratch buffers of a kernel's epilogues, which all its stores share.

A kernel stores its tiles one after the other, so that stores of tiles of several sizes can use the same buffers. Each
store leaves them free: by a barrier, or by waiting after its work tiles until its TMA stores have read them.
"""

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.passes.base import walk
from lowtide.passes.support.ir.rewriting import after
from lowtide.passes.support.problem.element_types import buffer_bytes
from lowtide.passes.support.problem.kernels import instances_of


def _block(kernel: tile.KernelOp) -> ir.Block:
    """The block that allocates buffers: a role's if its instances have their own, else the kernel's."""
    for roles in walk(kernel, sm.RolesOp):
        for position, region in enumerate(roles.bodies):
            if instances_of(roles, position) > 1:
                return region.blocks[0]
    return kernel.body.blocks[0]


class Scratch:
    """Buffers made on demand, and given to every store that asks for the same."""

    def __init__(self, kernel: tile.KernelOp) -> None:
        self.entry = _block(kernel)
        self.made: list[tuple[ir.Value, ...]] = []
        self.owned: dict[tuple[int, int], ir.Value] = {}

    def take(self, type_: ir.MemRefType, count: int = 1) -> tuple[ir.Value, ...]:
        """Buffers of a type, different from each other."""
        for buffers in self.made:
            if len(buffers) == count and buffers[0].type == type_:
                return buffers
        self.made.append(tuple(self._allocated(type_) for _ in range(count)))
        return self.made[-1]

    def of_operand(self, number: int, slot: int, type_: ir.MemRefType) -> ir.Value:
        """The buffer of a slot for parts of an operand. It holds nothing else."""
        if (number, slot) not in self.owned:
            self.owned[number, slot] = self._allocated(type_)
        return self.owned[number, slot]

    def _allocated(self, type_: ir.MemRefType) -> ir.Value:
        placed = [op for op in self.entry.operations if isinstance(op.opview, sm.AllocOp)]
        with after(placed[-1].opview) if placed else ir.InsertionPoint.at_block_begin(self.entry):
            return sm.AllocOp(type_).result

    def take_one(self, type_: ir.MemRefType) -> ir.Value:
        """A buffer for stores that use one at a time: that of an earlier store, or a prefix of it, if it fits."""
        if not self.made:
            return self.take(type_)[0]
        buffer = self.made[0][0]
        own = ir.MemRefType(buffer.type)
        if own == type_ or own.element_type != type_.element_type or buffer_bytes(type_) > buffer_bytes(own):
            return self.take(type_)[0]
        return sm.PrefixOp(type_, buffer).result
