"""bind-tma: bind the ring's copies to TMA loads and its verbs to mbarriers.

Before   host    tile.launch @k … args(%a, %b, %d)
         device  %slot, %a, %b = sm.producer_acquire %ring[%w, %wp];  sm.copy_async (tile.view %A[%m, %k]) to %a; …
                 sm.producer_commit %ring, %slot
                 %full, %a, %b = sm.consumer_wait %ring[%r, %rp];  sm.consumer_release %ring, %full after %retired
After    host    %map = sm.tensor_map %a : … to !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
                 tile.launch @k … args(%a, %b, %d, %map, %map2)
         device  %full = sm.mbarriers arrivals(1);  %empty = sm.mbarriers arrivals(2)
                 sm.mbarrier_wait %empty[%w, %wp ^ 1];  sm.mbarrier_arrive %full[%w] expects 49152
                 %a, %b = sm.ring_slot %ring[%w];  sm.tma_load %map[%m, %k] to %a signals %full[%w]; …
                 sm.mbarrier_wait %full[%r, %rp];  %a, %b = sm.ring_slot %ring[%r]
                 sm.mbarrier_arrive %empty[%slot]
         The bytes are those of the copies between acquire and commit; the arrivals those of the roles: one producer,
         one for each consumer warpgroup.
Needs    level atoms, roles.
Refuses  copies that do not read a matrix that is a kernel argument; a release without the proof that a wgmma is done;
         other roles; a kernel launched at several places, or at none.
Test     test/lit/passes/bind-tma.mlir, bind-tma-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.diagnostics import Diagnostics
from lowtide.dialects.tile.layouts import layout_of
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.kernels import kernels_of
from lowtide.passes.problem import element_bits
from lowtide.passes.rewriting import before, erase, index_constant, rebuild_loop
from lowtide.targets import Target

_WARPS_A_WARPGROUP = 4


@dataclass(frozen=True)
class BindTma(Pass):
    """Replaces the copies and verbs of every ring that joins roles."""

    name: ClassVar[str] = "bind-tma"

    def run(self, module: ir.Module, target: Target) -> None:
        launches: dict[str, list[tile.LaunchOp]] = {}
        for launch in walk(module, tile.LaunchOp):
            launches.setdefault(ir.FlatSymbolRefAttr(launch.kernel).value, []).append(launch)
        for kernel in kernels_of(module, roles=True):
            own = launches.get(ir.StringAttr(kernel.sym_name).value, [])
            if len(own) != 1:
                raise Refusal(kernel, f"is launched at {len(own)} places; its tensor maps are made at one")
            with kernel.operation.location:
                _bind(kernel, own[0])


def _bind(kernel: tile.KernelOp, launch: tile.LaunchOp) -> None:
    roles = walk(kernel, sm.RolesOp)
    if len(roles) != 1:
        raise Refusal(kernel, f"has {len(roles)} sm.roles; TMA is bound for a producer and its consumers")
    consumers = _consumer_warpgroups(roles[0])
    maps = _Maps(kernel, launch)
    for ring in walk(kernel, sm.RingOp):
        stages = ring.result.type.stages
        barriers = ir.Type.parse(f"!sm.mbarriers<{stages}>")
        with before(roles[0]):
            full = sm.MbarriersOp(barriers, 1).result
            empty = sm.MbarriersOp(barriers, consumers).result
        for release in walk(kernel, sm.ConsumerReleaseOp):
            if release.retired is None:
                raise Refusal(release, "releases a slot without the proof (`after`) that what reads it is done")
        for loop in walk(kernel, scf.ForOp):
            _carry_index(loop)
        for release in walk(kernel, sm.ConsumerReleaseOp):
            _bind_release(release, empty)
        for acquire in walk(kernel, sm.ProducerAcquireOp):
            _bind_producer(acquire, full, empty, maps)
        for wait in walk(kernel, sm.ConsumerWaitOp):
            _bind_consumer(wait, full)
    maps.finish()


def _consumer_warpgroups(roles: sm.RolesOp) -> int:
    names = [ir.StringAttr(name).value for name in roles.names]
    if names != ["producer", "consumer"]:
        raise Refusal(roles, f"has the roles {', '.join(names)}; TMA is bound for one producer and one consumer role")
    return int(roles.warps[1]) // _WARPS_A_WARPGROUP


class _Maps:
    """The tensor maps of a kernel: one for each matrix and box, passed behind the other arguments."""

    def __init__(self, kernel: tile.KernelOp, launch: tile.LaunchOp) -> None:
        self.kernel, self.launch = kernel, launch
        self.entry = kernel.body.blocks[0]
        self.matrices = list(self.entry.arguments)
        self.found: dict[tuple[int, str], ir.Value] = {}
        self.passed: list[ir.Value] = []

    def map_for(self, op: ir.OpView, matrix: ir.Value, buffer: ir.Type) -> ir.Value:
        """The kernel argument that maps `matrix` in boxes as `buffer` holds them."""
        if matrix not in self.matrices:
            raise Refusal(op, "reads a matrix that is not an argument of the kernel; TMA needs a tensor map of it")
        position = self.matrices.index(matrix)
        memref = ir.MemRefType(buffer)
        _, (bits, base, shift) = layout_of(memref.layout)
        swizzle = f", swizzle<{bits},{base},{shift}>" if bits else ""
        text = f"!sm.tensor_map<{memref.shape[0]}x{memref.shape[1]}x{memref.element_type}{swizzle}>"
        if (position, text) not in self.found:
            with Diagnostics(op.context) as diagnostics:
                try:
                    type_ = ir.Type.parse(text)
                except ir.MLIRError as error:
                    raise Refusal(op, f"is no TMA box: {'; '.join(diagnostics.of(error))}") from None
            with before(self.launch):
                self.passed.append(sm.TensorMapOp(type_, self.launch.args[position]).result)
            self.found[position, text] = self.entry.add_argument(type_, ir.Location.unknown())
        return self.found[position, text]

    def finish(self) -> None:
        """Gives kernel and launch their new signature."""
        types = [argument.type for argument in self.entry.arguments]
        self.kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
        launch = self.launch
        with before(launch):
            arguments = [*launch.args, *self.passed]
            tile.LaunchOp(launch.kernel, launch.grid, launch.threads, arguments, shared_memory=launch.shared_memory)
        erase(launch)


def _carry_index(loop: scf.ForOp) -> None:
    """A carried slot becomes the index of that slot; a release then takes the index."""
    carried_slots = [isinstance(init.type, sm.SlotType) for init in loop.initArgs]
    if not any(carried_slots):
        return
    inits = [_index_of(init) if is_slot else init for init, is_slot in zip(loop.initArgs, carried_slots, strict=True)]
    yielded = [value.owner for value in list(loop.body.operations)[-1].operands]

    def yields(values: list[ir.Value], _: list[ir.Value]) -> list[ir.Value]:
        return [
            owner.opview.index if is_slot else value
            for value, owner, is_slot in zip(values, yielded, carried_slots, strict=True)
        ]

    new = rebuild_loop(loop, inits, lambda carried: carried, yields)
    for old, value in zip(loop.results, new.results, strict=True):
        old.replace_all_uses_with(value)
    erase(loop)


def _index_of(slot: ir.Value) -> ir.Value:
    """The index of a slot: of the wait that gave it, or what a loop carries in its place."""
    return slot.owner.opview.index if isinstance(slot.type, sm.SlotType) else slot


def _bind_producer(acquire: sm.ProducerAcquireOp, full: ir.Value, empty: ir.Value, maps: _Maps) -> None:
    (commit,) = (use.owner.operation.opview for use in acquire.slot.uses)
    copies = [use.owner.operation.opview for buffer in acquire.buffers for use in buffer.uses]
    for copy in copies:
        if not isinstance(copy, sm.CopyAsyncOp):
            raise Refusal(copy, "uses a slot that is being filled; only sm.copy_async may")
    size = sum(_bytes(buffer.type) for buffer in acquire.buffers)
    with before(acquire), acquire.operation.location:
        # The first round finds every slot empty: the parity before the first passes at once.
        opposite = arith.xori(acquire.phase, index_constant(1))
        sm.MbarrierWaitOp(empty, acquire.index, opposite)
        sm.MbarrierArriveOp(full, acquire.index, bytes=size)
        slot = sm.RingSlotOp(acquire.ring, acquire.index)
    for old, new in zip(acquire.buffers, slot.buffers, strict=True):
        old.replace_all_uses_with(new)
    for copy in copies:
        view = copy.source.owner.opview
        with before(copy), copy.operation.location:
            tensor_map = maps.map_for(copy, view.source, copy.destination.type)
            sm.TmaLoadOp(tensor_map, *view.offsets, copy.destination, full, acquire.index)
        erase(copy)
    erase(commit)
    erase(acquire)


def _bind_consumer(wait: sm.ConsumerWaitOp, full: ir.Value) -> None:
    with before(wait), wait.operation.location:
        sm.MbarrierWaitOp(full, wait.index, wait.phase)
        slot = sm.RingSlotOp(wait.ring, wait.index)
    for old, new in zip(wait.buffers, slot.buffers, strict=True):
        old.replace_all_uses_with(new)
    erase(wait)


def _bind_release(release: sm.ConsumerReleaseOp, empty: ir.Value) -> None:
    with before(release), release.operation.location:
        sm.MbarrierArriveOp(empty, _index_of(release.slot))
    erase(release)


def _bytes(buffer: ir.Type) -> int:
    memref = ir.MemRefType(buffer)
    return memref.shape[0] * memref.shape[1] * element_bits(memref.element_type) // 8
