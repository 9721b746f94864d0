"""Full operands of an epilogue whose results TMA stores: TMA loads them to shared memory, some parts ahead.

A slot has a buffer for a part of each full operand, and one mbarrier. The consumers start the loads themselves: those
of the first parts before the K loop of the tile, those of a later part as soon as all threads have read the part that
is in its slot. A warpgroup loads the rows that it holds, so it waits for no other one to read; the mbarrier counts an
arrival of each warpgroup, with the bytes of its rows. The parity of a slot that is used an odd number of times for each
tile alternates from tile to tile, and work tiles carry it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import operand_kinds
from lowtide.dialects.tile import OperandKind
from lowtide.dialects.tile.layouts import NO_SWIZZLE, SwizzleBits
from lowtide.dialects.tile.work import work_like
from lowtide.passes.base import Refusal, walk
from lowtide.passes.epilogue.parts import Epilogue, Part, element_of, held_run
from lowtide.passes.epilogue.scratch import Scratch
from lowtide.passes.schedules.facts.resources import swizzle_of_result
from lowtide.passes.schedules.facts.staged_operands import operand_slots
from lowtide.passes.support.agents.atoms import STMATRIX_BITS, matrices_of_stmatrix
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import (
    after,
    before,
    computing,
    copy_ops,
    move_region,
    yield_from,
)
from lowtide.passes.support.problem.element_types import buffer_bytes, element_bits, element_name
from lowtide.passes.support.problem.kernels import instances_of, role_of, work_tiles_around
from lowtide.passes.support.problem.operand_kinds import operand_is_batched
from lowtide.passes.support.streams.buffers import buffer_type
from lowtide.passes.support.streams.panels import panel_layout
from lowtide.passes.support.streams.tensor_map_arguments import TensorMapArguments
from lowtide.targets.atoms import WGMMA_ROWS


@dataclass(frozen=True)
class _Staged:
    """A full operand: for each slot its buffer, and the tensor map through which it is loaded."""

    matrix: ir.Value
    buffers: tuple[ir.Value, ...]
    maps: tuple[ir.Value, ...]

    @property
    def is_batched(self) -> bool:
        return operand_is_batched(self.matrix, OperandKind.full)


class StagedOperands:
    """The full operands of one store, in the slots of the kernel's shared memory."""

    def __init__(self, epilogue: Epilogue, maps: TensorMapArguments, scratch: Scratch) -> None:
        store, kinds = epilogue.store, operand_kinds(epilogue.store)
        matrices = [x for x, kind in zip(store.epilogue_operands, kinds, strict=True) if kind is OperandKind.full]
        self.epilogue, self.store = epilogue, store
        self.places = _places(epilogue)
        self.slots = _slots(epilogue, self.places)
        self.operands = [
            _staged(epilogue, number, each, maps, scratch, self._shapes()) for number, each in enumerate(matrices)
        ]
        if matrices:
            self._prepare()

    def _prepare(self) -> None:
        """Makes the mbarriers, carries the parity, and starts the loads of the first parts of each tile."""
        roles, work = role_of(self.store), work_tiles_around(self.store)
        if roles is None or work is None or walk(work, tile.StoreOp) != [self.store]:
            raise Refusal(
                self.store,
                "has full operands that TMA loads: it must be the only store of its work tiles, in a role; take "
                "epilogue.path = smem [staged-operand-stores]",
            )
        self.warpgroups = self.epilogue.schedule.agents.consumer.warpgroups
        instances, slots = instances_of(*roles), max(self.slots) + 1
        made = walk(self.epilogue.kernel, sm.MbarriersOp)
        with after(made[-1]) if made else before(roles[0]):
            self.full = sm.MbarriersOp(sm.MbarriersType.get(instances * slots), self.warpgroups).result
        self.first: ir.Value | None = None
        if instances > 1:
            with ir.InsertionPoint.at_block_begin(roles[0].bodies[roles[1]].blocks[0]):
                self.first = Builder.index().mul(sm.RoleInstanceOp().result, slots)
        self.parity: ir.Value | None = None
        if any(self.slots.count(slot) % 2 for slot in self.slots):
            work, self.parity = _alternating(work)
        body = work.body.blocks[0]
        store = self.store
        origin = [store.row, store.column, *([] if store.batch is None else [store.batch])]
        with ir.InsertionPoint.at_block_begin(body):
            known: dict[ir.Value, ir.Value] = {}
            copy_ops(computing(origin, work), known)
            for number in sorted({self.slots.index(slot) for slot in self.slots}):
                self._load(number, [known.get(value, value) for value in origin])

    def _shapes(self) -> list[tuple[int, int]]:
        """The shape of the part in each slot."""
        (rows, _), found = self.epilogue.part_shape, {}
        for slot, (_, _, columns) in zip(self.slots, self.places, strict=True):
            found[slot] = rows, columns
        return [found[slot] for slot in sorted(found)]

    def read(self, part: Part, number: int) -> list[ir.Value]:
        """The fragments of the operands for part `number` of the tile, once its loads are complete."""
        if not self.operands:
            return []
        slot, build = self.slots[number], Builder.index()
        earlier = self.slots[:number].count(slot) % 2
        alternates = self.parity is not None and self.slots.count(slot) % 2
        parity = build.xor(self.parity, earlier) if alternates else build.constant(earlier)
        sm.MbarrierWaitOp(self.full, self._barrier(slot), parity)
        return [self._fragment(each.buffers[slot], part) for each in self.operands]

    def refill(self, number: int) -> None:
        """Starts the loads of the next part in the slot of part `number`, which all threads have read."""
        following = [at for at, slot in enumerate(self.slots) if at > number and slot == self.slots[number]]
        if self.operands and following:
            store = self.store
            self._load(following[0], [store.row, store.column, *([] if store.batch is None else [store.batch])])

    def _load(self, number: int, origin: Sequence[ir.Value]) -> None:
        slot, build, (row, column, _) = self.slots[number], Builder.index(), self.places[number]
        barrier = self._barrier(slot)
        size = sum(buffer_bytes(each.buffers[slot].type) for each in self.operands) // self.warpgroups
        sm.MbarrierArriveOp(self.full, barrier, bytes=size)
        place = build.add(origin[0], row), build.add(origin[1], column)
        for each in self.operands:
            batch = origin[2] if each.is_batched else None
            sm.TmaLoadOp(each.maps[slot], *place, each.buffers[slot], self.full, barrier, batch=batch)

    def _barrier(self, slot: int) -> ir.Value:
        build = Builder.index()
        return build.constant(slot) if self.first is None else build.add(self.first, slot)

    def _fragment(self, buffer: ir.Value, part: Part) -> ir.Value:
        """A part of an operand, in the layout of the accumulators."""
        like, element = part.value.type, ir.MemRefType(buffer.type).element_type
        result = sm.FragmentType.get(like.shape, element, like.tv)
        atom = f"ld.shared.{held_run(result, self.epilogue.by_columns) * element_bits(element) // 8}"
        if element_bits(element) == STMATRIX_BITS:
            atom = f"ldmatrix.x{matrices_of_stmatrix(like.shape[1])}"
        return sm.LoadSharedOp(result, buffer, atom).result


