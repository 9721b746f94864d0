"""GPU arrays of any library as one record: torch tensors, DLPack, the CUDA array interface.

Strides are in elements. Nothing is copied and no library is imported: torch and CuPy are recognised by their types.
Sources: dlpack.h 1.1; "CUDA Array Interface (Version 3)", Numba documentation.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowtide.elements import ELEMENTS, element_type
from lowtide.errors import LaunchError
from lowtide.runtime.dtypes import DLPACK_NAMES, LIBRARY_NAMES, TYPESTR_NAMES
from lowtide.runtime.streams import library_of

_CUDA, _CUDA_MANAGED = 2, 13
_DEVICE_NAMES = {1: "the CPU", 3: "the CPU (pinned memory)", 10: "a ROCm GPU"}


class Listed(NamedTuple):
    """What a call checks of a list of matrices: the bytes that all addresses and row strides are multiples of, and the
    least extents of a matrix, as it lies in memory."""

    alignment: int
    least: tuple[int, int]


@dataclass(frozen=True)
class Operand:
    """An array in GPU memory: base address in bytes, extents and strides in elements. A list of matrices (`lists`) has
    the largest extents, and the address of its table."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str  # a row's name
    device: int | None  # the GPU's ordinal; None if the array does not say it
    library: str = ""  # "torch", "cupy" or ""
    stream: int | None = None  # a stream in which the producer may still be writing
    read_only: bool = False
    owner: Any = None  # keeps the memory alive
    listed: Listed | None = None  # of a list of matrices

    @property
    def signature(self) -> tuple[Any, ...]:
        """Everything that a launch depends on except the address."""
        return (self.shape, self.strides, self.dtype, self.device, self.library, self.read_only, self.listed)


def view(value: Any, name: str, stream: int | None = None) -> Operand:
    """The operand `name` as a record. `stream` is the stream of the launch, which DLPack's producer orders after
    itself.

    Raises LaunchError for arrays outside of GPU memory, for unknown dtypes, and for other objects.
    """
    if isinstance(value, Operand):
        return value
    if library_of(value) == "torch":
        return _view_torch(value, name)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _view_interface(value, interface, name)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        kind, _ = value.__dlpack_device__()
        if int(kind) not in (_CUDA, _CUDA_MANAGED):
            raise _not_on_gpu(name, value, _DEVICE_NAMES.get(int(kind), f"DLPack device type {int(kind)}"))
        return parse_capsule(_capsule(value, stream), name, owner=value)
    if hasattr(value, "__array_interface__"):
        raise _not_on_gpu(name, value, "the CPU")
    way_out = "pass a torch or CuPy array, or an object with __dlpack__ or __cuda_array_interface__"
    if isinstance(value, list | tuple):
        way_out = "a call multiplies one A and one B: stack matrices of one shape to a batch, or call once for each"
    raise LaunchError(f"operand {name}: {type(value).__name__} is not an array; {way_out} [operand-array]")


def _not_on_gpu(name: str, value: Any, where: str) -> LaunchError:
    kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
    return LaunchError(
        f"operand {name}: this {kind} is on {where}; operands must be on the GPU: copy it there,"
        f" or run on the CPU by `kernel.interpret(...)` [operand-on-gpu]"
    )


def _unknown_dtype(name: str, dtype: object) -> LaunchError:
    return LaunchError(
        f"operand {name}: dtype {dtype} is unknown; known are {', '.join(ELEMENTS)}: cast it first"
        " [operand-dtype-known]"
    )


def _view_torch(tensor: Any, name: str) -> Operand:
    device = tensor.device
    if device.type != "cuda":
        raise _not_on_gpu(name, tensor, "the CPU" if device.type == "cpu" else f"device {device}")
    try:
        address, strides = tensor.data_ptr(), tuple(tensor.stride())
    except RuntimeError as error:
        raise LaunchError(
            f"operand {name}: not a strided tensor ({error}); call .to_dense() first [strided-tensor]"
        ) from None
    dtype = LIBRARY_NAMES.get(str(tensor.dtype).rpartition(".")[2])
    if dtype is None:
        raise _unknown_dtype(name, tensor.dtype)
    shape = tuple(tensor.shape)
    return Operand(address, shape, strides, dtype, device.index, "torch", owner=tensor)


def _view_interface(value: Any, interface: Any, name: str) -> Operand:
    typestr, shape = interface["typestr"], tuple(int(x) for x in interface["shape"])
    dtype = TYPESTR_NAMES.get(typestr[1:])
    if dtype is None or typestr[0] == ">":
        raise _unknown_dtype(name, f"{typestr!r} of __cuda_array_interface__ (which has no bf16: pass it by DLPack)")
    if interface.get("mask") is not None:
        raise LaunchError(
            f"operand {name}: masked arrays are not read; pass the data without its mask [masked-operand]"
        )
    address, read_only = interface["data"]
    strides = interface.get("strides")
    size = element_type(dtype).bytes
    if strides is not None and any(x % size for x in strides):
        raise LaunchError(
            f"operand {name}: strides {tuple(strides)} bytes are not multiples of {dtype}'s {size}; copy it"
            " [byte-strides]"
        )
    return Operand(
        address=int(address or 0),
        shape=shape,
        strides=_compact(shape) if strides is None else tuple(int(x) // size for x in strides),
        dtype=dtype,
        device=None,
        library=library_of(value),
        stream=interface.get("stream"),
        read_only=bool(read_only),
        owner=value,
    )


def _compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _ManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_READ_ONLY_FLAG = 1
_capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _capsule(value: Any, stream: int | None) -> Any:
    consumer = stream or 1  # DLPack has no stream 0: 1 is the legacy default stream
    try:
        return value.__dlpack__(stream=consumer, max_version=(1, 0))
    except TypeError:  # a producer older than DLPack 1.0
        return value.__dlpack__(stream=consumer)


def parse_capsule(capsule: Any, name: str, owner: Any = None) -> Operand:
    """Read a DLPack capsule, of version 0 ("dltensor") or 1 ("dltensor_versioned"), with memory of any device.

    The capsule is not renamed: the record keeps it, and it frees its tensor itself. Raises LaunchError for a used
    capsule, a newer major version, an unknown dtype, or more than one lane.
    """
    read_only = False
    if _capsule_is(capsule, b"dltensor_versioned"):
        versioned = _ManagedTensorVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if versioned.major > 1:
            raise LaunchError(
                f"operand {name}: DLPack version {versioned.major} is not known, 1 is;"
                f" pass its __dlpack__(max_version=(1, 0)) [dlpack-version]"
            )
        tensor, read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY_FLAG)
    elif _capsule_is(capsule, b"dltensor"):
        tensor = _ManagedTensor.from_address(_capsule_pointer(capsule, b"dltensor")).tensor
    else:
        raise LaunchError(f"operand {name}: not a fresh DLPack capsule; pass the array itself [dlpack-fresh]")
    dtype = DLPACK_NAMES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise _unknown_dtype(name, f"(code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes) of DLPack")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _compact(shape)
    address = (tensor.data or 0) + tensor.byte_offset
    return Operand(address, shape, strides, dtype, tensor.device_id, read_only=read_only, owner=(owner, capsule))
