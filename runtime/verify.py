"""Run saved kernels on the local GPU and compare with float64; needs only numpy and cuda-python.

For each kernel: fresh random inputs with NaN in row padding and all around. D is filled with 0xFF bytes, as are its
guard bands, which must be intact afterwards (`host_arrays.py`). The accumulator's bound goes through the epilogue as an
interval (`expected.py`). If there is no such bound, the inputs are −1, 0 and 1, with so few non-zeros that each partial
sum is exact, and the accumulator's bound is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.elements import element_type, exact_sums
from lowtide.errors import LoadError
from lowtide.reductions import REDUCTIONS
from lowtide.runtime import driver
from lowtide.runtime.dtypes import from_bits, random_numbers, to_bits
from lowtide.runtime.epilogue import Interval, results_of
from lowtide.runtime.expected import accumulator_growth, expected, in_rows
from lowtide.runtime.host_arrays import WIDEST, HostArray, check_written, host_array
from lowtide.runtime.kernel import Kernel
from lowtide.runtime.kinds import (
    BATCH,
    COUNTS,
    HALVES,
    K_GROUPS,
    PACKED_ROWS,
    PAIRED_ROWS,
    ROWS_OF_A,
    ROWS_OF_D,
    STALE,
    STATUS,
    TURN,
    extent_of,
    is_mixed,
    outer_extents,
    problem_dims,
)
from lowtide.runtime.lists import is_list, list_at, rows_of_batch
from lowtide.runtime.operands import Operand
from lowtide.runtime.results import D, returned, returned_results
from lowtide.runtime.row_indices import drawn_rows_of_d, places_in, random_places
from lowtide.words import ARRIVALS, SENDS

_SHARED = 0.25  # the probability that an operand of a batch lacks the batch dimension
_MOST_MATRICES = 64  # matrices of a batch that are compared


@dataclass(frozen=True)
class Outcome:
    """The result of `verify_kernel`; `ratio` is the largest error over its bound among the compared rows."""

    ok: bool
    ratio: float
    rows: int  # compared with float64; other elements were only checked to be written
    code: str  # "cubin" or "ptx"
    device: str
    message: str


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
        is_ends = argument["kind"] == "ends"
        may_be_shared = argument["role"] == "input" and dims[0] == BATCH and not is_ends and not is_list(argument)
        is_shared = may_be_shared and rng.random() < _SHARED
        grouped = extents["k" if K_GROUPS in spec else "m"]
        shape = tuple(extent_of(dim, extents) for dim in dims[is_shared:])
        if argument["role"] == "output":
            values = np.full(shape, STALE)
        elif is_ends and COUNTS in spec:
            values = rng.integers(0, grouped + 1, shape)
            values[rng.integers(len(values))] = grouped
        elif is_ends:  # all rows of D belong to a group, and so are compared
            values = np.sort(np.append(rng.integers(0, grouped + 1, shape[0] - 1), grouped))
        elif argument["kind"] == "a_rows":  # some are outside of A
            values = rng.integers(-1, extents[ROWS_OF_A] + 1, shape)
        elif argument["kind"] in ARRIVALS:  # all shards are there
            values = np.array({"arrived": [1] * shape[0], "turn": [0, 1, 0]}.get(argument["kind"], [0] * 4))
        elif argument["kind"] in SENDS:  # to no rank
            values = np.zeros(shape, np.int32)
        elif argument["kind"] == "d_rows":
            values = random_places(rng, extents["m"])
        elif exact and argument["kind"] == "matrix" and element_type(dtype).is_float:
            values = np.sign(rng.standard_normal(shape)) * (rng.random(shape) < share)
        else:
            values = random_numbers(rng, shape, dtype)
        alignments = argument.get("row_stride_alignment", 1), argument.get("base_alignment", WIDEST)
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
    extents |= {
        "one": 1,
        HALVES: 2,
        TURN: 3,
        STATUS: 4,
        ROWS_OF_A: extents["m"] // 2 + 1,
        ROWS_OF_D: drawn_rows_of_d(extents["m"]),
    }
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
    full = _checked_results(manifest)
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
    counts, places = _counts(manifest, operands), _places(manifest, operands)
    written = _written(manifest, counts, places)
    rows = rows if places is None else rows[places[rows] >= 0]
    message, ratio = "", 0.0
    for number, (name, array) in enumerate(outputs.items()):
        values = array.values().reshape(-1, *array.shape[-2:])
        stored = values if written is None else values[np.broadcast_to(written, values.shape)]
        own = check_written(array, written) or ("" if number else check_others(manifest, operands, stored))
        for matrix in _some(len(values), _MOST_MATRICES, rng).tolist():
            result = in_rows(manifest, values[matrix])
            at = rows if counts is None else rows[rows < counts[matrix]]
            of_d = at if places is None else places[at]
            if not at.size:
                continue
            wanted = expected(manifest, operands, exact, at, matrix, number)
            found, difference = compare(result[of_d], *wanted, of_d)
            ratio = max(ratio, found)
            own = own or (f"matrix {matrix}: {difference}" if difference and len(values) > 1 else difference)
        message = message or (own if list(outputs) == [D] or not own else f"{name}: {own}")
    return Outcome(not message, ratio, len(rows), module.code, module.device.name, message)


def _checked_results(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The full outputs of a manifest. Raises LoadError if there is a result that this check cannot compute."""
    if manifest.get("epilogue_program") is None:
        raise LoadError(
            "manifest: there is no epilogue_program to check D by: it was compiled from a dump that no longer has its"
            " epilogue; compile it from level atoms or before and save it again [no-epilogue-program]"
        )
    full = [x for x in manifest["arguments"] if (x["role"], x["kind"]) == ("output", "full")]
    reduced = [x["name"] for x in manifest["arguments"] if x["role"] == "output" and x["kind"] in REDUCTIONS]
    if reduced:
        raise LoadError(
            f"manifest: the result {reduced[0]} is a reduction, and this check does not compute reductions; use "
            "lowtide check where the compiler is installed [verify-reduction]"
        )
    if len(results_of(manifest["epilogue_program"])) != len(full):
        raise LoadError(
            f"manifest: it has {len(full)} full outputs, but epilogue_program gives "
            f"{len(results_of(manifest['epilogue_program']))}; compile the kernel and save it again [program-results]"
        )
    return full


