"""Runs a level on random inputs on the CPU, for `lowtide interpret`, and for `lowtide run` without a GPU."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from mlir import ir
from numpy.lib.stride_tricks import as_strided

from lowtide import interpreter
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import A_ROWS, ENDS
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import InterpreterError, SpecError
from lowtide.interpreter import Loaded
from lowtide.interpreter.host import LEVELS
from lowtide.interpreter.numbers.domains import FieldDomain
from lowtide.interpreter.numbers.domains import domain as number_domain
from lowtide.passes.schedules.facts.alignment import WIDEST, WIDEST_OF_ALL
from lowtide.runtime.results import returned
from lowtide.runtime.row_indices import drawn_rows_of_d
from lowtide.verification.checking.random_inputs import elements_apart, padded_matrix, random_inputs, row_stride, stale
from lowtide.verification.checking.texts import duration
from lowtide.words import APART

# Multiply-adds per second of one CPU core, including those of padded tiles, by mma of 16-bit operands: measured once,
# for estimates. A level that is not listed counts as the slowest.
_SPEED: Mapping[str, float] = MappingProxyType(
    {
        "problem": 2e9,
        "cta": 1e9,
        "smem": 6e8,
        "pipelined": 3e8,
        "atoms": 1.5e8,
        "epilogue": 1.5e8,
        "nvvm": 5e7,
        "llvm": 3e7,
        "ptx": 2.5e7,
    }
)
LONGEST_SECONDS = 600.0

# Elements after each row of a matrix, beyond the alignment. They are NaN, so a kernel that reads them fails.
ROW_PADDING = 8


@dataclass(frozen=True)
class Batch:
    """The number of matrices of a run, the inputs that they share, and the rows between two of them."""

    matrices: int
    shared: tuple[str, ...] = ()
    rows_between: int = 0

    def __str__(self) -> str:
        plural = "matrix" if self.matrices == 1 else "matrices"
        rows = f", {self.rows_between} more rows after each" if self.rows_between else ""
        return f"{self.matrices} {plural}{rows}" + (f", {' and '.join(self.shared)} shared" if self.shared else "")


class Placement(NamedTuple):
    """The places of the matrices of a run.

    `padding` elements follow each row. `alignments`, `bases` and `batches`: bytes by name of a matrix. Its rows, base
    and batch stride are multiples of these, and of no larger power of two unless it is WIDEST or more. Bases are
    aligned as rows by default. `batch` is needed if the spec's batch is known only at run time. `ends`: the ends
    of groups of rows, or the counts of a batch; drawn if it is None.
    """

    padding: int = ROW_PADDING
    alignments: Mapping[str, int] = WIDEST_OF_ALL
    bases: Mapping[str, int] | None = None
    batches: Mapping[str, int] = WIDEST_OF_ALL
    batch: Batch | None = None
    ends: tuple[int, ...] | None = None


_USUAL = Placement()
_RANK_OF_BATCH = 3


def estimated_seconds(extents: tuple[int, int, int], cta: tuple[int, int, int] | None, level: str) -> float:
    """The interpreter's time for a product of (M, N, K) at a level, within a factor of a few.

    `cta` is the CTA tile; whole tiles are computed.
    """
    tiles = (1, 1, 1) if cta is None or level == str(Level.PROBLEM) else cta
    padded = [math.ceil(extent / tile) * tile for extent, tile in zip(extents, tiles, strict=True)]
    return math.prod(padded) / _SPEED.get(level, min(_SPEED.values()))


def check_patience(
    extents: tuple[int, int, int], cta: tuple[int, int, int] | None, level: str, matrices: int = 1
) -> float:
    """The estimated seconds for `matrices`. Raises InterpreterError if they exceed LONGEST_SECONDS."""
    seconds = matrices * estimated_seconds(extents, cta, level)
    if seconds > LONGEST_SECONDS:
        earlier = [name for name in LEVELS if matrices * estimated_seconds(extents, cta, name) <= LONGEST_SECONDS]
        other = f", an earlier level (--level {earlier[-1]})" if earlier else ""
        raise InterpreterError(
            f"{'x'.join(map(str, extents))} at level {level} takes the interpreter about {duration(seconds)}, more "
            f"than {duration(LONGEST_SECONDS)}: take a GPU, a smaller problem{other}, or --force [interpreter-patience]"
        )
    return seconds


def inputs_for(
    spec: GemmSpec, extents: tuple[int | None, ...], domain: str, seed: int, placement: Placement = _USUAL
) -> dict[str, Any]:
    """Random inputs by name.

    Floats are normally distributed, with NaN as padding. In the domain exact they are small integers. In the domain
    field they are uniform over the field: two different polynomials of degree d in the inputs then agree with a
    probability of at most d / prime. Integer types have any integers, in all domains.
    """
    m, n, k = extents
    rng, batch = np.random.default_rng(seed), placement.batch
    lies: dict[str, Any] = {"row_padding": placement.padding, "alignments": placement.alignments}
    if batch is not None:
        lies |= {"batch": batch.matrices, "shared": batch.shared, "batch_padding": batch.rows_between}
        lies["batches"] = placement.batches
    if placement.ends is not None and spec.is_grouped:
        lies["groups"] = len(placement.ends)
    inputs = random_inputs(spec, m, n, k, rng, **lies)
    if placement.ends is not None and spec.ends is not None:
        inputs[spec.ends] = np.array(placement.ends, np.int32)
    if number_domain(domain).is_float:
        return inputs
    convert = _of_field if domain == FieldDomain.name else _as_integers
    return unset(spec, {name: convert(value, rng) for name, value in inputs.items()})


def unset(spec: GemmSpec, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs, with arrays of their own for the results that a run sets among them."""
    return {**inputs, **stale(spec)}


