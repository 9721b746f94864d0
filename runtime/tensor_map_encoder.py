"""Encodes tensor maps, by cuTensorMapEncodeTiled, as the 128 bytes that a kernel takes by value, and caches them.

The driver's function is called by its address, not through cuda-python, which aligns CUtensorMap only to 16 bytes; the
driver requires 64 (128 from CUDA 13 on).
Source: CUDA driver API reference 13, "Tensor Map Object Management".
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.runtime import driver
from lowtide.runtime.tensor_maps import (
    TENSOR_MAP_BYTES,
    BoxedTensor,
    TensorMap,
    check_address,
    check_tensor,
    swizzle_span,
)

TENSOR_MAP_ALIGNMENT = 128
_SINCE_CUDA = 12000

#: CUresult cuTensorMapEncodeTiled(map, data type, rank, address, extents, strides, box, element strides, interleave,
#: swizzle, L2 promotion, fill), dimensions innermost first, strides in bytes without the innermost one.
ENCODE_TILED = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
)

_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
_PROMOTIONS = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}
_DriverArguments = tuple[tuple[Any, ...], tuple[Any, ...]]


class TensorMapEncoder:
    """Encodes tensor maps and keeps the `most` most recently used ones. Threads may share it."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._encoded: OrderedDict[TensorMap, bytes] = OrderedDict()
        self._arguments: dict[BoxedTensor, _DriverArguments] = {}
        self._lock = threading.Lock()
        self._function: Callable[..., int] | None = None

    def __call__(self, tensor_map: TensorMap, context: int) -> bytes:
        """The map as the driver writes it, called in `context`; the bytes are valid in all contexts.

        Raises LaunchError for an illegal map, DeviceError for a driver older than CUDA 12.
        """
        with self._lock:
            found = self._encoded.get(tensor_map)
            if found is None:
                check_address(*tensor_map)
                arguments = self._driver_arguments(tensor_map.tensor)
                with driver.active(context):
                    found = self._encoded[tensor_map] = self._encode(tensor_map, arguments)
                if len(self._encoded) > self._most:
                    self._encoded.popitem(last=False)
            else:
                self._encoded.move_to_end(tensor_map)
            return found

    def _driver_arguments(self, tensor: BoxedTensor) -> _DriverArguments:
        """Checked, and cached for other addresses."""
        found = self._arguments.get(tensor)
        if found is None:
            check_tensor(tensor)
            if len(self._arguments) >= self._most:
                self._arguments.clear()
            found = self._arguments[tensor] = _driver_arguments(tensor)
        return found

    def _encode(self, tensor_map: TensorMap, arguments: _DriverArguments) -> bytes:
        if self._function is None:
            self._function = ENCODE_TILED(driver.function_address("cuTensorMapEncodeTiled", _SINCE_CUDA))
        storage = (ctypes.c_char * (TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT))()
        target = -(-ctypes.addressof(storage) // TENSOR_MAP_ALIGNMENT) * TENSOR_MAP_ALIGNMENT
        before, after = arguments
        result = self._function(target, *before, tensor_map.address, *after)
        if result:
            driver.check((driver.api().CUresult(result),), f"encoding {tensor_map}", LaunchError)
        return ctypes.string_at(target, TENSOR_MAP_BYTES)


def _driver_arguments(tensor: BoxedTensor) -> _DriverArguments:
    """The arguments of cuTensorMapEncodeTiled before and after the tensor's address, without the map's own."""
    cuda = driver.api()
    rank, size = len(tensor.shape), element_type(tensor.dtype).bytes
    swizzle = _SWIZZLES[swizzle_span(tensor.swizzle, tensor.dtype) or 0]
    data_type = f"CU_TENSOR_MAP_DATA_TYPE_{element_type(tensor.dtype).tensor_map}"
    before = (int(getattr(cuda.CUtensorMapDataType, data_type)), rank)
    after = (
        (ctypes.c_uint64 * rank)(*reversed(tensor.shape)),
        (ctypes.c_uint64 * (rank - 1))(*(stride * size for stride in reversed(tensor.strides[:-1]))),
        (ctypes.c_uint32 * rank)(*reversed(tensor.box)),
        (ctypes.c_uint32 * rank)(*reversed(tensor.element_strides or (1,) * rank)),
        int(cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        int(getattr(cuda.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}")),
        int(getattr(cuda.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{_PROMOTIONS[tensor.l2_promotion]}")),
        int(cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    )
    return before, after
