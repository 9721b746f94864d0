"""A launch in two steps: the first depends on the operands' signature, the second on addresses and scalars.

A `LaunchPlan` is made once for each (context, shapes, strides, dtypes, device, alignment of operands that may be
packed), a `PreparedLaunch` once for each set of base addresses and run-time scalars under it. A call then adds only the
stream. The arguments of a prepared launch are immutable, so threads can share it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, TypeAlias

from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.runtime import driver
from lowtide.runtime.argument_block import ArgumentBlock, ArgumentLayout
from lowtide.runtime.checks import MatrixView, address_error, base_alignment, overlap_error
from lowtide.runtime.host_program import HostProgram
from lowtide.runtime.kinds import KINDS, is_full_operand, output_of
from lowtide.runtime.launch_config import launch_config
from lowtide.runtime.launch_shape import LaunchShape
from lowtide.runtime.module import LoadedModule
from lowtide.runtime.operands import Operand
from lowtide.runtime.tensor_map_encoder import TensorMapEncoder
from lowtide.runtime.tensor_maps import TensorMap
from lowtide.runtime.workspaces import Buffer, Need, Place, Workspaces, given_addresses, zero

_MOST_STREAMS = 64
Views: TypeAlias = dict[str, MatrixView]


@dataclass(frozen=True)
class Apart:
    """An output and another argument that must not overlap, by number, and the bytes that each spans. `may_be`: whether
    the output, D, may be the other one. `rows`: the bytes between the rows of both, and in a row of each; None if their
    rows, or those of another kind of argument, are not equally far apart. `two`: if the other one is two matrices, the
    bytes between them, and in each; outputs may lie between them."""

    output: int
    size: int
    other: int
    span: int
    may_be: bool
    rows: tuple[int, int, int] | None
    two: tuple[int, int] | None = None

    def overlaps(self, start: int, address: int) -> bool:
        """Whether they overlap at these base addresses of the output and the other."""
        if address >= start + self.size or start >= address + self.span or (address == start and self.may_be):
            return False
        if self.two is not None:
            distance, size = self.two
            return any(start < at + size and at < start + self.size for at in (address, address + distance))
        if self.rows is None:
            return True
        stride, own, its = self.rows
        ahead = (address - start) % stride
        return ahead < own or ahead + its > stride


@dataclass(frozen=True)
class LaunchPlan:
    """The parts of calls that a signature determines."""

    name: str
    arguments: tuple[dict[str, Any], ...]
    program: HostProgram
    module: LoadedModule
    kept: tuple[Any, ...]  # the results of `program.early` for `program.late`
    shapes: tuple[LaunchShape, ...]  # of launches with CTAs, as are grids, layouts and functions
    grids: tuple[tuple[int, int, int], ...]
    rows: Callable[[Sequence[Any]], tuple[Any, ...]]  # the arguments of those launches, from `program.late`
    aligned: tuple[tuple[int, int], ...]  # (argument, mask of the bits that its base address must not have)
    spans: tuple[tuple[int, int], ...]  # (argument, bytes)
    apart: tuple[Apart, ...]
    current_stream: Callable[[], int] | None  # of the operands' library
    encoder: TensorMapEncoder
    needs: tuple[Need, ...]  # the workspaces
    has_workspaces: bool  # whether any workspace has elements
    workspaces: Workspaces
    place: Place  # of the workspaces
    layouts: tuple[ArgumentLayout, ...]
    functions: tuple[Any, ...]
    configs: dict[int, tuple[Any, ...]]  # the CUlaunchConfigs by stream: making them costs more than the launches
    home: Any  # the module's context, in the form in which the driver gives the current one
    launch: Callable[..., tuple[Any, ...]]  # cuLaunchKernelEx

    def check_addresses(self, calls: Sequence[Any]) -> None:
        """Check `calls`: each argument's base address or scalar. Raises LaunchError."""
        for index, mask in self.aligned:
            address = calls[index]
            if address & mask or not address:
                raise address_error(self.arguments[index], address)
        for pair in self.apart:
            if pair.overlaps(calls[pair.output], calls[pair.other]):
                own, other = (self.arguments[number] for number in (pair.output, pair.other))
                raise overlap_error(own, other, in_order=_are_in_order(self.arguments))

    def prepare(self, calls: Sequence[Any], workspace: Operand | None = None) -> PreparedLaunch | WorkspaceLaunch:
        """Check the addresses and write the arguments; `workspace` is the caller's. Raises LaunchError, also if an
        assertion of the kernel fails or TMA cannot read an operand."""
        self.check_addresses(calls)
        blocks = self.fill(calls, self.program.placeholders)
        if not self.has_workspaces:
            return PreparedLaunch(self, blocks)
        given = None
        if workspace is not None:
            given = given_addresses(self.name, workspace, self.needs, self.place.ordinal)
            self.check_apart(calls, given)
        return WorkspaceLaunch(self, tuple(calls), given)

    def fill(self, calls: Sequence[Any], workspaces: Sequence[int]) -> list[ArgumentBlock]:
        """The arguments of each launch. Raises LaunchError."""
        rows = self.rows(self.program.late(self.kept, [*calls, *workspaces] if workspaces else calls))
        return [layout.fill(values, self.encode) for layout, values in zip(self.layouts, rows, strict=True)]

    def check_apart(self, calls: Sequence[Any], workspaces: Sequence[int]) -> None:
        """Raises LaunchError if the caller's workspace overlaps an operand."""
        for index, span in self.spans:
            for start, need in zip(workspaces, self.needs, strict=True):
                if calls[index] < start + need.size and start < calls[index] + span:
                    name = self.arguments[index]["name"]
                    raise LaunchError(
                        f"kernel {self.name}: workspace= overlaps operand {name}; pass memory of its own"
                        " [workspace-overlaps]"
                    )

    def encode(self, tensor_map: TensorMap) -> bytes:
        """The 128 bytes of a tensor map, from the kernel's cache."""
        return self.encoder(tensor_map, self.module.context)

    def refusal(self, result: tuple[Any, ...], config: Any) -> LaunchError:
        """The error for a launch that the driver refuses."""
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        what = f"launching kernel {self.name} with grid {grid} of {block} threads"
        return LaunchError(f"{what} failed: {driver.describe(result[0])} [launch-failed]")

    def launches_in(self, stream: int, blocks: Sequence[ArgumentBlock]) -> tuple[Any, ...]:
        """For each launch, its CUlaunchConfig in `stream`, its function and the address of its arguments."""
        addresses = [block.address for block in blocks]
        return tuple(zip(self.configs_in(stream), self.functions, addresses, strict=True))

    def launch_all(self, launches: tuple[Any, ...]) -> None:
        """Launch in order. Raises LaunchError if the driver refuses."""
        launch = self.launch
        for config, function, arguments in launches:
            result = launch(config, function, arguments, 0)
            if result[0]:
                raise self.refusal(result, config)

    def configs_in(self, stream: int) -> tuple[Any, ...]:
        """The CUlaunchConfig of each launch, in `stream`."""
        found = self.configs.get(stream)
        if found is None:
            if len(self.configs) >= _MOST_STREAMS:
                self.configs.clear()
            shapes = zip(self.shapes, self.grids, strict=True)
            found = tuple(launch_config(grid, shape, stream) for shape, grid in shapes)
            self.configs[stream] = found
        return found


