"""Bindings to libcublasLt by ctypes: structs, enumeration values, and access to the fields of its algorithm structs.

Numbers, types and structs are those of cublasLt.h, unchanged from CUDA 12 to 13 (NVIDIA's cuBLAS manual, "Using the
cuBLASLt API"). The header's comments give the size of each attribute; cuBLASLt refuses any other size.

nvmath-python's `nvmath.bindings.cublasLt` has all the functions called here. They take the same pointers and sizes, so
it could replace only the numbers, the structs and the loading of the library, and would add a dependency.
"""

import ctypes
import importlib.util
from collections.abc import Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lowtide.errors import DeviceError

SUCCESS, NOT_SUPPORTED = 0, 15  # cublasStatus_t
OPERATION_N, OPERATION_T = 0, 1  # cublasOperation_t
DESCRIPTOR_TRANSPOSE_A, DESCRIPTOR_TRANSPOSE_B = 3, 4  # cublasLtMatmulDescAttributes_t, int32
DESCRIPTOR_FAST_SUMS = 25  # an attribute of the descriptor, int8: whether sums of 8-bit floats stay in the tensor cores
PREFERENCE_SEARCH_MODE, PREFERENCE_WORKSPACE_BYTES = 0, 1  # cublasLtMatmulPreferenceAttributes_t, uint32 and uint64
SEARCH_BEST_FIT, SEARCH_WITHIN_ID = 0, 1  # cublasLtMatmulSearch_t
REDUCTION_NONE, REDUCTION_COMPUTE_TYPE = 0, 2  # cublasLtReductionScheme_t
CLUSTER_AUTO = 0  # cublasLtClusterShape_t
CLUSTERS: Mapping[int, tuple[int, int]] = MappingProxyType(
    {2: (1, 1), 3: (2, 1), 4: (4, 1), 5: (1, 2), 6: (2, 2), 7: (4, 2), 8: (1, 4), 9: (2, 4), 10: (4, 4)}
)


class Setting(IntEnum):
    """cublasLtMatmulAlgoConfigAttributes_t: the settings of an algorithm."""

    ID = 0
    TILE = 1
    SPLIT_K = 2
    REDUCTION = 3
    SWIZZLING = 4
    CUSTOM = 5
    STAGES = 6
    INNER_SHAPE = 7
    CLUSTER = 8


class Capability(IntEnum):
    """The cublasLtMatmulAlgoCapAttributes_t that are read here; each is a value of four bytes or an array of them."""

    SPLIT_K = 0
    REDUCTION_MASK = 1
    SWIZZLING = 2
    TILES = 6
    CUSTOM_MAX = 7
    STAGES = 13


_HALFWORDS = (Setting.INNER_SHAPE, Setting.CLUSTER)  # uint16; the others have four bytes


class AlgorithmStruct(ctypes.Structure):
    """cublasLtMatmulAlgo_t."""

    _fields_ = [("data", ctypes.c_uint64 * 8)]


class HeuristicResult(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = [
        ("algo", AlgorithmStruct),
        ("workspace_size", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves_count", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


class Library:
    """libcublasLt. Most of its functions return a cublasStatus_t."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    @property
    def version(self) -> int:
        """The library's version number, such as 120805 for 12.8.5."""
        function = self._loaded.cublasLtGetVersion
        function.restype = ctypes.c_size_t
        return int(function())

    def status(self, name: str, *arguments: Any) -> int:
        """The function's return value. Every argument must be a ctypes value of the parameter's own size."""
        function = getattr(self._loaded, name)
        function.restype = ctypes.c_int
        return int(function(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises DeviceError if it fails."""
        self.expect(name, self.status(name, *arguments))

    def expect(self, name: str, status: int) -> None:
        """Raise DeviceError unless `status`, which the function returned, is success."""
        if status != SUCCESS:
            text = self._loaded.cublasLtGetStatusName
            text.restype = ctypes.c_char_p
            said = text(ctypes.c_int(status))
            raise DeviceError(
                f"{name} failed: {said.decode() if said else 'unknown status'} ({status}) [cublaslt-failed]"
            )

    def settings(self, struct: AlgorithmStruct) -> dict[Setting, int]:
        """The settings of the algorithm, without attributes that this cuBLASLt does not know."""
        found = {}
        for setting in Setting:
            value, written = _value(setting, 0), ctypes.c_size_t(0)
            size = ctypes.c_size_t(ctypes.sizeof(value))
            status = self.status(
                "cublasLtMatmulAlgoConfigGetAttribute",
                ctypes.byref(struct),
                ctypes.c_int(setting),
                ctypes.byref(value),
                size,
                ctypes.byref(written),
            )
            if status == SUCCESS:
                found[setting] = int(value.value)
        return found

    def changed(self, struct: AlgorithmStruct, changes: Mapping[Setting, int]) -> AlgorithmStruct | None:
        """A copy with these settings; None if cuBLASLt rejects one of them."""
        copy = AlgorithmStruct.from_buffer_copy(struct)
        for setting, number in changes.items():
            value = _value(setting, number)
            status = self.status(
                "cublasLtMatmulAlgoConfigSetAttribute",
                ctypes.byref(copy),
                ctypes.c_int(setting),
                ctypes.byref(value),
                ctypes.c_size_t(ctypes.sizeof(value)),
            )
            if status != SUCCESS:
                return None
        return copy

    def capability(self, struct: AlgorithmStruct, attribute: Capability) -> tuple[int, ...]:
        """The attribute's values: one, or all elements of an array; empty if cuBLASLt does not report it."""
        name, written = "cublasLtMatmulAlgoCapGetAttribute", ctypes.c_size_t(0)
        leading = (ctypes.byref(struct), ctypes.c_int(attribute))
        # A query for zero bytes returns the size.
        status = self.status(name, *leading, ctypes.c_void_p(), ctypes.c_size_t(0), ctypes.byref(written))
        if status != SUCCESS or not written.value:
            return ()
        values = (ctypes.c_int32 * (written.value // 4))()
        size = ctypes.c_size_t(ctypes.sizeof(values))
        if self.status(name, *leading, ctypes.byref(values), size, ctypes.byref(written)) != SUCCESS:
            return ()
        return tuple(values[: written.value // 4])


def _value(setting: Setting, number: int) -> Any:
    return ctypes.c_uint16(number) if setting in _HALFWORDS else ctypes.c_int32(number)


def load() -> Library:
    """cuBLASLt: the library that this process already uses (torch's), or that of NVIDIA's wheel, or the system's.

    Raises DeviceError if there is none.
    """
    for candidate in _candidates():
        try:
            return Library(ctypes.CDLL(candidate))
        except OSError:
            continue
    raise DeviceError(
        "no libcublasLt here; install torch or nvidia-cublas, or leave cuBLASLt out of the comparison [no-cublaslt]"
    )


def _candidates() -> Iterator[str]:
    maps = Path("/proc/self/maps")
    if maps.exists():
        for entry in maps.read_text(encoding="utf-8").splitlines():
            if "/libcublasLt.so" in entry:
                yield entry[entry.index("/") :]
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from map(str, sorted(Path(root).glob("*/lib/libcublasLt.so*"), reverse=True))
    yield from ("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so")
