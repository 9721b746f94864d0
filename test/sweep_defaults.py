"""Checks that problems compile with default schedules: `python test/sweep_defaults.py --first 0 --count 1000`.

Each number draws a problem: types, layouts, extents from 1 to 8192, known or not, batches, epilogues with full
operands, packed weights, scales of blocks. The problem is compiled for a target without a schedule, and the PTX is
assembled. The saved kernel must accept dense operands. If the problem is small, the PTX is interpreted, and its
results are compared with float64. If the code spills, or the problem is refused, or a result is wrong, the problem is
printed with its number; the number draws the same problem again. The exit status is 0 if none is printed. `--journal
FILE` keeps a line of JSON for each problem; numbers that are in the file are skipped.
"""

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import lowtide as lt
from lowtide.compiler.compile import compile_anew
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.epilogue.ready import READY
from lowtide.compiler.epilogue.signatures import annotated
from lowtide.compiler.epilogue.signatures import operand_types as types_of_operands
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.spec_fields import D_ORDERS, FAST, LAYOUTS, UNBATCHED
from lowtide.decompositions import DECOMPOSITIONS
from lowtide.elements import element_type, types_of_d
from lowtide.interpreter import run
from lowtide.runtime.records import launch_record
from lowtide.runtime.storage import read
from lowtide.targets import Target, accumulator_types, get, operand_types, types_of_atom
from lowtide.verification.checking.interpretation import unset
from lowtide.verification.checking.verdicts import against_float64
from lowtide.verification.fuzz.words import SCALES, WEIGHTS

_TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_90a")  # roles have the most to choose
_LARGEST = 8192
_OPEN = 37  # in place of an extent that is not known
_OPEN_OF_WEIGHTS = 48, 256  # in place of N and K with packed weights: multiples of 16, and of each group
_INTERPRETED = 2**15  # kernels with at most this many scalar products are also run
_SMS = 3
_SMALL = 64  # integers of A and B are divided by this
_COMMON = ("f16", "bf16")  # half of the problems


def _scaled(acc: Any, c: lt.Full) -> Any:
    return acc + 3 * c


def _sum_of_two(acc: Any, c: lt.Full, e: lt.Full) -> Any:
    return acc * c + e


def _gated(acc: Any, gate: lt.Full, bias: lt.PerColumn) -> Any:
    return lt.silu(acc + bias) * gate


def _by_row(acc: Any, scale: lt.PerRow, c: lt.Full) -> Any:
    return lt.gelu(acc * scale) + c


def _by_row_and_column(acc: Any, scale: lt.PerRow, bias: lt.PerColumn) -> Any:
    return acc * scale + bias


_EPILOGUES: dict[str, Callable[..., Any] | None] = {
    **READY,
    "scaled": _scaled,
    "sum of two": _sum_of_two,
    "gated": _gated,
    "by row": _by_row,
    "by row and column": _by_row_and_column,
}


@dataclass(frozen=True)
class Found:
    """How a problem ended: `message` is "" if all is well. `passed_over`: the choices that were dropped before."""

    number: int
    target: str
    problem: str
    message: str
    seconds: float
    passed_over: tuple[str, ...] = ()


def drawn(number: int) -> tuple[str, lt.GemmSpec]:
    """The target and the problem of a number."""
    random_ = random.Random(number)
    while True:
        target, values = random_.choice(_TARGETS), _values(random_)
        try:
            spec = lt.GemmSpec(**values)
        except lt.SpecError:
            continue
        if _serves(get(target), spec):
            return target, spec


def _serves(target: Target, spec: lt.GemmSpec) -> bool:
    """Whether a target has instructions for the types."""
    suffix = f".{types_of_atom(spec.sums, *spec.multiplied)}"
    multiplies = any(name.endswith(suffix) for name in target.mma_atoms) or spec.decomposition is not None
    converts = target.compute_capability >= element_type(spec.d).converts_on
    scales = spec.block_scales is None or target.name == "sm_90a"
    groups = spec.group is None or element_type(spec.sums).bits == 32  # sums of groups are added in f32
    return multiplies and converts and scales and groups


def _values(draw: random.Random) -> dict[str, Any]:
    """Fields of a spec, which may not go together."""
    a = draw.choice(_COMMON) if draw.random() < 0.5 else draw.choice(operand_types())
    values: dict[str, Any] = {"a": a, "b": a, "layout": draw.choice(LAYOUTS)}
    sums = accumulator_types(a, a)
    values["d"] = a if a in types_of_d() and draw.random() < 0.6 else draw.choice(types_of_d())
    values["acc"] = draw.choice((*sums, FAST)) if draw.random() < 0.1 else None
    values["d_order"] = draw.choice(D_ORDERS) if draw.random() < 0.5 else D_ORDERS[0]
    for name in ("m", "n", "k"):
        values[name] = None if draw.random() < 0.2 else _extent(draw)
    rare = draw.random()
    if rare < 0.15:
        values["batch"] = draw.choice((None, 2, 3, 16, 100))
    elif rare < 0.2:
        values["precision"] = draw.choice([row.name for row in DECOMPOSITIONS.values() if row.whole == a] or [a])
    elif rare < 0.27 and a in _COMMON:
        weights = draw.choice([found for found in WEIGHTS.values() if found is not None])
        values |= {"b": weights[0], "group": weights[1], "zero_points": weights[2]}
    elif rare < 0.3:
        values["block_scales"] = draw.choice([found for found in SCALES.values() if found is not None])
    values["amax"] = draw.random() < 0.05
    function = _EPILOGUES[draw.choice(list(_EPILOGUES))] if draw.random() < 0.75 else None
    if function is not None and draw.random() < 0.3:
        dtype = draw.choice(("f16", "bf16", "f32", values["d"]))
        function = annotated(function, dict.fromkeys(types_of_operands(function), dtype))
    return values | {"epilogue": function}


