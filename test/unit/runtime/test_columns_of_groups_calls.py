"""Checks of kernels for groups of rows, and padded ones, with D by columns, on a driver whose launches run numpy."""

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
TYPES = {"m": M, "n": N, "k": K, "a": "bf16", "b": "bf16", "d": "bf16"}
SPECS = {
    "groups": lt.GemmSpec(groups=GROUPS, d_order="column", **TYPES),
    "padded groups": lt.GemmSpec(batch=GROUPS, counts=True, d_order="column", **TYPES),
}
SPLITS = {"groups": [5, 5, M - 1], "padded groups": [5, -2, M - 1]}


@cache
def compiled(kind: str) -> CompiledKernel:
    return lt.compile_gemm(SPECS[kind], "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")


def multiplies(kind: str, fault: str = "") -> Callable[[list[Any]], None]:
    """A kernel that multiplies the rows of groups in numpy, with a fault where one is named."""

    def kernel(values: list[Any]) -> None:
        if kind == "groups":
            a, lda, b, of_b, ldb, d, ldd, ends = values
            of_a = of_d = 0
        else:
            a, of_a, lda, b, of_b, ldb, d, of_d, ldd, ends = values
        given = np.frombuffer((ctypes.c_char * (4 * GROUPS)).from_address(ends), dtype=np.int32)
        last = 0
        for group, end in enumerate(np.clip(given, 0, M).tolist()):
            first, last = (last if kind == "groups" else 0), end
            left = from_bits(np.ascontiguousarray(matrix(a + 2 * group * of_a, M, lda, K)), "bf16")
            right = from_bits(np.ascontiguousarray(matrix(b + 2 * group * of_b, N, ldb, K)), "bf16")
            stored, result = matrix(d + 2 * group * of_d, N, ldd, M), to_bits(right @ left.T, "bf16")
            rows = slice(first + (fault == "leaves out a row"), end + (fault == "stores a row more"))
            stored[:, rows] = result[::-1, rows] if fault == "stores another column" else result[:, rows]

    return kernel


FAULTS = {
    "leaves out a row": "elements of D were not written",
    "stores another column": "out of bound",
    "stores a row more": "rows of D were written that belong to no group",
}


@pytest.mark.parametrize("fault", ["", *FAULTS])
@pytest.mark.parametrize("kind", SPECS)
def test_a_run_judges_the_rows_of_groups_and_all_others(install_driver: Any, kind: str, fault: str) -> None:
    fake, spec = install_driver(Driver(compiled(kind))), SPECS[kind]
    fake.kernel = multiplies(kind, fault)
    inputs = lt.random_inputs(spec, M, N, K, np.random.default_rng(1), **({"shared": ()} if spec.counts else {}))
    assert spec.ends is not None
    inputs |= {spec.ends: np.array(SPLITS[kind], np.int32)}
    ran = run_on_gpu(compiled(kind), spec, inputs)
    assert ran.d.shape[-2:] == (N, M)
    verdict = against_float64(spec, inputs, ran.d)
    if fault == "stores another column":
        assert not verdict.ok and not ran.complaint and FAULTS[fault] in verdict.message
    else:
        assert FAULTS.get(fault, "") in ran.complaint and bool(fault) == bool(ran.complaint)


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_saved_kernel_is_verified_at_drawn_counts(install_driver: Any, fault: str) -> None:
    """Seed 2 shares neither A nor B among the groups."""
    kernel = compiled("padded groups")
    fake = install_driver(Driver(kernel))
    fake.kernel = multiplies("padded groups", fault)
    outcome = verify_kernel(Kernel(kernel.manifest, kernel.ptx), seed=2)
    assert outcome.ok == (not fault) and FAULTS.get(fault, "") in outcome.message


@pytest.mark.parametrize("fault", ["", "leaves out a row", "stores another column"])
def test_a_saved_kernel_is_verified_at_drawn_ends(install_driver: Any, fault: str) -> None:
    """All rows belong to a group."""
    kernel = compiled("groups")
    fake = install_driver(Driver(kernel))
    fake.kernel = multiplies("groups", fault)
    outcome = verify_kernel(Kernel(kernel.manifest, kernel.ptx), seed=2)
    assert outcome.ok == (not fault) and FAULTS.get(fault, "") in outcome.message
