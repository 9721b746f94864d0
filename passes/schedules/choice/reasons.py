"""Why each field has its value: a sentence for each, by path."""

from collections.abc import Mapping
from types import MappingProxyType

from tensor_layouts import Layout

from lowtide.dialects.tile import (
    EpilogueMath,
    LaunchKind,
    OperandKind,
    PromoteKind,
    RepeatKind,
    SchedulerKind,
    StorePath,
)
from lowtide.dialects.tile.agents import REGISTER_PATHS
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.choice.packing import takes_any_layout
from lowtide.passes.schedules.cost import few_rows
from lowtide.passes.schedules.cost.rings import MOST_STAGES
from lowtide.passes.schedules.facts.alignment import (
    MATRICES,
    PACK_FIELDS,
    is_packed,
    is_packed_transposed,
    moved_alignment,
)
from lowtide.passes.schedules.facts.resources import ring_bytes, runs_ahead, shared_memory_bytes, warps_along_k
from lowtide.passes.support.agents.atoms import STAGED_COPIES, keeps_transposed
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import FMA

Reasons = Mapping[str, str]

SEE_TILE = "see grid.tile"
_COPIES = "TMA: one thread copies, and the boxes come swizzled"
_READ_ONCE = "CTAs read it once: it is evicted first, and the smaller operand stays in L2"
_SWIZZLES = "the widest swizzle of TMA and wgmma for its rows: no conflict"
_PROMOTED = "tensor cores keep too few bits of long sums of these types"

