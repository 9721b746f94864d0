"""interleave-parts: compute a part of the epilogue a few elements at a time, from its loads to its stores.

Before   %x0 = nvvm.ldmatrix …; %x1 = nvvm.ldmatrix …          (all elements of a part of an operand)
         %y0 = … %acc0, %x0; %y1 = … %acc1, %x1                (the epilogue of all of them)
         nvvm.stmatrix %y0; nvvm.stmatrix %y1                  (all elements of the part of D)
After    %x0 = nvvm.ldmatrix …; %y0 = … %acc0, %x0; nvvm.stmatrix %y0
         %x1 = nvvm.ldmatrix …; %y1 = … %acc1, %x1; nvvm.stmatrix %y1
         A thread then holds the operands, the intermediate values and the results of one store at a time beside its
         accumulators. ptxas keeps a load from shared memory behind the stores before it; in the order before, it
         computes all elements side by side, and spills. Stores of several results of the same elements stay together,
         and what is reduced is added as soon as it is computed. Loads and stores do not leave the ops between two
         barriers, waits or branches.
Needs    stores to shared memory of what is computed from loads of it, without a barrier in between: only parts that
         read operands from buffers of their own are such. Others stay.
Refuses  nothing.
Test     test/lit/passes/nvvm/interleave-parts.mlir
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, llvm, nvvm

from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, walk
from lowtide.passes.support.ir.rewriting import following
from lowtide.targets import Target

_PURE_DIALECTS = ("arith", "vector", "math")
_PURE_OPS = ("llvm.bitcast", "llvm.getelementptr", "llvm.extractvalue", "llvm.addrspacecast", "llvm.intr.")
_SHARED = 3  # address space


@dataclass(frozen=True)
class InterleaveParts(Pass):
    """Reorders the ops of each part."""

    name: ClassVar[str] = "interleave-parts"
    needs: ClassVar[Level] = Level.NVVM
    gives: ClassVar[Level] = Level.NVVM

    def run(self, module: ir.Module, target: Target) -> bool:
        blocks: list[ir.Block] = []
        for store in walk(module, nvvm.StMatrixOp) + walk(module, llvm.StoreOp):
            if _is_store(store) and store.operation.block not in blocks:
                blocks.append(store.operation.block)
        runs = [run for block in blocks for run in _runs(list(block.operations)) if any(map(_is_load, run))]
        for run in runs:
            _Order(run).apply()
        return bool(runs)


def _runs(ops: Sequence[ir.OpView]) -> Iterator[list[ir.OpView]]:
    """Consecutive ops that only compute, load fragments from shared memory, or store them there."""
    run: list[ir.OpView] = []
    for op in ops:
        if _is_load(op) or _is_store(op) or _is_pure(op):
            run.append(op)
            continue
        if any(map(_is_store, run)):
            yield run
        run = []


def _is_pure(op: ir.OpView) -> bool:
    name = op.operation.name
    return not op.operation.regions and (name.split(".")[0] in _PURE_DIALECTS or name.startswith(_PURE_OPS))


def _is_load(op: ir.OpView) -> bool:
    return isinstance(op, nvvm.LdMatrixOp) or (isinstance(op, llvm.LoadOp) and _is_shared(op.addr))


def _is_store(op: ir.OpView) -> bool:
    return isinstance(op, nvvm.StMatrixOp) or (isinstance(op, llvm.StoreOp) and _is_shared(op.addr))


def _is_shared(pointer: ir.Value) -> bool:
    return str(pointer.type) == f"!llvm.ptr<{_SHARED}>"


@dataclass
class _Order:
    """A new order of a run of ops, in which each store follows what it needs."""

    run: list[ir.OpView]
    placed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.numbers = {result: at for at, op in enumerate(self.run) for result in op.operation.results}
        self.done: set[int] = set()
        self.after_load: set[int] = set()
        for at, op in enumerate(self.run):
            if _is_load(op) or not self.after_load.isdisjoint(self._needs(at)):
                self.after_load.add(at)

    def apply(self) -> None:
        end = following(self.run[-1])
        stores = [at for at, op in enumerate(self.run) if _is_store(op)]
        computed = {at: self._computed(at) for at in stores}
        if not any(computed.values()):
            return
        for at in stores:
            beside = (other for other in stores if other >= at and (other == at or computed[at] & computed[other]))
            for other in beside:
                self._place(other)
            self._place_ready()
        for at in range(len(self.run)):
            self._place(at)
        for at in self.placed:
            self.run[at].operation.move_before(end.operation)

    def _needs(self, at: int) -> list[int]:
        return [self.numbers[value] for value in self.run[at].operation.operands if value in self.numbers]

    def _computed(self, store: int) -> set[int]:
        """The ops that compute a store's values from what is loaded."""
        op = self.run[store]
        values = [op.value] if isinstance(op, llvm.StoreOp) else list(op.sources)
        found: set[int] = set()
        left = [self.numbers[value] for value in values if value in self.numbers]
        while left:
            at = left.pop()
            if at not in found and at in self.after_load:
                found.add(at)
                left += self._needs(at)
        return found

    def _place(self, at: int) -> None:
        """Places an op behind the ops that it needs, which keep their order."""
        needed, left = set(), [at]
        while left:
            number = left.pop()
            if number not in needed and number not in self.done:
                needed.add(number)
                left += self._needs(number)
        self._add(sorted(needed))

    def _place_ready(self) -> None:
        """Places what only computes with placed values, such as the sums of a reduction."""
        for at, op in enumerate(self.run):
            if at in self.done or _is_load(op) or _is_store(op):
                continue
            needs = self._needs(at)
            own = [each for each in needs if not isinstance(self.run[each], arith.ConstantOp)]
            if own and self.done.issuperset(needs):
                self._add([at])

    def _add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number not in self.done:
                self.done.add(number)
                self.placed.append(number)
