"""The parts of a kernel at level `epilogue`: roles, registers, stages; and the division of the output among CTAs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from mlir import ir

from lowtide.compiler.spec import GemmSpec
from lowtide.dialects import sm, tile
from lowtide.dialects.tile import RepeatKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.inspection.explain.hopper import Product
from lowtide.interpreter.machine.work_order import WorkOrder
from lowtide.interpreter.ops.tile import work_order
from lowtide.passes.base import walk
from lowtide.passes.schedules.facts.resources import registers_at_entry, threads_of
from lowtide.passes.support.agents.wgmmas import fragment_of, registers_of, wgmmas
from lowtide.passes.support.ir.builder import constant_of
from lowtide.passes.support.problem.element_types import buffer_bytes, element_bits
from lowtide.passes.support.problem.kernels import cluster_shape, copies_of, instances_of, role_instances
from lowtide.targets import Target

# The ops that compute a grid.
_HOST_OPS: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "arith.muli": int.__mul__,
        "arith.minsi": min,
        "arith.maxsi": max,
        "arith.divsi": int.__floordiv__,
        "arith.ceildivsi": lambda x, y: -(-x // y),
    }
)


_PARTIAL_BYTES = 4  # of an accumulator


@dataclass(frozen=True)
class Role:
    """`warps` are those of each instance. `registers` is the number that a thread requests by setmaxnreg; 0 for
    none."""

    name: str
    warps: int
    registers: int
    instances: int = 1

    @property
    def warpgroups(self) -> int:
        """The warpgroups of all instances."""
        return self.instances * self.warps // 4


@dataclass(frozen=True)
class Grid:
    """The division of the output tiles among the CTAs of a launch. Fields that depend on run-time extents are None.

    A wave is one tile for each CTA that runs at once. `sms` are those of the target's usual product; clusters are
    assumed to leave only a remainder of SMs idle.
    """

    tile: tuple[int, int]
    cluster: tuple[int, int]
    order: str
    scheduler: str
    sms: int
    tiles: int | None
    ctas: int | None
    at_once: int | None
    full_waves: int | None
    last_wave: int | None
    """Tiles of a partial last wave; 0 if all waves are full."""
    last_wave_halves: int | None
    """Half tiles of a last wave in halves; 0 if its tiles are whole."""
    wave_rows: int | None
    """Tile rows of the first wave: panels of A that it reads."""
    wave_columns: int | None
    """Tile columns of the first wave: panels of B that it reads."""
    k_division: str | None = None
    """How CTAs share the K of a tile; None if they do not."""
    shared_tiles: int | None = None
    """Tiles that several CTAs compute in parts."""
    waiting: int | None = None
    """Parts whose CTA waits for the other parts of the tile to add them: part 0, or each if all add shares."""
    partial_sums: int | None = None
    """Partial sums that CTAs leave for others to add."""
    partial_bytes: int | None = None
    """Bytes of partial sums, written once and read once."""
    batch: int | None = 1
    """Matrices, whose tiles are counted together; 1 without a batch, None if known only at run time."""


@dataclass(frozen=True)
class Composition:
    """The parts of a CTA. Bytes are bytes of shared memory; registers are 32-bit."""

    roles: tuple[Role, ...]
    entry_registers: int | None
    """Per thread, only with roles: the SM's registers divided evenly, rounded down to a multiple of 8."""
    lane_registers_asked: int | None
    """Summed over one thread of each warpgroup, if setmaxnreg requests registers."""
    lane_registers_at_entry: int | None
    """The same at entry: the largest sum that can be requested."""
    accumulators: int
    """Accumulator registers per multiplying thread."""
    stages: int
    stage_bytes: int
    ring_bytes: int
    """Less than all stages if they share an operand."""
    scratch_buffers: int
    scratch_bytes: int
    """Of all scratch buffers; 0 if the scratch reuses the ring."""
    flops_per_byte: float | None
    """Per byte of A and B loaded for a CTA tile; in a cluster, per byte of the CTA's shares."""
    l2_bytes_per_cycle: float | None
    """A and B per SM, at the full rate of wgmma; in a cluster, the CTA's shares."""
    grid: Grid