# Of some fields also for other values, below.
_WITH_PRODUCER: Reasons = MappingProxyType(
    {
        "grid.launch": "its CTAs start while the previous kernel is finishing, and wait for that kernel's writes",
        "grid.order": "the tiles in flight share operands in L2, so that the least is read again from memory",
        "grid.scheduler": "the producer fetches the next tile while the consumers finish this one",
        "grid.cluster": "CTAs share loads, so that L2 gets fewer requests",
        "grid.tail": "the last wave is at most half full: as half tiles it takes about half the time",
        "grid.waves": "a wave reads more than L2 holds: CTAs in step read the same part of it",
        "mainloop.k_order": "a tile begins with data of the previous tiles that L2 still holds",
        **dict.fromkeys(REGISTER_PATHS, "the producer needs few registers, so the accumulators get more"),
        "mainloop.agents.producer.warps": "one whole warpgroup: setmaxnreg moves registers only between whole "
        "warpgroups",
        "mainloop.agents.consumer.instances": "they share each tile",
        "mainloop.scales": "loads by consumers would wait for those of the next stages",
        "mainloop.a.copy": _COPIES,
        "mainloop.b.copy": _COPIES,
        "mainloop.a.cache": _READ_ONCE,
        "mainloop.b.cache": _READ_ONCE,
        "mainloop.a.swizzle": _SWIZZLES,
        "mainloop.b.swizzle": _SWIZZLES,
        "multiply.atom": "wgmma as wide as the tile: the fewest reads of A from shared memory",
        "multiply.atoms": "one per consumer warpgroup that shares the tile",
        "multiply.permutation": "blocks of 64 rows go round-robin to the consumers; columns in order",
        "multiply.fragment_buffers": "wgmma reads shared memory: no fragments of A and B",
        "multiply.promote": _PROMOTED,
        "epilogue.tile": "what the scratch holds",
        "epilogue.buffers": "with one buffer per part, no part waits for a store of the same tile",
        "epilogue.prefetch": "full operands of the next parts are on their way while one is stored",
        "epilogue.start": "the last K step still multiplies the other rows meanwhile",
        "epilogue.cache": "D is larger than L2: it is evicted first, and A and B stay",
    }
)
_WITHOUT: Reasons = MappingProxyType(
    {
        "grid.ctas_per_sm": "128 registers per thread are enough, and more warps hide more latency",
        "grid.order": "bands of 8 tile rows keep the operands of CTAs in flight in L2",
        "grid.scheduler": "one CTA per work tile; the hardware balances them",
        "mainloop.agents.single.instances": "every warp copies and multiplies; cp.async needs no separate warp",
        "mainloop.prologue": "K has few steps: the next tile's first loads are in flight while this one is stored",
        "mainloop.unroll": "the few steps of K and the epilogue are scheduled together",
        "mainloop.a.load": "the work tiles of a CTA share A",
        "mainloop.b.load": "the work tiles of a CTA share B",
        "mainloop.a.copy": "the widest cp.async; 16 bytes bypass L1",
        "mainloop.b.copy": "the widest cp.async; 16 bytes bypass L1",
        "multiply.atom": "the fastest mma.sync for these types, the largest whose fragments fit",
        "multiply.atoms": "four or eight warps, each with a tile near square, to read the fewest fragment bytes",
        "multiply.permutation": "two n-atoms per step, so that B's registers pair up into ldmatrix.x4",
        "multiply.promote": _PROMOTED,
        "multiply.fragment_buffers": "fragments are not loaded across work tiles",
        "epilogue.tile": "the tallest part that fits the drained ring, and the registers beside operands",
    }
)
_BY_FMA: Reasons = MappingProxyType(
    {
        "multiply.atom": "no tensor core multiplies these types: one thread's fma",
        "multiply.atoms": "threads that hold about 8 × 8 accumulators each, to read the fewest fragment bytes",
        "multiply.atom_order": "8 × 4 threads per warp, so that its lanes share what they load",
        "multiply.permutation": "four neighbouring rows and columns per thread, for loads of 16 bytes",
        "multiply.fragment_buffers": "the next k-slice loads while this one is multiplied",
    }
)
OF_FEW_STEPS: Reasons = MappingProxyType(
    {
        "grid.tile": "K has few steps: the tile's part of B stays in shared memory, or two tiles fit on an SM",
        "grid.order": "consecutive CTAs take the tiles of a row, so that its part of A comes from memory once",
        "grid.scheduler": "a CTA computes several tiles, in one column of tiles if the number of CTAs allows it",
        "grid.ctas_per_sm": "two CTAs: one multiplies while the other stores; or one CTA that does both at once",
        "grid.launch": "its CTAs start while the previous kernel is finishing, and wait for that kernel's writes",
        "mainloop.k": "rows of 128 bytes",
        "multiply.atoms": "warps of 64 × 64, to read the fewest fragment bytes",
        "epilogue.start": "D of a tile is stored among the products of the next one",
        "multiply.permutation": "a thread holds neighbouring columns, for stores of 16 bytes",
    }
)
OF_FEW_ROWS: Reasons = MappingProxyType(
    {
        "grid.order": "the tiles of the one row, in order",
        "mainloop.agents.single.instances": "CTAs without a producer are small: three load on an SM, and their last "
        "wave leaves few SMs idle",
        "mainloop.stages": "the most with which three CTAs fit on an SM, up to 6",
        "multiply.atoms": "four warps side by side: all of D's rows are those of one mma.sync",
    }
)


def reasons(schedule: Schedule, problem: Problem, target: Target, why_tile: str) -> dict[str, str]:
    """A sentence for each field, also of some that the schedule leaves out."""
    found = {"grid.tile": why_tile, "grid.k_division": why_tile, "mainloop.k": SEE_TILE}
    found |= _with_producer(schedule, problem, target) if schedule.agents.has_producer else _without(schedule, problem)
    if why_tile == OF_FEW_STEPS["grid.tile"]:
        found |= OF_FEW_STEPS
    found["epilogue.math"] = (
        _why_rows(schedule, problem)
        if schedule.epilogue.math is EpilogueMath.rows
        else "converting before shared memory halves its traffic"
    )
    is_direct = schedule.epilogue.path is StorePath.direct
    if problem.d_is_column_major:
        how = "threads store their elements of a column" if is_direct else "it is transposed on the way to the scratch"
        found["epilogue.path"] = f"D lies by columns as the kernel sees it: {how}"
        found["epilogue.store"] = "threads share the columns of a part evenly"
    if is_direct and problem.d_is_column_major:
        found["epilogue.math"] = "stores take the elements of the fragments"
    if is_direct:
        found["epilogue.swizzle"] = "direct stores have no scratch"
    packed = [name for name in MATRICES if is_packed(name, schedule)]
    return found | {PACK_FIELDS[name]: _why_packed(name, schedule, problem) for name in packed}


