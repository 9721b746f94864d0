"""Groups of rows with block scales, packed weights and integers on the GPU, in order and at an index, and batches with
block scales: against float64 within a derived bound."""

from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 272, 384), (1, 1008, 128), (4097, 144, 512))
FP8: dict[str, Any] = {"a": "e4m3", "b": "e4m3", "d": "bf16"}
BLOCKS = FP8 | {"block_scales": lt.BlockScales()}
COLUMNS = FP8 | {"a": "e5m2", "block_scales": lt.BlockScales(b=(1, 128))}
S4: dict[str, Any] = {"a": "bf16", "b": "s4", "d": "bf16", "group": 128}


def routed(acc, bias: lt.PerColumn, weight: lt.PerRow):
    return weight * (acc + bias)


def residual(acc, c: lt.Full):
    return acc + c


def scaled_rows(acc, row: lt.PerRow["f32"], column: lt.PerColumn["f32"]):  # noqa: F821
    return acc * row * column


CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "a scale for 128 columns": ("sm_90a", BLOCKS, None),
    "a scale for 128 columns, read by consumers": ("sm_90a", BLOCKS, "scales = direct"),
    "a scale for 128 columns, in turn": ("sm_90a", BLOCKS, "roles = pingpong(2), scales = staged"),
    "a scale for 128 columns, low tiles": ("sm_90a", BLOCKS, "grid.tile = [64, 192], scales = staged"),
    "a scale for 128 columns, even shares": ("sm_90a", BLOCKS, "scheduler = even_split"),
    "a scale for 128 columns, a bias and a weight": ("sm_90a", BLOCKS | {"epilogue": routed}, None),
    "a scale for 128 columns, stored at an index": ("sm_90a", BLOCKS | {"d_rows": True}, None),
    "a scale for each column": ("sm_90a", COLUMNS, None),
    "a scale for each column, B as (K, N)": ("sm_90a", COLUMNS | {"layout": "tt"}, None),
    "scales of rows and columns in the epilogue": ("sm_90a", FP8 | {"epilogue": scaled_rows}, None),
    "scales of rows and columns in the epilogue, mma.sync": ("sm_89", FP8 | {"epilogue": scaled_rows}, None),
    "weights of 4 bits": ("sm_80", S4, None),
    "weights of 4 bits, zero points": ("sm_90a", S4 | {"b": "u4", "zero_points": True, "group": 32}, None),
    "weights of 4 bits, gathered and scattered": ("sm_90a", S4 | {"a_rows": True, "d_rows": True}, None),
    "weights of 8 bits": ("sm_90a", S4 | {"b": "s8"}, None),
    "weights of e4m3 without scales": ("sm_80", {"a": "f16", "b": "e4m3", "d": "f32"}, None),
    "block scales, gathered and scattered": ("sm_90a", BLOCKS | {"a_rows": True, "d_rows": True}, None),
    "products of pieces": ("sm_90a", {"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"}, None),
    "products of pieces, mma.sync": (
        "sm_80",
        {"a": "f32", "b": "f32", "d": "f32", "precision": "bf16x6", "layout": "tt"},
        None,
    ),
    "A as (K, M)": ("sm_90a", {"a": "bf16", "b": "bf16", "d": "bf16", "layout": "nn"}, None),
    "A as (K, M), B as (K, N)": ("sm_90a", BLOCKS | {"layout": "nt"}, None),
    "A as (K, M), mma.sync": ("sm_80", {"a": "f16", "b": "f16", "d": "f16", "layout": "nt"}, None),
    "integers": ("sm_90a", {"a": "s8", "b": "u8", "d": "s32"}, None),
    "full operands, stored at an index": (
        "sm_90a",
        {"a": "bf16", "b": "bf16", "d": "bf16", "a_rows": True, "d_rows": True, "epilogue": residual},
        None,
    ),
    "full operands, stored at an index, mma.sync": (
        "sm_80",
        {"a": "bf16", "b": "bf16", "d": "bf16", "d_rows": True, "epilogue": residual},
        None,
    ),
}


BATCHES: dict[str, dict[str, Any]] = {
    "a batch": {},
    "a batch, a scale for each column": {"block_scales": lt.BlockScales(b=(1, 128))},
    "a batch, a scale for 128 rows": {"block_scales": lt.BlockScales(a=(128, 128))},
    "padded groups": {"counts": True},
    "padded groups, a scale for 128 rows": {"counts": True, "block_scales": lt.BlockScales(a=(128, 128))},
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_with_block_scales_agree_with_float64(name: str) -> None:
    kernel = lt.compile_gemm(lt.GemmSpec(**(BLOCKS | {"batch": None} | BATCHES[name])), target="sm_90a")
    for batch in (1, 5):
        manifest = {**kernel.manifest, "example": {**kernel.manifest["example"], "batch": batch}}
        for seed, size in enumerate(SIZES):
            outcome = verify_kernel(lt.runtime.Kernel(manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
            assert outcome.ok, (size, outcome.message)


@pytest.mark.parametrize("groups", [1, 7, 64])
@pytest.mark.parametrize("name", CASES)
def test_random_groups_agree_with_float64(name: str, groups: int) -> None:
    target, fields, schedule = CASES[name]
    spec = lt.GemmSpec(**({"groups": None} | fields))
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    manifest = {**kernel.manifest, "example": {**kernel.manifest["example"], "row_groups": groups}}
    for seed, size in enumerate(SIZES):
        outcome = verify_kernel(lt.runtime.Kernel(manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, (size, outcome.message)


def norms(acc, bias: lt.PerColumn):
    return {"d": acc + bias, "squares": lt.sum((acc + bias) * (acc + bias), dim=1)}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_reductions_of_rows_are_right_and_those_of_no_group_are_not_written(target: str) -> None:
    """Small integers, so that all sums are exact; 20 splits."""
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 1000, 136, 192, 9
    spec = lt.GemmSpec(n=n, k=k, groups=groups, a="bf16", b="bf16", d="f32", epilogue=norms)
    kernel = lt.compile_gemm(spec, target=target)
    a = torch.randint(-1, 2, (rows, k), device="cuda").bfloat16()
    b = torch.randint(-1, 2, (groups, n, k), device="cuda").bfloat16()
    bias = torch.randint(-2, 3, (groups, n), device="cuda").float()
    rng = np.random.default_rng(0)
    for _ in range(20):
        ends = np.sort(rng.integers(0, rows + 1, groups)).tolist()
        out = {"d": torch.full((rows, n), 7.0, device="cuda"), "squares": torch.full((rows,), 7.0, device="cuda")}
        expected, first = {name: x.double() for name, x in out.items()}, 0
        for group, end in enumerate(ends):
            expected["d"][first:end] = a[first:end].double() @ b[group].double().mT + bias[group].double()
            first = end
        expected["squares"][:first] = expected["d"][:first].square().sum(dim=1)
        kernel(a, b, bias=bias, ends=torch.tensor(ends, dtype=torch.int32, device="cuda"), out=out)
        assert all(torch.equal(x.double(), expected[name]) for name, x in out.items()), ends
