"""What the recorders see of torch, Triton 3.4 to 3.9 and the CUDA driver, on a machine without a GPU.

Memory of numpy plays the memory of the GPU, at its own addresses, and a Python function plays a kernel.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

# torch ----------------------------------------------------------------------------------------------------------------


class Tensor:
    """A tensor of torch on the GPU: a view of `array`, whose base is the storage."""

    device = "cuda"

    def __init__(self, array: np.ndarray, dtype: str | None = None) -> None:
        self.array = array
        self.dtype = f"torch.{dtype or array.dtype.name}"
        self.shape = array.shape

    def data_ptr(self) -> int:
        return self.array.__array_interface__["data"][0]

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def element_size(self) -> int:
        return self.array.itemsize

    def untyped_storage(self) -> Any:
        base = self.array
        while isinstance(base.base, np.ndarray):
            base = base.base
        address = base.__array_interface__["data"][0]
        return SimpleNamespace(data_ptr=lambda: address, nbytes=lambda: base.nbytes, base=base)


class _Held:
    """What torch.empty gives, and what becomes of it in the recorder."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def set_(self, storage: Any) -> _Held:
        return _Held(storage.base.reshape(-1).view(np.uint8))

    def __getitem__(self, part: slice) -> _Held:
        return _Held(self.held[part])

    def cpu(self) -> _Held:
        return _Held(self.held.copy())

    def numpy(self) -> np.ndarray:
        return self.held


def fake_torch(patch: pytest.MonkeyPatch) -> None:
    torch = ModuleType("torch")
    torch.empty = lambda size, dtype, device: _Held()  # type: ignore[attr-defined]
    torch.uint8 = "uint8"  # type: ignore[attr-defined]
    torch.cuda = SimpleNamespace(is_available=lambda: True, synchronize=lambda: None)  # type: ignore[attr-defined]
    patch.setitem(sys.modules, "torch", torch)


# Triton ---------------------------------------------------------------------------------------------------------------


class CompiledKernel:
    """triton.compiler.CompiledKernel. `work` plays the kernel."""

    def __init__(self, name: str, ptx: str, signature: dict[str, Any], work: Callable[..., Any], **metadata: Any):
        self.name, self.asm, self.work = name, {"ptx": ptx}, work
        self.src = SimpleNamespace(fn=SimpleNamespace(arg_names=list(signature)), signature=signature)
        defaults = {"num_warps": 4, "num_ctas": 1, "shared": 0, "global_scratch_size": 0, "profile_scratch_size": 0}
        self.metadata = SimpleNamespace(**(defaults | metadata))

    @property
    def run(self) -> Callable[..., None]:
        return self._run

    def _run(self, x: int, y: int, z: int, stream: Any, function: Any, packed: Any, meta: Any, *others: Any) -> None:
        _enter_hook, _exit_hook, *arguments = others
        self.work(*arguments)

    def launch(self, grid: tuple[int, int, int], *arguments: Any) -> None:
        """What JITFunction.run does in the end."""
        self.run(*grid, 0, None, None, None, None, None, *arguments)


class CompiledKernel34(CompiledKernel):
    """That of Triton 3.4: `run` is an attribute, which is set when it is first read."""

    run = None  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        if name == "run":
            self.run = self._run
        return super().__getattribute__(name)


@dataclass
class TensorDescriptor:
    """triton.tools.tensor_descriptor.TensorDescriptor of Triton 3.6."""

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"


def fake_triton(patch: pytest.MonkeyPatch) -> None:
    compiler = ModuleType("triton.compiler")
    compiler.CompiledKernel = CompiledKernel  # type: ignore[attr-defined]
    patch.setitem(sys.modules, "triton", ModuleType("triton"))
    patch.setitem(sys.modules, "triton.compiler", compiler)
    descriptors = ModuleType("triton.tools.tensor_descriptor")
    descriptors.TensorDescriptor = TensorDescriptor  # type: ignore[attr-defined]
    patch.setitem(sys.modules, "triton.tools.tensor_descriptor", descriptors)
    fake_torch(patch)


# The driver -----------------------------------------------------------------------------------------------------------


class Pointer:
    """CUdeviceptr, or a tensor map: bytes at an address, which getPtr gives."""

    def __init__(self, value: int = 0, size: int = 8) -> None:
        self.held = (ctypes.c_uint8 * size)(*int(value).to_bytes(size, "little"))

    def __int__(self) -> int:
        return int.from_bytes(bytes(self.held), "little")

    def getPtr(self) -> int:
        return ctypes.addressof(self.held)


class CUkernel:
    """A kernel of a library."""

    def __init__(self, name: str) -> None:
        self.name = name


class FakeDriver(ModuleType):
    """cuda.bindings.driver, with allocations in memory of numpy. `work` plays the kernels."""

    CUdeviceptr, CUkernel = Pointer, CUkernel

    def __init__(self, allocations: list[np.ndarray], work: Callable[[], Any]) -> None:
        super().__init__("cuda.bindings.driver")
        self.allocations, self.work, self.status = allocations, work, 0
        self.cuLaunchKernel = self.cuLaunchKernelEx = lambda *given, **named: (self.work(), (0,))[1]
        self.cuTensorMapEncodeTiled = lambda *given: (0, Pointer(hash(str(given)) % 2**64, 128))
        self.cuModuleLoadData = lambda image: (0, "module")
        self.cuKernelGetName = lambda handle: (0, handle.name.encode())
        self.cuFuncGetName = lambda handle: (0, str(handle).encode())
        self.cuCtxSynchronize = lambda: (self.status,)

    def cuMemGetAddressRange(self, pointer: Pointer) -> tuple[int, Any, Any]:
        for each in self.allocations:
            start = each.__array_interface__["data"][0]
            if start <= int(pointer) < start + each.nbytes:
                return 0, Pointer(start), each.nbytes
        return 1, Pointer(), 0

    def cuMemcpyDtoH(self, held: np.ndarray, pointer: Pointer, size: int) -> tuple[int]:
        held[:] = np.frombuffer(ctypes.string_at(int(pointer), size), np.uint8)
        return (self.status,)


def fake_driver(patch: pytest.MonkeyPatch, driver: FakeDriver) -> None:
    patch.setitem(sys.modules, "cuda.bindings.driver", driver)
