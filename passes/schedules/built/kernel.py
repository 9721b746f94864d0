"""Checks the ops of a partly lowered kernel against the schedule that it carries.

The schedule says what passes still have to do, and the ops show what has been done. If only one of the two is edited,
the edit is lost, or applies to half of the kernel. So both must agree.

Below level epilogue the kernel is one thread's program. It shows little of the schedule: its timing, and the CTAs that
must fit on an SM (`timings.py`). Launches are checked at every level (`launches.py`).
"""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import (
    cache_hint_of,
    k_division,
    multicast_of,
    raster_kind,
    scheduler_kind,
    work_part,
)
from lowtide.dialects.tile import (
    CacheHint,
    EpilogueMath,
    KDivisionKind,
    KOrderKind,
    PromoteKind,
    RepeatKind,
    ScalesKind,
    SenderKind,
    StorePath,
    TailKind,
    WavesKind,
    WorkPart,
)
from lowtide.dialects.tile.fields import Order
from lowtide.dialects.tile.layouts import NO_SWIZZLE, SwizzleBits, layout_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Refusal, walk
from lowtide.passes.schedules.facts.alignment import moved_alignment
from lowtide.passes.schedules.facts.resources import (
    narrow_columns,
    scratch_buffers,
    scratch_elements,
    swizzle_of_result,
    tile_of_d,
    warps_along_k,
    work_loops,
)
from lowtide.passes.schedules.facts.staged_operands import operand_slots, staged_operands
from lowtide.passes.support.agents.atoms import (
    STAGED_COPIES,
    TMA_RANKS,
    planned_stage,
    tiled_mma,
    tiled_mma_attr,
)
from lowtide.passes.support.agents.clusters import OPERANDS, sharing
from lowtide.passes.support.agents.wgmmas import wgmmas
from lowtide.passes.support.ir.rewriting import defining_op, ops_in, uses
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.problem.kernels import cluster_shape
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets.atoms import Operand, copy_atom

AGAIN = "lower again from level problem with it"
BOTH = f"write the same in both, or {AGAIN}"


def mismatches(kernel: tile.KernelOp, schedule: Schedule, problem: Problem) -> Iterator[Refusal]:
    """A refusal for each difference between the kernel and its (complete) schedule."""
    yield from _work_tiles(kernel, schedule, problem)
    yield from _stages(kernel, schedule)
    yield from _prologue(kernel, schedule)
    yield from _mma(kernel, schedule, problem)
    yield from _promotion(kernel, schedule)
    yield from _staged_scales(kernel, schedule, problem)
    yield from _fragments(kernel, schedule)
    yield from _operands(kernel, schedule, problem)
    yield from _copies(kernel, schedule)
    yield from _loads(kernel, schedule)
    yield from _roles(kernel, schedule)
    yield from _k_order(kernel, schedule)
    yield from _stores(kernel, schedule)
    yield from _scratch(kernel, schedule, problem)
    yield from _prefetched(kernel, schedule)
    yield from _staged(kernel, schedule, problem)


