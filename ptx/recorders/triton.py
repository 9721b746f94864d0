"""Records launches of Triton kernels, or converts one to arguments of `lt.ptx`.

with lt.ptx.record_triton("kernels"):
    add[grid](x, y, out, n, BLOCK=1024)
"""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError
from lowtide.interpreter.ptx.syntax import Entry, Variable
from lowtide.interpreter.ptx.table import bits_of
from lowtide.launches import Array, Launch, Parameter, Pointer
from lowtide.ptx.arguments import Bytes, Scratch, TensorMap, Unwritten
from lowtide.ptx.recorders.launch import Folders, RecordOptions, Seen, entry_of, extra_regions
from lowtide.ptx.recorders.memory import Memory, Region
from lowtide.ptx.recorders.tensor_maps import Encoded
from lowtide.ptx.recorders.tensors import address_of, region_of
from lowtide.ptx.recorders.triton_arguments import MAP, SCRATCH, Argument, arguments_of, check_specialization

_BEFORE_ARGUMENTS = 9  # of CompiledKernel.run: grid (3), stream, function, metadata (2), hooks (2)


@contextlib.contextmanager
def record_triton(folder: str | Path, **options: Any) -> Iterator[list[Path]]:
    """Record launches of Triton kernels in a block of code. Yields the list of written folders.

    The first launch of a kernel is written to FOLDER/NAME, the second to FOLDER/NAME-2, and so on. `lowtide ptx check`
    takes such a folder. `options` are the fields of `RecordOptions`. Only one thread may launch kernels in the block.

    Raises LaunchError if the block launches no kernel, or if a launch cannot be recorded; that kernel is not launched.
    """
    folders = Folders(folder, RecordOptions(**options))
    compiled_kernel = importlib.import_module("triton.compiler").CompiledKernel
    own, access = "__getattribute__" in vars(compiled_kernel), compiled_kernel.__getattribute__

    def recording(compiled: Any, name: str) -> Any:
        """An attribute of a compiled kernel. `run` is Triton's launcher (a property; an attribute in Triton 3.4)."""
        found = access(compiled, name)
        return partial(_run, compiled, found, folders) if name == "run" else found

    compiled_kernel.__getattribute__ = recording
    try:
        yield folders.written
    finally:
        if own:
            compiled_kernel.__getattribute__ = access
        else:
            del compiled_kernel.__getattribute__
    folders.require_any()


def launch_of_triton(compiled: Any, grid: int | Sequence[int], args: Sequence[Any]) -> dict[str, Any]:
    """The launch of a kernel that `triton.compile` returned, as keyword arguments of `lt.ptx.Kernel.check`, `run` and
    `record`. Needs no GPU.

    `grid`: one to three numbers of programs. `args`: the arguments of the Python function, in order. Pointers and
    tensor descriptors are numpy arrays. An argument of type constexpr is compiled in, and may be None here. Raises
    LaunchError for arguments that do not fit.
    """
    if not hasattr(compiled, "asm"):
        raise LaunchError(
            f"{type(compiled).__name__} is no compiled kernel; pass what triton.compile returned [triton-compiled]"
        )
    sides = [grid] if isinstance(grid, int | np.integer) else grid
    if (
        not isinstance(sides, Sequence)
        or not all(isinstance(side, int | np.integer) for side in sides)
        or not 1 <= len(sides) <= 3
    ):
        raise LaunchError(f"grid = {grid!r:.60}: one to three whole numbers are expected, no function [triton-grid]")
    entry = entry_of(_text(compiled), compiled.name)
    launch = _launch(compiled, entry, sides)
    arguments = arguments_of(compiled, args, entry)
    check_specialization(compiled, args)
    found = {"grid": launch.grid, "block": launch.block, "cluster": launch.cluster, "shared": launch.shared_bytes}
    pairs = zip(arguments, entry.parameters, strict=True)
    return {
        **found,
        "cooperative": launch.cooperative,
        "args": [_in_python(each, variable, math.prod(launch.grid)) for each, variable in pairs],
        "names": [each.name for each in arguments],
    }


