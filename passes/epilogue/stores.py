"""The epilogue by TMA: each warpgroup writes its fragments to scratch by stmatrix and stores them as boxes.

A warpgroup writes its 64 rows of a scratch buffer, and one of its threads starts their store; no warpgroup waits for
another. With several buffers the store of one part is in flight while the next is written. Buffers take turns evenly in
whole tiles, so that shares of tiles of a tail, which come after them, may begin with the first one again. If the width
of the parts does not divide the tile's, the last part of each row is narrower and has its own buffer and tensor map.
Several full results take turns with the same buffers if they have the same type; each has a tensor map of its own.
In groups of rows, parts with rows of the next group are stored by threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.tile.layouts import NO_SWIZZLE, SwizzleBits
from lowtide.dialects.tile.lists import is_list
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal
from lowtide.passes.epilogue.parts import Epilogue, Part, element_of
from lowtide.passes.epilogue.scratch import Scratch
from lowtide.passes.epilogue.staged_operands import StagedOperands
from lowtide.passes.schedules.facts.resources import scratch_buffers, swizzle_of_result
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import after, before
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.problem.kernels import work_tiles_around
from lowtide.passes.support.streams.buffers import buffer_type
from lowtide.passes.support.streams.panels import panel_layout
from lowtide.passes.support.streams.tensor_map_arguments import TensorMapArguments
from lowtide.targets.atoms import WGMMA_ROWS

_RANK = 2  # of the boxes of one matrix


def store_by_tma(epilogue: Epilogue, maps: TensorMapArguments, scratch: Scratch) -> None:
    """Stores all parts of a tile at the insertion point, and waits after the work tiles until the scratch is read.

    Raises ScheduleError for parts that are not whole boxes.
    """
    schedule = epilogue.schedule
    swizzle, warpgroups = schedule.epilogue.swizzle, schedule.agents.consumer.warpgroups
    assert swizzle is not None
    shape = epilogue.part_shape
    if shape[0] != WGMMA_ROWS * warpgroups:
        way_out = (
            f"take epilogue.tile = [{WGMMA_ROWS * warpgroups}, {shape[1]}]"
            if warpgroups
            else "take epilogue.path = smem"
        )
        raise ScheduleError(
            f"epilogue.path = tma stores {WGMMA_ROWS} rows per warpgroup, {warpgroups} warpgroups hold parts of "
            f"{shape[0]} rows; {way_out} [tma-store-warpgroups]"
        )
    bits, base, _ = swizzle
    if bits and not epilogue.by_columns and shape[1] % (1 << (bits + base)):
        raise ScheduleError(
            f"epilogue.path = tma stores boxes of {1 << (bits + base)} columns with epilogue.swizzle = {swizzle}, "
            f"which must divide epilogue.tile's {shape[1]}; take a multiple, or a narrower swizzle"
            " [tma-store-box-width]"
        )
    d, *_ = types = list(map(element_name, epilogue.d_elements))
    swizzles = [swizzle_of_result(schedule, each, d, by_columns=epilogue.by_columns) for each in types]
    wide = _boxes(epilogue, maps, scratch, shape, swizzles, scratch_buffers(schedule))
    left = epilogue.tile_shape[1] % shape[1]
    # A narrow part of a D by rows may not fit a swizzle, so it has none. If its rows are an odd number of 16-byte
    # units, they start on different banks; if the number is even, on every second or fourth.
    of_left = swizzles if epilogue.by_columns else [NO_SWIZZLE] * len(swizzles)
    narrow = _boxes(epilogue, maps, scratch, (shape[0], left), of_left, 1) if left else None
    taken, index = _take_buffers(epilogue, wide, narrow), 0
    operands = StagedOperands(epilogue, maps, scratch)
    if operands.operands:
        with before(epilogue.store):  # the work tiles around it may be new
            _store_beside_operands(epilogue, operands, taken)
    for part in () if operands.operands else epilogue.parts():
        for value in zip(epilogue.map(part.sums, part), epilogue.full, strict=True):
            _store_part(epilogue, part, value, taken[index], _groups_since(taken, index))
            index += 1
    with after(_work_tiles(epilogue.store)):
        # Shared memory is freed when the CTA ends: no thread may end before the stores have read it.
        sm.TmaStoreWaitOp(0, read=True)


@dataclass(frozen=True)
class _Boxes:
    """Buffers for parts of one width of a full result, and the tensor map through which they are stored."""

    buffers: tuple[ir.Value, ...]
    tensor_map: ir.Value


def _boxes(
    epilogue: Epilogue,
    maps: TensorMapArguments,
    scratch: Scratch,
    shape: tuple[int, int],
    swizzles: Sequence[SwizzleBits],
    count: int,
) -> list[_Boxes]:
    """Those of each full result. Results of the same type have the same buffers."""
    by_columns, made = epilogue.by_columns, []
    for matrix, swizzle in zip(epilogue.matrices, swizzles, strict=True):
        layout = panel_layout(shape, swizzle, by_columns=by_columns)
        type_, rows = buffer_type(shape, element_of(matrix), layout, swizzle), None if by_columns else WGMMA_ROWS
        if is_list(matrix.type):
            tensor_map = maps.listed_map(epilogue.store, matrix, epilogue.store.batch, type_, rows, is_written=True)
        else:
            tensor_map = maps.map_for(epilogue.store, matrix, type_, rows=rows, is_written=True)
        made.append(_Boxes(scratch.take(type_, count), tensor_map))
    return made


Place = tuple[ir.Value, ir.Value]  # a buffer, and the tensor map for what lies in it


def _take_buffers(epilogue: Epilogue, wide: list[_Boxes], narrow: list[_Boxes] | None) -> list[Place]:
    """The buffer and the map of each part of each full result, in order: wide parts alternate. Every tile starts with
    the same buffer of each type."""
    rows, columns = epilogue.tile_shape
    part_rows, part_columns = epilogue.part_shape
    taken: list[Place] = []
    turns = dict.fromkeys((boxes.buffers for boxes in wide), 0)
    for _ in range(0, rows, part_rows):
        for column in range(0, columns, part_columns):
            is_narrow = column + part_columns > columns
            for boxes in narrow if narrow is not None and is_narrow else wide:
                turn = turns.get(boxes.buffers, 0)
                taken.append((boxes.buffers[turn % len(boxes.buffers)], boxes.tensor_map))
                turns[boxes.buffers] = turn + 1
    return taken


def _groups_since(taken: Sequence[Place], index: int) -> int:
    """The number of stores started since the last one that reads this part's buffer, in this tile or the one before."""
    buffer = taken[index][0]
    return next(since for since in range(len(taken)) if taken[index - 1 - since][0] == buffer)


