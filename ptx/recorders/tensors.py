"""Converts tensors of torch, numpy, CuPy and other libraries to regions of memory, without importing the libraries."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError
from lowtide.ptx.dtypes import dtype_of, element_of
from lowtide.ptx.recorders.memory import Reader, Region, dense_strides


@dataclass(frozen=True)
class DeviceArray:
    """A contiguous array in GPU memory, for the `arrays` of a recorder. `address`: of its first element; `dtype`: a
    name such as "float32", "bf16" or "e4m3". Recording raises LaunchError for an unknown dtype."""

    address: int
    shape: tuple[int, ...]
    dtype: Any

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        width = dtype_of(element_of(str(self.dtype), "DeviceArray")).itemsize
        return {"data": (int(self.address), False), "shape": tuple(self.shape), "typestr": f"|V{width}", "version": 3}


def address_of(tensor: Any) -> int | None:
    """The address of a tensor's first element; None if the object is not a tensor."""
    if callable(getattr(tensor, "data_ptr", None)):
        return int(tensor.data_ptr())
    for name in ("__cuda_array_interface__", "__array_interface__"):
        described = getattr(tensor, name, None)
        if isinstance(described, Mapping):
            return int(described["data"][0])
    return None


def region_of(name: str, tensor: Any, device: Reader, storage: bool = False) -> Region:
    """The memory of a tensor's elements; with `storage`, of the tensor's whole storage.

    `device` reads GPU memory for tensors of libraries other than torch. Raises LaunchError for an object that is not a
    tensor, and for strides that are negative or no multiples of the element size.
    """
    tensor = getattr(tensor, "base", tensor) if callable(getattr(tensor, "data_ptr", None)) else tensor
    address = address_of(tensor)
    if address is None:
        raise LaunchError(
            f"{name}: {type(tensor).__name__} is not a tensor; pass one of torch, numpy or CuPy [recorded-tensor]"
        )
    if callable(getattr(tensor, "untyped_storage", None)):
        return _of_torch(name, tensor, address, storage)
    described = getattr(tensor, "__cuda_array_interface__", None)
    read = device if described is not None else host_bytes
    described = described or tensor.__array_interface__
    dtype = np.dtype(described["typestr"]) if not hasattr(tensor, "dtype") else tensor.dtype
    shape = tuple(int(side) for side in described["shape"])
    element, width = _element(str(dtype)), np.dtype(described["typestr"]).itemsize
    strides = described.get("strides") or [stride * width for stride in dense_strides(shape)]
    if any(stride < 0 or stride % width for stride in strides):
        raise LaunchError(f"{name}: strides of {list(strides)} bytes are not supported; pass a copy [tensor-strides]")
    region = Region(name, address, element or "u8", shape, tuple(stride // width for stride in strides), read)
    return region if element else _as_bytes(region, width)


def _of_torch(name: str, tensor: Any, address: int, storage: bool) -> Region:
    element, width = _element(str(tensor.dtype)), int(tensor.element_size())
    whole = tensor.untyped_storage()
    start, size = int(whole.data_ptr()), int(whole.nbytes())

    def read(at: int, count: int) -> NDArray[np.uint8]:
        torch = importlib.import_module("torch")
        held = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        copied: NDArray[np.uint8] = held[at - start : at - start + count].cpu().numpy()
        return copied

    if storage:
        return Region.of_bytes(name, start, size, read, element or "u8")
    shape, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    region = Region(name, address, element or "u8", shape, strides, read)
    return region if element else _as_bytes(region, width)


def _as_bytes(region: Region, width: int) -> Region:
    """The region of an array of unknown element type, of `width` bytes, as contiguous bytes."""
    return Region.of_bytes(region.name, region.address, width * region.size, region.read)


def _element(dtype: str) -> str | None:
    """The record's element type for a dtype of torch or numpy; None if there is none, such as for complex numbers."""
    name = dtype.rpartition(".")[2]
    try:
        element = element_of(name, "")
    except LaunchError:
        return None
    return element if dtype_of(element).itemsize else None


def host_bytes(address: int, size: int) -> NDArray[np.uint8]:
    """Bytes of the process's own memory."""
    return np.frombuffer(ctypes.string_at(address, size), np.uint8)
