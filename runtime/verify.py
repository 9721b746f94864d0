"""Run saved kernels on the local GPU and compare with float64; needs only numpy and cuda-python.

For each kernel: fresh random inputs with NaN in row padding and all around. D is filled with 0xFF bytes, as are its
guard bands, which must be intact afterwards. The accumulator's bound is γ_n·(|A|·|B|), γ_n = n·u/(1−n·u), with n = K +
⌈K/16⌉ + 2 roundings at u = 2⁻²³ (2⁻¹⁰ for f16 accumulators, 2⁻²⁴ for f32 inputs) after Higham, Accuracy and Stability
of Numerical Algorithms, §3.1; it goes through the epilogue as an interval (`epilogue.py`). If n·u ≥ 1 there is no such
bound: the inputs are then −1, 0 and 1, with so few non-zeros that each partial sum is exact, and the accumulator's
bound is 0. For f64 accumulators the product is computed to more than float64 (`wide_products.py`), and its own bound is
added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.decompositions import DECOMPOSITIONS
from lowtide.elements import element_type, exact_sums, stages_of_sum
from lowtide.errors import LoadError
from lowtide.reductions import REDUCTIONS
from lowtide.runtime import driver
from lowtide.runtime.checks import pad_row
from lowtide.runtime.dtypes import from_bits, left_out, multiplied, random_numbers, stored_dtype, to_bits, wrapped
from lowtide.runtime.epilogue import Interval, evaluate, results_of
from lowtide.runtime.kernel import Kernel
from lowtide.runtime.manifest import (
    BATCH,
    IN_THE_SUM,
    K_GROUPS,
    NOT_OF_EPILOGUE,
    PACKED_ROWS,
    PAIRED_ROWS,
    ROW_GROUPS,
    STALE,
    extent_of,
    is_block_scale,
    is_mixed,
    outer_extents,
    problem_dims,
)
from lowtide.runtime.operands import Operand
from lowtide.runtime.results import D, returned, returned_results
from lowtide.runtime.weights import unpack_weights, zero_points
from lowtide.runtime.wide_products import exact_product

GUARD_BYTES = 4096
POISON = 0xFF  # NaN in every float type
_SHARED = 0.25  # the probability that an operand of a batch lacks the batch dimension
_MOST_MATRICES = 64  # matrices of a batch that are compared
_WIDEST = 16  # bytes of the widest access
_SCALED_TOGETHER = 128  # the K of products that share a scale


@dataclass(frozen=True)
class Outcome:
    """The result of `verify_kernel`; `ratio` is the largest error over its bound among the compared rows."""

    ok: bool
    ratio: float
    rows: int  # compared with float64; other elements were only checked to be written
    code: str  # "cubin" or "ptx"
    device: str
    message: str


@dataclass(frozen=True)
class HostArray:
    """One operand in host memory: its bytes with guards, and the positions of its elements."""

    stored: np.ndarray  # uint8, GUARD_BYTES before and after the rows, and `offset` more before
    shape: tuple[int, ...]
    row_stride: int  # elements
    dtype: str
    offset: int = 0

    @property
    def start(self) -> int:
        """The byte at which the rows begin."""
        return GUARD_BYTES + self.offset

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements; the matrices of a batch are consecutive."""
        return (*(math.prod(self.shape[axis + 1 : -1]) * self.row_stride for axis in range(len(self.shape) - 1)), 1)

    def elements(self) -> np.ndarray:
        """The rows of all matrices with their padding, shape (rows, row_stride), in `stored_dtype`."""
        rows = math.prod(self.shape[:-1])
        size = rows * self.row_stride * element_type(self.dtype).bytes
        whole = self.stored[self.start : self.start + size]
        return whole.view(stored_dtype(self.dtype)).reshape(rows, self.row_stride)

    def values(self) -> np.ndarray:
        """The elements in float64, in `shape`."""
        columns = self.shape[-1]
        return from_bits(np.ascontiguousarray(self.elements()[:, :columns]), self.dtype).reshape(self.shape)


