"""divide-k: exchange partial sums between the CTAs that share the K of a tile, so that one of them stores it.

Before   tile.store %acc part (%part of %parts at %slot) into %d[%m, %n] { epilogue }
After    host    %partials = tile.workspace %slots·128·256 : memref<?xf32>
                 %semaphores = tile.workspace %slots zeroed : memref<?xi32>
                 tile.launch @gemm_kernel … args(…, %partials, %semaphores)
         device  scf.if %part == 0 {
                   scf.if %parts > 1 { tile.semaphore_wait %semaphores[%slot] until %parts - 1 reset }
                   %sum = tile.add_partials %acc, %partials[%slot + 1] count %parts - 1
                   tile.store %sum into %d[%m, %n] { epilogue }
                 } else {
                   tile.store_partial %acc into %partials[%slot + %part]
                   tile.semaphore_arrive %semaphores[%slot]
                 }
         Part 0 adds the others in their order, so that the bits of D repeat, and applies the epilogue to the whole sum.
         It waits only for work items that come before it (see tile.work_tiles), so no set of resident CTAs blocks.
         With `scatter n` every part stores its partial sums, waits for all, and adds and stores its n-th of the columns
         (tile.sum_shares); the launch is cooperative, since the CTAs wait for each other. All leave the semaphore
         (tile.semaphore_leave), so that it is zero again without a further wait. With `scatter_tail n` too, and a tile
         of one part is stored whole:
                 scf.if %parts > 1 { … tile.store %share into %d[%m, %n + …] { epilogue } }
                 else { tile.store %acc into %d[%m, %n] { epilogue } }
Needs    level cta, a kernel with one launch.
Refuses  a store of a part that does not stand in tile.work_tiles with a division of K; several launches.
Test     test/lit/passes/cta/divide-k.mlir, divide-k-invalid.mlir
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import tile
from lowtide.dialects.enums import is_whole, k_division
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.division import Adder, Cut, Tiles
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import before, copy_region, erase, extent
from lowtide.passes.support.problem.kernels import cluster_shape, launches_of, problem_of, relaunch
from lowtide.passes.support.problem.matrix_layouts import dims_of_a
from lowtide.passes.support.problem.problem import is_batch, results_in
from lowtide.targets import Target

_SEMAPHORE_BITS = 32


@dataclass(frozen=True)
class DivideK(Pass):
    """Replaces every tile.store of a part of a tile's K."""

    name: ClassVar[str] = "divide-k"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.CTA

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, tile.KernelOp):
            stores = [store for store in walk(kernel, tile.StoreOp) if store.part is not None]
            if not stores:
                continue
            launches = launches_of(module, kernel)
            if len(launches) != 1:
                raise Refusal(
                    kernel, f"is launched at {len(launches)} places; its workspaces are made at one [workspace-launch]"
                )
            for store in stores:
                with store.operation.location:
                    _divide(kernel, launches[0], store)


def _divide(kernel: tile.KernelOp, launch: tile.LaunchOp, store: tile.StoreOp) -> None:
    work = store.operation.parent.opview
    if not isinstance(work, tile.WorkTilesOp) or work.depth is None:
        raise Refusal(
            store,
            "stores a part of a sum, but stands in no tile.work_tiles that divides K; drop `part` [part-undivided]",
        )
    division = k_division(work)
    assert division is not None
    exchange = _Exchange(store, *_add_workspaces(kernel, launch, work, store, cooperative=division.is_scattered))
    with before(store):
        if division.adder is Adder.first:
            exchange.gather()
        elif division.tiles is Tiles.all:
            exchange.scatter(division.parts)
        else:
            exchange.scatter_divided(division.parts)
    erase(store)


