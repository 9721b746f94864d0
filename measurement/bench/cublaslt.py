"""cuBLASLt for one GEMM: its heuristic's answers and other configurations, each checked and ready to launch.

For measurements only; Lowtide's kernels do not use cuBLASLt. cuBLASLt's matrices are column-major and D here is
row-major, so it computes Dᵀ = op(B) · op(A): B is its first operand.
"""

import ctypes
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.elements import ELEMENTS, element_type
from lowtide.errors import DeviceError
from lowtide.measurement.bench.cublaslt_library import (
    CLUSTERS,
    DESCRIPTOR_FAST_SUMS,
    DESCRIPTOR_TRANSPOSE_A,
    DESCRIPTOR_TRANSPOSE_B,
    NOT_SUPPORTED,
    OPERATION_N,
    OPERATION_T,
    PREFERENCE_SEARCH_MODE,
    PREFERENCE_WORKSPACE_BYTES,
    SEARCH_BEST_FIT,
    SEARCH_WITHIN_ID,
    SUCCESS,
    AlgorithmStruct,
    HeuristicResult,
    Library,
    Setting,
)
from lowtide.measurement.bench.cublaslt_tiles import tile_name
from lowtide.runtime.dtypes import to_bits

REQUESTED = 64  # algorithms requested from the heuristic
IDS_REQUESTED = 1024
WORKSPACE_BYTES = 128 * 2**20
ALIGNMENT = 256  # bytes, of the start of each operand, as the heuristic assumes
_WORDS: Mapping[Setting, str] = MappingProxyType(
    {
        Setting.ID: "id",
        Setting.TILE: "tile",
        Setting.STAGES: "stages",
        Setting.CLUSTER: "cluster",
        Setting.SPLIT_K: "split-K",
        Setting.REDUCTION: "reduction",
        Setting.SWIZZLING: "swizzling",
        Setting.INNER_SHAPE: "inner shape",
        Setting.CUSTOM: "custom",
    }
)


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix in cuBLASLt's terms: column-major, with `leading` elements from one column to the next."""

    rows: int
    columns: int
    leading: int


@dataclass(frozen=True)
class Description:
    """One GEMM in cuBLASLt's terms: result = op(first) · op(second); op transposes or does nothing.

    `dtype`: of both operands. `d`: of the result. `is_fast`: whether sums may be less precise than `acc`.
    """

    dtype: str
    acc: str
    d: str
    first: StoredMatrix
    second: StoredMatrix
    result: StoredMatrix
    transpose_first: bool
    transpose_second: bool
    is_fast: bool = False


@dataclass(frozen=True)
class Algorithm:
    """A configuration that cuBLASLt reports as runnable. `name` lists its settings, see `name_of`."""

    name: str
    workspace_bytes: int
    struct: AlgorithmStruct = field(repr=False, compare=False)


def name_of(settings: Mapping[Setting, int]) -> str:
    """For example `id 66, tile 128x256, stages 36, cluster 2x1`: cuBLASLt's numbers; after the stages only settings
    other than the default. Tile and cluster are rows × columns of its column-major result."""
    texts = {Setting.TILE: tile_name, Setting.CLUSTER: _cluster_name}
    # Settings that are always listed have no default.
    defaults = {Setting.ID: None, Setting.TILE: None, Setting.STAGES: None, Setting.SPLIT_K: 1}
    return ", ".join(
        f"{word} {texts.get(setting, str)(settings[setting])}"
        for setting, word in _WORDS.items()
        if setting in settings and settings[setting] != defaults.get(setting, 0)
    )


def _bytes_of(value: float, dtype: str) -> Any:
    """The bytes of a number in the type."""
    stored = to_bits(np.array(value), dtype).tobytes()
    return (ctypes.c_uint8 * len(stored)).from_buffer_copy(stored)


def _cluster_name(number: int) -> str:
    return "x".join(map(str, CLUSTERS[number])) if number in CLUSTERS else str(number)