def _work_tiles(kernel: tile.KernelOp, schedule: Schedule, problem: Problem) -> Iterator[Refusal]:
    grid = schedule.grid
    assert grid.tile is not None
    shapes = {part: problem.tile_of_d(shape) for shape, part in work_loops(grid)}
    loops = walk(kernel, tile.WorkTilesOp)
    missing = [part for part in shapes if loops and part not in map(work_part, loops)]
    if missing:
        scheduled = f"grid.tail = {grid.tail or TailKind.whole}"
        yield refusal(loops[0], f"is in a kernel without a loop over the part {missing[0]}", scheduled, AGAIN)
    waits = bool(walk(kernel, tile.AwaitWaveOp))
    if loops and waits != (grid.waves is WavesKind.synchronized):
        built = f"is in a kernel whose CTAs {'wait' if waits else 'do not wait'} for each other"
        yield refusal(loops[0], built, f"grid.waves = {grid.waves or WavesKind.free}", AGAIN)
    sends = bool(walk(kernel, tile.SendShardOp))
    if loops and sends != schedule.sends:
        built = f"is in a kernel that {'sends' if sends else 'does not send'} a shard"
        yield refusal(loops[0], built, f"grid.sender = {schedule.grid.sender or SenderKind.copy_engine}", AGAIN)
    for work in loops:
        part, cut = work_part(work), tuple(work.tile)
        if part not in shapes:
            scheduled = f"grid.tail = {grid.tail or TailKind.whole}"
            yield refusal(work, f"takes the part {part} of the tiles", scheduled, AGAIN)
        elif cut != shapes[part]:
            half = "" if part is not WorkPart.tail_halves else f", halves of {list(shapes[part])}"
            yield refusal(work, f"cuts tiles of {list(cut)}", f"grid.tile = {list(grid.tile)}{half}", AGAIN)
        yield from _k_division(work, schedule)
        if cluster_shape(work.cluster) != schedule.cluster:
            built = f"hands tiles to clusters of {list(cluster_shape(work.cluster))}"
            yield refusal(work, built, f"grid.cluster = {list(schedule.cluster)}", AGAIN)
        scheduler = scheduler_kind(work)
        if scheduler is not grid.scheduler:
            yield refusal(work, f"is {scheduler}", f"scheduler = {grid.scheduler}", AGAIN)
        order = Order(raster_kind(work.order), work.order.group, work.order.columns)
        if order != grid.order:
            yield refusal(work, f"has the order {order}", f"order = {grid.order}", BOTH)


def _k_division(work: tile.WorkTilesOp, schedule: Schedule) -> Iterator[Refusal]:
    found, wanted = k_division(work), schedule.k_division
    if found != wanted:
        none = KDivisionKind.none
        yield refusal(work, f"divides K by {found or none}", f"k_division = {wanted or none}", AGAIN)
    elif work.depth is not None and work.k_step.value != schedule.mainloop.k:
        yield refusal(work, f"cuts K in steps of {work.k_step.value}", f"k = {schedule.mainloop.k}", AGAIN)