def make_plan(
    name: str,
    arguments: tuple[dict[str, Any], ...],
    program: HostProgram,
    module: LoadedModule,
    views: dict[str, MatrixView],
    current_stream: Callable[[], int] | None,
    encoder: TensorMapEncoder,
    workspaces: Workspaces,
    library: str,
) -> LaunchPlan:
    """Evaluate the address-free part of the host function. Raises LaunchError if one of its assertions fails."""
    kept, grids, counts = program.early(views, module.device.sm_count, module.clusters)
    spans = [(i, views[x["name"]].span) for i, x in enumerate(arguments) if x["name"] in views]
    output = output_of(arguments)
    launched = [i for i, grid in enumerate(grids) if grid[0]]
    shapes = tuple(program.launches[i] for i in launched)
    needs, cuda = program.needs(counts), driver.api()
    return LaunchPlan(
        name=name,
        arguments=arguments,
        program=program,
        module=module,
        kept=kept,
        shapes=shapes,
        grids=tuple(grids[i] for i in launched),
        rows=operator.itemgetter(slice(None)) if len(launched) == len(grids) else _some(launched),
        aligned=tuple((i, base_alignment(arguments[i]) - 1) for i, _ in spans),
        spans=tuple(spans),
        apart=tuple(
            _apart((i, size), (j, span), i == output, arguments, views)
            for (i, size), (j, span) in permutations(spans, 2)
            if arguments[i]["role"] == "output"
        ),
        current_stream=current_stream,
        encoder=encoder,
        needs=needs,
        has_workspaces=any(need.size for need in needs),
        workspaces=workspaces,
        place=Place(module.context, module.device.ordinal, library),
        layouts=tuple(ArgumentLayout(shape.types) for shape in shapes),
        functions=tuple(module.functions[shape.kernel] for shape in shapes),
        configs={},
        home=cuda.CUcontext(module.context),
        launch=cuda.cuLaunchKernelEx,
    )


