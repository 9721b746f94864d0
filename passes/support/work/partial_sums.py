"""Partial sums of tiles: what is done with an accumulator other than storing it."""

from mlir import ir

from lowtide.dialects import tile
from lowtide.passes.base import Refusal, walk
from lowtide.passes.support.agents.atoms import fragment_type, part_of
from lowtide.passes.support.ir.rewriting import before, replace, uses
from lowtide.targets import TiledMma


def bind_sums(accumulator: ir.Value, fragment: ir.Type) -> None:
    """Gives the sums that partial sums are added to the accumulator's new type, a fragment.

    The ops that only read the accumulator take any type. Refuses another use of the accumulator.
    """
    for use in list(uses(accumulator)):
        if isinstance(use, tile.AddPartialsOp):
            with before(use), use.operation.location:
                total = _retyped(use, fragment)
            bind_sums(use.result, fragment)
            replace(use, [total])
        elif not isinstance(use, (tile.StoreOp, tile.StorePartialOp)):
            raise Refusal(
                use, "uses the accumulator; only tile.store and the exchange of partial sums may [accumulator-used]"
            )


def bind_shares(kernel: tile.KernelOp, mma: TiledMma) -> None:
    """Gives the sums of shares of partial sums the layout of the accumulators of the tiled mma."""
    for op in walk(kernel, tile.SumSharesOp):
        shape = tuple(op.result.type.shape)
        type_ = fragment_type(part_of(mma, shape).tv("c", shape), shape, op.result.type.element_type)
        with before(op), op.operation.location:
            total = tile.SumSharesOp(type_, op.partials, op.first, op.count, op.share, op.shares).result
        replace(op, [total])


def _retyped(op: tile.AddPartialsOp, type_: ir.Type) -> ir.Value:
    """The op with another result type. Its operand gets that type next: until then the op does not verify."""
    return tile.AddPartialsOp(type_, *op.operands).result