def _as_integers(value: Any, rng: np.random.Generator) -> Any:
    if not isinstance(value, np.ndarray):
        return float(round(2 * value))
    if value.dtype.kind in "iu":
        return value
    value[...] = np.clip(np.rint(2 * value.astype(np.float64)), -3, 3).astype(value.dtype)
    return value


def _of_field(value: Any, rng: np.random.Generator) -> Any:
    """With the operand's strides between rows, and between matrices, in elements."""
    if not isinstance(value, np.ndarray):
        return float(rng.integers(FieldDomain.prime))
    if value.dtype.kind in "iu":
        return value
    if 0 in value.shape:
        return np.zeros(value.shape, np.int64)
    steps = [stride // value.itemsize for stride in value.strides]
    size = 1 + sum(step * (extent - 1) for step, extent in zip(steps, value.shape, strict=True))
    numbers = rng.integers(FieldDomain.prime, size=size)
    return as_strided(numbers, value.shape, [step * numbers.itemsize for step in steps])


def run(
    module: ir.Module | Loaded,
    spec: GemmSpec,
    inputs: Mapping[str, Any],
    placement: Placement = _USUAL,
    **options: Any,
) -> Any:
    """D of a module on the interpreter, or a dict of its results, with the inputs of `inputs_for`. Sets the results
    among these. `options`: as for `interpreter.interpret`.

    Raises InterpreterError.
    """
    m, n = extents_of(spec, inputs)
    batch, alignments = placement.batch, placement.alignments
    matrices, between = matrices_of(spec, inputs, batch), 0 if batch is None else batch.rows_between
    rows, columns = (m, n) if spec.d_order == "row" else (n, m)
    rows = drawn_rows_of_d(m) if spec.d_rows else rows
    bases = dict(alignments if placement.bases is None else placement.bases)
    base_of_d, outputs, first = bases.pop("d"), {}, spec.returned_results[0]
    for result in spec.full_results:
        aligned, of_batch, base = (
            _aligned(given, first.dtype, result.dtype) for given in (alignments["d"], placement.batches["d"], base_of_d)
        )
        size = numpy_dtype(result.dtype).itemsize
        stride, gap = row_stride(columns + placement.padding, aligned, size), elements_apart(of_batch, size)
        zeros = np.zeros((*matrices, rows, columns))
        outputs[result.name] = padded_matrix(zeros, result.dtype, stride, between, gap)
        bases[result.name] = base
    operands = {name: value for name, value in inputs.items() if name not in ("a", "b")}
    ordered = {"a": inputs["a"], "b": inputs["b"], **outputs, **operands}
    offsets = {name: bytes_of for name, bytes_of in bases.items() if bytes_of < WIDEST}
    found = interpreter.interpret(module, ordered, offsets=offsets, **options)
    return returned({first.name: found} if len(spec.returned_results) == 1 else found)


def before(spec: GemmSpec, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The argument `out` of `reference` for rows of D at an index: the results before a `run`, which are zeros."""
    if not spec.d_rows:
        return {}
    m, n = extents_of(spec, inputs)
    found = {each.name: np.zeros((drawn_rows_of_d(m), n)) for each in spec.full_results}
    return {"out": found if len(spec.returned_results) > 1 else returned(found)}


def _aligned(of_d: int, d: str, dtype: str) -> int:
    """The alignment in bytes of a full result of a type, from that of D: stores of all results have the same
    number of elements."""
    size, size_of_d = element_type(dtype).bytes, element_type(d).bytes
    return max(of_d, min(WIDEST, of_d * size // size_of_d))


def extents_of(spec: GemmSpec, inputs: Mapping[str, Any]) -> tuple[int, int]:
    """M and N of the product, from the shapes of the inputs."""
    m = len(inputs[A_ROWS]) if spec.a_rows else inputs["a"].shape[-2 if spec.layout[0] == "t" else -1]
    rows_of_b = inputs["b"].shape[-2 if spec.layout[1] == "n" else -1]
    return m, rows_of_b * spec.rows_per_byte // (1 if spec.pairs == APART else spec.epilogue_graph.sums)


def matrices_of(spec: GemmSpec, inputs: Mapping[str, Any], batch: Batch | None = None) -> tuple[int, ...]:
    """The first dimension of D if it has a matrix for each product of a batch, or for each group of K. Raises SpecError
    if the batch is a run-time argument, `batch` is not given, and A and B are shared by all products."""
    if spec.k_is_grouped:
        return np.shape(inputs[ENDS])
    sizes = {np.shape(inputs[name])[0] for name in ("a", "b") if np.ndim(inputs[name]) == _RANK_OF_BATCH}
    if spec.is_batched and batch is None and len(sizes) == 1:
        return (int(sizes.pop()),)
    return batch_of(spec, batch)


def batch_of(spec: GemmSpec, batch: Batch | None = None) -> tuple[int, ...]:
    """D's batch dimension, if it has one. Raises SpecError if its size is unknown."""
    matrices = spec.batch if batch is None else batch.matrices
    if spec.is_batched and not isinstance(matrices, int):
        raise SpecError(
            "the batch is a run-time argument of this kernel; say how many matrices it is to be run with [batch-to-run]"
        )
    return (matrices,) if spec.is_batched and isinstance(matrices, int) else ()


def cta_tile(module: ir.Module) -> tuple[int, int, int] | None:
    """The CTA tile in the module's schedule; None without a schedule."""
    schedule = Schedule.carried_by(module)
    return None if schedule is None or schedule.grid.tile is None or schedule.mainloop.k is None else schedule.tile_mnk