def host_array(
    shape: tuple[int, ...],
    dtype: str,
    alignment: int,
    values: np.ndarray | None,
    padding: int = 0,
    base_alignment: int = _WIDEST,
) -> HostArray:
    """A poisoned array that holds `values`, its rows padded to `alignment` bytes and by `padding` units more.

    Its base is not aligned to more than `base_alignment`, up to 16.
    """
    row_stride = pad_row(shape[-1], dtype, alignment)
    if len(shape) > 1:
        row_stride += padding * max(1, alignment // element_type(dtype).bytes)
    rows = math.prod(shape[:-1])
    offset = base_alignment if base_alignment < _WIDEST else 0
    size = 2 * GUARD_BYTES + offset + rows * row_stride * element_type(dtype).bytes
    array = HostArray(np.full(size, POISON, dtype=np.uint8), shape, row_stride, dtype, offset)
    if values is not None:
        array.elements()[:, : shape[-1]] = to_bits(values.reshape(rows, shape[-1]), dtype)
    return array


def random_operands(manifest: Mapping[str, Any], rng: np.random.Generator) -> tuple[dict[str, Any], bool]:
    """Inputs, and results that a call takes among them, by name (`HostArray`, or a number for a scalar) for the
    manifest's example, and whether A·B is exact."""
    extents = example_extents(manifest)
    spec = manifest["spec"]
    exact = not math.isfinite(accumulator_growth(spec, extents["k"]))
    limit = exact_sums(spec["a"], spec["acc"])
    share = min(
        1.0, math.sqrt(limit / 4 / max(extents["k"], 1))
    )  # the share of non-zeros, so that no partial sum leaves the exact range
    operands: dict[str, Any] = {}
    full = returned_results(manifest["arguments"])
    for argument in manifest["arguments"]:
        name, dtype = argument["name"], argument["dtype"]
        if name in full:
            continue
        if argument["kind"] == "scalar":
            operands[name] = float(from_bits(np.atleast_1d(to_bits(rng.standard_normal(1), dtype)), dtype)[0])
            continue
        dims = problem_dims(manifest)[name]
        is_shared = argument["role"] == "input" and dims[0] == BATCH and rng.random() < _SHARED
        grouped = extents["k" if K_GROUPS in spec else "m"]
        shape = tuple(extent_of(dim, extents) for dim in dims[is_shared:])
        if argument["role"] == "output":
            values = np.full(shape, STALE)
        elif argument["kind"] == "ends":  # all rows of D belong to a group, and so are compared
            values = np.sort(np.append(rng.integers(0, grouped + 1, shape[0] - 1), grouped))
        elif exact and argument["kind"] == "matrix" and element_type(dtype).is_float:
            values = np.sign(rng.standard_normal(shape)) * (rng.random(shape) < share)
        else:
            values = random_numbers(rng, shape, dtype)
        alignments = argument.get("row_stride_alignment", 1), argument.get("base_alignment", _WIDEST)
        operands[name] = host_array(shape, dtype, alignments[0], values, int(rng.integers(0, 3)), alignments[1])
    return operands, exact


def example_extents(manifest: Mapping[str, Any]) -> dict[str, int]:
    """m, n, k, and the batch or groups of rows, if any; run-time ones are from manifest["example"]. Raises LoadError if
    one is missing."""
    example = manifest.get("example") or {}
    extents: dict[str, int] = {}
    for dim in ("m", "n", "k", *outer_extents(manifest["spec"])):
        extent = example.get(dim) if manifest["spec"][dim] is None else manifest["spec"][dim]
        if not isinstance(extent, int) or extent < 0:
            raise LoadError(
                f"manifest: example.{dim} is {extent!r}, must be an integer ≥ 0 ({dim} is a run-time extent)"
                " [example-extent]"
            )
        extents[dim] = extent
    extents["one"] = 1
    spec = manifest["spec"]
    if "pairs" in spec:
        extents[PAIRED_ROWS] = 2 * extents["n"]
    if is_mixed(spec):
        extents[PACKED_ROWS] = extents["n"] // element_type(spec["b"]).per_byte
        extents["groups"] = extents["k"] // spec.get("group", 1)
    return extents


def at_size(manifest: Mapping[str, Any], size: tuple[int, int, int]) -> Mapping[str, Any]:
    """The manifest with another example of M, N and K. Raises LoadError if a compiled extent differs."""
    example = {**(manifest.get("example") or {}), **dict(zip(("m", "n", "k"), size, strict=True))}
    for dim, extent in example.items():
        if manifest["spec"][dim] not in (None, extent):
            raise LoadError(
                f"size: {dim} = {extent}, but the kernel is compiled for {manifest['spec'][dim]}; give that"
                " [size-compiled]"
            )
    return {**manifest, "example": example}


def accumulator_growth(spec: Mapping[str, Any], k: int, is_scaled: bool = False) -> float:
    """γ_n for a sum over `k` products, n roundings by a relative error u; infinite if n·u ≥ 1.

    Subsequent roundings by another u multiply: (1 + γ)(1 + γ') − 1.
    """
    grown = 0.0
    row = DECOMPOSITIONS.get(spec.get("precision", ""))
    is_fast = spec.get("fast", False)
    if row is None:
        stages = stages_of_sum(spec["a"], spec["acc"], k, is_fast, is_scaled)
    else:
        stages = row.stages(spec["acc"], k, is_fast)
    for roundings, unit in stages:
        if roundings * unit >= 1:
            return math.inf
        growth = roundings * unit / (1 - roundings * unit)
        grown += growth + grown * growth
    return grown


def expected(
    manifest: Mapping[str, Any],
    operands: Mapping[str, Any],
    exact: bool,
    rows: np.ndarray,
    matrix: int = 0,
    number: int = 0,
) -> tuple[Interval, Any]:
    """(value, low, high) of the given rows of D, or of the full result of another `number`, in float64, and their error
    bound; in a batch, of matrix `matrix`."""
    names = [x["name"] for x in manifest["arguments"] if x["kind"] == "matrix"]
    types = (manifest["spec"][name] for name in ("a", "b"))
    parts = (_part_of(manifest, operands, name, matrix) for name in names)
    if is_mixed(manifest["spec"]):
        a, b = next(parts), _weights(manifest, operands, names[1])
    else:
        a, b = (multiplied(part, dtype) for part, dtype in zip(parts, types, strict=True))
    dims = problem_dims(manifest)
    a = (a if dims[names[0]][-2:] == ("m", "k") else a.T)[rows]
    b = b if dims[names[1]][-2:] == ("k", "n") else b.swapaxes(-1, -2)
    a, b = _scaled(manifest, operands, a, b, rows)
    if ROW_GROUPS in manifest["spec"]:
        product, own_error, size = _by_groups(manifest, operands, (a, b), rows)
    else:
        product, own_error = exact_product(a, b, manifest["spec"]["acc"])
        size = np.abs(a) @ np.abs(b)
    if not element_type(manifest["spec"]["acc"]).is_float:
        product, error = wrapped(product, manifest["spec"]["acc"]), np.zeros_like(product)
    elif exact:
        limit = exact_sums(manifest["spec"]["a"], manifest["spec"]["acc"])
        if float(size.max()) > limit:
            raise LoadError(
                f"manifest: k is too large for exact {manifest['spec']['acc']} sums; give a smaller example.k"
                " [example-k]"
            )
        error = np.zeros_like(product)
    else:
        row = DECOMPOSITIONS.get(manifest["spec"].get("precision", ""))
        is_scaled = any(is_block_scale(argument["kind"]) for argument in manifest["arguments"])
        error = accumulator_growth(manifest["spec"], a.shape[1], is_scaled) * size + own_error
        if row is not None:
            error += left_out(row, a, b, size)
    others = {}
    for argument in manifest["arguments"]:
        name, kind = argument["name"], argument["kind"]
        if argument["role"] == "input" and kind not in ("matrix", *NOT_OF_EPILOGUE):
            value = operands[name] if kind == "scalar" else _part_of(manifest, operands, name, matrix)
            others[name] = {"full": lambda x: in_rows(manifest, x)[rows], "per_row": lambda x: x[rows, None]}.get(
                kind, lambda x: x
            )(value)
    ends = (product, product - error, product + error)
    pairs = manifest["spec"].get("pairs")
    accumulator, *second = [ends] if pairs is None else _of_pairs(ends, pairs)
    program = manifest["epilogue_program"]
    full = [x for x in manifest["arguments"] if (x["role"], x["kind"]) == ("output", "full")]
    dtype = full[number]["dtype"] if number else manifest["spec"]["d"]
    own = {**program, "result": results_of(program)[number]}
    return evaluate(own, accumulator, others, dtype, manifest["spec"]["acc"], *second)


def _of_pairs(sums: Interval, pairs: str) -> list[Interval]:
    """The intervals of the first and of the second column of each pair."""
    if pairs == "interleaved":
        halves = [slice(0, None, 2), slice(1, None, 2)]
    else:
        middle = sums[0].shape[1] // 2
        halves = [slice(0, middle), slice(middle, None)]
    return [(sums[0][:, half], sums[1][:, half], sums[2][:, half]) for half in halves]


def _by_groups(
    manifest: Mapping[str, Any], operands: Mapping[str, Any], factors: tuple[np.ndarray, np.ndarray], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The product of rows of A by the B (groups, K, N) of their groups, its own error, and that of magnitudes."""
    (a, b), acc = factors, manifest["spec"]["acc"]
    ends = next(operands[x["name"]].values() for x in manifest["arguments"] if x["kind"] == "ends")
    found = np.zeros((3, len(a), b.shape[-1]))
    groups = np.searchsorted(ends, rows, side="right")
    for group in np.unique(groups):
        own = groups == group
        product, error = exact_product(a[own], b[group], acc)
        found[:, own] = product, np.broadcast_to(error, product.shape), np.abs(a[own]) @ np.abs(b[group])
    return found[0], found[1], found[2]


def _weights(manifest: Mapping[str, Any], operands: Mapping[str, HostArray], name: str) -> np.ndarray:
    """Packed weights as (N, K), times their scales."""
    spec = manifest["spec"]
    weights = unpack_weights(operands[name].values().astype(np.uint8), spec["b"]).astype(np.float64)
    of_groups = {x["kind"]: operands[x["name"]].values() for x in manifest["arguments"] if x["kind"] in IN_THE_SUM}
    if "group_zero" in of_groups:
        weights -= np.repeat(zero_points(of_groups["group_zero"], spec["b"]), spec["group"], axis=0).T
    if "group_scale" in of_groups:
        weights *= np.repeat(of_groups["group_scale"], spec["group"], axis=0).T
    return weights


def _scaled(
    manifest: Mapping[str, Any], operands: Mapping[str, Any], a: np.ndarray, b: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of A (M, K), and B (K, N), multiplied by the scales of their blocks, if there are any."""
    for argument in manifest["arguments"]:
        if not is_block_scale(argument["kind"]):
            continue
        dims, values = problem_dims(manifest)[argument["name"]], operands[argument["name"]].values()
        if dims[0].startswith("k"):
            values, dims = values.T, dims[::-1]
        block = int(dims[0].partition("/")[2] or 1)
        depth = np.repeat(values, _SCALED_TOGETHER, axis=1)[:, : a.shape[1]]
        if dims[0].startswith("m"):
            a = a * depth[rows // block]
        else:
            b = b * np.repeat(depth, block, axis=0)[: b.shape[1]].T
    return a, b


def in_rows(manifest: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
    """D, or a full operand, as (M, N)."""
    return values if manifest["spec"].get("d_order", "row") == "row" else values.T


def _part_of(manifest: Mapping[str, Any], operands: Mapping[str, HostArray], name: str, matrix: int) -> np.ndarray:
    """The values of an operand; in a batch, its part for one product, or all of it if it is shared. With groups of K,
    the part for group number `matrix`."""
    dims, values = problem_dims(manifest)[name], operands[name].values()
    if K_GROUPS in manifest["spec"] and dims[0] == "k":
        ends = next(operands[x["name"]].values() for x in manifest["arguments"] if x["kind"] == "ends")
        first, end = np.append(0, ends).astype(int)[matrix : matrix + 2]
        return values[first:end]
    return values[matrix] if dims[0] in (BATCH, K_GROUPS) and values.ndim == len(dims) else values


def compare(d: np.ndarray, interval: Interval, bound: Any, rows: np.ndarray) -> tuple[float, str]:
    """The largest error over bound in the compared rows, and a message if an element is outside of its interval.

    An interval with an infinite end also holds NaN, because overflows may cancel. If all intervals are infinite, the
    message says that nothing can be compared.
    """
    if not d.size:
        return 0.0, ""
    value, low, high = (np.broadcast_to(x, d.shape) for x in interval)
    undefined, open_ = np.isnan(value), ~(np.isfinite(low) & np.isfinite(high))
    with np.errstate(all="ignore"):
        inside = np.where(np.isnan(d), undefined | open_, (d >= low) & (d <= high) | undefined & ~np.isfinite(low))
        ratio = np.abs(d - value) / bound
    worst = float(np.max(np.where(np.isfinite(ratio), ratio, 0.0)))
    if open_.all():
        return worst, f"none of {d.size} elements can be judged: each may overflow, or has no bound; take a smaller k"
    if inside.all():
        return worst, ""
    i, j = (int(x) for x in np.argwhere(~inside)[0])
    return worst, (
        f"{int((~inside).sum())} elements out of bound, first D[{int(rows[i])}, {j}] = {d[i, j]:g},"
        f" must be in [{low[i, j]:g}, {high[i, j]:g}]"
    )


def check_written(result: HostArray) -> str:
    """A message if bytes outside of D were written, or an element of D was not; "" otherwise.

    In an integer D all bits are valid: unwritten elements show as wrong values.
    """
    columns, elements = result.shape[-1], result.elements()
    guards = np.concatenate([result.stored[: result.start], result.stored[-GUARD_BYTES:]])
    if (guards != POISON).any():
        return "bytes before or after D were written"
    if (np.ascontiguousarray(elements[:, columns:]).view(np.uint8) != POISON).any():
        return "the padding of D's rows was written"
    if not element_type(result.dtype).is_float:
        return ""
    poison = np.full(element_type(result.dtype).bytes, POISON, dtype=np.uint8).view(elements.dtype)
    bits = np.dtype(f"u{element_type(result.dtype).bytes}")
    untouched = np.ascontiguousarray(elements[:, :columns]).view(bits) == poison.view(bits)
    if untouched.any():
        place = np.unravel_index(np.flatnonzero(untouched)[0], result.shape)
        return f"{int(untouched.sum())} elements of D were not written, first D[{', '.join(map(str, place))}]"
    return ""


def check_others(manifest: Mapping[str, Any], operands: Mapping[str, Any], d: np.ndarray) -> str:
    """A message if a result other than D of a kernel that was run is wrong; else ""."""
    names = [argument["name"] for argument in manifest["arguments"] if argument["kind"] == "amax"]
    return next(filter(None, (amax_difference(operands[x].values(), d, manifest["spec"]["d"]) for x in names)), "")


def amax_difference(amax: np.ndarray, d: np.ndarray, dtype: str) -> str:
    """A message if an amax, of one element, is not the largest absolute value of D before it was rounded.

    Rounding is monotone, so amax rounded like D must be D's largest absolute value. Integers are not checked.
    """
    row = element_type(dtype)
    if not row.is_float:
        return ""
    largest = np.max(np.abs(d), initial=0.0)
    (rounded,) = from_bits(to_bits(np.minimum(amax, row.largest) if row.is_converted_to else amax, dtype), dtype)
    if np.array_equal(rounded, largest, equal_nan=True):
        return ""
    return f"the amax is {amax[0]:g}, in D's type {rounded:g}, but the largest absolute value of D is {largest:g}"


def verify_kernel(
    kernel: Kernel,
    *,
    ordinal: int = 0,
    seed: int = 0,
    most_rows: int = 512,
    size: tuple[int, int, int] | None = None,
) -> Outcome:
    """Run `kernel` once on GPU `ordinal` on fresh random inputs and check all results.

    `size` is M, N and K, by default those of the manifest's example. For a large product, only `most_rows` rows,
    including the first and the last, are compared with float64, and only 64 matrices of a batch. Raises the errors of
    loading and launching.
    """
    manifest = kernel.manifest if size is None else at_size(kernel.manifest, size)
    if manifest.get("epilogue_program") is None:
        raise LoadError(
            "manifest: there is no epilogue_program to check D by: it was compiled from a dump that no longer has its"
            " epilogue; compile it from level atoms or before and save it again [no-epilogue-program]"
        )
    full = [x for x in manifest["arguments"] if (x["role"], x["kind"]) == ("output", "full")]
    reduced = [x["name"] for x in manifest["arguments"] if x["role"] == "output" and x["kind"] in REDUCTIONS]
    if reduced:
        raise LoadError(
            f"manifest: the result {reduced[0]} is a reduction, which this check does not compute; check the kernel "
            "where lowtide is installed: lowtide check [verify-reduction]"
        )
    if len(results_of(manifest["epilogue_program"])) != len(full):
        raise LoadError(
            f"manifest: it has {len(full)} full outputs, but epilogue_program gives "
            f"{len(results_of(manifest['epilogue_program']))}; compile the kernel and save it again [program-results]"
        )
    module = kernel.module_for(ordinal)
    rng = np.random.default_rng(seed)
    operands, exact = random_operands(manifest, rng)
    outputs = {x["name"]: _unwritten(manifest, x) for x in full}
    with driver.active(module.context):
        run_on_device(kernel, ordinal, operands, outputs)
    m, extents = example_extents(manifest)["m"], example_extents(manifest)
    rows = np.arange(m)
    if m > most_rows and math.prod(extents.values()) > 2**30:
        rows = _some(m, most_rows, rng)
    message, ratio = "", 0.0
    for number, (name, array) in enumerate(outputs.items()):
        values = array.values().reshape(-1, *array.shape[-2:])
        own = check_written(array) or ("" if number else check_others(manifest, operands, values))
        for matrix in _some(len(values), _MOST_MATRICES, rng).tolist():
            result = in_rows(manifest, values[matrix])
            found, difference = compare(result[rows], *expected(manifest, operands, exact, rows, matrix, number), rows)
            ratio = max(ratio, found)
            own = own or (f"matrix {matrix}: {difference}" if difference and len(values) > 1 else difference)
        message = message or (own if list(outputs) == [D] or not own else f"{name}: {own}")
    return Outcome(not message, ratio, len(rows), module.code, module.device.name, message)


def _unwritten(manifest: Mapping[str, Any], output: Mapping[str, Any]) -> HostArray:
    """A poisoned array for a full output."""
    extents = example_extents(manifest)
    shape = tuple(extents[dim] for dim in problem_dims(manifest)[output["name"]])
    alignments = output.get("row_stride_alignment", 1), output.get("base_alignment", _WIDEST)
    return host_array(shape, output["dtype"], alignments[0], None, padding=1, base_alignment=alignments[1])


def _some(count: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most `most` numbers below `count`, in order, including the first and the last."""
    if count <= most:
        return np.arange(count)
    middle = rng.choice(count - 2, size=most - 2, replace=False) + 1
    return np.sort(np.concatenate([[0, count - 1], middle]))


def run_on_device(kernel: Kernel, ordinal: int, operands: Mapping[str, Any], outputs: Mapping[str, HostArray]) -> None:
    """Copy the operands to the GPU, launch, and copy full results with their guards back into `outputs`."""
    cuda = driver.api()
    buffers: list[tuple[Any, HostArray]] = []
    try:
        arrays = {name: x for name, x in operands.items() if isinstance(x, HostArray)}
        records: dict[str, Any] = {name: x for name, x in operands.items() if name not in arrays}
        for name, array in {**arrays, **outputs}.items():
            buffer = driver.check(cuda.cuMemAlloc(array.stored.nbytes), f"allocating {array.stored.nbytes} bytes")
            buffers.append((buffer, array))
            driver.check(cuda.cuMemcpyHtoD(buffer, array.stored.ctypes.data, array.stored.nbytes), "copying to the GPU")
            records[name] = Operand(
                address=int(buffer) + array.start,
                shape=array.shape,
                strides=array.strides,
                dtype=array.dtype,
                device=ordinal,
            )
        out = {name: records.pop(name) for name in outputs}
        kernel(stream=0, out=returned(out), **records)
        driver.check(cuda.cuCtxSynchronize(), f"running kernel {kernel.name}")
        written = {x["name"] for x in kernel.manifest["arguments"] if x["role"] == "output"}
        for buffer, array in buffers:
            if any(array is each for name, each in {**arrays, **outputs}.items() if name in written):
                result = cuda.cuMemcpyDtoH(array.stored.ctypes.data, buffer, array.stored.nbytes)
                driver.check(result, "copying from the GPU")
    finally:
        for buffer, _ in buffers:
            cuda.cuMemFree(buffer)  # a failure here only follows from a reported one
