"""The limits of tensor maps (CUDA driver API, "Tensor Map Object Management": cuTensorMapEncodeTiled)."""

from lowtide.errors import InterpreterError
from lowtide.launches import TensorMap

_RANKS = range(1, 6)
_ALIGNMENT = 16  # bytes, of the address and the strides
_BOX = 256  # elements along a dimension
_EXTENT, _STRIDE = 2**32, 2**40
_SWIZZLES = (0, 32, 64, 128)


def check_tensor_map(map: TensorMap, address: int, width: int, what: str) -> None:
    """Raises InterpreterError for a tensor map that cuTensorMapEncodeTiled refuses. `width`: bytes of an element."""
    rank = len(map.shape)
    if rank not in _RANKS or len(map.box) != rank or len(map.strides) != rank - 1:
        raise InterpreterError(
            f"{what}: a tensor map of {rank} dimensions with a box of {len(map.box)} and {len(map.strides)} strides; "
            "CUDA takes 1 to 5, with a side of the box for each and a stride for each but the innermost [encode-rank]"
        )
    if any(not 1 <= side <= _EXTENT for side in map.shape):
        raise InterpreterError(
            f"{what}: a tensor map with extents {list(map.shape)}; CUDA takes 1 to 2^32 [encode-extents]"
        )
    if any(not 1 <= side <= _BOX for side in map.box):
        raise InterpreterError(
            f"{what}: a tensor map with a box of {list(map.box)} elements; CUDA takes sides of 1 to {_BOX} [encode-box]"
        )
    strides = [stride * width for stride in map.strides]
    if address % _ALIGNMENT or any(each % _ALIGNMENT or not 0 <= each < _STRIDE for each in strides):
        raise InterpreterError(
            f"{what}: a tensor map at address {address:#x} with strides of {strides} bytes; CUDA takes multiples of "
            f"{_ALIGNMENT}, and strides below 2^40 [encode-address]"
        )
    row = map.box[-1] * width
    if map.swizzle not in _SWIZZLES or row % _ALIGNMENT or (map.swizzle and row > map.swizzle):
        raise InterpreterError(
            f"{what}: a tensor map with rows of {row} bytes in its box and a swizzle of {map.swizzle}; CUDA takes rows "
            f"that are multiples of {_ALIGNMENT} bytes, and no longer than a swizzle of 32, 64 or 128 [encode-rows]"
        )