def _why_packed(name: str, schedule: Schedule, problem: Problem) -> str:
    bytes_at_once = moved_alignment(name, schedule, problem)
    if not is_packed_transposed(name, schedule):
        return f"taken {bytes_at_once} bytes at a time: copied if it is not aligned to them"
    known = problem.compiled
    if {"a": known.m, "b": known.n}.get(name) == 1:
        return (
            f"it has one column, which is read as a row, {bytes_at_once} bytes at a time: copied if its elements are"
            " not contiguous or not aligned to them"
        )
    if takes_any_layout(problem):
        return "it has few columns, and rows that are not aligned: transposed, so that TMA loads long rows along K"
    return f"wgmma takes {problem.stream(name).element} with K contiguous: transposed to a workspace"


def _with_producer(schedule: Schedule, problem: Problem, target: Target) -> dict[str, str]:
    found, division = dict(_WITH_PRODUCER), schedule.k_division
    if division is not None and division.is_of_tail:
        found["grid.k_division"] = "the last wave leaves SMs idle: several CTAs share the K of each of its tiles"
    elif division is not None:
        found["grid.order"] = "all tiles are in flight at once, and neighbouring CTAs read the same rows of A"
    found["mainloop.stages"] = _why_stages(schedule, problem, target)
    if schedule.grid.launch is LaunchKind.serialized:
        found["grid.launch"] = "only some CTAs would find room beside the previous kernel, and be spread unevenly"
    count, turns = schedule.agents.consumer.all_warpgroups, schedule.agents.consumer.turns
    consumers = f"{count} consumer warpgroup{'s' if count > 1 else ''}"
    found["mainloop.agents.consumer.warps"] = f"a producer runs ahead of {consumers}"
    if turns > 1:
        found["mainloop.agents.consumer.instances"] = "one stores its tile while the next multiplies"
    if not any(schedule.agents.registers):
        found |= dict.fromkeys(REGISTER_PATHS, "with one consumer the registers at entry are enough")
    if not schedule.multiply.by_warpgroups:
        usual = {path: why for path, why in _WITHOUT.items() if path.startswith("multiply.")}
        by_banks = "rows and K in the order in which fragments are loaded with the fewest bank conflicts"
        found |= usual | _by_mma_sync(schedule, problem) | {"multiply.permutation": by_banks}
    if schedule.multiply.promote is PromoteKind.overlapped:
        found["multiply.promote"] += "; the scales of the next K step are read while this one is multiplied"
    if schedule.epilogue.path is StorePath.tma:
        found["epilogue.path"] = "TMA stores overlap the multiply of the next tile"
        found["epilogue.tile"] = "one box of TMA per warpgroup"
        found["epilogue.swizzle"] = "TMA's own: stmatrix writes without conflict"
    elif schedule.epilogue.path is StorePath.direct:
        found["epilogue.path"] = "each part stores the columns that it has added from its fragment"
    else:
        why = "rows of 16-byte stores: a full operand is read in rows, or D's rows may end within 16 bytes"
        found["epilogue.path"] = why
    return found


def _why_stages(schedule: Schedule, problem: Problem, target: Target) -> str:
    stages, used = schedule.mainloop.stages, shared_memory_bytes(schedule, problem)
    if stages is None or stages == MOST_STAGES:
        return f"at most {MOST_STAGES}: so many fit beside the epilogue's scratch"
    if stages > MOST_STAGES:
        return f"more than {MOST_STAGES}: each CTA has at most one tile of few rows, whose K steps are short"
    more = shared_memory_bytes(schedule.set({"mainloop.stages": stages + 1}), problem) - used
    if used + more <= target.smem_bytes_per_cta:
        return f"one less than {stages + 1}: so the CTAs of the next kernel fit beside those of this one"
    next_one = "3rd" if stages == 2 else f"{stages + 1}th"
    return (
        f"shared memory holds {stages} beside the epilogue's scratch; a {next_one} needs {more:,} bytes and "
        f"{target.smem_bytes_per_cta - used:,} are left"
    )


