"""overlap-stores: store a work tile of D among the products of the next one.

Before   scf.for %tile = %first to %tiles step %ctas iter_args(%r = …) {
           %sums = scf.for %k = 0 to 4 … { … nvvm.mma.sync … }
           %d0 = …; %d1 = …; llvm.store %d0, %p0; llvm.store %d1, %p1; …
           scf.yield … }
After    %last, %l0, %l1, … = scf.for %tile = %first to %tiles step %ctas iter_args(%r = …, %past = %first, %h0, …) {
           %is_held = arith.cmpi ne, %tile, %first
           …; nvvm.mma.sync …; %q0 = … address in tile %past; scf.if %is_held { llvm.store %h0, %q0 }; nvvm.mma.sync …
           %d0 = …; %d1 = …
           scf.yield …, %tile, %d0, %d1, … }
         scf.if %first < %tiles { llvm.store %l0, …; llvm.store %l1, … }
         Stores that come all at once hold up what comes behind them in the memory pipeline: the fragments of the next
         tile. Here each of them stands alone, at even distances between products. The K steps are written out for it.
Needs    a loop over K whose timing has stores = next_tile, as the simplifications of level nvvm leave it.
Refuses  a K loop of an open number of steps; stores under a condition; addresses that do not follow from the number of
         the tile.
Test     test/lit/passes/nvvm/overlap-stores.mlir, overlap-stores-invalid.mlir
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, gpu, llvm, nvvm, scf

from lowtide.dialects.levels import Level
from lowtide.dialects.sm import StoreStart
from lowtide.dialects.sm.timing import Timing
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.builder import constant_of
from lowtide.passes.support.ir.rewriting import before, copy_ops, defining_op, erase, ops_in, rebuild_loop
from lowtide.targets import Target

_WAY_OUT = "take epilogue.start = all_sums, and lower again from level problem"
_PURE = ("arith.", "llvm.getelementptr", "llvm.mlir.constant")


@dataclass(frozen=True)
class OverlapStores(Pass):
    """Moves D's stores into the K loop of the work tile that follows."""

    name: ClassVar[str] = "overlap-stores"
    needs: ClassVar[Level] = Level.NVVM
    gives: ClassVar[Level] = Level.NVVM

    def run(self, module: ir.Module, target: Target) -> bool:
        changed = False
        for function in walk(module, gpu.GPUFuncOp):
            loops = [loop for loop in walk(function, scf.ForOp) if Timing.of(loop).stores is StoreStart.next_tile]
            if not loops and Timing.of(function).stores is StoreStart.next_tile:
                raise Refusal(
                    function, f"has no loop over K left whose products take the stores; {_WAY_OUT} [overlap-loops]"
                )
            for products in loops:
                _overlap(_Tile.match(products))
                changed = True
        return changed


@dataclass(frozen=True)
class _Tile:
    """A loop over work tiles, its K loop, and D's stores; `addresses` are the ops of the body that give the pointers of
    each store."""

    loop: scf.ForOp
    products: scf.ForOp
    stores: list[llvm.StoreOp]
    addresses: list[list[ir.OpView]]

    @classmethod
    def match(cls, products: scf.ForOp) -> "_Tile":
        loop = products.operation.parent.opview
        if not isinstance(loop, scf.ForOp) or not any(isinstance(op, nvvm.MmaOp) for op in ops_in(products.body)):
            raise Refusal(products, f"must be a loop of mma.sync in a loop over tiles; {_WAY_OUT} [overlap-of-tiles]")
        ops = ops_in(loop.body)
        behind = ops[ops.index(products) + 1 :]
        stores = [op for op in behind if isinstance(op, llvm.StoreOp)]
        nested = [op for later in behind if later.regions for op in walk(later, llvm.StoreOp)]
        if nested or not stores:
            raise Refusal(
                (nested or [loop])[0], f"must store the whole tile without conditions; {_WAY_OUT} [overlap-whole]"
            )
        bases = [_base(store.addr) for store in stores]
        # Those whose pointers differ by constants follow each other: few pointers are held at a time.
        stores.sort(key=lambda store: bases.index(_base(store.addr)))
        return cls(loop, products, stores, [_address(loop, store) for store in stores])

    def store(self, number: int, value: ir.Value, mapping: dict[ir.Value, ir.Value], held: ir.Value | None) -> None:
        """Stores a value where the tile that the mapping says has its element; if it is `held`."""
        copy_ops([op for op in self.addresses[number] if op.results[0] not in mapping], mapping)
        store = self.stores[number]
        guard = None if held is None else scf.IfOp(held)
        with ir.InsertionPoint.current if guard is None else ir.InsertionPoint(guard.then_block):
            clone = store.operation.clone()
            clone.operands[0], clone.operands[1] = value, mapping.get(store.addr, store.addr)
            if guard is not None:
                scf.YieldOp([])