def _extent(draw: random.Random) -> int:
    """Small and large ones as often, half of them multiples of 8."""
    extent = min(_LARGEST, round(2 ** draw.uniform(0, 13)))
    return -(-extent // 8) * 8 if draw.random() < 0.5 else extent


def text_of(spec: lt.GemmSpec) -> str:
    """The problem in one line."""
    of_epilogue = ", ".join(f"{each.name}: {each.kind.value} {each.dtype}" for each in spec.operands)
    name = getattr(spec.epilogue, "__name__", "none")
    extents = "x".join("?" if extent is None else str(extent) for extent in (spec.m, spec.n, spec.k))
    batch = "" if spec.batch is UNBATCHED else f", batch {spec.batch or '?'}"
    more = f", {spec.precision}" if spec.precision else ""
    more += f", {spec.block_scales}" if spec.block_scales else ""
    types = f"{spec.a} x {spec.b} {spec.layout} {extents}{batch} to {spec.d} by {spec.d_order}"
    return f"{types}, sums {spec.acc}{more}, {name}({of_epilogue})"


def _assembled(spec: lt.GemmSpec, kernel: CompiledKernel) -> str:
    """Why the machine code is bad; "" if it is not."""
    try:
        _ = kernel.assembly
    except lt.CompileError as error:
        return str(error)
    return ""


def _takes_dense_operands(spec: lt.GemmSpec, kernel: CompiledKernel) -> str:
    """Why the saved and loaded kernel refuses dense operands, or, for a small problem, why D is wrong; "" otherwise."""
    of_n, of_k = _OPEN_OF_WEIGHTS if spec.is_mixed else (_OPEN, _OPEN)
    extents = [given or open_ for given, open_ in zip((spec.m, spec.n, spec.k), (_OPEN, of_n, of_k), strict=True)]
    batch = {"batch": spec.batch or 3} if spec.is_batched else {}
    is_run = math.prod(extents) * math.prod(batch.values()) <= _INTERPRETED
    known = replace(spec, **dict(zip("mnk", extents, strict=True)), **batch)
    given = lt.random_inputs(known, *extents, np.random.default_rng(sum(extents))) if is_run else _zeros(known)
    if not element_type(spec.a).is_float:  # sums of any bytes overflow narrow types of D
        given |= {name: given[name] // _SMALL for name in ("a", "b")}
    dense = {
        name: value.copy() if is_run and isinstance(value, np.ndarray) else value
        for name, value in unset(spec, given).items()
    }
    results = {each.name: np.zeros(known.d_shape, numpy_dtype(each.dtype)) for each in spec.full_results}
    with tempfile.TemporaryDirectory() as folder:
        manifest, ptx, _ = read(kernel.save(Path(folder) / "saved"))
    try:
        record = launch_record(manifest, {**dense, **results}, sm_count=_SMS)
        if not is_run:
            return ""
        found = run(ptx, record)
        others = {each.name: found[each.name] for each in spec.results if each.name not in results}
        outcome = against_float64(spec, {**given, **others}, {name: found[name] for name in results})
    except lt.Error as error:
        return str(error)
    return "" if outcome.ok else outcome.message


def _zeros(spec: lt.GemmSpec) -> dict[str, Any]:
    """Dense operands of a problem with known extents. Large ones take no memory, since nothing touches it."""
    shapes = {"a": (spec.a, spec.a_shape), "b": (spec.stored_b, spec.b_shape)}
    for each in spec.operands:
        shape = each.shape(spec.m, spec.n, spec.k)
        is_by_column = each.kind is OperandKind.FULL and spec.d_order != D_ORDERS[0]
        shapes[each.name] = each.dtype, (*spec.batch_shape, *(shape[::-1] if is_by_column else shape))
    scalars = {each.name: 0.0 for each in spec.operands if each.kind is OperandKind.SCALAR}
    return {name: np.zeros(shape, numpy_dtype(dtype)) for name, (dtype, shape) in shapes.items()} | scalars


CHECKS: tuple[Callable[[lt.GemmSpec, CompiledKernel], str], ...] = (_assembled, _takes_dense_operands)
"""Each returns what is wrong with a kernel, or ""."""


def tried(number: int) -> Found:
    """Compile the problem of a number, and check the kernel."""
    target, spec = drawn(number)
    started, message = time.perf_counter(), ""
    dropped: tuple[str, ...] = ()
    try:
        kernel = compile_anew(spec, target)
        dropped = tuple(map(str, kernel.passed_over))
        message = next(filter(None, (check(spec, kernel) for check in CHECKS)), "").partition("\n")[0]
    except lt.Error as error:
        message = str(error).partition("\n")[0]
    return Found(number, target, text_of(spec), message, time.perf_counter() - started, dropped)


def _left(first: int, count: int, journal: Path | None) -> Iterator[int]:
    """The numbers without a line in the journal. A line that was cut off, when an earlier run ended, is removed."""
    whole = journal.read_bytes() if journal is not None and journal.exists() else b""
    lines = whole[: whole.rfind(b"\n") + 1]
    if journal is not None and lines != whole:
        journal.write_bytes(lines)
    known = {json.loads(line)["number"] for line in lines.splitlines()}
    yield from (number for number in range(first, first + count) if number not in known)


def main() -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--journal", type=Path)
    options = parser.parse_args()
    failures = 0
    for number in _left(options.first, options.count, options.journal):
        found = tried(number)
        if options.journal is not None:
            with options.journal.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(found)) + "\n")
        if found.message:
            failures += 1
            print(f"{number}: {found.target} {found.problem}: {found.message}", flush=True)
    print(f"{failures} of {options.count} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