def _in_python(argument: Argument, variable: Variable, ctas: int) -> Any:
    """An argument in the form that `lt.ptx` takes."""
    argument.check_value()
    if argument.type == MAP:
        descriptor, encoded = argument.value
        if isinstance(descriptor.base, Unwritten):
            return TensorMap(descriptor.base, encoded.box, encoded.span)
        dims = encoded.shape, (*encoded.strides, encoded.width)
        return TensorMap(np.lib.stride_tricks.as_strided(descriptor.base, *dims), encoded.box, encoded.span)
    if argument.type == SCRATCH:
        return Scratch(argument.value * ctas, argument.value) if argument.value else None
    if argument.is_pointer or bits_of(variable.type) == 8 * variable.size:
        return argument.value
    return Bytes(argument.scalar(variable.size))


def _run(compiled: Any, real: Callable[..., Any], folders: Folders, *arguments: Any) -> Any:
    """Launch with Triton's launcher, and record the launch if `folders` has a folder for it."""
    target = folders.next(compiled.name)
    if target is None:
        return real(*arguments)
    grid, given = arguments[:3], arguments[_BEFORE_ARGUMENTS:]
    options, text = folders.options, _text(compiled)
    entry = entry_of(text, compiled.name)
    flat = arguments_of(compiled, given, entry)
    memory = Memory([*_regions(flat, options), *extra_regions(options, _no_driver)], options.most_bytes)
    launch = _launch(compiled, entry, grid)
    scratch: dict[str, Array] = {}
    parameters = [
        _parameter(each, variable, memory, math.prod(launch.grid), scratch)
        for each, variable in zip(flat, entry.parameters, strict=True)
    ]
    seen = Seen(text, entry, replace(launch, parameters=tuple(parameters)), memory, scratch)

    def launched() -> Any:
        result = real(*arguments)
        _synchronize()
        return result

    result = seen.record(target, options, launched)
    folders.written.append(target)
    return result


def _synchronize() -> None:
    """Wait for the GPU, so that a fault of the kernel is raised here."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def _text(compiled: Any) -> str:
    text = compiled.asm.get("ptx")
    if text is None:
        raise LaunchError(
            f"{compiled.name} has no PTX, only {', '.join(compiled.asm)}; compile for a GPU of NVIDIA, without "
            "TRITON_STORE_BINARY_ONLY [triton-ptx]"
        )
    return str(text)


def _launch(compiled: Any, entry: Entry, grid: Sequence[int]) -> Launch:
    """The launch of a kernel. `grid` counts programs; each program is a cluster of CTAs, `num_ctas` along x."""
    metadata = compiled.metadata
    declared = tuple(getattr(metadata, "cluster_dims", None) or (1, 1, 1))
    cluster = declared if math.prod(declared) > 1 else (getattr(metadata, "num_ctas", 1), 1, 1)
    sides = [int(side) * of for side, of in zip((*grid, 1, 1)[:3], cluster, strict=True)]
    return Launch(
        entry.name,
        (sides[0], sides[1], sides[2]),
        (32 * metadata.num_warps, 1, 1),
        (),
        cluster,
        metadata.shared,
        cooperative=bool(getattr(metadata, "launch_cooperative_grid", False)),
    )


# Parameters -----------------------------------------------------------------------------------------------------------


def _regions(arguments: Sequence[Argument], options: RecordOptions) -> Iterator[Region]:
    """The memory of the arguments that are tensors."""
    for each in arguments:
        if (tensor := each.tensor) is not None:
            yield region_of(each.name, tensor, _no_driver, options.storage)


def _no_driver(address: int, size: int) -> NDArray[np.uint8]:
    raise LaunchError(
        f"the {size} bytes at {address:#x} are not those of a torch tensor; pass torch tensors [triton-memory]"
    )


def _parameter(
    argument: Argument, variable: Variable, memory: Memory, ctas: int, scratch: dict[str, Array]
) -> Parameter:
    """A parameter of a record. If it points to scratch memory, the array is added to `scratch`."""
    if argument.type == MAP:
        encoded: Encoded = argument.value[1]
        return encoded.placed(memory, argument.name)
    if argument.type == SCRATCH:
        if not argument.value:
            return bytes(variable.size)
        scratch[argument.name] = Array("u8", (argument.value * ctas,), (1,), None, per_cta=argument.value)
        return Pointer(argument.name)
    if not argument.is_pointer:
        return argument.scalar(variable.size)
    address = argument.value if isinstance(argument.value, int) else address_of(argument.value)
    if not address:
        return bytes(variable.size)
    found = memory.find(address)
    if found is None:
        raise LaunchError(
            f"{argument.name}: the address {address:#x} is in no tensor; pass the tensor, or name it with arrays=…"
            " [triton-pointer]"
        )
    return found