def _store_beside_operands(epilogue: Epilogue, operands: StagedOperands, taken: Sequence[Place]) -> None:
    """Stores parts that read operands from shared memory. The buffers of a part's results are free before its operands
    are read: from there on nothing separates the loads and the stores of an element."""
    count = len(epilogue.full)
    for number, part in enumerate(epilogue.parts()):
        values: list[ir.Value] = []
        for first, end in _at_once(taken, number * count, count):
            places = taken[first:end]
            sm.TmaStoreWaitOp(min(_groups_since(taken, at) - (at - first) for at in range(first, end)), read=True)
            sm.BarrierOp(warpgroup=True)
            values = values or epilogue.map(part.sums, part, operands.read(part, number))
            for value, (buffer, _) in zip(values[first - number * count :], places, strict=False):
                sm.StoreSharedOp(value, buffer, epilogue.scratch_store(value.type))
            sm.FenceProxyAsyncOp()
            sm.BarrierOp(warpgroup=True)
            for place in places:
                _start_store(epilogue, place, part)
        operands.refill(number)  # all threads have met since they read the operands
        _store_reduced_last(values[0], epilogue.store)


def _store_reduced_last(computed: ir.Value, end: tile.StoreOp) -> None:
    """Moves the stores of a part's partial results behind those of its full results, which the next part waits for."""
    ops = list(end.operation.block.operations)
    first = next(at for at, op in enumerate(ops) if op.operation == computed.owner.operation)
    for op in ops[first:]:
        if isinstance(op, sm.StoreReducedOp):
            op.operation.move_before(end.operation)


def _at_once(taken: Sequence[Place], first: int, count: int) -> list[tuple[int, int]]:
    """Runs of the results of a part that are in buffers of their own."""
    found: list[tuple[int, int]] = []
    for at in range(first, first + count):
        buffers = [buffer for buffer, _ in taken[found[-1][0] : at]] if found else []
        if found and taken[at][0] not in buffers:
            found[-1] = found[-1][0], at + 1
        else:
            found.append((at, at + 1))
    return found


def _store_part(
    epilogue: Epilogue, part: Part, value: tuple[ir.Value, ir.Value], place: Place, groups_since: int
) -> None:
    """Stores a part of a full result. `value`: the part, and the result."""
    fragment, matrix = value
    if epilogue.rows_end is None:
        _store_boxes(epilogue, part, fragment, place, groups_since)
        return
    build, rows = Builder.index(), fragment.type.shape[0]
    is_whole = build.sle(build.add(part.origin[0], rows), epilogue.rows_end)
    branch = scf.IfOp(is_whole, has_else=True)
    with ir.InsertionPoint(branch.then_block):
        _store_boxes(epilogue, part, fragment, place, groups_since)
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        # Later waits count groups of stores. There is none of this part, so none before it may be left.
        sm.TmaStoreWaitOp(0, read=True)
        epilogue.store_fragment(fragment, matrix, part.origin)
        scf.YieldOp([])


def _store_boxes(epilogue: Epilogue, part: Part, value: ir.Value, place: Place, groups_since: int) -> None:
    buffer, _ = place
    sm.TmaStoreWaitOp(groups_since, read=True)  # the store that read this buffer last is done with it
    sm.BarrierOp(warpgroup=True)
    sm.StoreSharedOp(value, buffer, epilogue.scratch_store(value.type))
    sm.FenceProxyAsyncOp()
    sm.BarrierOp(warpgroup=True)
    _start_store(epilogue, place, part)


def _start_store(epilogue: Epilogue, place: Place, part: Part) -> None:
    """The map of a matrix of a list has no dimension for the batch."""
    buffer, tensor_map = place
    batch = None if len(sm.TensorMapType(tensor_map.type).shape) == _RANK else epilogue.store.batch
    sm.TmaStoreOp(buffer, tensor_map, *part.origin, batch=batch, cache=epilogue.cache)


def _work_tiles(store: tile.StoreOp) -> ir.OpView:
    """The loop over work tiles that contains a store."""
    found = work_tiles_around(store)
    if found is None:
        raise Refusal(
            store, "must stand in tile.work_tiles, after which its TMA stores are waited for [tma-store-place]"
        )
    return found