@dataclass(frozen=True)
class _Exchange:
    """A store of a part, and the workspaces through which the parts of its tile are added."""

    store: tile.StoreOp
    partials: ir.Value
    semaphores: ir.Value

    def gather(self) -> None:
        """Part 0 adds the others."""
        build, (part, parts, slot) = Builder.index(), self._which
        branch = scf.IfOp(build.eq(part, 0), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            others = build.sub(parts, 1)
            shared = scf.IfOp(build.ult(1, parts))
            with ir.InsertionPoint(shared.then_block):
                tile.SemaphoreWaitOp(self.semaphores, slot, others, reset=True)
                scf.YieldOp([])
            value = self.store.value
            total = tile.AddPartialsOp(value.type, value, self.partials, build.add(slot, 1), others).result
            self._store(total, self.store.column)
            scf.YieldOp([])
        with ir.InsertionPoint(branch.else_block):
            tile.StorePartialOp(self.store.value, self.partials, build.add(slot, part))
            tile.SemaphoreArriveOp(self.semaphores, slot)
            scf.YieldOp([])

    def scatter(self, shares: int) -> None:
        """Each part adds its share of the columns. The semaphore counts those that arrive, then those that leave."""
        build, (part, parts, slot) = Builder.index(), self._which
        rows, columns = self.store.value.type.shape
        width = columns // shares
        tile.StorePartialOp(self.store.value, self.partials, build.add(slot, part), shares=shares)
        tile.SemaphoreArriveOp(self.semaphores, slot)
        tile.SemaphoreWaitOp(self.semaphores, slot, parts)
        tile.SemaphoreLeaveOp(self.semaphores, slot, build.mul(parts, 2))
        type_ = tile.TileType.get((rows, width), self.store.value.type.element_type)
        total = tile.SumSharesOp(type_, self.partials, slot, build.constant(shares), part, shares).result
        self._store(total, build.add(self.store.column, build.mul(part, width)))

    def scatter_divided(self, shares: int) -> None:
        """As `scatter`, of a tile in several parts; a tile of one part is stored whole."""
        branch = scf.IfOp(Builder.index().ult(1, self.store.parts), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            self.scatter(shares)
            scf.YieldOp([])
        with ir.InsertionPoint(branch.else_block):
            self._store(self.store.value, self.store.column)
            scf.YieldOp([])

    @property
    def _which(self) -> tuple[ir.Value, ir.Value, ir.Value]:
        return self.store.part, self.store.parts, self.store.slot

    def _store(self, total: ir.Value, column: ir.Value) -> None:
        """Stores the whole sum, with the epilogue."""
        store = self.store
        operands = list(store.epilogue_operands)
        results = {"outs": list(store.outs), "out_kinds": store.out_kinds}
        place = {"batch": store.batch, "row": store.row, "column": column}
        whole = tile.StoreOp(
            total, **results, **place, pairs=store.pairs, epilogue_operands=operands, kinds=store.kinds
        )
        copy_region(store.epilogue.blocks[0], whole.epilogue)


def _add_workspaces(
    kernel: tile.KernelOp, launch: tile.LaunchOp, work: tile.WorkTilesOp, store: tile.StoreOp, *, cooperative: bool
) -> tuple[ir.Value, ir.Value]:
    """Makes both workspaces before the launch and passes them to the kernel; returns its arguments."""
    shape, element = tuple(store.value.type.shape), store.value.type.element_type
    dynamic = ir.ShapedType.get_dynamic_size()
    types = [ir.MemRefType.get([dynamic], kind) for kind in (element, ir.IntegerType.get_signless(_SEMAPHORE_BITS))]
    with before(launch):
        build = Builder.index()
        slots = _slots(launch, work, kernel)
        made = [
            tile.WorkspaceOp(types[0], build.mul(slots, prod(shape))).result,
            tile.WorkspaceOp(types[1], slots, zeroed=True).result,
        ]
    relaunch(launch, [*launch.args, *made], **({"cooperative": ir.UnitAttr.get()} if cooperative else {}))
    entry = kernel.body.blocks[0]
    partials, semaphores = (entry.add_argument(type_, ir.Location.unknown()) for type_ in types)
    inputs = [argument.type for argument in entry.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
    return partials, semaphores


def _slots(launch: tile.LaunchOp, work: tile.WorkTilesOp, kernel: tile.KernelOp) -> ir.Value:
    """How many slots the work items have: one each, or one for each CTA; of a tail, that many for each part."""
    build, division = Builder.index(), k_division(work)
    assert division is not None
    if division.cut is Cut.shares:
        return launch.grid
    if division.tiles is not Tiles.all:
        return build.mul(launch.grid, division.parts)
    problem = problem_of(kernel)
    a, *_ = arguments = list(launch.args)
    results = zip(problem.results, results_in(problem.results, arguments), strict=True)
    d = next(result for kind, result in results if is_whole(kind))
    tile_m, tile_n = work.tile
    rows, columns = cluster_shape(work.cluster)  # each of its CTAs has a tile of every super-tile, also past the edge
    m = extent(d, -2)
    high = build.ceil_sdiv(m, tile_m * rows)
    if work.ends is not None and work.batches is None:  # the last tiles of each group may have fewer rows
        ends = arguments[ir.BlockArgument(work.ends).arg_number]
        high = build.add(high, build.smin(extent(ends, 0), m))
    supers = build.mul(high, build.ceil_sdiv(extent(d, -1), tile_n * columns))
    supers = build.mul(extent(d, 0), supers) if is_batch(d) else supers
    tiles = build.mul(supers, rows * columns)
    steps = build.ceil_sdiv(extent(a, dims_of_a(problem.layout)[1]), work.k_step.value)
    return build.mul(tiles, build.smin(steps, division.parts))
