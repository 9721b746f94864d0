"""The loop over a CTA's work items in one thread's program.

If the grids of tiles are known at the launch, the number of items is known, too, and the loop counts items. Otherwise a
cursor is carried from item to item, and the loop ends if the cursor finds no tile.
"""

from collections.abc import Callable

from mlir import ir
from mlir.dialects import nvvm, scf

from lowtide.passes.nvvm.work.grids import Cursor, Grids
from lowtide.passes.nvvm.work.items import Items
from lowtide.passes.nvvm.work.schedulers import Bounds
from lowtide.passes.support.ir.builder import Builder

Body = Callable[[ir.Value, Cursor, list[ir.Value]], list[ir.Value]]
"""Makes the code of an item from its number, the cursor at its grid and the carried values. Returns the next values."""


def item_loop(
    build: Builder, bounds: Bounds, items: Items, grids: Grids, carried: list[ir.Value], body: Body
) -> list[ir.Value]:
    """Makes the loop at the insertion point. Returns the values carried after the last item."""
    start = grids.start()
    if start:
        return _seeking(build, bounds, items, grids, [*start, *carried], body)
    loop = scf.ForOp(*bounds, carried)
    with ir.InsertionPoint(loop.body):
        scf.YieldOp(body(loop.induction_variable, start, list(loop.inner_iter_args)))
    return list(loop.results)


def _seeking(
    build: Builder, bounds: Bounds, items: Items, grids: Grids, carried: list[ir.Value], body: Body
) -> list[ir.Value]:
    """`carried`: the cursor first."""
    first, end, step = bounds
    cursors = len(grids.start())
    inits = [first, *carried]
    types = [value.type for value in inits]
    loop = scf.WhileOp(types, inits)
    before, after = (region.blocks.append(*types) for region in (loop.before, loop.after))
    with ir.InsertionPoint(before):
        index, *others = before.arguments
        cursor, exists = grids.seek(items.at(index).tile, others[:cursors])
        goes_on = build.ult(index, end)
        scf.ConditionOp(build.and_(goes_on, exists), [index, *cursor, *others[cursors:]])
    with ir.InsertionPoint(after):
        index, *others = after.arguments
        cursor = others[:cursors]
        following = [build.add(index, step), *cursor, *body(index, cursor, others[cursors:])]
        if grids.by_warps:
            # Lanes that an item tells apart, such as the one that stores by TMA, meet before the next item. So ptxas
            # knows that they run the loop together, and keeps in uniform registers what they share.
            nvvm.SyncWarpOp(build.constant(-1))
        scf.YieldOp(following)
    return list(loop.results)[1 + cursors :]
