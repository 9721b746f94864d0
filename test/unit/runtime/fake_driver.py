"""A driver of host memory: what the runtime calls of cuda.bindings.driver, with launches run by a Python function.

Launch arguments are read back through the array of pointers, as the real driver reads them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from cuda.bindings import driver as bindings

GEMM_TYPES = ("ptr", "i64", "ptr", "i64", "ptr", "i64", "i32", "i32", "i32")  # of a plain GEMM: A, B, D, M, N, K

_READ = {
    "ptr": ctypes.c_uint64,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "f32": ctypes.c_float,
    "f16": ctypes.c_uint16,
    "bf16": ctypes.c_uint16,
}


def _read(kind: str, address: int) -> Any:
    if kind == "tensor_map":
        assert address % 64 == 0, "a tensor map must be aligned to 64 bytes"
        return ctypes.string_at(address, 128)
    return _READ[kind].from_address(address).value


class Names:
    """Any attribute is its own name: stands for the driver's enumerations."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(name=name, value=name)


class FakeDriver:
    """One GPU of capability `capability`; `kernel(arguments)` runs at each launch and sees the values by `types`."""

    CUdevice_attribute = CUfunction_attribute = CUjit_option = CUpointer_attribute = CUevent_flags = Names()
    CUuserObject_flags = CUuserObjectRetain_flags = CUstream_flags = CUstreamCaptureMode = Names()
    CUcontext = CUdeviceptr = int
    CUhostFn = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    CUstream, CUlaunchConfig = bindings.CUstream, bindings.CUlaunchConfig
    CUlaunchAttribute, CUlaunchAttributeID = bindings.CUlaunchAttribute, bindings.CUlaunchAttributeID

    def __init__(self, capability: tuple[int, int] = (8, 0), types: Sequence[str] = ()) -> None:
        self.capability = capability
        self.attributes = {
            "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 166912,
            "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": 108,
        }
        self.types = tuple(types)
        self.kernel: Callable[[list[Any]], None] = lambda values: None
        self.calls: list[tuple[Any, ...]] = []
        self.launches: list[SimpleNamespace] = []
        self.contexts: list[int] = []
        self.memory: dict[int, np.ndarray] = {}
        self.launch_error = 0
        self.clusters = 33
        self.load_error = 0
        self.memory_error = 0
        self.capturing = 0  # the id of the capture of every stream
        self.held: dict[int, list[Callable[[], object]]] = {}  # what graphs call when they are destroyed, by capture

    def cuInit(self, flags: int) -> tuple[int]:
        return (0,)

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return (0, 1)

    def cuDeviceGet(self, ordinal: int) -> tuple[int, int]:
        return (0, ordinal) if ordinal == 0 else (101, 0)

    def cuDeviceGetName(self, size: int, device: int) -> tuple[int, bytes]:
        return (0, b"Fake GPU".ljust(size, b"\0"))

    def cuDeviceGetAttribute(self, key: Any, device: int) -> tuple[int, int]:
        if key.name.endswith(("MAJOR", "MINOR")):
            return (0, self.capability[key.name.endswith("MINOR")])
        return (0, self.attributes[key.name])

    def cuGetErrorName(self, code: int) -> tuple[int, bytes]:
        return (0, f"CUDA_ERROR_{int(code)}".encode())

    def cuGetErrorString(self, code: int) -> tuple[int, bytes]:
        return (0, b"of the test")

    def cuCtxGetCurrent(self) -> tuple[int, int]:
        return (0, self.contexts[-1] if self.contexts else 0)

    def cuCtxGetDevice(self) -> tuple[int, int]:
        return (0, 0)

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:
        return (0, 7000)

    def cuCtxPushCurrent(self, context: int) -> tuple[int]:
        self.contexts.append(context)
        return (0,)

    def cuCtxPopCurrent(self) -> tuple[int, int]:
        return (0, self.contexts.pop())

    def cuCtxSynchronize(self) -> tuple[int]:
        return (0,)

    def cuPointerGetAttribute(self, key: Any, address: int) -> tuple[int, int]:
        return (0, 0)

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: list[Any], values: list[Any]) -> tuple[int, str]:
        self.calls.append(("load", bytes(image)))
        values[0][:9] = b"line 1: x"
        return (self.load_error, "module")

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[int, str]:
        return (0, name.decode())

    def cuFuncGetAttribute(self, key: Any, function: str) -> tuple[int, int]:
        return (0, 1024 if "THREADS" in key.name else 0)

    def cuFuncSetAttribute(self, function: str, key: Any, value: int) -> tuple[int]:
        self.calls.append(("attribute", key.name, value))
        return (0,)

    def cuOccupancyMaxActiveClusters(self, function: str, config: Any) -> tuple[int, int]:
        self.calls.append(("clusters", function, config.attrs[0].value.clusterDim.x, config.sharedMemBytes))
        return (0, self.clusters)

    def cuLaunchKernelEx(self, config: Any, function: str, pointers: int, extra: int) -> tuple[int]:
        if self.launch_error:
            return (self.launch_error,)
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        slots = (ctypes.c_void_p * len(self.types)).from_address(pointers)
        values = [_read(kind, slots[i]) for i, kind in enumerate(self.types)]
        self.launches.append(
            SimpleNamespace(
                function=function,
                geometry=(*grid, *block, config.sharedMemBytes),
                stream=int(config.hStream),
                values=values,
                context=self.cuCtxGetCurrent()[1],
            )
        )
        self.kernel(values)
        return (0,)

    def cuEventCreate(self, flags: Any) -> tuple[int, str]:
        return (0, "event")

    def cuEventRecord(self, event: str, stream: int) -> tuple[int]:
        self.calls.append(("record", int(stream)))
        return (0,)

    def cuStreamWaitEvent(self, stream: int, event: str, flags: int) -> tuple[int]:
        self.calls.append(("wait", int(stream)))
        return (0,)

    def cuEventDestroy(self, event: str) -> tuple[int]:
        return (0,)

    def cuStreamIsCapturing(self, stream: Any) -> tuple[int, int]:
        return (0, self.capturing)

    def cuStreamGetId(self, stream: Any) -> tuple[int, int]:
        return (0, 1000 + int(stream))

    def cuStreamGetCaptureInfo(self, stream: Any) -> tuple[Any, ...]:
        return (0, 1, self.capturing, self.capturing, None, None, 0)

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[int, Any]:
        return (0, mode)

    def cuStreamCreate(self, flags: Any) -> tuple[int, int]:
        return (0, 99)

    def cuStreamSynchronize(self, stream: Any) -> tuple[int]:
        return (0,)

    def cuStreamDestroy(self, stream: Any) -> tuple[int]:
        return (0,)

    def cuUserObjectCreate(self, argument: int, destroy: Any, count: int, flags: Any) -> tuple[int, Any]:
        return (0, lambda: destroy(argument))

    def cuGraphRetainUserObject(self, graph: int, held: Any, count: int, flags: Any) -> tuple[int]:
        self.held.setdefault(graph, []).append(held)
        return (0,)

    def destroy_graph(self, graph: int) -> None:
        for destroy in self.held.pop(graph):
            destroy()

    def cuMemAllocAsync(self, size: int, stream: Any) -> tuple[int, int]:
        self.calls.append(("allocate", int(stream), size))
        return self.cuMemAlloc(size)

    def cuMemFreeAsync(self, address: int, stream: Any) -> tuple[int]:
        self.calls.append(("free", int(stream)))
        return self.cuMemFree(address)

    def cuMemsetD8Async(self, address: int, value: int, size: int, stream: Any) -> tuple[int]:
        self.calls.append(("zero", address, size, int(stream)))
        return self.cuMemsetD8(address, value, size)

    def cuMemAlloc(self, size: int) -> tuple[int, int]:
        if self.memory_error:
            return (self.memory_error, 0)
        block = np.full(size + 256, 0x5A, dtype=np.uint8)
        address = -(-block.ctypes.data // 256) * 256
        self.memory[address] = block
        return (0, address)

    def cuMemsetD8(self, address: int, value: int, size: int) -> tuple[int]:
        ctypes.memset(address, value, size)
        return (0,)

    def cuMemFree(self, address: int) -> tuple[int]:
        del self.memory[address]
        return (0,)

    def cuMemcpyHtoD(self, target: int, source: int, size: int) -> tuple[int]:
        ctypes.memmove(target, source, size)
        return (0,)

    def cuMemcpyDtoH(self, target: int, source: int, size: int) -> tuple[int]:
        ctypes.memmove(target, source, size)
        return (0,)


Install = Callable[[FakeDriver], FakeDriver]
