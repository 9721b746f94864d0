"""stamp-agents: record when each agent begins and ends what it does, in a buffer of its own.

Before   host    func.func @gemm(…) attributes {tile.stamps}; tile.launch @gemm_kernel … args(…)
         device  the code of each agent for a work tile: … loads or products … the rest
After    host    %stamps = tile.workspace …; tile.launch @gemm_kernel … args(…, address of %stamps)
         device  stamp 0 at the start of a tile, 1 before its first load or product, 2 after the last one, 3 at its end.
                 A stamp is the pair (%clock, %globaltimer_lo), which the first thread of the agent stores.
         The buffer is [CTA][agent][tile][9] of i32: four stamps, and the number of the SM (%smid). Agent 0 is the
         producer; then come the instances of the consumer. Without a producer there is one agent. If CTAs are
         persistent, their first 64 tiles are recorded. A tile is a work item: half a tile of a tail in halves, or a
         part of a divided K, counts as one.
         Nothing else reads or writes the buffer. Without the attribute the pass changes nothing.
Needs    level nvvm, after all passes that move code.
Refuses  a kernel with neither wgmma nor mma.sync; a loop over tiles that does not count them.
Test     test/lit/passes/nvvm/stamp-agents.mlir, stamp-agents-invalid.mlir
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeAlias

from mlir import ir
from mlir.dialects import arith, func, gpu, llvm, memref, nvvm, scf

from lowtide.dialects import tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import SchedulerKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.passes.support.problem.kernels import launches_of, relaunch
from lowtide.targets import Target

STAMPS_ATTRIBUTE = "tile.stamps"
STAMPS, WORDS = 4, 2  # of a tile of an agent; of a stamp
_RECORD = STAMPS * WORDS + 1  # words of a tile: its stamps and its SM
_MOST_TILES = 64  # of a persistent CTA
_WORD_BYTES, _GLOBAL, _WARP = 4, 1, 32

_LOADS = ("nvvm.cp.async.bulk.tensor.shared.cluster.global", "nvvm.cp.async.shared.global")
_PRODUCTS = ("nvvm.wgmma.", "sm.ptx_wgmma", "nvvm.mma.sync", "llvm.nvvm.mma.")
_WAITS = ("nvvm.griddepcontrol", "nvvm.mbarrier.try_wait")

Time: TypeAlias = tuple[ir.Value, ir.Value]


@dataclass(frozen=True)
class StampLayout:
    """The extents of the buffer of stamps, except the number of CTAs. `first` is the first thread that multiplies, and
    `threads` those of an instance."""

    agents: tuple[str, ...]
    tiles: int
    first: int
    threads: int

    @classmethod
    def of(cls, schedule: Schedule, cta_threads: int) -> "StampLayout":
        tiles = 1 if schedule.grid.scheduler in (None, SchedulerKind.one_shot) else _MOST_TILES
        agents = schedule.agents
        if not agents.has_producer:
            return cls(("warps",), tiles, 0, cta_threads)
        turns, threads = agents.consumer.turns, _WARP * (agents.consumer.warps or 0)
        consumers = ("consumer",) if turns == 1 else tuple(f"consumer {number}" for number in range(turns))
        return cls(("producer", *consumers), tiles, cta_threads - turns * threads, threads)

    @property
    def words(self) -> int:
        """32-bit words of one CTA."""
        return len(self.agents) * self.tiles * _RECORD


@dataclass(frozen=True)
class StampAgents(Pass):
    """Adds stamps to the kernels of host functions that have `tile.stamps`."""

    name: ClassVar[str] = "stamp-agents"
    needs: ClassVar[Level] = Level.NVVM
    gives: ClassVar[Level] = Level.NVVM

    def run(self, module: ir.Module, target: Target) -> bool:
        if not any(STAMPS_ATTRIBUTE in function.attributes for function in walk(module, func.FuncOp)):
            return False
        for kernel in walk(module, gpu.GPUFuncOp):
            if "schedule" in kernel.attributes:
                schedule = Schedule.of(kernel.attributes["schedule"])
                launches = launches_of(module, kernel)
                layout = StampLayout.of(schedule, launches[0].threads.value)
                for launch in launches:
                    _pass_buffer(launch, layout)
                _Stamper(kernel, schedule, layout).run()
        return True


def _pass_buffer(launch: tile.LaunchOp, layout: StampLayout) -> None:
    """A workspace for the stamps of all CTAs, whose address is the last argument."""
    build = Builder.index()
    with ir.InsertionPoint(launch), launch.operation.location:
        type_ = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(32))
        buffer = tile.WorkspaceOp(type_, build.mul(launch.grid, layout.words)).result
        address = memref.extract_aligned_pointer_as_index(buffer)
    relaunch(launch, [*launch.args, address])


@dataclass(frozen=True)
class _Tiles:
    """The code of work tiles. `number` makes the number of the tile among those of its agent; None if there is one."""

    body: ir.Block
    number: Callable[[], ir.Value] | None


@dataclass(frozen=True)
class _Loop:
    """A loop over tiles, whose `number` goes from `first` by `step` to `end`. `end` is None if another condition ends
    the loop."""

    body: ir.Block
    number: ir.Value
    first: ir.Value
    step: ir.Value
    end: ir.Value | None = None


class _Stamper:
    """Writes the stamps of one kernel."""

    def __init__(self, kernel: gpu.GPUFuncOp, schedule: Schedule, layout: StampLayout) -> None:
        self.kernel, self.schedule, self.layout = kernel, schedule, layout
        self.entry = kernel.operation.regions[0].blocks[0]
        self.build = Builder(ir.IntegerType.get_signless(32))

    def run(self) -> None:
        with self.kernel.operation.location:
            self.buffer = self.entry.add_argument(llvm.PointerType.get(_GLOBAL), ir.Location.current)
            types = [argument.type for argument in self.entry.arguments]
            self.kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
            for names in (*((_LOADS,) if self.schedule.agents.has_producer else ()), _PRODUCTS):
                for tiles in list(self._tiles(names)):
                    self._stamp(tiles, names)

    def _tiles(self, names: tuple[str, ...]) -> Iterator["_Tiles"]:
        """The code of the work tiles of an agent with ops of these `names`: in a persistent kernel, the bodies of the
        outermost loops that contain such ops; in another kernel, the block outside of loops that contains them."""
        block, inside = self.entry, self._inside(self.entry, names)
        is_persistent = self.schedule.grid.scheduler not in (None, SchedulerKind.one_shot)
        while len(inside) == 1 and isinstance(inside[0], scf.IfOp):
            block = next(branch for branch in _branches(inside[0]) if any(_has(op, names) for op in branch.operations))
            inside = self._inside(block, names)
        if not is_persistent or not isinstance(inside[0], (scf.ForOp, scf.WhileOp)):
            yield _Tiles(block, None)
            return
        before: list[_Loop] = []
        for op in inside:
            loop = self._loop(op, is_last=op is inside[-1])
            yield _Tiles(loop.body, partial(self._number, loop, tuple(before)))
            before.append(loop)

    def _inside(self, block: ir.Block, names: tuple[str, ...]) -> list[ir.OpView]:
        found = [op for op in block.operations if _has(op, names)]
        if not found:
            raise Refusal(
                self.kernel,
                "has no wgmma and no mma.sync for stamps to enclose; compile without stamps [stamps-products]",
            )
        return found

    def _loop(self, op: ir.OpView, *, is_last: bool) -> "_Loop":
        """A loop over tiles. If their number is known only in the loop, as with groups, the loop carries the number of
        the tile as its first value, and no loop may follow."""
        if isinstance(op, scf.ForOp):
            return _Loop(op.body, op.induction_variable, op.lowerBound, op.step, op.upperBound)
        if isinstance(op, scf.WhileOp) and is_last:
            (body,) = op.after.blocks
            carried = list(list(body.operations)[-1].operands)
            following = defining_op(carried[0]) if carried else None
            if isinstance(following, arith.AddIOp) and following.lhs == body.arguments[0]:
                return _Loop(body, following.lhs, op.inits[0], following.rhs)
        raise Refusal(op, "is a loop over tiles that does not count them; compile without stamps [stamps-loop]")

    def _number(self, loop: "_Loop", before: tuple["_Loop", ...]) -> ir.Value:
        """The number of a tile among those of its agent, after the tiles of the loops `before`."""
        build = self.build
        number = build.udiv(build.sub(loop.number, loop.first), loop.step)
        for other in before:
            assert other.end is not None
            steps = build.udiv(build.sub(build.add(build.sub(other.end, other.first), other.step), 1), other.step)
            number = build.add(number, build.select(build.ult(other.first, other.end), steps, 0))
        return number

    def _stamp(self, tiles: "_Tiles", names: tuple[str, ...]) -> None:
        """Read the times at their places in the code. The first two are stored only where the agent may write to global
        memory: after a wait for earlier kernels, or for data that were loaded after such a wait."""
        ops = list(tiles.body.operations)
        inside = [number for number, op in enumerate(ops) if _has(op, names)]
        start = next(number for number, op in enumerate(ops) if not _comes_first(op))
        places = (start, inside[0], inside[-1] + 1, len(ops) - 1)
        times = [self._read(ops[place]) for place in places]
        has_waited = any(_has(op, _WAITS) for op in ops[: inside[0]])
        stores = ((1, (0, 1)), (2, (2,)), (3, (3,))) if has_waited else ((2, (0, 1, 2)), (3, (3,)))
        for where, numbers in stores:
            with ir.InsertionPoint(ops[places[where]]), ops[places[where]].operation.location:
                self._write(
                    {number: times[number] for number in numbers},
                    None if tiles.number is None else tiles.number(),
                    is_producer=names is _LOADS,
                )

    def _read(self, op: ir.OpView) -> Time:
        with ir.InsertionPoint(op), op.operation.location:
            return nvvm.ClockOp(self.build.i32).result, nvvm.GlobalTimerLoOp(self.build.i32).result

    def _write(self, times: Mapping[int, Time], number: ir.Value | None, *, is_producer: bool) -> None:
        """Stores of stamps by the first thread of the agent. `number` is that of the tile, None for the first."""
        build, layout = self.build, self.layout
        thread = nvvm.ThreadIdXOp(build.i32).result
        own = thread if is_producer else build.sub(thread, layout.first)
        first_thread = build.eq(own if is_producer else build.urem(own, layout.threads), 0)
        writes = first_thread if number is None else build.and_(first_thread, build.ult(number, layout.tiles))
        block = scf.IfOp(writes).then_block
        with ir.InsertionPoint(block):
            agent = 0 if is_producer else build.add(build.udiv(own, layout.threads), len(layout.agents) > 1)
            row = build.add(build.mul(nvvm.BlockIdXOp(build.i32).result, len(layout.agents)), agent)
            first = build.mul(build.add(build.mul(row, layout.tiles), 0 if number is None else number), _RECORD)
            words = {number * WORDS + word: value for number, time in times.items() for word, value in enumerate(time)}
            words |= {STAMPS * WORDS: nvvm.SmIdOp(build.i32).result} if 0 in times else {}
            for word, value in words.items():
                pointer = element_pointer(self.buffer, build.add(first, word), build.i32)
                llvm.StoreOp(value, pointer, alignment=_WORD_BYTES)
            scf.YieldOp([])


def _comes_first(op: ir.OpView) -> bool:
    """Whether an op has no effect and takes no time."""
    return op.operation.name in ("arith.constant", "llvm.mlir.addressof", "llvm.mlir.zero")


def _branches(op: ir.OpView) -> Iterator[ir.Block]:
    for region in op.operation.regions:
        yield from region.blocks


def _has(op: ir.OpView, names: tuple[str, ...]) -> bool:
    """Whether an op is one of `names`, or calls an intrinsic of them, or contains one."""
    called = ir.StringAttr(op.operation.attributes["intrin"]).value if isinstance(op, llvm.CallIntrinsicOp) else ""
    if op.operation.name.startswith(names) or called.startswith(names):
        return True
    return any(_has(inner, names) for block in _branches(op) for inner in block.operations)
