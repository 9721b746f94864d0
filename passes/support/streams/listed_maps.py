"""Tensor maps of the matrices of a list: a launch before the product makes them, in a workspace."""

from dataclasses import dataclass, field

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.passes.base import Refusal
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import extent
from lowtide.passes.support.problem.kernels import work_tiles_around
from lowtide.passes.support.streams.workspaces import workspace

MAP_WORDS = 32  # of a tensor map, which has 128 bytes
_THREADS = 32  # of a CTA, which makes one map
_SCRATCH = f"memref<1x{MAP_WORDS}xi32, #tile.layout<(1,{MAP_WORDS}):({MAP_WORDS},1)>, #gpu.address_space<workgroup>>"


@dataclass
class ListedMaps:
    """The maps that a kernel takes: a vector of 32-bit words for each list and shape of boxes. `launch` is that of the
    product. `found`: by position of the list and type of the map, the kernel's argument with the maps; `own`: by
    argument and number of the matrix, the map of one matrix."""

    kernel: tile.KernelOp
    launch: tile.LaunchOp
    found: dict[tuple[int, sm.TensorMapType], ir.Value] = field(default_factory=dict)
    own: dict[tuple[ir.Value, ir.Value], ir.Value] = field(default_factory=dict)

    def map_of(self, op: ir.OpView, position: int, type_: sm.TensorMapType, number: ir.Value) -> tuple[ir.Value, bool]:
        """The map of matrix `number` of the list at this position, as a value before the loop over K, and whether the
        kernel has a new argument. Refuses an `op` outside of work tiles, and a number that is not one of their
        coordinates."""
        work = work_tiles_around(op)
        if work is None or not isinstance(number.owner, ir.Block) or number.owner != work.body.blocks[0]:
            raise Refusal(
                op,
                "loads a matrix of a list whose number is no coordinate of its work tiles; take the group or the index "
                "in the batch [listed-map-number]",
            )
        key, is_new = (position, type_), (position, type_) not in self.found
        if is_new:
            words = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(32))
            self.found[key] = self.kernel.body.blocks[0].add_argument(words, ir.Location.unknown())
        maps = self.found[key]
        if (maps, number) not in self.own:
            with ir.InsertionPoint.at_block_begin(work.body.blocks[0]), op.operation.location:
                self.own[maps, number] = sm.ListedMapOp(type_, maps, number).result
        return self.own[maps, number], is_new

    def make(self, position: int, type_: sm.TensorMapType) -> ir.Value:
        """The maps on the host: a workspace, and a launch that fills it before the product."""
        build, source = Builder.index(), self.launch.args[position]
        count = extent(source, 0)
        words = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(32))
        space = workspace(words, build.mul(count, MAP_WORDS))
        others = sum(place == position for place, _ in self.found) - 1  # maps of the same list with other boxes
        name = f"{ir.StringAttr(self.kernel.sym_name).value}_maps{position}{f'_{others}' if others else ''}"
        with ir.InsertionPoint(self.kernel):
            maker = tile.KernelOp(name, ir.TypeAttr.get(ir.FunctionType.get([source.type, words], [])))
        with ir.InsertionPoint(maker.body.blocks.append(source.type, words)):
            matrices, maps = maker.body.blocks[0].arguments
            scratch = sm.AllocOp(ir.Type.parse(_SCRATCH)).result
            sm.MakeMapsOp(maps, matrices, ir.TypeAttr.get(type_), scratch)
            tile.ReturnOp()
        tile.LaunchOp(name, count, _THREADS, [source, space])
        return space
