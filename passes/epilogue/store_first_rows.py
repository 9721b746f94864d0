"""store-first-rows: store the first rows of a tile while its last K step still multiplies the others.

Before   %p:4 = scf.for %i = 1 to %steps … { …; %q = sm.wgmma tn %a, %b, %c by #mma; %q2, %r = sm.mma_wait 1, %q
                                             sm.mbarrier_arrive %empty[…] after %r; … }
         %acc, %last = sm.mma_wait 0, %p#0;  sm.mbarrier_arrive %empty[…] after %last
         %part = sm.extract %acc[0, 0]; …; sm.tma_store …                       (the first part of the tile)
         …                                                                      (the others)
After    %p:4 = scf.for %i = 1 to %steps - 1 …                                  (as before)
         %q = sm.wgmma tn %a, %b, %p#0 by #mma row_groups                       (the last K step, by blocks of rows)
         %q2, %r = sm.mma_wait 2, %q;  sm.mbarrier_arrive %empty[…] after %r    (the groups of the step before are done)
         %top, %rest = sm.mma_wait_rows 1, %q2
         %part = sm.extract %top[0, 0]; …; sm.tma_store …
         %acc, %last = sm.mma_wait 0, %rest;  sm.mbarrier_arrive %empty[…] after %last
         …
         In groups of rows a part is stored in an scf.if: by TMA, or by threads.
         Only the first part is stored early: the slot of the last K step is released after it, and the producer waits
         for that.
Needs    level epilogue, roles; a loop over K whose timing has stores = first_rows, as bind-wgmma leaves it, of known
         steps, and parts stored by TMA.
Refuses  a loop of another form; a first part with rows of a second block.
Test     test/lit/passes/epilogue/store-first-rows.mlir, store-first-rows-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm
from lowtide.dialects.levels import Level
from lowtide.dialects.sm import StoreStart
from lowtide.dialects.sm.timing import Timing
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.agents.atoms import fragment_type, tiled_mma_of
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import after, before, copy_ops, ops_in, uses
from lowtide.passes.support.problem.kernels import gemm_kernels
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS


@dataclass(frozen=True)
class StoreFirstRows(Pass):
    """Takes the last K step out of loops over K, and stores a part of the tile before its products are all done."""

    name: ClassVar[str] = "store-first-rows"
    needs: ClassVar[Level] = Level.EPILOGUE
    gives: ClassVar[Level] = Level.EPILOGUE

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            for loop in walk(kernel, scf.ForOp):
                if Timing.of(loop).stores is StoreStart.first_rows:
                    products = [op for op in ops_in(loop.body) if isinstance(op, sm.WgmmaOp)]
                    if not products or _blocks(products[0]) < 2:
                        raise Refusal(
                            loop,
                            "must multiply two blocks of rows for each warpgroup to store the first early"
                            " [first-rows-blocks]",
                        )
                    with loop.operation.location:
                        _wait_by_rows(_peel_last(loop, products[0]))


def _blocks(product: sm.WgmmaOp) -> int:
    """The number of blocks of 64 rows of each warpgroup."""
    return int(product.result.type.fragment.shape[0]) // _rows(product)


def _rows(product: sm.WgmmaOp) -> int:
    """The number of rows in one block of each warpgroup."""
    return WGMMA_ROWS * int(tiled_mma_of(product.mma).atom_layout[0])


def _peel_last(loop: scf.ForOp, product: sm.WgmmaOp) -> sm.WgmmaOp:
    """Moves the last K step behind the loop, and lets it commit a group for each block of rows."""
    waits = [use for use in uses(product.result) if isinstance(use, sm.MmaWaitOp)]
    steps = constant_of(loop.upperBound)
    if constant_of(loop.lowerBound) != 1 or constant_of(loop.step) != 1 or steps is None or steps < 2 or not waits:
        raise Refusal(
            loop,
            "must wait for the group of the step before in each of its steps, from 1 to a known one [first-rows-loop]",
        )
    with before(loop):
        loop.operation.operands[1] = Builder.index().constant(steps - 1)
    results = list(loop.results)
    readers = [list(uses(result)) for result in results]
    with after(loop):
        mapping: dict[ir.Value, ir.Value] = dict(zip(loop.inner_iter_args, results, strict=True))
        mapping[loop.induction_variable] = Builder.index().constant(steps - 1)
        copy_ops(ops_in(loop.body), mapping)
    for result, yielded, users in zip(results, loop.body.operations[-1].operands, readers, strict=True):
        for user in users:
            _replace_in(user, result, mapping.get(yielded, yielded))
    last, wait = mapping[product.result].owner, mapping[waits[0].result].owner
    last.attributes["row_groups"] = ir.UnitAttr.get()
    wait.attributes["pending"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _blocks(product))
    return last.opview


def _wait_by_rows(last: sm.WgmmaOp) -> None:
    """Hands the first rows on before the first part is stored; the wait for the others follows it."""
    (wait,) = uses(last.result)
    (done,) = uses(wait.result)
    if not isinstance(done, sm.MmaWaitOp) or done.pending.value:
        raise Refusal(done, "must be the wait for the sums of the tile [first-rows-wait]")
    block = done.operation.block
    ops = list(block.operations)
    begin = ops.index(done)
    store = next((op for op in ops[begin:] if _stores(op)), None)
    if store is None:
        raise Refusal(done, "must be followed by stores by TMA of the parts of the tile [first-rows-stores]")
    early = ops[begin : ops.index(store)]
    rows, columns = _rows(last), done.result.type.shape[1]
    tv = tiled_mma_of(last.mma).tv("c", (rows, columns))
    top = fragment_type(tv, (rows, columns), done.result.type.element_type)
    with before(done), done.operation.location:
        first = sm.MmaWaitRowsOp(top, done.acc.type, _blocks(last) - 1, done.acc)
    for user in list(uses(done.result)):
        if user in early:
            if not isinstance(user, sm.ExtractOp) or user.offsets[0] + user.result.type.shape[0] > rows:
                raise Refusal(user, f"reads more than the {rows} rows whose sums are complete first [first-rows-reads]")
            _replace_in(user, done.result, first.rows)
    done.operation.operands[0] = first.rest
    here = after(store)
    for op in [done, *uses(done.retired)]:
        op.operation.detach_from_parent()
        here.insert(op.operation)


def _stores(op: ir.OpView) -> bool:
    """Whether an op stores a part by TMA, or branches to such a store: a part of a group of rows."""
    return isinstance(op, sm.TmaStoreOp) or (isinstance(op, scf.IfOp) and bool(walk(op, sm.TmaStoreOp)))


def _replace_in(user: ir.OpView, old: ir.Value, new: ir.Value) -> None:
    """Replaces a value in the operands of one op."""
    for position, operand in enumerate(user.operation.operands):
        if operand == old:
            user.operation.operands[position] = new