def _stages(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    for ring in walk(kernel, sm.RingOp):
        stages = schedule.mainloop.stages
        if ring.result.type.stages != stages:
            yield refusal(ring, f"has {ring.result.type.stages} stages", f"stages = {stages}", AGAIN)


def _prologue(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    """A kernel that fills its ring once asks for the next work tile."""
    asks, wanted = bool(walk(kernel, tile.NextWorkTileOp)), schedule.mainloop.prologue is RepeatKind.once
    if walk(kernel, sm.RingOp) and asks != wanted:
        built = f"fills its ring {'once' if asks else 'for each tile'}"
        yield refusal(kernel, built, f"prologue = {schedule.mainloop.prologue or RepeatKind.per_tile}", AGAIN)
    for ring in walk(kernel, sm.RingOp):
        kept = tuple(ring.kept or ())
        for number, name in enumerate("ab"):
            load = schedule.mainloop.operand(name).load or RepeatKind.per_tile
            if (number in kept) != (load is RepeatKind.once):
                built = f"{'keeps' if number in kept else 'does not keep'} {name.upper()}"
                yield refusal(ring, built, f"{name}.load = {load}", AGAIN)


def _mma(kernel: tile.KernelOp, schedule: Schedule, problem: Problem) -> Iterator[Refusal]:
    scheduled = tiled_mma_attr(tiled_mma(schedule, problem))
    for mma in (*walk(kernel, sm.MmaSyncOp), *wgmmas(kernel)):
        if mma.mma != scheduled:
            yield refusal(mma, f"multiplies by {mma.mma}", str(scheduled), AGAIN)


def _fragments(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    """After the ring's verbs are bound, a loop that loads a slice ahead carries fragments to its first mma."""
    if walk(kernel, sm.ConsumerWaitOp):
        return
    for loop in walk(kernel, scf.ForOp):
        first = next((op for op in loop.body.operations if isinstance(op, sm.MmaSyncOp)), None)
        if first is None:
            continue
        buffers = 2 if first.a in list(loop.inner_iter_args) else 1
        if buffers != schedule.multiply.fragment_buffers:
            built = "multiplies fragments loaded " + ("a slice ahead" if buffers == 2 else "for the slice at hand")
            yield refusal(first, built, f"fragment_buffers = {schedule.multiply.fragment_buffers}", AGAIN)


def _is_scaled(op: ir.OpView) -> bool:
    """Whether the sum of a wgmma is awaited and multiplied by scales in the same step."""
    waits = [use for use in uses(op.results[0]) if isinstance(use, sm.MmaWaitOp)]
    maps = [use for wait in waits for use in uses(wait.results[0]) if isinstance(use, sm.MapOp)]
    return any(isinstance(use.operation.parent.opview, scf.ForOp) for use in maps)


def _promotion(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    """Whether the ops that multiply in the loop over K sum each K step from zero."""
    products = walk(kernel, tile.MmaOp)
    found = [bool(walk(kernel, tile.PromoteOp))] * len(products)
    issued: list[ir.OpView] = [*wgmmas(kernel)]
    found += [isinstance(op, sm.WgmmaPromoteOp) or _is_scaled(op) for op in issued]
    for loop in walk(kernel, scf.ForOp):
        last = next((op for op in reversed(ops_in(loop.body)) if isinstance(op, sm.MmaSyncOp)), None)
        if last is not None:
            issued.append(last)
            found.append(any(isinstance(use, sm.MapOp) for use in uses(last.result)))
    for op, promotes in zip([*products, *issued], found, strict=True):
        if promotes != schedule.promotes:
            built = "sums each K step from zero" if promotes else "goes on with the sum of the K step before"
            yield refusal(op, built, f"promote = {schedule.multiply.promote or PromoteKind.none}", AGAIN)


def _staged_scales(kernel: tile.KernelOp, schedule: Schedule, problem: Problem) -> Iterator[Refusal]:
    """Whether slots of the ring also hold scales."""
    for ring in walk(kernel, sm.RingOp) if problem.is_scaled else ():
        staged = len(ring.result.type.buffers) > len(OPERANDS)
        if staged != schedule.stages_scales:
            built = f"{'keeps scales beside' if staged else 'keeps nothing but'} A and B in its slots"
            yield refusal(ring, built, f"scales = {schedule.mainloop.scales or ScalesKind.direct}", AGAIN)


def _operands(kernel: tile.KernelOp, schedule: Schedule, problem: Problem) -> Iterator[Refusal]:
    """Shapes and swizzles of the operands of the multiply: windows, buffers, or the stages of a ring."""
    whole = [schedule]
    tiles = [schedule.set({"grid.tile": shape}) for shape, _ in work_loops(schedule.grid)]
    held = [(op, (op.a.type, op.b.type), tiles) for op in walk(kernel, tile.MmaOp)]
    held += [(op, tuple(op.result.type.buffers), whole) for op in walk(kernel, sm.RingOp)]
    for op, types, given in held:
        for operand, type_ in zip("ab", types, strict=False):
            shape, wanted = tuple(type_.shape), [problem.stream(operand).box(each.tile_mnk) for each in given]
            if shape not in wanted:
                scheduled = f"a CTA tile of {list(schedule.tile_mnk)}, which makes them {list(wanted[0])}"
                yield refusal(op, f"takes {operand} in tiles of {list(shape)}", scheduled, AGAIN)
            yield from _same_swizzle(op, operand, type_, f"{operand}.swizzle", schedule)
            yield from _same_stage(op, operand, type_, schedule, problem)


def _same_swizzle(op: ir.OpView, what: str, type_: ir.Type, field: str, schedule: Schedule) -> Iterator[Refusal]:
    """A buffer has the swizzle of its field."""
    yield from _is_swizzled(op, what, type_, field, schedule.get(field))


def _is_swizzled(op: ir.OpView, what: str, type_: ir.Type, field: str, given: SwizzleBits) -> Iterator[Refusal]:
    """A buffer has this swizzle, which the field asks for; all swizzles of zero bits are equal."""
    found = _swizzle(type_)
    if found is not None and (found[0] != given[0] or (found[0] and found != given)):
        built = "keeps {} with swizzle<{},{},{}>".format(what, *found)
        yield refusal(op, built, "{} = <{},{},{}>".format(field, *given), BOTH)


def _same_stage(op: ir.OpView, operand: str, type_: ir.Type, schedule: Schedule, problem: Problem) -> Iterator[Refusal]:
    """A stage without roles is contiguous along the dimension, and padded, as the schedule says."""
    if (
        schedule.agents.has_producer
        or not isinstance(type_, ir.MemRefType)
        or not isinstance(type_.layout, tile.LayoutAttr)
    ):
        return
    found, planned = layout_of(type_.layout)[0], planned_stage(operand, schedule, problem)
    if found != planned:
        fields = schedule.mainloop.operand(operand)
        scheduled = f"{operand}.stage = {fields.stage or 'as_loaded'} and {operand}.padding = {fields.padding or 0}"
        yield refusal(op, f"keeps {operand} in {found}", f"{scheduled}, which make it {planned}", BOTH)


def _swizzle(type_: ir.Type) -> SwizzleBits | None:
    """The swizzle of a buffer; None for a window of global memory."""
    if not isinstance(type_, ir.MemRefType):
        return None
    return layout_of(type_.layout)[1] if isinstance(type_.layout, tile.LayoutAttr) else NO_SWIZZLE


def _copies(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    for copy in walk(kernel, sm.CpAsyncOp):
        name = _operand_filled(copy.destination)
        scheduled = schedule.mainloop.operand(name).copy if name else copy.copy.atom
        if copy.copy.atom != scheduled:
            yield refusal(copy, f"copies by {copy.copy.atom}", f"{name}.copy = {scheduled}", AGAIN)
    for store in walk(kernel, sm.StoreSharedOp):
        name = _operand_filled(store.destination)
        if name and schedule.mainloop.operand(name).copy not in STAGED_COPIES:
            scheduled = schedule.mainloop.operand(name).copy
            yield refusal(store, "copies through registers", f"{name}.copy = {scheduled}", AGAIN)
    for load in walk(kernel, sm.LoadGlobalOp):
        view = defining_op(load.source)
        is_copy = load.aligned or load.realigned  # of A or B, the kernel's first matrices
        if is_copy and isinstance(view, tile.ViewOp):
            name = OPERANDS[list(kernel.body.blocks[0].arguments).index(view.source)]
            family = "realigned" if load.realigned else "staged"
            scheduled, built = schedule.mainloop.operand(name).copy, load.atom.value.replace("ld.global", family)
            if scheduled != built:
                yield refusal(load, f"copies by {built}", f"{name}.copy = {scheduled}", AGAIN)
    for load in walk(kernel, sm.TmaLoadOp):
        name = _operand_filled(load.destination)
        if name is None:
            continue
        operand = schedule.mainloop.operand(name)
        rank = len(load.map.type.shape) - (load.batch is not None)  # maps of a batch have one dimension more
        if rank != TMA_RANKS.get(str(operand.copy)):
            yield refusal(load, f"loads boxes of {rank} dimensions", f"{name}.copy = {operand.copy}", AGAIN)
        line, _ = sharing(name, schedule.cluster)
        if multicast_of(load) is not line:
            built = "loads its tile alone" if multicast_of(load) is None else f"has multicast({multicast_of(load)})"
            yield refusal(load, built, f"grid.cluster = {list(schedule.cluster)}", AGAIN)
        found, hint = cache_hint_of(load), operand.cache or CacheHint.normal
        if found is not hint:
            yield refusal(load, f"has cache({found})", f"{name}.cache = {hint}", BOTH)


def _loads(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    """Operands that are loaded from global memory to fragments use the schedule's atoms."""
    for mma in walk(kernel, sm.MmaSyncOp):
        for name, operand in (("a", mma.a), ("b", mma.b)):
            load = defining_op(operand)
            if not isinstance(load, sm.LoadGlobalOp):
                continue
            scheduled = schedule.mainloop.operand(name).copy
            if load.atom.value != scheduled:
                yield refusal(load, f"loads by {load.atom.value}", f"{name}.copy = {scheduled}", AGAIN)


def _operand_filled(buffer: ir.Value) -> Operand | None:
    """The operand, A or B, of a slot's buffer; None for scales, and for a buffer that is not in a slot."""
    slot = defining_op(buffer)
    if isinstance(slot, sm.PrefixOp):
        return _operand_filled(slot.source)
    return dict(zip(slot.buffers, OPERANDS, strict=False)).get(buffer) if isinstance(slot, sm.RingSlotOp) else None


def _roles(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    for roles in walk(kernel, sm.RolesOp):
        producer, consumer = schedule.agents.producer, schedule.agents.consumer
        for key, found, of_producer, of_consumer in (
            ("warps", roles.warps, producer.warps, consumer.warps),
            ("instances", roles.instances or (1, 1), 1, consumer.instances),
            ("registers", roles.registers, producer.registers, consumer.registers),
        ):
            if list(found) != [of_producer, of_consumer]:
                scheduled = f"agents of [{of_producer}, {of_consumer}]"
                way_out = BOTH if key == "registers" else AGAIN
                yield refusal(roles, f"has roles of {list(found)} {key}", scheduled, way_out)


def _k_order(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    """Whether the producer carries a direction along K, in addition to the slot and the parity of the ring."""
    for roles in walk(kernel, sm.RolesOp):
        for work in (op for op in ops_in(roles.bodies[0].blocks[0]) if isinstance(op, tile.WorkTilesOp)):
            turns = len(work.inits) > 2
            if turns != schedule.turns_k_around:
                built = f"{'turns K around after each tile' if turns else 'takes the K steps of all tiles forward'}"
                yield refusal(work, built, f"k_order = {schedule.mainloop.k_order or KOrderKind.forward}", AGAIN)


def _stores(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    """D is stored by the path and with the cache hint of the schedule."""
    path, hint = schedule.epilogue.path, schedule.epilogue.cache or CacheHint.normal
    by_tma = walk(kernel, sm.TmaStoreOp)
    for store in (*by_tma, *walk(kernel, sm.StoreGlobalOp)):
        if bool(by_tma) != (path is StorePath.tma):
            built = "stores by TMA" if by_tma else "stores without TMA"
            yield refusal(store, built, f"epilogue.path = {path}", AGAIN)
        if cache_hint_of(store) is not hint:
            yield refusal(store, f"has cache({cache_hint_of(store)})", f"epilogue.cache = {hint}", BOTH)


def _scratch(kernel: tile.KernelOp, schedule: Schedule, problem: Problem) -> Iterator[Refusal]:
    """The epilogue uses shared memory, parts and buffers as the schedule says."""
    stores = walk(kernel, sm.StoreGlobalOp)
    writes = [write for write in walk(kernel, sm.StoreSharedOp) if _operand_filled(write.destination) is None]
    epilogue = schedule.epilogue
    if stores and epilogue.path is not StorePath.tma and bool(writes) != (epilogue.path is StorePath.smem):
        built = "stores through shared memory" if writes else "stores straight from fragments"
        yield refusal(stores[0], built, f"epilogue.path = {epilogue.path}", AGAIN)
    assert epilogue.tile is not None
    shapes = [tuple(ir.MemRefType(write.destination.type).shape) for write in writes]
    # Only the last part of a row may be narrower, and only parts of half tiles may be lower.
    narrow = (epilogue.tile[0], narrow_columns(schedule, problem)) if epilogue.tile in shapes else None
    stacked = warps_along_k(schedule)
    whole = {(stacked * min(shape[0], epilogue.tile[0]), epilogue.tile[1]) for shape, _ in work_loops(schedule.grid)}
    buffers = []
    for write, shape in zip(writes, shapes, strict=True):
        if shape == narrow:
            continue
        if shape not in whole:
            scheduled = f"epilogue.tile = {list(epilogue.tile)}"
            yield refusal(write, f"writes parts of {list(shape)}", scheduled, AGAIN)
        scratch = ir.MemRefType(write.destination.type)
        element, elements = element_name(scratch.element_type), scratch_elements(schedule, problem)
        if element not in elements:
            built, there = f"writes scratch of {scratch.element_type}", " and ".join(elements)
            yield refusal(write, built, f"epilogue.math = {epilogue.math}, with {there} there", AGAIN)
        given = swizzle_of_result(schedule, element, elements[0], by_columns=problem.d_is_column_major)
        yield from _is_swizzled(write, "the scratch", scratch, "epilogue.swizzle", given)
        if write.destination not in buffers:
            buffers.append(write.destination)
    count = scratch_buffers(schedule) * len(scratch_elements(schedule, problem))
    if walk(kernel, sm.TmaStoreOp) and buffers and len(buffers) != count:
        built = f"alternates between {len(buffers)} buffer{'s' if len(buffers) > 1 else ''}"
        yield refusal(writes[0], built, f"epilogue.buffers = {scratch_buffers(schedule)}", AGAIN)
    for store in stores:
        widest = moved_alignment("d", schedule, problem.of_result(element_name(store.destination.type.element_type)))
        size = copy_atom(store.atom.value).bytes_per_thread
        if size > widest:
            yield refusal(store, f"stores {size} bytes at once", f"epilogue.store = {widest}", AGAIN)


def _prefetched(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    """Before the first part is stored, full operands of as many parts as the schedule says are loaded ahead."""
    written, ahead = set(), schedule.epilogue.prefetch or 0
    for op in walk(kernel, sm.StoreSharedOp):
        if schedule.epilogue.math is not EpilogueMath.rows or op.operation.block in written:
            continue
        written.add(op.operation.block)
        ops = list(op.operation.block)
        at = ops.index(op)
        parts = sum(isinstance(other, sm.StoreSharedOp) for other in ops)
        loads = [other for other in ops if isinstance(other, sm.LoadGlobalOp) and _is_full(other)]
        early = sum(ops.index(load) < at for load in loads)
        expected = len(loads) // parts * min(ahead + 1, parts) if ahead else 0
        if early != expected:
            built = f"is stored after {early} loads of full operands"
            yield refusal(op, built, f"epilogue.prefetch = {ahead}, which is after {expected}", AGAIN)


def _staged(kernel: tile.KernelOp, schedule: Schedule, problem: Problem) -> Iterator[Refusal]:
    """TMA loads full operands of the epilogue to as many slots as the schedule says, or as the tile has parts."""
    buffers: dict[ir.Value, sm.TmaLoadOp] = {}
    for load in walk(kernel, sm.TmaLoadOp):
        if isinstance(defining_op(load.destination), sm.AllocOp):
            buffers.setdefault(load.destination, load)
    operands, part = staged_operands(schedule, problem), schedule.epilogue.tile
    if not operands or not buffers or part is None:
        return
    rows, columns = tile_of_d(schedule, problem)
    whole = [load for buffer, load in buffers.items() if tuple(ir.MemRefType(buffer.type).shape) == part]
    expected = min(operand_slots(schedule), rows // part[0] * (columns // part[1]))
    if len(whole) != expected * len(operands):
        built = f"loads full operands to {len(whole) // len(operands)} slots"
        yield refusal(next(iter(buffers.values())), built, f"epilogue.prefetch = {schedule.epilogue.prefetch}", AGAIN)


def _is_full(load: sm.LoadGlobalOp) -> bool:
    """Whether it loads a full operand of the epilogue."""
    view = defining_op(load.source)
    is_mapped = any(isinstance(use, sm.MapOp) for use in uses(load.result))
    return is_mapped and isinstance(view, tile.ViewOp) and view.kind is None


def refusal(op: ir.OpView, built: str, scheduled: str, way_out: str) -> Refusal:
    return Refusal(op, f"{built}, but the kernel's schedule says {scheduled}; {way_out} [not-as-scheduled]")
