"""verify-smem-offsets: check offsets in shared memory for overlap, alignment, and the size at the launch.

Changes nothing. assign-smem-offsets lays out shared memory; an edited level may place a buffer elsewhere.

TMA and wgmma swizzle address bits, so a buffer swizzled for them must start at a multiple of the swizzle's period:
1024 bytes for rows of 128, 512 for 64, 256 for 32 (PTX ISA, "Swizzling modes", "Matrix descriptor format"). An mbarrier
is aligned to 8 bytes ("Size and alignment of mbarrier object"), vector accesses to 16.

Needs    offsets (`at`) on sm.ring, sm.alloc and sm.mbarriers; ops without one are skipped. At level nvvm, the global
         to which the offsets are relative.
Refuses  a misaligned offset or stage, or in a kernel with TMA a misaligned global; two buffers that overlap; a launch
         with less shared memory than the kernel uses, or more than the target has.
Test     test/lit/passes/epilogue/verify-smem-offsets.mlir, verify-smem-offsets-invalid.mlir
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from mlir import ir
from mlir.dialects import gpu, llvm, nvvm

from lowtide.dialects import sm, tile
from lowtide.dialects.tile.layouts import layout_of
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.schedules.facts.resources import MBARRIER_BYTES, aligned
from lowtide.passes.support.problem.element_types import buffer_bytes, element_bits
from lowtide.passes.support.problem.kernels import copies_of, launches_of, role_instances
from lowtide.passes.support.streams.copy_units import staged_bytes
from lowtide.targets import Target

_VECTOR_BYTES = 16
_LARGEST_PERIOD = 1024  # bytes, of the swizzle over rows of 128
_SHARED = 3  # the address space


@dataclass(frozen=True)
class VerifySmemOffsets(Pass):
    """Checks every place in shared memory, and the size of it at every launch."""

    name: ClassVar[str] = "verify-smem-offsets"

    def run(self, module: ir.Module, target: Target) -> bool:
        for kernel in walk(module, tile.KernelOp):
            places = sorted(_places(kernel), key=lambda place: place.start)
            own = launches_of(module, kernel)
            for refusal in (*_misaligned(places), *_overlapping(places), *_outside(places, own, target)):
                raise refusal
        for kernels in walk(module, gpu.GPUModuleOp):
            for refusal in _misaligned_base(kernels):
                raise refusal
        return False


@dataclass(frozen=True)
class _Place:
    """Bytes of shared memory: `count` consecutive pieces of `size` bytes, each aligned to `align`."""

    op: ir.OpView
    what: str
    start: int
    count: int
    size: int
    align: int
    why: str

    @property
    def end(self) -> int:
        return self.start + self.count * self.size


def _places(kernel: tile.KernelOp) -> Iterator[_Place]:
    by_address = bool(walk(kernel, sm.TmaLoadOp))  # as TMA fills the ring, and wgmma reads it
    for ring in walk(kernel, sm.RingOp):
        held = zip(ring.at or (), ring.result.type.buffers, copies_of(ring), strict=False)
        for number, (start, buffer, copies) in enumerate(held):
            align, why = _alignment(buffer, by_address)
            yield _Place(ring, f"buffer {number}", int(start), copies, buffer_bytes(buffer), align, why)
    for alloc in walk(kernel, sm.AllocOp):
        if alloc.at is not None:
            stored = any(isinstance(use.owner.operation.opview, sm.TmaStoreOp) for use in alloc.result.uses)
            align, why = _alignment(alloc.result.type, stored)
            size, instances = buffer_bytes(alloc.result.type), role_instances(alloc)
            size = size if instances == 1 else aligned(size)
            yield _Place(alloc, "the buffer", alloc.at.value, instances, size, align, why)
    for barriers in walk(kernel, sm.MbarriersOp):
        if barriers.at is not None:
            start, count = barriers.at.value, barriers.result.type.count
            yield _Place(barriers, "the first", start, count, MBARRIER_BYTES, MBARRIER_BYTES, "an mbarrier")
    for prepare in walk(kernel, tile.PrepareOp):
        if size := staged_bytes(prepare):
            yield _Place(prepare, "the tile", 0, 1, size, _VECTOR_BYTES, "a vector access")


def _alignment(buffer: ir.Type, by_address: bool) -> tuple[int, str]:
    """The alignment of a buffer in bytes, and the reason."""
    memref = ir.MemRefType(buffer)
    if by_address and isinstance(memref.layout, tile.LayoutAttr):
        bits, base, shift = layout_of(memref.layout)[1]
        if bits:
            period = (1 << (bits + base + shift)) * element_bits(memref.element_type) // 8
            return period, f"swizzle<{bits},{base},{shift}>, which TMA and wgmma apply to addresses,"
    return _VECTOR_BYTES, "a vector access"


def _misaligned(places: list[_Place]) -> Iterator[Refusal]:
    for place in places:
        if place.start < 0 or place.start % place.align:
            nearest = max(0, round(place.start / place.align)) * place.align
            yield Refusal(
                place.op,
                f"{place.what} lies at {place.start}; {place.why} needs a multiple of {place.align}: take {nearest}"
                " [offset-alignment]",
            )
        if place.count > 1 and place.size % place.align:
            yield Refusal(
                place.op,
                f"stages of {place.what} are {place.size} bytes apart; {place.why} needs a multiple of {place.align}: "
                "take another CTA tile [stage-alignment]",
            )


def _misaligned_base(kernels: gpu.GPUModuleOp) -> Iterator[Refusal]:
    """Below level epilogue, offsets are relative to a global, so its alignment limits that of buffers."""
    if not walk(kernels, nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp):
        return
    for variable in walk(kernels, llvm.GlobalOp):
        attributes = variable.operation.attributes
        if not str(attributes["global_type"]).startswith("!llvm.array<0 x "):  # places are in the dynamic part
            continue
        said = int(ir.IntegerAttr(attributes["alignment"]).value) if "alignment" in attributes else 1
        if int(ir.IntegerAttr(attributes["addr_space"]).value) == _SHARED and said % _LARGEST_PERIOD:
            yield Refusal(
                variable,
                f"shared memory begins at a multiple of {said}; TMA and wgmma apply swizzles to addresses, which needs "
                f"one of {_LARGEST_PERIOD}: write alignment = {_LARGEST_PERIOD} [smem-base-alignment]",
            )


def _overlapping(places: list[_Place]) -> Iterator[Refusal]:
    for first, second in pairwise(places):
        if second.start < first.end:
            yield Refusal(
                second.op,
                f"{second.what} lies at {second.start}, within {first.start} to {first.end} of "
                f"{first.op.operation.name}; take {-(-first.end // second.align) * second.align} or more"
                " [smem-overlap]",
            )


def _outside(places: list[_Place], launches: list[tile.LaunchOp], target: Target) -> Iterator[Refusal]:
    end = max((place.end for place in places), default=0)
    for launch in launches:
        if launch.shared_memory is None:
            continue
        size = launch.shared_memory.value
        if size < end:
            yield Refusal(
                launch, f"gives {size} bytes of shared memory, its kernel uses {end}; write {end} [smem-launched]"
            )
        if size > target.smem_bytes_per_cta:
            yield Refusal(
                launch,
                f"gives {size} bytes of shared memory, {target.name} has {target.smem_bytes_per_cta} per CTA; take at "
                "most that [smem-limit]",
            )