def composition_of(
    kernel: tile.KernelOp,
    launch: tile.LaunchOp,
    spec: GemmSpec,
    schedule: Schedule,
    target: Target,
    ctas_per_sm: int,
    products: tuple[Product, ...],
) -> Composition:
    """Derive it from the kernel and its launch. `ctas_per_sm` CTAs fit on an SM at once."""
    roles = _roles(kernel)
    entry = registers_at_entry(threads_of(schedule), target) if roles else None
    asked = [role for role in roles if role.registers]
    held = walk(kernel, sm.RingOp)
    rings = [ring.result.type for ring in held]
    stage_bytes = sum(buffer_bytes(buffer) for ring in rings for buffer in ring.buffers)
    copies = [
        (buffer, count)
        for ring in held
        for buffer, count in zip(ring.result.type.buffers, copies_of(ring), strict=True)
    ]
    allocs = walk(kernel, sm.AllocOp)
    scratch = [buffer_bytes(op.result.type) for op in allocs for _ in range(role_instances(op))]
    return Composition(
        roles=roles,
        entry_registers=entry,
        lane_registers_asked=sum(role.warpgroups * role.registers for role in roles) if asked else None,
        lane_registers_at_entry=entry * sum(role.warpgroups for role in roles) if entry is not None else None,
        accumulators=_accumulators(kernel),
        stages=rings[0].stages if rings else 0,
        stage_bytes=stage_bytes,
        ring_bytes=sum(count * buffer_bytes(buffer) for buffer, count in copies),
        scratch_buffers=len(scratch),
        scratch_bytes=sum(scratch),
        flops_per_byte=_flops_per_byte(kernel, rings[0].buffers, schedule) if rings else None,
        l2_bytes_per_cycle=_loaded(kernel, rings[0].buffers) / products[0].cycles if products else None,
        grid=_grid(walk(kernel, tile.WorkTilesOp), launch, spec, target, max(1, ctas_per_sm)),
    )


def _roles(kernel: tile.KernelOp) -> tuple[Role, ...]:
    return tuple(
        Role(ir.StringAttr(name).value, warps, registers, instances_of(op, position))
        for op in walk(kernel, sm.RolesOp)
        for position, (name, warps, registers) in enumerate(zip(op.names, op.warps, op.registers, strict=True))
    )


def _accumulators(kernel: tile.KernelOp) -> int:
    held = [fragment_of(op) for op in wgmmas(kernel)]
    held += [op.result.type for op in walk(kernel, sm.MmaSyncOp)]
    return registers_of(held[0]) if held else 0


def _flops_per_byte(kernel: tile.KernelOp, stage: list[ir.Type], schedule: Schedule) -> float | None:
    """2·M·N·K flops divided by the loaded bytes of A and of B, without what stays in the ring."""
    work = walk(kernel, tile.WorkTilesOp)[0]
    (m, n), (cluster_m, cluster_n) = work.tile, cluster_shape(work.cluster)
    element_bytes = element_bits(ir.MemRefType(stage[0]).element_type) // 8
    moves_a, moves_b = (schedule.mainloop.operand(name).load is not RepeatKind.once for name in ("a", "b"))
    loaded = (moves_a * m / cluster_n + moves_b * n / cluster_m) * element_bytes
    return 2 * m * n / loaded if loaded else None


def _loaded(kernel: tile.KernelOp, stage: list[ir.Type]) -> float:
    """Bytes of a stage that a CTA loads from L2; in a cluster, its shares of A and of B."""
    cluster_m, cluster_n = cluster_shape(walk(kernel, tile.WorkTilesOp)[0].cluster)
    return buffer_bytes(stage[0]) / cluster_n + buffer_bytes(stage[1]) / cluster_m