def _base(pointer: ir.Value) -> ir.Value:
    op = defining_op(pointer)
    return op.base if isinstance(op, llvm.GEPOp) and not len(op.dynamicIndices) else pointer


def _address(loop: scf.ForOp, store: llvm.StoreOp) -> list[ir.OpView]:
    """The ops of the loop's body from which a store's pointer follows, in program order."""
    needed = {store.addr}
    found: list[ir.OpView] = []
    for op in reversed(ops_in(loop.body)):
        if needed.intersection(op.results):
            if not op.name.startswith(_PURE):
                raise Refusal(
                    store,
                    f"has an address that follows from {op.name}, which is not repeated; {_WAY_OUT} [overlap-address]",
                )
            found.insert(0, op)
            needed.update(op.operands)
    carried = needed.intersection(loop.inner_iter_args)
    if carried:
        raise Refusal(store, f"has an address that follows from what the tiles carry; {_WAY_OUT} [overlap-carried]")
    return found


def _overlap(tile: _Tile) -> None:
    loop, count = tile.loop, len(tile.loop.inner_iter_args)
    values = [store.value for store in tile.stores]
    with before(loop), loop.operation.location:
        nothing = [llvm.UndefOp(value.type).res for value in values]
    added: list[ir.Value] = []

    def arguments(carried: list[ir.Value]) -> list[ir.Value]:
        added.extend(carried[count:])
        return carried[:count]

    def yields(yielded: list[ir.Value]) -> list[ir.Value]:
        body = ir.BlockArgument(added[0]).owner
        past, *held = added
        with before(tile.products), tile.products.operation.location:
            is_held = arith.cmpi(arith.CmpIPredicate.ne, body.arguments[0], loop.lowerBound)
        sums = _write_out(tile, body.arguments[0], past, held, is_held)
        return [sums.get(value, value) for value in (*yielded, body.arguments[0], *values)]

    new = rebuild_loop(loop, [*loop.initArgs, loop.lowerBound, *nothing], arguments, yields)
    results = list(new.results)
    with ir.InsertionPoint.after(new.operation), new.operation.location:
        has_any = arith.cmpi(arith.CmpIPredicate.slt, new.lowerBound, new.upperBound)
        branch = scf.IfOp(has_any)
        with ir.InsertionPoint(branch.then_block):
            mapping = {new.induction_variable: results[count]}
            for number, value in enumerate(results[count + 1 :]):
                tile.store(number, value, mapping, None)
            scf.YieldOp([])
    for old, result in zip(loop.results, results[:count], strict=True):
        old.replace_all_uses_with(result)
    erase(loop)
    for store in tile.stores:
        erase(store)


def _write_out(
    tile: _Tile, here: ir.Value, past: ir.Value, held: Sequence[ir.Value], is_held: ir.Value
) -> dict[ir.Value, ir.Value]:
    """Writes the K steps out, with the stores of what is held between their products. Returns what stands for the
    results of the K loop, which is gone."""
    loop, mapping = tile.products, {here: past}
    products = sum(isinstance(op, nvvm.MmaOp) for op in ops_in(loop.body)) * len(_steps(loop))
    done = stored = 0
    carried = list(loop.initArgs)
    body, end = ops_in(loop.body), loop.body.operations[len(loop.body.operations) - 1]
    with before(loop), loop.operation.location:
        for step in _steps(loop):
            number = arith.constant(loop.induction_variable.type, step)
            inner = dict(zip([loop.induction_variable, *loop.inner_iter_args], [number, *carried], strict=True))
            for op in body:
                copy_ops([op], inner)
                done += isinstance(op, nvvm.MmaOp)
                while (stored + 1) * products <= len(held) * done:
                    tile.store(stored, held[stored], mapping, is_held)
                    stored += 1
            carried = [inner.get(value, value) for value in end.operands]
    sums = dict(zip(loop.results, carried, strict=True))
    for result, value in sums.items():
        result.replace_all_uses_with(value)
    erase(loop)
    return sums


def _steps(loop: scf.ForOp) -> range:
    low, high, step = (constant_of(bound) for bound in (loop.lowerBound, loop.upperBound, loop.step))
    if low is None or high is None or step is None:
        raise Refusal(loop, f"has an open number of K steps; {_WAY_OUT} [overlap-steps]")
    return range(low, high, step)
