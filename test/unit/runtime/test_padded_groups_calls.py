"""Checks of kernels for padded groups of rows, on a driver whose launches run numpy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from test_gpu_run import Driver, matrix

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.runtime import Kernel
from lowtide.runtime.dtypes import from_bits, to_bits
from lowtide.runtime.verify import verify_kernel
from lowtide.verification.checking.gpu_run import run_on_gpu
from lowtide.verification.checking.verdicts import against_float64

M, N, K, GROUPS = 37, 24, 40, 3
SPEC = lt.GemmSpec(m=M, n=N, k=K, batch=GROUPS, counts=True, a="bf16", b="bf16", d="bf16")


@cache
def compiled() -> CompiledKernel:
    return lt.compile_gemm(SPEC, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")


def multiplies(fault: str = "") -> Callable[[list[Any]], None]:
    """A kernel that multiplies the rows that count in numpy, with a fault where one is named."""

    def kernel(values: list[Any]) -> None:
        a, of_a, lda, b, of_b, ldb, d, of_d, ldd, counts = values
        given = np.frombuffer((ctypes.c_char * (4 * GROUPS)).from_address(counts), dtype=np.int32)
        for group, count in enumerate(np.clip(given, 0, M).tolist()):
            left = from_bits(np.ascontiguousarray(matrix(a + 2 * group * of_a, M, lda, K)), "bf16")
            right = from_bits(np.ascontiguousarray(matrix(b + 2 * group * of_b, N, ldb, K)), "bf16")
            stored, result = matrix(d + 2 * group * of_d, M, ldd, N), to_bits(left @ right.T, "bf16")
            rows = slice(fault == "leaves out a row", count + (fault == "stores a row more"))
            stored[rows] = result[::-1][rows] if fault == "stores another row" else result[rows]

    return kernel


FAULTS = {
    "leaves out a row": "elements of D were not written",
    "stores another row": "out of bound",
    "stores a row more": "rows of D were written that belong to no group",
}


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_run_judges_the_rows_that_count_and_all_others(install_driver: Any, fault: str) -> None:
    fake = install_driver(Driver(compiled()))
    fake.kernel = multiplies(fault)
    inputs = lt.random_inputs(SPEC, M, N, K, np.random.default_rng(1), shared=())
    inputs |= {"counts": np.array([5, -2, M - 1], np.int32)}
    ran = run_on_gpu(compiled(), SPEC, inputs)
    verdict = against_float64(SPEC, inputs, ran.d)
    if fault == "stores another row":
        assert not verdict.ok and not ran.complaint and FAULTS[fault] in verdict.message
    else:
        assert FAULTS.get(fault, "") in ran.complaint and bool(fault) == bool(ran.complaint)


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_saved_kernel_is_verified_at_drawn_counts(install_driver: Any, fault: str) -> None:
    """Seed 2 shares neither A nor B among the groups."""
    fake = install_driver(Driver(compiled()))
    fake.kernel = multiplies(fault)
    outcome = verify_kernel(Kernel(compiled().manifest, compiled().ptx), seed=2)
    assert outcome.ok == (not fault) and FAULTS.get(fault, "") in outcome.message
