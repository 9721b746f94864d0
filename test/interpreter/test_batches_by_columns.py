"""Batches whose D and full operands lie by columns in memory, or as the kernel sees them: at every level, with operands
that are batches and operands that are shared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide import targets
from lowtide.compiler.problem_ir import problem_text
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret, launch_record
from lowtide.runtime import records
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.random_inputs import random_inputs
from lowtide.verification.checking.reference import reference_with_bound

EXTENTS = {"m": 21, "n": 13, "k": 24}


def every_kind(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn):
    return (acc + c) * row - column


def spec_of(layout: str, batch: int | None, dtype: str = "bf16") -> lt.GemmSpec:
    known = {} if batch is None else EXTENTS
    return lt.GemmSpec(
        a=dtype, b=dtype, d=dtype, layout=layout, batch=batch, d_order="column", epilogue=every_kind, **known
    )


@pytest.mark.parametrize("shared", [(), ("b", "c"), ("a", "row", "column")])
@pytest.mark.parametrize(
    ("target", "layout", "batch", "dtype"), [("sm_80", "tt", 3, "f32"), ("sm_90a", "nn", None, "bf16")]
)
def test_every_level_is_right(target: str, layout: str, batch: int | None, dtype: str, shared: tuple[str, ...]) -> None:
    spec = spec_of(layout, batch, dtype)
    kernel = lt.compile_gemm(spec, target=target, schedule="grid.tile = [64, 32]")
    inputs = random_inputs(spec, **EXTENTS, rng=np.random.default_rng(1), batch=3, shared=shared)
    wanted = reference_with_bound(spec, **inputs)
    for level in kernel.levels:
        d = kernel.interpret(**inputs, level=level)
        assert d.shape == (3, EXTENTS["n"], EXTENTS["m"])
        found = compare(spec, d, *wanted)
        assert found.ok, f"{level}: {found.message}"


def rows_and_columns(acc, row: lt.PerRow, column: lt.PerColumn):
    return acc * row - column


# The D of a swapped product lies by rows, and the kernel sees it by columns.
SWAPPED = {
    "direct, by mma.sync": ("sm_80", "grid.tile = [64, 32], operands = swapped", every_kind),
    "threads": (
        "sm_90a",
        "grid.tile = [64, 24], operands = swapped, epilogue.path = smem, epilogue.store = 8",
        every_kind,
    ),
    "TMA": ("sm_90a", "grid.tile = [64, 24], operands = swapped, epilogue.path = tma", rows_and_columns),
}


def swapped(road: str) -> tuple[Any, lt.GemmSpec, dict[str, np.ndarray]]:
    """A kernel, its spec, and inputs of which B is shared; rows of D are whole units of TMA."""
    target, schedule, epilogue = SWAPPED[road]
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", batch=None, epilogue=epilogue)
    inputs = random_inputs(spec, 21, 88, 72, rng=np.random.default_rng(5), batch=3, shared=("b",))
    return lt.compile_gemm(spec, target=target, schedule=schedule), spec, inputs


@pytest.mark.parametrize("road", SWAPPED)
def test_every_level_of_a_swapped_batch_is_right(road: str) -> None:
    kernel, spec, inputs = swapped(road)
    wanted = reference_with_bound(spec, **inputs)
    for level in kernel.levels:
        found = compare(spec, kernel.interpret(**inputs, level=level, sms=2), *wanted)
        assert found.ok, f"{level}: {found.message}"


@pytest.mark.parametrize("road", ["threads", "TMA"])
def test_a_saved_kernel_launches_a_swapped_batch_alike(road: str, tmp_path: Path) -> None:
    kernel, _, inputs = swapped(road)
    kernel.save(tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    given = {"a": inputs["a"], "b": inputs["b"], "d": np.zeros((3, 21, 96), inputs["a"].dtype)[..., :88], **inputs}
    saved = records.launch_record(manifest, given, 4)
    assert launch_record(kernel.levels["llvm"], given, sms=4).launches == saved.launches


def test_the_matrices_of_d_may_lie_row_by_row() -> None:
    """`out` is a view of (N, batch, M)."""
    spec = spec_of("tn", None)
    inputs = random_inputs(spec, **EXTENTS, rng=np.random.default_rng(2), batch=3, shared=())
    kernel, wanted = lt.compile_gemm(spec, target="sm_80"), reference_with_bound(spec, **inputs)
    out = np.zeros((EXTENTS["n"], 3, EXTENTS["m"]), inputs["c"].dtype)
    kernel.interpret(**inputs, out=out.transpose(1, 0, 2))
    assert compare(spec, out.transpose(1, 0, 2), *wanted).ok


def test_a_full_operand_that_lies_by_rows_is_refused() -> None:
    spec = spec_of("tn", 3)
    inputs = random_inputs(spec, **EXTENTS, rng=np.random.default_rng(3), shared=())
    inputs["c"] = np.ascontiguousarray(inputs["c"].swapaxes(-1, -2))
    with pytest.raises(
        InterpreterError,
        match=r"operand c: extent 1 of shape \(3, 21, 13\) is 21, .* compiled for 13.*\[matrix-extent\]",
    ):
        lt.compile_gemm(spec, target="sm_80").interpret(**inputs)


def test_d_is_returned_as_stored() -> None:
    spec = lt.GemmSpec(m=None, n=None, k=None, batch=3, a="f16", b="f16", d="f16", d_order="column")
    inputs = random_inputs(spec, 5, 8, 16, rng=np.random.default_rng(4))
    text = problem_text(spec, targets.get("sm_80"))
    d = interpret(text, {**inputs, "d": np.zeros((3, 8, 5), np.float16)})
    assert compare(spec, d, *reference_with_bound(spec, **inputs)).ok