def _grid(
    loops: list[tile.WorkTilesOp], launch: tile.LaunchOp, spec: GemmSpec, target: Target, ctas_per_sm: int
) -> Grid:
    """The grid of one loop over all tiles or, with grid.tail = halves, one over the full waves and one over halves.

    Each role repeats the loops of the others.
    """
    work = loops[0]
    (tile_m, tile_n), cluster = work.tile, cluster_shape(work.cluster)
    order, *parts = (work_order(loop.operation) for loop in loops)
    numbers = [str(number) for number in (order.group, order.columns) if number]
    text = order.kind.name + (f"({', '.join(numbers)})" if numbers else "")
    places = None if spec.m is None or spec.n is None else (-(-spec.m // tile_m), -(-spec.n // tile_n))
    batch = spec.batch if spec.is_batched else 1
    matrices = batch if isinstance(batch, int) else None
    tiles = None if places is None or matrices is None else places[0] * places[1] * matrices
    ctas = _host_value(launch.grid, target.sm_count)
    at_once = None if ctas is None else min(ctas, target.sm_count * ctas_per_sm)
    workers = None if ctas is None else ctas // prod(cluster)
    halves = next((part for part in parts if part.pieces > 1), None)
    grids = [places] * matrices if places and matrices else []
    wave: list[tuple[int, int, int]] = []
    steps = _steps(work, spec)
    if places and matrices and at_once and ctas and steps:
        first = (next(order.items_of(cta, ctas, grids, steps, cluster), None) for cta in range(at_once))
        wave = [(item.grid, *item.place) for item in first if item is not None]
        wave = [place for place in wave if place[1] < places[0] and place[2] < places[1]]
    return Grid(
        tile=(tile_m, tile_n),
        cluster=cluster,
        order=text,
        scheduler=order.scheduler.name,
        sms=target.sm_count,
        tiles=tiles,
        ctas=ctas,
        at_once=at_once,
        full_waves=tiles // at_once if tiles and at_once else None,
        last_wave=tiles % at_once if tiles and at_once else None,
        last_wave_halves=halves.count(workers, tiles) if halves and workers and tiles else 0 if tiles else None,
        wave_rows=len({(matrix, row) for matrix, row, _ in wave}) or None,
        wave_columns=len({(matrix, column) for matrix, _, column in wave}) or None,
        batch=matrices,
        **(_sharing(order, work, grids, ctas, steps) if work.depth is not None else {}),
    )


def _steps(work: tile.WorkTilesOp, spec: GemmSpec) -> int | None:
    """K steps of a tile; 1 if K is not divided."""
    if work.depth is None:
        return 1
    return None if spec.k is None else -(-spec.k // int(work.k_step.value))


def _sharing(
    order: WorkOrder, work: tile.WorkTilesOp, grids: list[tuple[int, int]], ctas: int | None, steps: int | None
) -> dict[str, Any]:
    """The cost of a division of K."""
    assert order.division is not None
    text = str(order.division)
    if not (grids and ctas and steps):
        return {"k_division": text}
    cluster = cluster_shape(work.cluster)
    items = [item for cta in range(ctas) for item in order.items_of(cta, ctas, grids, steps, cluster)]
    shared, first = (sum(item.parts > 1 for item in items), sum(item.parts > 1 and item.part == 0 for item in items))
    is_scattered = order.division.is_scattered  # then part 0 also leaves its sums to the others
    written = shared if is_scattered else shared - first
    tile_m, tile_n = work.tile
    return {
        "k_division": text,
        "shared_tiles": first,
        "waiting": shared if is_scattered else first,
        "partial_sums": written,
        "partial_bytes": written * tile_m * tile_n * _PARTIAL_BYTES,
    }


def _host_value(value: ir.Value, sms: int) -> int | None:
    """An index of the host function, on a GPU of `sms` SMs; None if known only at run time."""
    constant = constant_of(value)
    if constant is not None:
        return constant
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner
    if op.name == "tile.sm_count":
        return sms
    if op.name == "tile.cluster_count":  # the driver may report fewer
        return sms // prod(cluster_shape(op.attributes["cluster"]))
    operands = [known for operand in op.operands if (known := _host_value(operand, sms)) is not None]
    if op.name not in _HOST_OPS or len(operands) != len(op.operands):
        return None
    return _HOST_OPS[op.name](*operands)
