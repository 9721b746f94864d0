"""Records launches through cuda-python: `cuda.bindings.driver` and `cuda.core`.

    with lt.ptx.record_driver("kernels", ptx=text):
        driver.cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, stream, (values, types), 0)

In the block, the functions of the module `cuda.bindings.driver` that load PTX, encode tensor maps and launch kernels
are replaced by functions that also record their arguments.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError
from lowtide.interpreter.ptx.syntax import Entry, Variable
from lowtide.launches import Extents, Launch, Parameter, Struct
from lowtide.ptx.recorders.launch import Folders, RecordOptions, Seen, entry_of, extra_regions
from lowtide.ptx.recorders.memory import Memory, Region
from lowtide.ptx.recorders.parameters import bytes_at, parameter_bytes
from lowtide.ptx.recorders.tensor_maps import MAP_BYTES, Encoded

_POINTER = 8  # bytes
_CORE = ("cuda.core", "cuda.core.experimental")
_CLUSTER, _COOPERATIVE = "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION", "CU_LAUNCH_ATTRIBUTE_COOPERATIVE"


@contextlib.contextmanager
def record_driver(
    folder: str | Path,
    *,
    ptx: str | None = None,
    **options: Any,
) -> Iterator[DriverRecorder]:
    """Record launches by cuda-python in a block of code. Yields the recorder; its `folders` are the written folders.

    `ptx` is the PTX of the kernels; it may be omitted if the block loads the PTX with the driver. `options` are the
    fields of `RecordOptions`. If a pointer points to none of the `arrays`, its whole allocation is recorded as bytes.
    Folders have the names that `record_triton` gives. In the block, call the driver's functions as
    `driver.cuLaunchKernel(…)`, encode the tensor maps, and call the recorder's `launch` in place of `cuda.core.launch`.
    Only one thread may launch kernels in the block.

    Raises LaunchError if the block launches no kernel, or if a launch cannot be recorded; that kernel is not launched.
    """
    driver = importlib.import_module("cuda.bindings.driver")
    recorder = DriverRecorder(driver, Folders(folder, RecordOptions(**options)), [] if ptx is None else [ptx])
    real = {name: getattr(driver, name) for name in _REPLACED if hasattr(driver, name)}
    for name, function in {name: recorder.replacement(name) for name in real}.items():
        setattr(driver, name, function)
    try:
        yield recorder
    finally:
        for name, function in real.items():
            setattr(driver, name, function)
    recorder.noted.require_any()


class DriverRecorder:
    """Records the arguments of the driver. `texts`: the known PTX; `maps`: the tensor maps, by their bytes."""

    def __init__(self, driver: Any, noted: Folders, texts: list[str]) -> None:
        self.driver, self.noted, self.texts = driver, noted, texts
        self.maps: dict[bytes, Encoded] = {}

    @property
    def folders(self) -> list[Path]:
        """The folders written so far."""
        return self.noted.written

    def launch(self, stream: Any, config: Any, kernel: Any, *arguments: Any) -> Any:
        """Call `cuda.core.launch` with these arguments, and record the launch. Raises LaunchError."""
        core = next((sys.modules[name] for name in _CORE if hasattr(sys.modules.get(name), "launch")), None)
        if core is None:
            raise LaunchError("cuda.core is not imported; import it before this call [driver-core]")
        packed = importlib.import_module(f"{core.__name__}._kernel_arg_handler").ParamHolder(arguments)
        cluster = _sides(config.cluster or 1)
        x, y, z = (side * of for side, of in zip(_sides(config.grid), cluster, strict=True))
        launch = Launch(
            "", (x, y, z), _sides(config.block), (), cluster, config.shmem_size, cooperative=config.is_cooperative
        )
        return self._record(kernel.handle, launch, packed.ptr, lambda: core.launch(stream, config, kernel, *arguments))

    def replacement(self, name: str) -> Callable[..., Any]:
        """A function that calls the driver's function `name`, and records its arguments."""
        real = getattr(self.driver, name)

        def noting(*given: Any, **keywords: Any) -> Any:
            named = dict(zip(_REPLACED[name].split(), given, strict=False)) | keywords
            if "LaunchKernel" in name:
                return self._launched(named, lambda: real(*given, **keywords))
            result = real(*given, **keywords)
            if name == "cuTensorMapEncodeTiled":
                if not int(result[0]):
                    self._encoded(named, result[1])
            else:
                self._loaded(named.get("image", named.get("code")))
            return result

        return noting

    # What the driver is called for ------------------------------------------------------------------------------------

    def _loaded(self, image: Any) -> None:
        """Keep an image if it is PTX, not machine code."""
        if isinstance(image, bytes | bytearray) and b".version" in image[:4096] and b".target" in image[:4096]:
            self.texts.append(bytes(image).rstrip(b"\0").decode(errors="replace"))

    def _encoded(self, given: Mapping[str, Any], map: Any) -> None:
        """Keep the arguments from which a tensor map was encoded."""
        rank = int(given["tensorRank"])
        more = {
            "interleaving": int(given["interleave"]),
            "a fill of NaN": int(given["oobFill"]),
            "element strides": any(int(step) != 1 for step in given["elementStrides"][:rank]),
        }
        self.maps[bytes_at(map.getPtr(), MAP_BYTES)] = Encoded(
            int(given["globalAddress"]),
            int(given["tensorDataType"]),
            tuple(int(side) for side in given["globalDim"][:rank])[::-1],
            tuple(int(stride) for stride in (given["globalStrides"] or ())[: rank - 1])[::-1],
            tuple(int(side) for side in given["boxDim"][:rank])[::-1],
            int(given["swizzle"]),
            tuple(name for name, there in more.items() if there),
        )

    def _launched(self, given: Mapping[str, Any], real: Callable[[], Any]) -> Any:
        """Record a call of cuLaunchKernel, or of cuLaunchKernelEx, which has `config`."""
        config = given.get("config")
        if config is None:
            fields: Any = given.__getitem__
            cluster, cooperative = None, False
        else:
            fields = partial(getattr, config)
            attributes = {each.id.name: each.value for each in (config.attrs or ())[: config.numAttrs]}
            cluster = attributes[_CLUSTER].clusterDim if _CLUSTER in attributes else None
            cooperative = _COOPERATIVE in attributes and bool(attributes[_COOPERATIVE].cooperative)
        launch = Launch(
            "",
            _extents([fields(f"gridDim{axis}") for axis in "XYZ"]),
            _extents([fields(f"blockDim{axis}") for axis in "XYZ"]),
            (),
            (1, 1, 1) if cluster is None else _extents([cluster.x, cluster.y, cluster.z]),
            int(fields("sharedMemBytes")),
            cooperative=cooperative,
        )
        if given["extra"] not in (0, None):
            raise LaunchError("parameters in `extra` are not recorded; pass kernelParams [driver-extra]")
        return self._record(given["f"], launch, given["kernelParams"], real)

    # A launch ---------------------------------------------------------------------------------------------------------

    def _record(self, handle: Any, launch: Launch, parameters: Any, real: Callable[[], Any]) -> Any:
        name = self._name(handle)
        target = self.noted.next(name)
        if target is None:
            return real()
        text, entry = self._text(name)
        packed = parameter_bytes(parameters, [each.size for each in entry.parameters])
        options = self.noted.options
        named = extra_regions(options, self._read)
        memory = Memory([*named, *self._allocations(packed, entry, Memory(named))], options.most_bytes)
        found = [
            self._parameter(data, variable, memory) for data, variable in zip(packed, entry.parameters, strict=True)
        ]
        seen = Seen(text, entry, replace(launch, kernel=entry.name, parameters=tuple(found)), memory, {})

        def launched() -> Any:
            result = real()
            self._check(self.driver.cuCtxSynchronize())
            return result

        result = seen.record(target, options, launched)
        self.noted.written.append(target)
        return result

    def _name(self, handle: Any) -> str:
        """The name of a kernel, from the handle of a function of a module or of a kernel of a library."""
        function = "cuKernelGetName" if isinstance(handle, self.driver.CUkernel) else "cuFuncGetName"
        if hasattr(self.driver, function):  # from CUDA 12.3 on
            error, name = getattr(self.driver, function)(handle)
            if not int(error):
                return name.decode() if isinstance(name, bytes) else str(name)
        names = {name for text in self.texts for name in _entries(text)}
        if len(names) == 1:
            return names.pop()
        raise LaunchError(
            "the driver does not say which kernel is launched; pass ptx=… with this kernel only [driver-kernel]"
        )

    def _text(self, name: str) -> tuple[str, Entry]:
        """The last given PTX with a kernel of this name."""
        for text in reversed(self.texts):
            if name in _entries(text):
                return text, entry_of(text, name)
        raise LaunchError(
            f"no known PTX has a kernel {name}: pass the PTX as ptx=…, or load it in the block; machine code is not "
            "enough [driver-ptx]"
        )

    def _allocations(self, packed: list[bytes], entry: Entry, named: Memory) -> Iterator[Region]:
        """The allocations that the parameters point to, other than named arrays. The elements of an allocation are
        those of the tensor map that points to it, or else bytes."""
        found: dict[int, Region] = {}
        pairs = list(zip(packed, entry.parameters, strict=True))
        maps = [(each, variable) for data, variable in pairs for _, each in self._maps_in(data, variable)]
        wanted = [(variable.name, each.address, each.element) for each, variable in maps]
        wanted += [(variable.name, word, "u8") for data, variable in pairs for _, word in _words(data)]
        for name, address, element in wanted:
            if address and named.find(address) is None and (place := self._allocation(address)) is not None:
                found.setdefault(place[0], Region.of_bytes(name, *place, self._read, element))
        return iter(found.values())

    def _allocation(self, address: int) -> tuple[int, int] | None:
        """The start and the size in bytes of the allocation with an address; None if it is not a GPU address."""
        error, base, size = self.driver.cuMemGetAddressRange(self.driver.CUdeviceptr(address))
        return None if int(error) else (int(base), int(size))

    def _maps_in(self, data: bytes, variable: Variable) -> Iterator[tuple[int, Encoded]]:
        """The tensor maps in a struct, each with its place."""
        for at in range(0, len(data) - MAP_BYTES + 1, MAP_BYTES // 2):
            if (encoded := self._map(data[at : at + MAP_BYTES], variable)) is not None:
                yield at, encoded

    def _map(self, data: bytes, variable: Variable) -> Encoded | None:
        found = self.maps.get(data)
        if found is not None:
            found.check(variable.name)
        return found

    def _parameter(self, data: bytes, variable: Variable, memory: Memory) -> Parameter:
        """A parameter as a record has it."""
        if (encoded := self._map(data, variable)) is not None:
            return encoded.placed(memory, variable.name)
        if variable.size == MAP_BYTES and variable.align >= MAP_BYTES // 2 and any(data):
            raise LaunchError(
                f"{variable.name}: a tensor map that was not encoded in the block; call driver.cuTensorMapEncodeTiled "
                "in the block [driver-map]"
            )
        pointers = [(at, found) for at, word in _words(data) if word and (found := memory.find(word)) is not None]
        if variable.size == _POINTER and pointers:
            return pointers[0][1]
        if variable.size > _POINTER:
            maps = tuple((at, encoded.placed(memory, variable.name)) for at, encoded in self._maps_in(data, variable))
            inside = [at + byte for at, _ in maps for byte in range(0, MAP_BYTES, _POINTER)]
            return Struct(data, tuple(each for each in pointers if each[0] not in inside), maps)
        return data

    def _read(self, address: int, size: int) -> NDArray[np.uint8]:
        held = np.zeros(size, np.uint8)
        if size:
            self._check(self.driver.cuMemcpyDtoH(held, self.driver.CUdeviceptr(address), size))
        return held

    def _check(self, result: Any) -> None:
        if int(result[0]):
            raise LaunchError(f"the driver: {result[0]!s} [driver-call]")


_LAUNCHED = "gridDimX gridDimY gridDimZ blockDimX blockDimY blockDimZ sharedMemBytes hStream kernelParams extra"
_REPLACED = {
    "cuModuleLoadData": "image",
    "cuModuleLoadDataEx": "image",
    "cuLibraryLoadData": "code",
    "cuTensorMapEncodeTiled": "tensorDataType tensorRank globalAddress globalDim globalStrides boxDim elementStrides "
    "interleave swizzle l2Promotion oobFill",
    "cuLaunchKernel": f"f {_LAUNCHED}",
    "cuLaunchKernelEx": "config f kernelParams extra",
}
"""The functions that are replaced, and the names of their arguments."""


def _entries(text: str) -> list[str]:
    """The names of the kernels of a text of PTX."""
    return re.findall(r"\.entry\s+([\w$]+)", text)


def _extents(sides: Sequence[Any]) -> Extents:
    x, y, z = (int(side) for side in sides)
    return x, y, z


def _sides(given: Any) -> Extents:
    """One number, or up to three, as three."""
    sides = [given] if isinstance(given, int) else list(given)
    return _extents((*sides, 1, 1)[:3])


def _words(data: bytes) -> Iterator[tuple[int, int]]:
    """The words of eight bytes that may be addresses, each with its place."""
    for at in range(0, len(data) - _POINTER + 1, _POINTER):
        yield at, int.from_bytes(data[at : at + _POINTER], "little")
