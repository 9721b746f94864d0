"""Calls of a kernel for groups of K: D has a matrix for each of `ends`, also if the call allocates it."""

from __future__ import annotations

import numpy as np
from fake_arrays import FakeTorch, Tensor, aligned
from fake_driver import FakeDriver, Install

import lowtide as lt
from lowtide.runtime import Kernel

M, N, K = 64, 72, 128


def test_a_d_that_is_not_given_has_as_many_matrices_as_there_are_ends(
    install_driver: Install, torch: FakeTorch
) -> None:
    spec = lt.GemmSpec(m=M, n=N, groups=lt.Groups(axis="k"), a="f16", b="f16", d="f16", layout="nt")
    compiled = lt.compile_gemm(spec, target="sm_80")
    (launch,) = (entry["attributes"] for entry in compiled.manifest["host"] if entry["op"] == "tile.launch")
    install_driver(FakeDriver(types=tuple(x["type"] for x in launch["arguments"])))
    kernel = Kernel(compiled.manifest, compiled.ptx)
    a, b = Tensor(aligned(K, M)), Tensor(aligned(K, N))
    for groups in (3, 5, 3):
        ends = Tensor(np.full(groups, K, dtype=np.int32))
        assert kernel(a, b, ends=ends).shape == (groups, M, N)


def test_d_may_be_the_operand_that_is_added(install_driver: Install, torch: FakeTorch) -> None:
    def added(acc, c: lt.Full):  # type: ignore[no-untyped-def]
        return acc + c

    spec = lt.GemmSpec(m=M, n=N, groups=lt.Groups(axis="k"), a="f16", b="f16", d="f32", layout="nt", epilogue=added)
    compiled = lt.compile_gemm(spec, target="sm_80")
    (launch,) = (entry["attributes"] for entry in compiled.manifest["host"] if entry["op"] == "tile.launch")
    driver = install_driver(FakeDriver(types=tuple(x["type"] for x in launch["arguments"])))
    kernel = Kernel(compiled.manifest, compiled.ptx)
    a, b = Tensor(aligned(K, M)), Tensor(aligned(K, N))
    ends, d = Tensor(np.full(3, K, dtype=np.int32)), Tensor(np.zeros((3, M, N), np.float32))
    assert kernel(a, b, ends=ends, c=d, out=d) is d
    assert len(driver.launches) == 1