def _apart(
    own: tuple[int, int], its: tuple[int, int], is_d: bool, arguments: tuple[dict[str, Any], ...], views: Views
) -> Apart:
    """The pair of an output and another argument, each with the bytes that it spans."""
    output, other = arguments[own[0]], arguments[its[0]]
    may_be = is_d and _are_in_order(arguments) and _lies_as(other, output, views)
    return Apart(*own, *its, may_be, _equal_rows(output, other, views), _of_two(other, views))


def _of_two(argument: dict[str, Any], views: Views) -> tuple[int, int] | None:
    """The bytes between the two matrices of an input, and in each; None for other arguments."""
    view, is_matrix = views[argument["name"]], (argument["role"], argument["kind"]) == ("input", "matrix")
    if not is_matrix or argument["shape"][:1] != [2] or len(argument["shape"]) <= KINDS["matrix"]:
        return None
    distance = view.batch_stride * element_type(argument["dtype"]).bytes
    return distance, view.span - distance


def _are_in_order(arguments: tuple[dict[str, Any], ...]) -> bool:
    """Whether the rows of D are those of the product; else they are stored at an index."""
    return all(x["kind"] != "d_rows" for x in arguments)


def _equal_rows(output: dict[str, Any], other: dict[str, Any], views: Views) -> tuple[int, int, int] | None:
    """The bytes between rows of two full outputs, and in a row of each, if rows of both, and matrices of a batch, are
    equally far apart: then they may be parts of the columns of one matrix."""
    if any((x["role"], x["kind"]) != ("output", "full") for x in (output, other)):
        return None
    sizes = [element_type(x["dtype"]).bytes for x in (output, other)]
    (own, strides), (_, its) = (
        (view, [stride * size for stride in view.strides])
        for view, size in zip((views[output["name"]], views[other["name"]]), sizes, strict=True)
    )
    if strides != its or any(stride % strides[-1] for stride in strides):
        return None
    return strides[-1], own.shape[-1] * sizes[0], own.shape[-1] * sizes[1]


def _lies_as(argument: dict[str, Any], output: dict[str, Any], views: dict[str, MatrixView]) -> bool:
    """Whether a full operand has the output's dtype, shape and strides.

    At the output's address it may be the output: the CTA that writes an element reads the operand's element before, and
    no other CTA does (docs/schedule.md, "D in place of an operand").
    """
    if not is_full_operand(argument) or argument["dtype"] != output["dtype"]:
        return False
    own, other = views[argument["name"]], views[output["name"]]
    strides = zip(own.shape, own.strides, other.strides, strict=False)  # without the stride of the last dimension, 1
    return own.shape == other.shape and all(extent == 1 or mine == its for extent, mine, its in strides)