def _places(epilogue: Epilogue) -> list[tuple[int, int, int]]:
    """The first row, the first column and the columns of each part of the tile, in order."""
    rows, columns = epilogue.tile_shape
    part_rows, part_columns = epilogue.part_shape
    return [
        (row, column, min(part_columns, columns - column))
        for row in range(0, rows, part_rows)
        for column in range(0, columns, part_columns)
    ]


def _slots(epilogue: Epilogue, places: Sequence[tuple[int, int, int]]) -> list[int]:
    """The slot of each part. Whole parts take turns; narrow ones have a slot of their own."""
    _, width = epilogue.part_shape
    count, turn, found = operand_slots(epilogue.schedule), 0, []
    for _, _, columns in places:
        found.append(turn % count if columns == width else -1)
        turn += columns == width
    last = max(found) + 1
    return [last if slot < 0 else slot for slot in found]


def _staged(
    epilogue: Epilogue,
    number: int,
    matrix: ir.Value,
    maps: TensorMapArguments,
    scratch: Scratch,
    shapes: Sequence[tuple[int, int]],
) -> _Staged:
    """The buffers and maps of an operand. In a grid with tiles of two heights, the stores of both share the buffers,
    since one loop runs after the other."""
    element, d = element_of(matrix), element_name(epilogue.d_elements[0])
    wide = swizzle_of_result(epilogue.schedule, element_name(element), d, by_columns=False)
    buffers, found = [], []
    for slot, shape in enumerate(shapes):
        swizzle: SwizzleBits = wide if shape == epilogue.part_shape else NO_SWIZZLE
        type_ = buffer_type(shape, element, panel_layout(shape, swizzle), swizzle)
        buffers.append(scratch.of_operand(number, slot, type_))
        found.append(maps.map_for(epilogue.store, matrix, type_, rows=WGMMA_ROWS))
    return _Staged(matrix, tuple(buffers), tuple(found))


def _alternating(work: tile.WorkTilesOp) -> tuple[tile.WorkTilesOp, ir.Value]:
    """Recreates work tiles so that they also carry a number that is 0 and 1 in turn, and returns it."""
    with before(work):
        zero = Builder.index().constant(0)
        new = work_like(work, [*work.inits, zero])
    move_region(work.body.blocks[0], new.body)
    for old, result in zip(work.results, new.results, strict=False):
        old.replace_all_uses_with(result)
    work.operation.erase()
    block = new.body.blocks[0]
    parity = block.add_argument(ir.IndexType.get(), ir.Location.unknown())
    end = list(block.operations)[-1]
    yielded = list(end.operands)
    with before(end):
        flipped = Builder.index().xor(parity, 1)
    yield_from(new, [*yielded, flipped])
    return new, parity
