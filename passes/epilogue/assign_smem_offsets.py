"""assign-smem-offsets: lay out shared memory, and set its size at the launch.

Before   %ring = sm.ring : !ring                       tile.launch @k … threads(128) args(…)
After    %ring = sm.ring at [0, 24576] : !ring         tile.launch @k … threads(128) shared_memory(49152) args(…)
         The stages of a buffer are consecutive. Each buffer starts at a multiple of 1024 bytes, the period of the
         largest swizzle: 128 bytes × 8 rows.
Needs    level epilogue.
Refuses  more shared memory than the target has per CTA; unsupported element types.
Test     test/lit/passes/epilogue/assign-smem-offsets.mlir, assign-smem-offsets-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.schedules.facts.resources import MBARRIER_BYTES, aligned
from lowtide.passes.support.problem.kernels import bytes_of, copies_of, launches_of, role_instances
from lowtide.passes.support.streams.copy_units import staged_bytes
from lowtide.targets import Target


@dataclass(frozen=True)
class AssignSmemOffsets(Pass):
    """Gives `at` to every sm.ring and sm.alloc, and shared_memory to every launch."""

    name: ClassVar[str] = "assign-smem-offsets"
    needs: ClassVar[Level] = Level.EPILOGUE
    gives: ClassVar[Level] = Level.EPILOGUE

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, tile.KernelOp):
            size = _lay_out(kernel)
            if size > target.smem_bytes_per_cta:
                raise Refusal(
                    kernel,
                    f"needs {size} bytes of shared memory, {target.name} has {target.smem_bytes_per_cta} per CTA; "
                    "take fewer stages or a smaller CTA tile [smem-too-large]",
                )
            for launch in launches_of(module, kernel):
                launch.attributes["shared_memory"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), size)


def _lay_out(kernel: tile.KernelOp) -> int:
    """Places rings, buffers and mbarriers, in program order; returns the bytes used."""
    offset = 0
    for ring in walk(kernel, sm.RingOp):
        places = []
        for buffer, copies in zip(ring.result.type.buffers, copies_of(ring), strict=True):
            offset = aligned(offset)
            places.append(offset)
            offset += copies * bytes_of(ring, buffer)
        ring.attributes["at"] = ir.DenseI64ArrayAttr.get(places)
    for alloc in walk(kernel, sm.AllocOp):
        offset = aligned(offset)
        alloc.attributes["at"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), offset)
        size, instances = bytes_of(alloc, alloc.result.type), role_instances(alloc)
        offset += size if instances == 1 else instances * aligned(size)
    for barriers in walk(kernel, sm.MbarriersOp):
        barriers.attributes["at"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), offset)
        offset += MBARRIER_BYTES * barriers.result.type.count
    return offset + sum(map(staged_bytes, walk(kernel, tile.PrepareOp)))  # in a kernel of its own: a tile begins at 0
