"""M, N or K of 0 at run time, as BLAS has it: no D and no launch, or D = epilogue(0)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from fake_arrays import DLPackArray, FakeTorch, InterfaceArray, Tensor, aligned
from fake_driver import GEMM_TYPES, FakeDriver, Install
from sample_kernel import argument, kernel_from, op, sample_manifest

from lowtide.errors import DeviceError, LaunchError
from lowtide.runtime import Kernel
from lowtide.runtime.checks import check_layout
from lowtide.runtime.operands import Operand
from lowtide.runtime.zeros import entry_of_zeros

M, N = 40, 24


def values_at(address: int, rows: int, row_stride: int, columns: int) -> np.ndarray:
    flat = np.frombuffer((ctypes.c_char * (2 * rows * row_stride)).from_address(address), dtype=np.float16)
    return flat.reshape(rows, row_stride)[:, :columns]


def multiply(values: list[Any]) -> None:
    """D = A·Bᵀ (+ alpha) in numpy, where the arguments say."""
    pa, lda, pb, ldb, pd, ldd, m, n, k, *alpha = values
    assert k == 1
    values_at(pd, m, ldd, n)[:] = values_at(pa, m, lda, k) @ values_at(pb, n, ldb, k).T + sum(alpha)


def empty(rows: int, columns: int) -> np.ndarray:
    return aligned(max(rows, 1), max(columns, 8))[:rows, :columns]


@pytest.fixture
def fake(install_driver: Install) -> FakeDriver:
    fake = install_driver(FakeDriver(types=GEMM_TYPES))
    fake.kernel = multiply
    return fake


def kernel_of(*extra: dict[str, Any]) -> Kernel:
    return kernel_from(sample_manifest(*extra, dtype="f16"))


@pytest.mark.parametrize("wrap", [InterfaceArray, DLPackArray, Tensor])
def test_without_k_the_output_is_zero(fake: FakeDriver, torch: FakeTorch, wrap: Any) -> None:
    kernel, d = kernel_of(), np.full((M, N), np.nan, np.float16)
    stored = aligned(M, 32)
    for _ in range(2):
        stored[:] = d[0, 0]
        kernel(wrap(empty(M, 0)), wrap(empty(N, 0)), out=wrap(stored[:, :N]))
        assert (stored[:, :N] == 0).all()
        assert np.isnan(stored[:, N:]).all()
    assert len(fake.memory) == 1


def test_without_k_the_epilogue_is_of_zero(install_driver: Install) -> None:
    fake = install_driver(FakeDriver(types=(*GEMM_TYPES, "f32")))
    fake.kernel = multiply
    d = aligned(M, N)
    kernel_of(argument("alpha", "scalar", "f32"))(
        InterfaceArray(empty(M, 0)), InterfaceArray(empty(N, 0)), alpha=2.5, out=InterfaceArray(d)
    )
    assert (d == 2.5).all()


def test_without_k_a_bound_launch_repeats(fake: FakeDriver, torch: FakeTorch) -> None:
    d = aligned(M, N)
    launch = kernel_of().bind(Tensor(empty(M, 0)), Tensor(empty(N, 0)), out=Tensor(d))
    for stream in (11, 12):
        torch.stream = stream
        d[:] = np.nan
        launch()
        assert (d == 0).all()
    assert [x.stream for x in fake.launches] == [11, 12]


def test_a_larger_problem_gets_more_zeros_and_the_old_ones_stay(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel, rows = kernel_of(), 10_000
    first, second = aligned(M, N), aligned(rows, N)
    launch = kernel.bind(Tensor(empty(M, 0)), Tensor(empty(N, 0)), out=Tensor(first))
    second[:] = first[:] = np.nan
    kernel(Tensor(empty(rows, 0)), Tensor(empty(N, 0)), out=Tensor(second))
    launch()
    assert len(fake.memory) == 2
    assert (first == 0).all()
    assert (second == 0).all()


def test_matrices_that_lie_along_k_have_a_row_of_zeros(fake: FakeDriver) -> None:
    manifest = sample_manifest(dtype="f16")
    manifest["spec"]["layout"] = "nt"
    for index, (dim, name, axis) in enumerate((("m", "a", 1), ("k", "a", 0), ("n", "b", 1))):
        manifest["host"][index] = op("memref.dim", [dim], [name], index=axis)
    seen: list[list[Any]] = []
    fake.kernel = seen.append
    d = InterfaceArray(aligned(M, N))
    kernel_from(manifest)(InterfaceArray(empty(0, M)), InterfaceArray(empty(0, N)), out=d)
    pa, lda, pb, ldb, *_, m, n, k = seen[0]
    assert (lda, ldb, m, n, k) == (M, N, M, N, 1)
    assert not values_at(pa, 1, M, M).any()
    assert not values_at(pb, 1, N, N).any()


def test_zeros_that_cannot_be_had_are_reported_with_a_way_out(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "cuMemAlloc", lambda size: (900, 0))
    with pytest.raises(
        DeviceError, match=r"zeros for K = 0 \(before a stream is captured, .*CUDA_ERROR_900.*\[driver-failed\]"
    ):
        kernel_of()(InterfaceArray(empty(M, 0)), InterfaceArray(empty(N, 0)), out=InterfaceArray(aligned(M, N)))
    assert not fake.launches


@pytest.mark.parametrize("wrap", [InterfaceArray, Tensor])
@pytest.mark.parametrize(("m", "n", "k"), [(0, N, 32), (M, 0, 32), (0, 0, 32), (0, N, 0), (M, 0, 0)])
def test_without_m_or_n_nothing_is_launched(
    fake: FakeDriver, torch: FakeTorch, wrap: Any, m: int, n: int, k: int
) -> None:
    kernel, a, b, d = kernel_of(), wrap(empty(m, k)), wrap(empty(n, k)), wrap(empty(m, n))
    for _ in range(2):
        assert kernel(a, b, out=d) is d
        assert kernel.bind(a, b, out=d)() is d
    assert not fake.launches
    assert not fake.memory


def test_an_output_without_elements_is_allocated(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel = kernel_of()
    for _ in range(2):
        assert kernel(Tensor(empty(0, 32)), Tensor(empty(N, 32))).shape == (0, N)
        assert kernel(Tensor(empty(M, 32)), Tensor(empty(0, 32))).shape == (M, 0)
        assert kernel(Tensor(empty(M, 0)), Tensor(empty(N, 0))).shape == (M, N)
    assert len(fake.launches) == 2


def test_operands_that_disagree_on_a_zero_are_refused(fake: FakeDriver) -> None:
    with pytest.raises(LaunchError, match=r"makes k = 32, but a.*\(40, 0\).*it 0.*\[extents-differ\]"):
        kernel_of()(InterfaceArray(empty(M, 0)), InterfaceArray(empty(N, 32)), out=InterfaceArray(aligned(M, N)))


def test_a_compiled_extent_is_not_zero(fake: FakeDriver) -> None:
    manifest = sample_manifest(dtype="f16")
    manifest["arguments"][0]["shape"] = [None, 32]
    with pytest.raises(LaunchError, match=r"is 0.*for 32.*\[operand-extent\]"):
        kernel_from(manifest)(
            InterfaceArray(empty(M, 0)), InterfaceArray(empty(N, 0)), out=InterfaceArray(aligned(M, N))
        )


def compiled_for(**extents: int) -> dict[str, Any]:
    """The sample kernel, compiled for known extents."""
    manifest = sample_manifest(dtype="f16")
    manifest["spec"] |= extents
    manifest["example"] |= extents
    dims = {"a": "mk", "b": "nk", "d": "mn"}
    for entry in manifest["arguments"]:
        entry["shape"] = [extents.get(letter) for letter in dims[entry["name"]]]
    return manifest


def test_a_kernel_for_k_of_0_reads_zeros_and_takes_no_other_k(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel, d = kernel_from(compiled_for(k=0)), aligned(M, N)
    d[:] = np.nan
    kernel(Tensor(empty(M, 0)), Tensor(empty(N, 0)), out=Tensor(d))
    assert (d == 0).all()
    with pytest.raises(LaunchError, match=r"operand a: extent 1.*\(40, 8\) is 8.*for 0.*\[operand-extent\]"):
        kernel(Tensor(aligned(M, 8)), Tensor(aligned(N, 8)), out=Tensor(d))


def test_a_kernel_for_m_of_0_launches_nothing(fake: FakeDriver, torch: FakeTorch) -> None:
    kernel = kernel_from(compiled_for(m=0))
    kernel(Tensor(empty(0, 8)), Tensor(aligned(N, 8)), out=Tensor(empty(0, N)))
    assert not fake.launches


def test_rows_of_zeros_are_aligned_for_a_tensor_map_if_there_is_one_row() -> None:
    entry = argument("b", dtype="f16", alignment=2)
    zeros = Operand(address=1 << 20, shape=(1, 7), strides=(8, 1), dtype="f16", device=0)
    assert check_layout(entry, zeros).strides == (7,)
    assert check_layout(entry_of_zeros(entry, ("k", "n")), zeros).strides == (8,)
    assert check_layout(entry_of_zeros(entry, ("m", "n")), zeros).strides == (7,)