def describe(
    dtype: str,
    acc: str,
    layout: str,
    m: int,
    n: int,
    k: int,
    strides: tuple[int, int, int],
    d: str,
    *,
    is_fast: bool = False,
) -> Description:
    """D (M, N) = A · B with A and B of `dtype`, D of `d`, summed in `acc`, and layouts as in `GemmSpec`.

    `strides`: elements from one row to the next of A, B and D in memory. `is_fast`: see `Description`. Raises
    DeviceError for sums that cuBLASLt does not support.
    """
    if element_type(acc).cublas_sums is None:
        known = ", ".join(row.name for row in ELEMENTS.values() if row.cublas_sums is not None)
        raise DeviceError(
            f"cuBLASLt sums in {known}, not in {acc}; leave cuBLASLt out of the comparison [cublaslt-sums]"
        )
    a_rows, a_columns = (m, k) if layout[0] == "t" else (k, m)
    b_rows, b_columns = (n, k) if layout[1] == "n" else (k, n)
    return Description(
        dtype=dtype,
        acc=acc,
        d=d,
        # A row-major matrix is its column-major transpose: rows and columns change places.
        first=StoredMatrix(b_columns, b_rows, strides[1]),
        second=StoredMatrix(a_columns, a_rows, strides[0]),
        result=StoredMatrix(n, m, strides[2]),
        transpose_first=layout[1] == "n",
        transpose_second=layout[0] == "n",
        is_fast=is_fast,
    )