def _without(schedule: Schedule, problem: Problem) -> dict[str, str]:
    is_direct = schedule.epilogue.path is StorePath.direct
    rows = "rows of 16-byte stores need shared memory in between"
    found = {**_WITHOUT, "epilogue.path": "each thread holds 16 bytes of a row" if is_direct else rows}
    if schedule.mainloop.prologue is RepeatKind.once:
        found["grid.order"] = "a CTA's tiles are neighbours along N, so that its rows of A come from L2"
    if schedule.grid.scheduler is not SchedulerKind.one_shot:
        found["grid.scheduler"] = "each CTA computes several tiles"
    if runs_ahead(schedule):
        found["epilogue.tile"] = "small, since the ring that stays filled needs the shared memory"
    for name in "ab":
        if keeps_transposed(name, schedule):
            is_staged = schedule.mainloop.operand(name).copy in STAGED_COPIES
            wide = "wide loads along K; elements are transposed by way of registers"
            found[f"mainloop.{name}.copy"] = wide if is_staged else "one element at a time, to transpose"
            found[f"mainloop.{name}.stage"] = "K is contiguous in global memory, but a thread loads neighbours at one k"
            found[f"mainloop.{name}.padding"] = "the rows of 8 k begin in different banks"
            found[f"mainloop.{name}.swizzle"] = "padding takes its place"
    if schedule.is_direct:
        found["mainloop.agents.single.instances"] = "every warp loads and multiplies its own fragments"
    else:
        ring = f"{ring_bytes(schedule, problem)} bytes of ring"
        found["mainloop.stages"] = f"deep enough to cover the latency of global memory; {ring}"
    found |= _BY_FMA if schedule.multiply.atom == FMA else _by_mma_sync(schedule, problem)
    is_low = not problem.weights and schedule.tile_mnk[0] == few_rows.ROWS
    return {**found, **(OF_FEW_ROWS if is_low else {})}


def _by_mma_sync(schedule: Schedule, problem: Problem) -> dict[str, str]:
    assert schedule.multiply.permutation is not None
    *rows, depth = schedule.multiply.permutation
    found: dict[str, str] = {}
    if any(isinstance(entry, Layout) for entry in rows):
        fastest = "the fastest mma.sync for these types; of equals the one with the shortest K, for pairs of rows"
        found |= {
            "multiply.atom": fastest,
            "multiply.permutation": "neighbouring rows go to one thread, for wider loads",
        }
    elif isinstance(depth, Layout):
        found["multiply.permutation"] = "a thread's elements are neighbours along K, for wider loads"
    if problem.group:
        found["multiply.promote"] = "each group of K has its own scale"
    if schedule.is_direct:
        found["multiply.fragment_buffers"] = "loads of global memory take too long to hide behind one k-slice"
    elif schedule.multiply.fragment_buffers == 2:
        found["multiply.fragment_buffers"] = "the next k-slice loads while this one is multiplied"
    return found


def _why_rows(schedule: Schedule, problem: Problem) -> str:
    """Why the epilogue computes on rows that have been through shared memory."""
    if warps_along_k(schedule) > 1:
        return "the sums of the warps along K are added in whole rows"
    if OperandKind.full in problem.kinds:
        return "full operands are read in whole rows"
    converted = [each for each in problem.stored if element_type(each).is_converted_to]
    if not converted:
        return f"results of {' and '.join(dict.fromkeys(problem.stored))} leave one scratch as sums, in whole rows"
    return f"elements are converted to {converted[0]} in whole rows, just before they are stored"