def _some(numbers: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function that takes these entries of a sequence."""
    if len(numbers) > 1:
        return operator.itemgetter(*numbers)
    return lambda rows: tuple(rows[number] for number in numbers)


class PreparedLaunch:
    """A call without its stream. `follow` yields the current stream of the operands' library, if it has one."""

    __slots__ = ("_blocks", "_current", "_home", "_launch", "_plan", "_ready", "follow")

    def __init__(self, plan: LaunchPlan, blocks: list[ArgumentBlock]) -> None:
        self._plan = plan
        self._blocks = blocks
        self._home = plan.home
        self._launch = plan.launch
        self._current = driver.api().cuCtxGetCurrent
        self._ready: dict[int, tuple[Any, ...]] = {}
        self.follow: Any = plan.current_stream  # a function; None if the library has no current stream

    @property
    def context(self) -> int:
        """The context in which its code is loaded."""
        return self._plan.module.context

    def again(self) -> None:
        """Launch in the current stream of the operands' library. Raises as `run` does."""
        self.run(self.follow(), self._current()[1])

    def run(self, stream: int, context: Any) -> None:
        """Launch in order in `stream`; `context` is the current one. Raises LaunchError if the driver refuses."""
        ready = self._ready.get(stream)
        if ready is None:
            ready = self._make_ready(stream)
        if context != self._home:
            with driver.active(self._plan.module.context):
                self.run(stream, self._home)
            return
        launch = self._launch  # as `launch_all`, without the time of one more Python call
        for config, function, arguments in ready:
            result = launch(config, function, arguments, 0)
            if result[0]:
                raise self._plan.refusal(result, config)

    def _make_ready(self, stream: int) -> tuple[Any, ...]:
        if len(self._ready) >= _MOST_STREAMS:
            self._ready.clear()
        ready = self._ready[stream] = self._plan.launches_in(stream, self._blocks)
        return ready


class WorkspaceLaunch:
    """A `PreparedLaunch` of a kernel with workspaces, whose arguments differ in each stream."""

    __slots__ = ("_calls", "_current", "_given", "_plan", "_ready", "follow")

    def __init__(self, plan: LaunchPlan, calls: tuple[Any, ...], given: list[int] | None) -> None:
        self._plan = plan
        self._calls = calls
        self._given = given  # addresses in the caller's workspace
        self._current = driver.api().cuCtxGetCurrent
        #: by the stream and its id: the launches, and the argument blocks and buffers that they need
        self._ready: dict[tuple[int, int], tuple[tuple[Any, ...], list[ArgumentBlock], list[Buffer]]] = {}
        self.follow: Any = plan.current_stream

    @property
    def context(self) -> int:
        """The context in which its code is loaded."""
        return self._plan.module.context

    def again(self) -> None:
        """Launch in the current stream of the operands' library. Raises as `run` does."""
        self.run(self.follow(), self._current()[1])

    def run(self, stream: int, context: Any) -> None:
        """Launch in order in `stream`; `context` is the current one. Raises LaunchError if the driver refuses, or if
        workspaces cannot be allocated; then nothing is launched."""
        plan = self._plan
        if context != plan.home:
            with driver.active(plan.module.context):
                self.run(stream, plan.home)
            return
        if self._given is not None:
            zero(self._given, plan.needs, stream)
            self._launch(stream, plan.fill(self._calls, self._given))
            return
        slot = plan.workspaces.slot_of(stream)
        if slot is None:
            buffers = plan.workspaces.of_graph(plan.needs, stream, plan.place)
            self._launch(stream, plan.fill(self._calls, [buffer.address for buffer in buffers]))
            return
        ready = self._ready.get((stream, slot))
        if ready is None:
            if len(self._ready) >= _MOST_STREAMS:
                self._ready.clear()
            buffers = plan.workspaces.of_slot(plan.needs, slot, stream, plan.place)
            blocks = plan.fill(self._calls, [buffer.address for buffer in buffers])
            ready = self._ready[stream, slot] = plan.launches_in(stream, blocks), blocks, buffers
        plan.launch_all(ready[0])

    def _launch(self, stream: int, blocks: list[ArgumentBlock]) -> None:
        self._plan.launch_all(self._plan.launches_in(stream, blocks))


class NoLaunch:
    """Replaces a `PreparedLaunch` if D has no elements."""

    __slots__ = ()

    def follow(self) -> int:
        return 0

    def again(self) -> None:
        """Launch nothing."""

    def run(self, stream: int, context: Any) -> None:
        """Launch nothing: there is nothing to compute."""


class Launch:
    """A kernel bound to its operands. Each call, without arguments, launches it again and returns the output.

    It keeps the operands alive. Bound with stream=None, it uses the stream that is current in the operands' library at
    each call, so it can be captured in a graph.
    at each call, so it can be captured in a graph. The call returns the output.
    """

    __slots__ = ("_context", "_kept", "_run", "_stream", "out")

    def __init__(
        self, prepared: PreparedLaunch | WorkspaceLaunch | NoLaunch, stream: Callable[[], int], out: Any, kept: Any
    ) -> None:
        self.out = out
        self._run = prepared.run
        self._context = driver.api().cuCtxGetCurrent
        self._stream = stream
        self._kept = kept

    def __call__(self) -> Any:
        """Launch. Raises LaunchError if the driver refuses."""
        self._run(self._stream(), self._context()[1])
        return self.out
