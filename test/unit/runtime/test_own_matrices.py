"""Saved kernels that were compiled by their defaults take the problem's own matrices, without the compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_arrays import InterfaceArray, aligned
from fake_driver import FakeDriver, Install

import lowtide as lt
from lowtide import runtime

NUMPY_TYPES = {"f32": np.float32, "f64": np.float64, "s8": np.int8}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(("dtype", "layout"), [("f32", "nn"), ("f64", "tt"), ("s8", "nt")])
def test_a_saved_kernel_takes_them(
    dtype: str, layout: str, is_open: bool, tmp_path: Path, install_driver: Install
) -> None:
    """Three launches copy A, B and D; slices of larger matrices are taken too."""
    m, n, k = 129, 257, 131
    extents: dict[str, Any] = {} if is_open else {"m": m, "n": n, "k": k}
    spec = lt.GemmSpec(a=dtype, b=dtype, d=dtype, layout=layout, **extents)
    compiled, copy = lt.compile_gemm(spec, target="sm_80"), f"lowtide_gemm_copy_{dtype}"
    compiled.save(tmp_path / "kernel")
    kernel, fake = runtime.load(tmp_path / "kernel"), install_driver(FakeDriver(types=("ptr",)))
    shapes = [(m, k) if layout[0] == "t" else (k, m), (n, k) if layout[1] == "n" else (k, n), (m, n)]
    for more in (0, 2):
        wide = [np.zeros((rows, columns + more), NUMPY_TYPES[dtype]) for rows, columns in shapes]
        a, b, d = (InterfaceArray(x[:, more // 2 : x.shape[1] - more // 2]) for x in wide)
        kernel(a, b, out=d)
        assert [launch.function for launch in fake.launches] == [copy, copy, compiled.entry, copy]
        fake.launches.clear()
    padded = [InterfaceArray(aligned(rows, 272, NUMPY_TYPES[dtype])[:, :columns]) for rows, columns in shapes]
    kernel(padded[0], padded[1], out=padded[2])
    assert [launch.function for launch in fake.launches] == [compiled.entry]
