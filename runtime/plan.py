"""A launch prepared for one signature of operands: everything but base addresses, run-time scalars and the stream.

`LaunchPlan` is made once for each (context, shapes, strides, dtypes, device); `Launch` fixes the rest too. Argument
blocks are packed by one `struct` call and handed to the driver as an array of pointers into the block. Tensor maps lie
behind the other arguments and are written only when they change.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.errors import LaunchError
from lowtide.runtime import driver
from lowtide.runtime.checks import MatrixView, address_error, overlap_error
from lowtide.runtime.dtypes import to_bits
from lowtide.runtime.host_program import HostProgram
from lowtide.runtime.module import LoadedModule
from lowtide.runtime.tensor_map_encoder import TENSOR_MAP_ALIGNMENT, TensorMapEncoder
from lowtide.runtime.tensor_maps import TENSOR_MAP, TENSOR_MAP_BYTES, TensorMap

_SLOT = 8  # bytes an argument takes in a block, tensor maps apart; the driver reads each at its own size
_MOST_STREAMS = 64
_PACKING = {"ptr": "Q", "i64": "q", "i32": "i4x", "f32": "f4x", "f64": "d", "f16": "e6x", "bf16": "H6x"}


class ArgumentBlock:
    """The memory of one launch's arguments, and the array of pointers that cuLaunchKernel takes."""

    def __init__(self, types: Sequence[str]) -> None:
        self.types = tuple(types)
        self._plain = [i for i, kind in enumerate(types) if kind != TENSOR_MAP]
        self._maps: dict[int, TensorMap | None] = {i: None for i, kind in enumerate(types) if kind == TENSOR_MAP}
        self._bf16 = [position for position, i in enumerate(self._plain) if types[i] == "bf16"]
        self._struct = struct.Struct("<" + "".join(_PACKING[types[i]] for i in self._plain))
        maps = -(-self._struct.size // TENSOR_MAP_ALIGNMENT) * TENSOR_MAP_ALIGNMENT
        size = maps + TENSOR_MAP_BYTES * len(self._maps)
        self.storage = (ctypes.c_char * (size + TENSOR_MAP_ALIGNMENT))()
        self._start = -ctypes.addressof(self.storage) % TENSOR_MAP_ALIGNMENT
        base = ctypes.addressof(self.storage) + self._start
        self._slots = [0] * len(types)
        for position, i in enumerate(self._plain):
            self._slots[i] = base + _SLOT * position
        for position, i in enumerate(self._maps):
            self._slots[i] = base + maps + TENSOR_MAP_BYTES * position
        self._pointers = (ctypes.c_void_p * max(1, len(types)))(*self._slots)
        self.address = ctypes.addressof(self._pointers)

    def pack(self, values: Sequence[Any], encode: Callable[[TensorMap], bytes]) -> None:
        """Write the values; `encode` gives the bytes of a tensor map. Raises LaunchError for one that its type cannot
        hold, and what `encode` raises."""
        if self._maps:
            for i, held in self._maps.items():
                if values[i] != held:
                    ctypes.memmove(self._slots[i], encode(values[i]), TENSOR_MAP_BYTES)
                    self._maps[i] = values[i]
            values = [values[i] for i in self._plain]
        try:
            if self._bf16:
                values = [_bf16_bits(x) if i in self._bf16 else x for i, x in enumerate(values)]
            self._struct.pack_into(self.storage, self._start, *values)
        except (struct.error, OverflowError) as error:
            kinds = [self.types[i] for i in self._plain]
            shown = ", ".join(f"{value}: {kind}" for value, kind in zip(values, kinds, strict=False))
            raise LaunchError(f"the launch arguments ({shown}) do not fit their types ({error})") from None


def _bf16_bits(value: float) -> int:
    bits = int(to_bits(np.float64(value), "bf16"))
    if bits & 0x7FFF == 0x7F80 and math.isfinite(value):
        raise OverflowError("float too large for bf16")
    return bits


class ClusterLaunch:
    """The configurations of a launch in clusters, one a stream: making one costs more than the launch."""

    def __init__(self, geometry: Sequence[int], cluster: tuple[int, int, int]) -> None:
        self._geometry = tuple(geometry)
        self._cluster = cluster
        self._configs: dict[int, Any] = {}

    def config(self, cuda: Any, stream: int) -> Any:
        """The CUlaunchConfig for `stream`."""
        found = self._configs.get(stream)
        if found is None:
            if len(self._configs) >= _MOST_STREAMS:
                self._configs.clear()
            found = self._configs[stream] = _cluster_config(cuda, self._geometry, self._cluster, stream)
        return found


#: (function, grid, block and dynamic shared memory in bytes, arguments, cluster)
PreparedLaunch = tuple[Any, tuple[int, ...], ArgumentBlock, "ClusterLaunch | None"]


@dataclass(frozen=True)
class LaunchPlan:
    """What stays the same from call to call of one signature."""

    name: str
    arguments: tuple[dict[str, Any], ...]
    program: HostProgram
    module: LoadedModule
    kept: tuple[Any, ...]  # what `program.early` keeps for `program.late`
    grids: tuple[tuple[int, int, int], ...]
    aligned: tuple[tuple[int, int], ...]  # (argument, mask that its base address must not meet)
    output: int  # the output argument
    output_span: int
    input_spans: tuple[tuple[int, int], ...]  # (argument, bytes)
    current_stream: Callable[[], int] | None  # of the operands' library
    encoder: TensorMapEncoder
    free: list[
        tuple[PreparedLaunch, ...]
    ]  # launches that no thread is filling: taken and returned by atomic list methods

    def check_addresses(self, calls: Sequence[Any]) -> None:
        """`calls` holds each argument's base address or scalar. Raises LaunchError."""
        for index, mask in self.aligned:
            address = calls[index]
            if address & mask or not address:
                raise address_error(self.arguments[index], address)
        start = calls[self.output]
        end = start + self.output_span
        for index, span in self.input_spans:
            address = calls[index]
            if address < end and start < address + span:
                raise overlap_error(self.arguments[self.output]["name"], self.arguments[index]["name"])

    def launch(self, calls: Sequence[Any], stream: int) -> None:
        """Check the addresses, pack the arguments and launch in `stream`."""
        self.check_addresses(calls)
        try:
            launches = self.free.pop()
        except IndexError:
            launches = self.prepare()
        self.fill(launches, calls)
        run_prepared(self.name, self.module.context, launches, stream)
        self.free.append(launches)

    def prepare(self) -> tuple[PreparedLaunch, ...]:
        """The launches with argument blocks of their own, not filled yet."""
        prepared: list[PreparedLaunch] = []
        for shape, grid in zip(self.program.launches, self.grids, strict=True):
            geometry = (*grid, *shape.block, shape.shared_memory)
            cluster = ClusterLaunch(geometry, shape.cluster) if shape.cluster else None
            prepared.append((self.module.functions[shape.kernel], geometry, ArgumentBlock(shape.types), cluster))
        return tuple(prepared)

    def fill(self, launches: tuple[PreparedLaunch, ...], calls: Sequence[Any]) -> None:
        """Write the arguments that follow from `calls`. Raises LaunchError when an assertion of the kernel fails, or
        TMA cannot read an operand."""
        for (_, _, block, _), values in zip(launches, self.program.late(self.kept, calls), strict=True):
            block.pack(values, self.encode)

    def encode(self, tensor_map: TensorMap) -> bytes:
        """The 128 bytes of a tensor map, from the kernel's cache."""
        return self.encoder(tensor_map, self.module.context)


def make_plan(
    name: str,
    arguments: tuple[dict[str, Any], ...],
    program: HostProgram,
    module: LoadedModule,
    views: dict[str, MatrixView],
    current_stream: Callable[[], int] | None,
    encoder: TensorMapEncoder,
) -> LaunchPlan:
    """Evaluate the address-free part of the host function. Raises LaunchError when one of its assertions fails."""
    kept, grids = program.early(views, module.device.sm_count)
    spans = [(i, views[x["name"]].span) for i, x in enumerate(arguments) if x["name"] in views]
    output = next(i for i, x in enumerate(arguments) if x["role"] == "output")
    return LaunchPlan(
        name=name,
        arguments=arguments,
        program=program,
        module=module,
        kept=kept,
        grids=grids,
        aligned=tuple((i, arguments[i].get("base_alignment", 1) - 1) for i, _ in spans),
        output=output,
        output_span=dict(spans)[output],
        input_spans=tuple((i, span) for i, span in spans if i != output),
        current_stream=current_stream,
        encoder=encoder,
        free=[],
    )


def run_prepared(name: str, context: int, launches: Sequence[PreparedLaunch], stream: int) -> None:
    """Launch in order in `stream`, from `context`. Raises LaunchError when the driver refuses."""
    cuda = driver.api()
    if int(cuda.cuCtxGetCurrent()[1]) != context:
        with driver.active(context):
            _launch_all(cuda, name, launches, stream)
    else:
        _launch_all(cuda, name, launches, stream)


def _launch_all(cuda: Any, name: str, launches: Sequence[PreparedLaunch], stream: int) -> None:
    for function, geometry, block, cluster in launches:
        if cluster is None:
            result = cuda.cuLaunchKernel(function, *geometry, stream, block.address, 0)
        else:
            result = cuda.cuLaunchKernelEx(cluster.config(cuda, stream), function, block.address, 0)
        if result[0]:
            driver.check(
                result, f"launching kernel {name} with grid {geometry[:3]} of {geometry[3:6]} threads", LaunchError
            )


def _cluster_config(cuda: Any, geometry: Sequence[int], cluster: Sequence[int], stream: int) -> Any:
    attribute = cuda.CUlaunchAttribute()
    attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = geometry[:3]
    config.blockDimX, config.blockDimY, config.blockDimZ = geometry[3:6]
    config.sharedMemBytes = geometry[6]
    config.hStream = cuda.CUstream(stream)
    config.attrs, config.numAttrs = [attribute], 1
    return config


class Launch:
    """A kernel bound to its operands: call it, with no arguments, as often as wanted; each call launches again.

    It keeps the operands alive. Bound with stream=None, it goes to the stream that is current in the operands' library
    at each call, so it can be captured in a graph. The call returns the output.
    """

    __slots__ = ("_context", "_kept", "_launches", "_name", "_stream", "out")

    def __init__(self, plan: LaunchPlan, calls: Sequence[Any], stream: Callable[[], int], out: Any, kept: Any) -> None:
        plan.check_addresses(calls)
        self._launches = plan.prepare()
        plan.fill(self._launches, calls)
        self.out = out
        self._name = plan.name
        self._context = plan.module.context
        self._stream = stream
        self._kept = kept

    def __call__(self) -> Any:
        """Launch. Raises LaunchError when the driver refuses."""
        run_prepared(self._name, self._context, self._launches, self._stream())
        return self.out