def _counts(manifest: Mapping[str, Any], operands: Mapping[str, Any]) -> np.ndarray | None:
    """The rows of each product of a batch that count; None if all do."""
    if COUNTS not in manifest["spec"]:
        return None
    found: np.ndarray = next(operands[x["name"]].values() for x in manifest["arguments"] if x["kind"] == "ends")
    return found.astype(np.int64)


def _places(manifest: Mapping[str, Any], operands: Mapping[str, Any]) -> np.ndarray | None:
    """The row of D of each row of the product, −1 for rows that are not stored; None if all are stored in order."""
    index = next((operands[x["name"]].values() for x in manifest["arguments"] if x["kind"] == "d_rows"), None)
    return None if index is None else places_in(index, example_extents(manifest)[ROWS_OF_D])


def _written(manifest: Mapping[str, Any], counts: np.ndarray | None, places: np.ndarray | None) -> np.ndarray | None:
    """Whether each element of D is written, to be broadcast to D; None if all are."""
    extents = example_extents(manifest)
    if counts is not None:
        rows = np.arange(extents["m"]) < counts[:, None]
    elif places is not None:
        rows = np.isin(np.arange(extents[ROWS_OF_D]), places)
    else:
        return None
    return in_rows(manifest, rows[..., None])


def _unwritten(manifest: Mapping[str, Any], output: Mapping[str, Any]) -> HostArray:
    """A poisoned array for a full output."""
    extents = example_extents(manifest)
    shape = tuple(extents[dim] for dim in problem_dims(manifest)[output["name"]])
    alignments = output.get("row_stride_alignment", 1), output.get("base_alignment", WIDEST)
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
    tables: list[Any] = []
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
        for argument in filter(is_list, kernel.manifest["arguments"]):
            rows = rows_of_batch(records[argument["name"]])
            table = driver.check(cuda.cuMemAlloc(rows.nbytes), f"allocating {rows.nbytes} bytes")
            tables.append(table)
            driver.check(cuda.cuMemcpyHtoD(table, rows.ctypes.data, rows.nbytes), "copying to the GPU")
            records[argument["name"]] = list_at(records[argument["name"]], int(table))
        out = {name: records.pop(name) for name in outputs}
        kernel(stream=0, out=returned(out), **records)
        driver.check(cuda.cuCtxSynchronize(), f"running kernel {kernel.name}")
        written = {x["name"] for x in kernel.manifest["arguments"] if x["role"] == "output"}
        for buffer, array in buffers:
            if any(array is each for name, each in {**arrays, **outputs}.items() if name in written):
                result = cuda.cuMemcpyDtoH(array.stored.ctypes.data, buffer, array.stored.nbytes)
                driver.check(result, "copying from the GPU")
    finally:
        for buffer in (*(buffer for buffer, _ in buffers), *tables):
            cuda.cuMemFree(buffer)  # a failure here only follows from a reported one
