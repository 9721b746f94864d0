"""Runs a compiled kernel on the GPU at hand, without an array library, for `lowtide run`.

D is filled with NaN between guard bytes, so an unwritten element, or a store past the edge, is found.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lowtide import runtime
from lowtide.compiler.epilogue.results import Result
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type
from lowtide.errors import DeviceError, before_code
from lowtide.runtime import driver
from lowtide.runtime.host_arrays import GUARD_BYTES, HostArray, check_written, host_array
from lowtide.runtime.lists import is_list, list_at, rows_of_batch
from lowtide.runtime.results import returned
from lowtide.runtime.row_indices import drawn_rows_of_d
from lowtide.verification.checking.interpretation import extents_of, matrices_of
from lowtide.verification.checking.parts import written_rows

_ROW_ALIGNMENT = 16
_TIMED_SECONDS = 0.2
_MOST_LAUNCHES = 200


@dataclass(frozen=True)
class GpuRun:
    """D, or full results by name, in float64, as stored; a complaint about elements not written, or bytes written
    beside D ("" for none); and the mean seconds per launch, over `launches` launches: 0 if they are not timed."""

    d: Any
    complaint: str
    seconds: float
    launches: int


def run_on_gpu(
    kernel: CompiledKernel | runtime.Kernel,
    spec: GemmSpec,
    inputs: Mapping[str, Any],
    device: int = 0,
    *,
    is_timed: bool = True,
) -> GpuRun:
    """Launch on inputs of `random_inputs`, copy D back, and copy other results to their arrays among the inputs. Then
    time more launches of the same, unless `is_timed` is False.

    Raises LoadError for a kernel of another architecture, LaunchError, DeviceError.
    """
    loaded = runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin)
    context = loaded.module_for(device).context
    m, n = extents_of(spec, inputs)
    shape = (*matrices_of(spec, inputs), *((m, n) if spec.d_order == "row" else (n, m)))
    shape = (drawn_rows_of_d(m), n) if spec.d_rows else shape
    shapes = {x.name: _shape_of(x, (m, n), shape) for x in spec.returned_results}
    stored = {
        x.name: host_array(shapes[x.name], x.dtype, _ROW_ALIGNMENT if x.kind.reduction is None else 1, None, padding=1)
        for x in spec.returned_results
    }
    with driver.active(context), _Buffers(device) as buffers:
        operands = {
            name: value if not isinstance(value, np.ndarray) else buffers.upload(value, _dtype(spec, name))
            for name, value in inputs.items()
        }
        addresses = {name: buffers.allocate(d.stored.nbytes) for name, d in stored.items()}
        out = {}
        for name, d in stored.items():
            buffers.copy_in(addresses[name], d.stored)
            out[name] = runtime.Operand(addresses[name] + GUARD_BYTES, shapes[name], d.strides, d.dtype, device)
        for argument in filter(is_list, kernel.manifest["arguments"]):
            given, name = out if argument["role"] == "output" else operands, argument["name"]
            rows = rows_of_batch(given[name])
            table = buffers.allocate(rows.nbytes)
            buffers.copy_in(table, rows)
            given[name] = list_at(given[name], table)
        launch = loaded.bind(stream=0, out=returned(out), **operands)
        launch()
        _synchronize()
        for name, d in stored.items():
            buffers.copy_out(d.stored, addresses[name])
        for name in {*inputs} & {result.name for result in spec.results}:
            buffers.copy_out(inputs[name], operands[name].address)
        seconds, launches = _timed(launch) if is_timed else (0.0, 0)
    complaints = (_complaint(spec, inputs, x, stored[x.name]) for x in spec.returned_results)
    found = {name: d.values() for name, d in stored.items()}
    return GpuRun(returned(found), next(filter(None, complaints), ""), seconds, launches)


def _complaint(spec: GemmSpec, inputs: Mapping[str, Any], result: Result, array: HostArray) -> str:
    """What is wrong with the written bytes of a result, or "". A reduction of rows has an element for each row of the
    product; elements of rows in no group are not written."""
    if (reduction := result.kind.reduction) is None:
        rows = written_rows(spec, inputs, array.shape[spec.row_axis - 2])
        return check_written(array, None if rows is None else spec.in_rows(rows[..., None]))
    if reduction.axis != "row" or spec.is_batched:
        return check_written(array)
    return check_written(array, written_rows(replace(spec, d_rows=False), inputs, array.shape[0]))


def _shape_of(result: Result, extents: tuple[int, int], whole: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a result's array. `whole`: the shape of a full result."""
    if (reduction := result.kind.reduction) is None:
        return whole
    batch = whole[:-2]
    return {"m": (*batch, extents[0]), "n": (*batch, extents[1])}.get(reduction.dims, (1,))


