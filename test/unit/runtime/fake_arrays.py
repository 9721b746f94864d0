"""Arrays in host memory that say they are on the GPU: by the CUDA array interface, by DLPack, and as torch does."""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest


def aligned(rows: int, row_stride: int, dtype: Any = np.float16, offset: int = 0) -> np.ndarray:
    """A (rows, row_stride) array whose base is `offset` bytes past a multiple of 256."""
    size = rows * row_stride * np.dtype(dtype).itemsize
    raw = np.zeros(size + 512, dtype=np.uint8)
    start = -raw.ctypes.data % 256 + offset
    return raw[start : start + size].view(dtype).reshape(rows, row_stride)


class InterfaceArray:
    """A numpy array as Numba shows its own; `entries` replace those of the interface."""

    def __init__(self, array: np.ndarray, **entries: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "version": 3,
            **entries,
        }


class DLPackArray:
    """A numpy array whose DLPack device is GPU 0 (the capsule itself says CPU, which the runtime does not read)."""

    def __init__(self, array: np.ndarray, versioned: bool = True) -> None:
        self.array = array
        self.versioned = versioned
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: int | None = None, **more: Any) -> Any:
        if more and not self.versioned:
            raise TypeError("unexpected keyword max_version")
        self.streams.append(stream)
        return self.array.__dlpack__(**more)


class Tensor:
    """What the runtime reads of a torch tensor."""

    def __init__(self, array: np.ndarray, device: str = "cuda", index: int | None = 0) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = f"torch.{array.dtype.name}"
        self.device = (SimpleDevice if index == 0 else OtherDevice)(device, index)
        self.reads = 0
        self.requires_grad = False

    def stride(self) -> tuple[int, ...]:
        return tuple(x // self.array.itemsize for x in self.array.strides)

    def data_ptr(self) -> int:
        self.reads += 1
        return self.array.ctypes.data

    def __getitem__(self, index: Any) -> Tensor:
        return Tensor(self.array[index])

    def view(self, dtype: Any) -> Tensor:
        return Tensor(self.array.view(dtype))

    def swapaxes(self, first: int, second: int) -> Tensor:
        return Tensor(self.array.swapaxes(first, second))


Tensor.__module__ = "torch"


class SimpleDevice(SimpleNamespace):
    def __init__(self, type: str, index: int | None) -> None:
        super().__init__(type=type, index=index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


class OtherDevice(SimpleDevice):
    pass


class FakeTorch:
    """The module torch, as far as the runtime uses it. `stream` is the current one."""

    float16 = np.float16
    float32 = np.float32
    uint8 = np.uint8
    int32 = np.int32
    int64 = np.int64

    def __init__(self) -> None:
        self.stream = 11
        self.allocated: list[tuple[tuple[int, ...], int]] = []
        self.tables = 0  # of lists of matrices
        self.records_gradients = False
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: self.stream)
        self.cuda = SimpleNamespace(ExternalStream=lambda handle, device: handle, stream=self.in_stream)

    @contextmanager
    def in_stream(self, handle: int) -> Any:
        self.stream, before = handle, self.stream
        yield
        self.stream = before

    def is_grad_enabled(self) -> bool:
        return self.records_gradients

    def tensor(self, values: list[list[int]], dtype: Any, device: Any) -> Tensor:
        self.tables += 1
        return Tensor(np.array(values, dtype))

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Any) -> Tensor:
        self.allocated.append((shape, self.stream))
        return Tensor(aligned(math.prod(shape[:-1]), shape[-1], dtype=dtype).reshape(shape))


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    module = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", module)  # type: ignore[arg-type]
    return module
