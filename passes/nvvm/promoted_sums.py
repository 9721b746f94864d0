"""Sums that are promoted: blocks of products that wgmma sums from zero are added, in registers, as they end."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mlir import ir
from mlir.dialects import arith, llvm, math, vector

from lowtide.dialects import sm
from lowtide.passes.nvvm.values import Fragment, PendingSum, Repeated, element_of, of_struct, vector_type
from lowtide.passes.support.arithmetic import add


def _vectors(factors: Sequence[ir.Value], width: int) -> list[ir.Value]:
    """In vectors, of which equal ones are made once."""
    type_, made = vector_type(width, factors[0].type), dict[tuple[ir.Value, ...], ir.Value]()
    groups = [tuple(factors[first : first + width]) for first in range(0, len(factors), width)]
    for group in groups:
        if group not in made:
            made[group] = vector.FromElementsOp(type_, list(group)).result
    return [made[group] for group in groups]


@dataclass
class Scales:
    """The product of a row's and a column's scale for each value, computed when the first is asked for.

    That is after the wait for a product: scales may arrive while the tensor cores multiply.
    """

    rows: Repeated
    columns: Repeated
    width: int
    """Values of a register."""

    @cached_property
    def factors(self) -> list[ir.Value]:
        """Of all values; each pair of scales is multiplied once."""
        products: dict[tuple[int, int], ir.Value] = {}
        for row, column in zip(self.rows.places, self.columns.places, strict=True):
            if (row, column) not in products:
                product = arith.mulf(self.rows.registers[row], self.columns.registers[column])
                products[row, column] = product
        return [products[pair] for pair in zip(self.rows.places, self.columns.places, strict=True)]

    @cached_property
    def _all(self) -> list[ir.Value]:
        return _vectors(self.factors, self.width)

    def vectors(self, registers: range) -> list[ir.Value]:
        """Those of a block, one for each register."""
        return self._all[registers.start : registers.stop]


@dataclass(frozen=True)
class _Held:
    """The scales of a block that an op before this one started."""

    block: PendingSum

    def vectors(self, registers: range) -> list[ir.Value]:
        return _vectors([self.block.factors[place] for place in self.block.places], self.block.width)


@dataclass(frozen=True)
class _Block:
    """A block of products in flight: its number among those of a step, accumulators, and scales."""

    number: int
    accumulators: ir.Value
    scales: Scales | _Held | None


class PromotedSum:
    """A sum to which blocks are added in the order in which they were started."""

    def __init__(self, given: Fragment | PendingSum, blocks: int) -> None:
        self._type, self._blocks, self.width = given.type, blocks, given.width
        self._registers = list(given.registers)
        self._started: list[_Block] = []
        self._ended: dict[int, ir.Value] = {}
        if isinstance(given, PendingSum):
            self._started.append(_Block(blocks - 1, given.block, _Held(given) if given.places else None))

    @property
    def in_flight(self) -> int:
        """Blocks that are started and not yet added."""
        return len(self._started)

    def free(self, number: int) -> ir.Value | None:
        """The accumulators of a block that the step before started, which has been added; None if there are none.

        The block that is in flight from step to step stays in its registers so.
        """
        if number not in self._ended:
            return None
        own = self._own(number)
        self._registers[own.start : own.stop] = self._after_reads(self._registers[own.start : own.stop])
        return self._ended[number]

    def start(self, number: int, accumulators: ir.Value, scales: Scales | None) -> None:
        """A block whose group of wgmmas has been committed."""
        self._started.append(_Block(number, accumulators, scales))

    def add_oldest(self) -> None:
        """Wait for the oldest block, and add it to its registers; with scales by a fused multiply-add."""
        block = self._started.pop(0)
        done = sm.PtxWgmmaWaitOp(self.in_flight, block.accumulators).result
        self._ended[block.number] = done
        partial = of_struct(done, self.width, self._type.element_type)
        own = self._own(block.number)
        sums = self._registers[own.start : own.stop]
        if block.scales is None:
            added = [add(x, y) for x, y in zip(sums, partial, strict=True)]
        else:
            factors = block.scales.vectors(own)
            added = [math.FmaOp(x, y, z).result for x, y, z in zip(partial, factors, sums, strict=True)]
        self._registers[own.start : own.stop] = added

    def _own(self, number: int) -> range:
        """A block's registers."""
        each = len(self._registers) // self._blocks
        return range(number * each, (number + 1) * each)

    def _after_reads(self, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums through one more wait, for nothing more.

        It keeps the additions before the next product, which overwrites the accumulators that they read: LLVM would
        move them behind it, and copy the accumulators.
        """
        element, width = self._type.element_type, self.width
        parts = [element_of(register, place) for register in sums for place in range(width)]
        struct = llvm.UndefOp(llvm.StructType.get_literal([element] * len(parts))).res
        for place, part in enumerate(parts):
            struct = llvm.InsertValueOp(struct, part, [place]).res
        return of_struct(sm.PtxWgmmaWaitOp(self.in_flight, struct).result, width, element)

    def readable(self) -> Fragment:
        """The sum, after all blocks are added."""
        while self._started:
            self.add_oldest()
        return Fragment(tuple(self._registers), self.width, self._type)

    def pending(self) -> PendingSum:
        """The sum without its last block, which is in flight."""
        (block,) = self._started
        own = self._own(block.number)
        scales: list[ir.Value] = []
        if isinstance(block.scales, Scales):
            scales = block.scales.factors[own.start * self.width : own.stop * self.width]
        factors = list(dict.fromkeys(scales))
        places = tuple(factors.index(scale) for scale in scales)
        registers = tuple(self._registers)
        return PendingSum(registers, block.accumulators, tuple(factors), places, self.width, self._type)
