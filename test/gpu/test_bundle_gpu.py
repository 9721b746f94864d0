"""A bundle on a GPU: each call takes the kernel that it should for this target, and what it computes is right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.native import native_target
from lowtide.errors import LaunchError

try:
    import torch
except ImportError:
    torch = None

pytestmark = pytest.mark.gpu

FIXED = lt.GemmSpec(m=128, n=256, k=320, a="bf16", b="bf16", d="bf16")
OPEN = lt.GemmSpec(a="bf16", b="bf16", d="bf16")
HALVES = lt.GemmSpec(a="f16", b="f16", d="f32", layout="tt")
# What a process without the compiler does: load, call, compare.
ALONE = """
import sys, torch
from lowtide import runtime
gemms = runtime.load_bundle(sys.argv[1])
a, b = (torch.randn(rows, 320, device="cuda").bfloat16() for rows in (128, 256))
d = gemms(a, b)
assert not any(name.partition(".")[0] == "mlir" for name in sys.modules)
exact = a.double() @ b.double().mT
assert bool(((d.double() - exact).abs() <= exact.abs() * 2.0**-8 + 1e-3).all())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lt.bundle([OPEN, FIXED, HALVES], tmp_path_factory.mktemp("bundle") / "gemms", progress=False)


def random(*shape: int, dtype: str = "bfloat16") -> Any:
    return torch.randn(*shape, device="cuda").to(getattr(torch, dtype))


def check(d: Any, a: Any, b: Any) -> None:
    """`b`: (K, N)."""
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    bound = size * (a.shape[-1] + 3) * 2.0**-23 + exact.abs() * 2.0**-8
    assert d.shape == exact.shape and bool(((d.double() - exact).abs() <= bound).all())


def test_each_call_takes_its_kernel(folder: Path) -> None:
    gemms, target = lt.runtime.load_bundle(folder), native_target()[0].name
    for m, n, k, is_fixed in ((128, 256, 320, True), (129, 256, 320, False), (7, 40, 72, False)):
        a, b = random(m, k), random(n, k)
        manifest = gemms.kernel_for(a, b).manifest
        assert (manifest["spec"]["m"] is not None) == is_fixed
        assert manifest["target"] == target or target not in ("sm_80", "sm_90a")
        check(gemms(a, b), a, b.mT)
        out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        gemms.bind(a, b, out=out)()
        check(out, a, b.mT)
    a, b = random(65, 64, dtype="float16"), random(64, 72, dtype="float16")
    d = gemms(a, b)
    assert d.dtype == torch.float32
    check(d, a, b)
    with pytest.raises(LaunchError, match="dtype"):
        gemms(a.float(), b.float())


def test_a_bundle_needs_no_compiler(folder: Path) -> None:
    root = Path(lt.__file__).resolve().parents[1]
    subprocess.run([sys.executable, "-c", ALONE, str(folder)], check=True, env={**os.environ, "PYTHONPATH": str(root)})