def _dtype(spec: GemmSpec, name: str) -> str:
    """The element type of an operand as it lies in memory: packed weights are bytes."""
    named = {"a": spec.a, "b": spec.stored_b, **{operand.name: operand.dtype for operand in spec.operands}}
    return (named | {result.name: result.dtype for result in spec.results})[name]


def _synchronize() -> None:
    driver.check(driver.api().cuCtxSynchronize(), "running the kernel")


def _timed(launch: Callable[[], Any]) -> tuple[float, int]:
    """Mean seconds per launch, and the number of timed launches, by events around all. One launch gives an estimate."""
    cuda = driver.api()
    stream = cuda.CUstream(0)
    flags = cuda.CUevent_flags.CU_EVENT_DEFAULT.value
    start, end = (driver.check(cuda.cuEventCreate(flags), "creating an event") for _ in range(2))
    try:

        def mean(launches: int) -> float:
            driver.check(cuda.cuEventRecord(start, stream), "recording an event")
            for _ in range(launches):
                launch()
            driver.check(cuda.cuEventRecord(end, stream), "recording an event")
            driver.check(cuda.cuEventSynchronize(end), "waiting for the kernel")
            milliseconds = float(driver.check(cuda.cuEventElapsedTime(start, end), "reading the time"))
            return max(milliseconds, 1e-3) / 1000 / launches

        first = mean(1)
        launches = max(1, min(_MOST_LAUNCHES, int(_TIMED_SECONDS / max(first, 1e-6))))
        return mean(launches), launches
    finally:
        for event in (start, end):
            cuda.cuEventDestroy(event)


class _Buffers(ExitStack):
    """GPU memory, freed on exit."""

    def __init__(self, device: int) -> None:
        super().__init__()
        self.device = device

    def allocate(self, size: int) -> int:
        """The address of `size` bytes. Raises DeviceError if the GPU has too few."""
        try:
            address = driver.check(driver.api().cuMemAlloc(size), f"allocating {size} bytes on the GPU")
        except DeviceError as error:
            raise DeviceError(before_code(str(error), "; take a smaller problem")) from None
        self.callback(driver.api().cuMemFree, address)  # a failure there only follows from a reported one
        return int(address)

    def upload(self, array: np.ndarray[Any, Any], dtype: str) -> runtime.Operand:
        """An array, with its row padding, as an operand in GPU memory."""
        item = element_type(dtype).bytes
        row = array.strides[-2] // item if array.ndim > 1 else array.shape[0]
        # The view of a padded matrix ends with its last row's padding, because `padded_matrix` cut it from whole rows.
        # The bytes alone count: numpy makes no strided views of 8-bit floats.
        whole = as_strided(array.view(f"u{item}"), (*array.shape[:-1], row), array.strides)
        address = self.allocate(whole.nbytes)
        self.copy_in(address, whole)
        strides = tuple(stride // item for stride in array.strides)
        return runtime.Operand(address, array.shape, strides, dtype, self.device)

    def copy_in(self, address: int, array: np.ndarray[Any, Any]) -> None:
        driver.check(driver.api().cuMemcpyHtoD(address, array.ctypes.data, array.nbytes), "copying to the GPU")

    def copy_out(self, array: np.ndarray[Any, Any], address: int) -> None:
        driver.check(driver.api().cuMemcpyDtoH(array.ctypes.data, address, array.nbytes), "copying from the GPU")