class Matmul(ExitStack):
    """One described GEMM on the current GPU.

    A context manager: leaving it destroys its descriptors, after which nothing may be launched. The caller owns the
    workspace (`WORKSPACE_BYTES` of GPU memory). Raises DeviceError if a call fails.
    """

    def __init__(self, library: Library, description: Description, workspace: int) -> None:
        super().__init__()
        self.library = library
        self.description = description
        self._workspace = ctypes.c_void_p(workspace)
        sums = element_type(description.acc)
        assert sums.cublas_sums is not None
        compute = element_type(description.dtype).cublas_products or sums.cublas_sums
        self._compute = ctypes.c_int(compute), ctypes.c_int(sums.cuda)
        # alpha and beta have the type of the sums.
        self._one, self._zero = (_bytes_of(value, sums.name) for value in (1.0, 0.0))
        try:
            self._handle = self._create("cublasLtCreate", "cublasLtDestroy")
            self._operation = self._make_operation(description)
            self._first, self._second, self._result = (
                self._make_layout(dtype, matrix)
                for dtype, matrix in (
                    (description.dtype, description.first),
                    (description.dtype, description.second),
                    (description.d, description.result),
                )
            )
            self._preference = self._create("cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy")
        except BaseException:
            self.close()
            raise

    def offers(self, workspace_bytes: int, within: AlgorithmStruct | None = None) -> list[Algorithm]:
        """The heuristic's answers, fastest first, without duplicates. `within`: only configurations of that id.

        Empty if cuBLASLt has no answer. Raises DeviceError if the query fails.
        """
        mode = ctypes.c_uint32(SEARCH_BEST_FIT if within is None else SEARCH_WITHIN_ID)
        self._prefer(PREFERENCE_SEARCH_MODE, mode)
        self._prefer(PREFERENCE_WORKSPACE_BYTES, ctypes.c_uint64(workspace_bytes))
        results = (HeuristicResult * REQUESTED)()
        if within is not None:
            for result in results:
                result.algo = within
        returned = ctypes.c_int(0)
        name = "cublasLtMatmulAlgoGetHeuristic"
        status = self.library.status(
            name,
            *self._problem(),
            self._preference,
            ctypes.c_int(REQUESTED),
            results,
            ctypes.byref(returned),
        )
        if status == NOT_SUPPORTED or (status != SUCCESS and within is not None):
            return []
        self.library.expect(name, status)
        usable = [
            result
            for result in results[: returned.value]
            if result.state == SUCCESS and result.workspace_size <= workspace_bytes
        ]
        return [self._algorithm(result, result.algo) for result in {bytes(one.algo): one for one in usable}.values()]

    def ids(self) -> list[int]:
        """Ids of algorithms for these dtypes that may run here. Raises DeviceError."""
        found, returned = (ctypes.c_int * IDS_REQUESTED)(), ctypes.c_int(0)
        self.library.call(
            "cublasLtMatmulAlgoGetIds", *self._types(), ctypes.c_int(IDS_REQUESTED), found, ctypes.byref(returned)
        )
        return list(found[: returned.value])

    def begin(self, number: int) -> AlgorithmStruct | None:
        """The algorithm of this id without settings; None if it does not support these dtypes."""
        struct = AlgorithmStruct()
        status = self.library.status(
            "cublasLtMatmulAlgoInit", *self._types(), ctypes.c_int(number), ctypes.byref(struct)
        )
        return struct if status == SUCCESS else None

    def checked(self, struct: AlgorithmStruct) -> Algorithm | None:
        """The configuration as an algorithm; None if cuBLASLt reports that it cannot run, or not in the workspace."""
        result = HeuristicResult()
        status = self.library.status(
            "cublasLtMatmulAlgoCheck", *self._problem(), ctypes.byref(struct), ctypes.byref(result)
        )
        if status != SUCCESS or result.workspace_size > WORKSPACE_BYTES:
            return None
        return self._algorithm(result, struct)

    def launch(self, algorithm: Algorithm, a: int, b: int, d: int, stream: int) -> None:
        """Enqueue D = A · B at these addresses in GPU memory. Raises DeviceError if cuBLASLt refuses."""
        if (a | b | d) % ALIGNMENT:
            raise DeviceError(
                f"cuBLASLt algorithms were chosen for operands at multiples of {ALIGNMENT} bytes; move them"
                " [cublaslt-alignment]"
            )
        result = ctypes.c_void_p(d)
        self.library.call(
            "cublasLtMatmul",
            self._handle,
            self._operation,
            ctypes.byref(self._one),
            ctypes.c_void_p(b),
            self._first,
            ctypes.c_void_p(a),
            self._second,
            ctypes.byref(self._zero),
            result,  # C, which is not read because beta is 0
            self._result,
            result,
            self._result,
            ctypes.byref(algorithm.struct),
            self._workspace,
            ctypes.c_size_t(WORKSPACE_BYTES),
            ctypes.c_void_p(stream),
        )

    def _create(self, create: str, destroy: str, *arguments: Any) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self.library.call(create, ctypes.byref(pointer), *arguments)
        self.callback(self.library.call, destroy, pointer)  # on exit, in reverse order
        return pointer

    def _make_operation(self, description: Description) -> ctypes.c_void_p:
        operation = self._create("cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", *self._compute)
        for attribute, transposed in (
            (DESCRIPTOR_TRANSPOSE_A, description.transpose_first),
            (DESCRIPTOR_TRANSPOSE_B, description.transpose_second),
        ):
            value = ctypes.c_int32(OPERATION_T if transposed else OPERATION_N)
            self._set("cublasLtMatmulDescSetAttribute", operation, attribute, value)
        if description.is_fast:
            self._set("cublasLtMatmulDescSetAttribute", operation, DESCRIPTOR_FAST_SUMS, ctypes.c_int8(1))
        return operation

    def _make_layout(self, dtype: str, matrix: StoredMatrix) -> ctypes.c_void_p:
        return self._create(
            "cublasLtMatrixLayoutCreate",
            "cublasLtMatrixLayoutDestroy",
            ctypes.c_int(element_type(dtype).cuda),
            ctypes.c_uint64(matrix.rows),
            ctypes.c_uint64(matrix.columns),
            ctypes.c_int64(matrix.leading),
        )

    def _set(self, setter: str, target: ctypes.c_void_p, attribute: int, value: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self.library.call(setter, target, ctypes.c_int(attribute), ctypes.byref(value), size)

    def _prefer(self, attribute: int, value: Any) -> None:
        self._set("cublasLtMatmulPreferenceSetAttribute", self._preference, attribute, value)

    def _problem(self) -> tuple[Any, ...]:
        """Handle, operation, and the layouts of A, B, C and D in cuBLASLt's terms; C has the layout of D."""
        return self._handle, self._operation, self._first, self._second, self._result, self._result

    def _types(self) -> tuple[Any, ...]:
        """Handle, compute type, scale type, and the dtypes of A, B, C and D."""
        dtype, d = (ctypes.c_int(element_type(name).cuda) for name in (self.description.dtype, self.description.d))
        return self._handle, *self._compute, dtype, dtype, d, d

    def _algorithm(self, result: HeuristicResult, struct: AlgorithmStruct) -> Algorithm:
        own = AlgorithmStruct.from_buffer_copy(struct)
        return Algorithm(name_of(self.library.settings(own)), int(result.workspace_size), own)
