"""The cost of TMA and wgmma in a kernel at level `epilogue`: boxes, bytes that mbarriers expect, reads of operands.

Like the other accesses, everything is derived from the ops. TMA writes and reads whole rows of its swizzle in shared
memory, without conflicts; wgmma reads core matrices, whose conflicts follow from the buffer's layout.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

import numpy as np
from mlir import ir
from tensor_layouts import Swizzle, compose

from lowtide import targets
from lowtide.compiler.manifest.host_ops import L2_PROMOTION
from lowtide.dialects import sm, tile
from lowtide.dialects.enums import gemm_layout, multicast_of
from lowtide.dialects.locations import place_of, where
from lowtide.dialects.tile import GemmLayout
from lowtide.dialects.tile.layouts import NO_SWIZZLE, SwizzleBits, layout_of, swizzle_bits
from lowtide.errors import IRError, ScheduleError
from lowtide.inspection.explain.executions import executions, summed
from lowtide.inspection.explain.names import Names, cache_hint
from lowtide.passes.base import walk
from lowtide.passes.support.agents.atoms import is_transposed, tiled_mma_of
from lowtide.passes.support.agents.clusters import members
from lowtide.passes.support.agents.wgmmas import Wgmma, fragment_of, wgmmas
from lowtide.passes.support.problem.element_types import buffer_bytes, element_bits
from lowtide.passes.support.problem.kernels import cluster_shape, work_tiles_around
from lowtide.targets import Conflict, Sectors

# For 16-bit operands, by the tensor cores of one SM: 989 TFLOP/s of an H100's 132 SMs at 1.83 GHz (NVIDIA H100 Tensor
# Core GPU Architecture). So m64nNk16 takes N / 2 cycles.
MULTIPLY_BITS_A_CYCLE = 2048 * 16  # multiply-adds times the bits of an operand
SHARED_BYTES_A_CYCLE = 128


@dataclass(frozen=True)
class TmaAccess:
    """The boxes that one op moves between a matrix and a buffer, and the parts of the matrix that one of them touches.

    Rows of the matrix are `row_stride` bytes apart, from a base that is aligned to a line.
    """

    op: str
    what: str
    direction: str
    box: tuple[int, ...]
    swizzle: SwizzleBits
    boxes: int
    """Instructions: boxes that fill or empty the buffer."""
    bytes: int
    """Of all boxes, which count in full even if they extend past the matrix."""
    sectors: Sectors
    lines: int
    """128-byte lines."""
    row_stride: int
    stride_known: bool
    cache: str
    place: str | None
    count: int = 1
    """The number of ops that do the same."""
    multicast: str | None = None
    """The CTAs of the cluster to which a load goes: a row or a column. Each CTA loads its share of the buffer."""
    parties: int = 1
    """The number of these CTAs: `boxes` and `bytes` are the share of one."""
    l2_promotion: int = L2_PROMOTION
    """The smallest number of bytes that a miss brings to L2, set in the tensor map."""
    executions: int | None = None
    """How often these ops run for one work tile in total; None if it is known only at run time."""


@dataclass(frozen=True)
class Transaction:
    """The bytes that an mbarrier expects per phase, and those of the TMA loads that signal it."""

    what: str
    expects: int
    copied: int
    place: str | None
    count: int = 1


@dataclass(frozen=True)
class Product:
    """One group of wgmma: a K step of the CTA tile, all warpgroups together. Bytes are read from shared memory."""

    atom: str
    layout: GemmLayout
    warpgroups: int
    slices: int
    """k-slices of a step."""
    blocks: int
    """Instructions of a warpgroup in a k-slice: its blocks of 64 rows."""
    a_bytes: int
    """Bytes of A, for one warpgroup in a k-slice."""
    b_bytes: int
    cycles: int
    """Cycles of the step, at the full rate of the tensor cores."""
    wavefronts: int
    """Wavefronts of the step, including conflicts: cycles in which shared memory is busy."""
    place: str | None
    count: int = 1
    executions: int | None = None
    """How often these groups run for one work tile in total; None if it is known only at run time."""

    @property
    def instructions(self) -> int:
        """wgmma.mma_async of one warpgroup in a step."""
        return self.slices * self.blocks

    @property
    def bytes_per_cycle(self) -> float:
        """Bytes per cycle that shared memory must deliver at the full rate; it can deliver 128."""
        return self.warpgroups * self.slices * (self.a_bytes + self.b_bytes) / self.cycles


FoundT = TypeVar("FoundT", Transaction, Product)


def boxes_of(op: sm.TmaLoadOp | sm.TmaStoreOp, names: Names, buffer: ir.Value, direction: str) -> TmaAccess:
    """The boxes of a TMA load to a buffer, or of a TMA store from it by all warpgroups."""
    what, matrix = names.of_map(op.map)
    map_type, memref = op.map.type, ir.MemRefType(buffer.type)
    box, element_bytes = tuple(map_type.shape), element_bits(memref.element_type) // 8
    stride, known = names.row_stride(what, matrix)
    *panels, rows, width = box
    row_bytes = width * prod(panels) * element_bytes  # the panels of a box are contiguous in the matrix
    starts = np.arange(rows) * stride
    multicast = multicast_of(op) if isinstance(op, sm.TmaLoadOp) else None
    parties = members(multicast, _cluster_of(op))
    return TmaAccess(
        op=op.operation.name,
        what=what,
        direction=direction,
        box=box,
        swizzle=NO_SWIZZLE if map_type.swizzle is None else swizzle_bits(map_type.swizzle),
        boxes=prod(memref.shape) // prod(box) // parties,
        bytes=buffer_bytes(memref) // parties,
        sectors=targets.sectors_per_request(starts, row_bytes),
        lines=targets.lines_per_request(starts, row_bytes),
        row_stride=stride,
        stride_known=known,
        cache=cache_hint(op),
        place=None,
        multicast=None if multicast is None else str(multicast),
        parties=parties,
    )


def _cluster_of(op: ir.OpView) -> tuple[int, int]:
    """The shape of the clusters of the surrounding work tiles."""
    work = work_tiles_around(op)
    return (1, 1) if work is None else cluster_shape(work.cluster)


def transactions_of(
    kernel: tile.KernelOp, names: Names, *, in_file: bool, apart: bool = False
) -> tuple[Transaction, ...]:
    """For each mbarrier that TMA loads signal or an arrival expects bytes of: both sums, block by block.

    Both sums count a load with `rows` as a whole tile: the bytes after `plus` are known only at run time.
    `apart`: equal ones are not merged.
    """
    arrivals = [op for op in walk(kernel, sm.MbarrierArriveOp) if op.bytes is not None]
    loads = walk(kernel, sm.TmaLoadOp)
    keys: list[tuple[ir.Block, ir.Value]] = []
    for op in (*arrivals, *loads):
        key = (op.operation.block, op.barriers)
        if key not in keys:
            keys.append(key)
    found = []
    for key in keys:
        own = [op for op in arrivals if (op.operation.block, op.barriers) == key]
        copies = [op for op in loads if (op.operation.block, op.barriers) == key]
        found.append(
            Transaction(
                what=", ".join(names.of_map(op.map)[0] for op in copies),
                expects=sum(ir.IntegerAttr(op.bytes).value for op in own)
                + sum(buffer_bytes(op.destination.type) for op in copies if op.rows and any(one.more for one in own)),
                copied=sum(buffer_bytes(op.destination.type) for op in copies),
                place=_place((*own, *copies)[0], in_file),
            )
        )
    groups = _grouped([(one if apart else replace(one, place=None), one) for one in found])
    return tuple(replace(group[0], count=len(group)) for group in groups)


def products_of(kernel: tile.KernelOp, *, in_file: bool, apart: bool = False) -> tuple[Product, ...]:
    """The kernel's groups of wgmma; groups that differ only in place appear once, unless `apart`.

    Raises IRError for an operand that does not divide into core matrices.
    """
    found = [replace(_product(op, _place(op, in_file)), executions=executions(op)) for op in wgmmas(kernel)]
    groups = _grouped([(one if apart else replace(one, place=None, executions=None), one) for one in found])
    return tuple(
        replace(group[0], count=len(group), executions=summed(one.executions for one in group)) for group in groups
    )


def _grouped(found: Iterable[tuple[FoundT, FoundT]]) -> list[list[FoundT]]:
    """Elements with equal keys grouped, in order."""
    groups: dict[FoundT, list[FoundT]] = {}
    for key, one in found:
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _place(op: ir.OpView, in_file: bool) -> str | None:
    return where(op) if in_file and place_of(op.location) is not None else None


def _product(op: Wgmma, place: str | None) -> Product:
    tiled, layout = tiled_mma_of(op.mma), gemm_layout(op)
    m, n, k = tiled.atom.shape_mnk
    (rows, columns), depth = fragment_of(op).shape, _depth(op, layout)
    warpgroups = prod(tiled.atom_layout)
    blocks = rows * columns // (m * n * warpgroups)
    element_bytes = element_bits(ir.MemRefType(op.b.type).element_type) // 8
    is_held = isinstance(op.a.type, sm.FragmentType)  # A in registers, which reads no shared memory
    try:
        conflicts = operand_conflicts(op)
    except ScheduleError as error:
        raise IRError(f"{where(op)}: {op.operation.name}: {error}") from None
    return Product(
        atom=tiled.atom.name,
        layout=layout,
        warpgroups=warpgroups,
        slices=depth // k,
        blocks=blocks,
        a_bytes=0 if is_held else blocks * m * k * element_bytes,
        b_bytes=blocks * n * k * element_bytes,
        cycles=rows * columns * depth * 8 * element_bytes // MULTIPLY_BITS_A_CYCLE,
        wavefronts=sum(conflict.wavefronts for conflict in conflicts.values()),
        place=place,
    )


def _depth(op: Wgmma, layout: GemmLayout) -> int:
    """K of a step."""
    depth: int = ir.MemRefType(op.b.type).shape[0 if is_transposed("b", layout) else 1]
    return depth


def operand_conflicts(op: Wgmma) -> dict[str, Conflict]:
    """The reads of A and of B in a K step: each instruction reads its 64 rows of A, and all its columns of B. An A in
    registers has none.

    Raises ScheduleError for an operand that does not divide into core matrices.
    """
    tiled = tiled_mma_of(op.mma)
    m, n, _ = tiled.atom.shape_mnk
    rows, columns = fragment_of(op).shape
    found = {}
    for name, buffer, reads in (("a", op.a, columns // n), ("b", op.b, rows // m)):
        if isinstance(buffer.type, sm.FragmentType):
            continue
        memref = ir.MemRefType(buffer.type)
        plain, swizzle = layout_of(memref.layout)
        layout = compose(Swizzle(*swizzle), plain)
        found[name] = targets.core_matrix_conflicts(name, layout, element_bits(memref.element_type) // 8, reads)
    return found
