"""Lists of matrices as operands: their tables, what a call checks of them, and `lt.grouped_matmul` with a list."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from fake_arrays import FakeTorch, InterfaceArray, Tensor, aligned
from test_gpu_run import Driver, matrix

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.matmul import grouped
from lowtide.compiler.matmul.grouped import Grouped, GroupedMatmul
from lowtide.errors import LaunchError
from lowtide.runtime import Kernel
from lowtide.runtime.dtypes import from_bits, to_bits
from lowtide.runtime.lists import ENTRIES, list_at, rows_of_batch
from lowtide.runtime.manifest import validate
from lowtide.runtime.operands import Operand
from lowtide.runtime.verify import verify_kernel
from lowtide.verification.checking.gpu_run import run_on_gpu
from lowtide.verification.checking.verdicts import against_float64

M, N, K, COUNT = 37, 24, 40, 3
SPEC = lt.GemmSpec(n=N, k=K, groups=None, a="bf16", b="bf16", d="bf16", lists="b")


@cache
def compiled() -> CompiledKernel:
    return lt.compile_gemm(SPEC, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")


def multiplies(fault: str = "") -> Callable[[list[Any]], None]:
    """A kernel that multiplies groups in numpy, with a fault where one is named."""

    def kernel(values: list[Any]) -> None:
        a, lda, m, table, _, _, count, d, ldd, _, at_ends, _ = values
        ends = np.frombuffer((ctypes.c_char * (4 * count)).from_address(at_ends), np.int32)
        rows = np.frombuffer((ctypes.c_char * (8 * ENTRIES * count)).from_address(table), np.int64)
        first, left = 0, from_bits(np.ascontiguousarray(matrix(a, m, lda, K)), "bf16")
        for (address, *extents, stride), end in zip(rows.reshape(count, ENTRIES).tolist(), ends.tolist(), strict=True):
            assert extents == [N, K]
            address = int(rows[0]) if fault else address
            right = from_bits(np.ascontiguousarray(matrix(address, N, stride, K)), "bf16")
            matrix(d, m, ldd, N)[first:end] = to_bits(left[first:end] @ right.T, "bf16")
            first = end

    return kernel


@pytest.mark.parametrize("fault", ["", "all groups have the first matrix"])
def test_a_run_and_a_saved_kernel_take_the_matrices_as_a_list(install_driver: Any, fault: str) -> None:
    fake = install_driver(Driver(compiled()))
    fake.kernel = multiplies(fault)
    inputs = lt.random_inputs(SPEC, M, N, K, np.random.default_rng(1), groups=COUNT)
    ran = run_on_gpu(compiled(), SPEC, inputs)
    assert not ran.complaint and against_float64(SPEC, inputs, ran.d).ok == (not fault)
    assert verify_kernel(Kernel(compiled().manifest, compiled().ptx), size=(M, N, K)).ok == (not fault)
    assert not fake.memory


def record(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str = "bf16") -> Operand:
    return Operand(address, shape, strides, dtype, 0)


def test_the_table_of_a_batch_says_where_its_matrices_lie() -> None:
    batch = record(4096, (COUNT, N, K), (2000, 48, 1))
    assert rows_of_batch(batch).tolist() == [[4096 + 4000 * number, N, K, 48] for number in range(COUNT)]
    listed = list_at(batch, 512)
    assert (listed.address, listed.listed) == (512, (32, (N, K)))


ONE = record(1 << 20, (N, K), (K, 1))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "list-of"),
        ({"matrices": [ONE], "table": ONE}, "list-of"),
        ({"matrices": []}, "list-empty"),
        ({"matrices": [ONE, record(1, (N,), (1,))]}, "list-matrix"),
        ({"matrices": [ONE, replace(ONE, dtype="f16")]}, "list-types"),
        ({"matrices": [ONE, replace(ONE, device=1)]}, "list-types"),
        ({"matrices": [ONE, replace(ONE, strides=(1, N))]}, "list-strides"),
        ({"matrices": [ONE]}, "list-library"),
        ({"table": ONE}, "list-table-shape"),
        ({"table": ONE, "shape": (COUNT, N, K), "dtype": "bf16"}, "list-table"),
        ({"table": record(256, (2, 8), (8, 1), "s32"), "shape": (COUNT, N, K), "dtype": "bf16"}, "list-table"),
    ],
)
def test_what_is_no_list_is_refused(given: dict[str, Any], code: str) -> None:
    with pytest.raises(LaunchError, match=rf"\[{code}\]"):
        lt.matrix_list(**given)


def test_a_table_that_is_on_the_device_is_taken_as_it_is() -> None:
    table = record(256, (COUNT, 2 * ENTRIES), (2 * ENTRIES, 1), "s32")
    found = lt.matrix_list(table=table, shape=(COUNT, N, K), dtype="bf16")
    assert (found.address, found.shape, found.dtype, found.owner) == (256, (COUNT, N, K), "bf16", table)
    assert found.strides[1] % 128 == 0


def operands(**others: Any) -> dict[str, Any]:
    ends, a, d = np.array([9, 9, M], np.int32), aligned(M, K), aligned(M, N)
    return {"a": InterfaceArray(a), "ends": InterfaceArray(ends), "out": InterfaceArray(d)} | others


@cache
def of_f16() -> Kernel:
    spec = replace(SPEC, a="f16", b="f16", d="f16")
    kernel = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    return Kernel(kernel.manifest, kernel.ptx)


def listed(torch: FakeTorch, *matrices: Any) -> Operand:
    return lt.matrix_list([Tensor(each) for each in matrices])


def test_a_call_passes_the_table(install_driver: Any, torch: FakeTorch) -> None:
    fake = install_driver(Driver(compiled()))
    matrices = [aligned(N, K + 8 * number)[:, :K] for number in range(COUNT)]
    b = listed(torch, *matrices)
    of_f16()(b=b, **operands())
    assert fake.launches[-1].values[3] == b.address
    table = np.frombuffer((ctypes.c_char * (8 * ENTRIES * COUNT)).from_address(b.address), np.int64)
    assert table.reshape(COUNT, ENTRIES).tolist() == [
        [x.ctypes.data, N, K, K + 8 * number] for number, x in enumerate(matrices)
    ]


@pytest.mark.parametrize(
    ("matrices", "code"),
    [
        ([aligned(N, K), aligned(N, K, offset=8), aligned(N, K)], "list-misaligned"),
        ([aligned(N, K), aligned(N, K + 1)[:, :K], aligned(N, K)], "list-misaligned"),
        ([aligned(N, K), aligned(N - 8, K), aligned(N, K)], "list-extents"),
        ([aligned(N, K), aligned(N, K)], "extents-differ"),
        ([aligned(N, K + 8)] * 3, "operand-extent"),
    ],
)
def test_lists_that_do_not_fit_are_refused(install_driver: Any, torch: FakeTorch, matrices: Any, code: str) -> None:
    fake = install_driver(Driver(compiled()))
    with pytest.raises(LaunchError, match=rf"\[{code}\]"):
        of_f16()(b=listed(torch, *matrices), **operands())
    assert not fake.launches


def test_a_list_and_an_array_are_not_mistaken_for_each_other(install_driver: Any, torch: FakeTorch) -> None:
    install_driver(Driver(compiled()))
    b = listed(torch, *[aligned(N, K)] * COUNT)
    array = InterfaceArray(aligned(COUNT * N, K).reshape(COUNT, N, K))
    with pytest.raises(LaunchError, match=r"takes a list of matrices, not one array; pass lt\.matrix_list"):
        of_f16()(b=array, **operands())
    kernel = lt.compile_gemm(replace(SPEC, a="f16", b="f16", d="f16", lists=None), "sm_80", "grid.tile = [32, 32]")
    with pytest.raises(LaunchError, match=r"takes one array, not a list of matrices; .*\[operand-list\]"):
        Kernel(kernel.manifest, kernel.ptx)(b=b, **operands())


def test_a_k_of_zero_is_refused(install_driver: Any, torch: FakeTorch) -> None:
    install_driver(Driver(compiled()))
    spec = replace(SPEC, k=None, a="f16", b="f16", d="f16")
    kernel = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    b = replace(listed(torch, *[aligned(N, K)] * COUNT), shape=(COUNT, N, 0))
    b = replace(b, listed=b.listed._replace(least=(N, 0)))
    with pytest.raises(LaunchError, match=r"\[list-without-k\]"):
        Kernel(kernel.manifest, kernel.ptx)(b=b, **operands(a=InterfaceArray(aligned(M, 8)[:, :0])))


def test_a_manifest_has_a_list_where_its_word_says_so() -> None:
    manifest = compiled().manifest
    validate(manifest, "kernel")
    assert manifest["spec"]["lists"] == "b"
    one = [{key: value for key, value in each.items() if key != "list"} for each in manifest["arguments"]]
    with pytest.raises(lt.LoadError, match=r"with spec\.lists, and only then, B is a list"):
        validate({**manifest, "arguments": one}, "kernel")
    with pytest.raises(lt.LoadError, match=r"spec\.lists is 'a', must be left out, or one of b"):
        validate({**manifest, "spec": {**manifest["spec"], "lists": "a"}}, "kernel")
    odd = [{**each, "list": "yes"} if each["name"] == "b" else each for each in manifest["arguments"]]
    with pytest.raises(lt.LoadError, match=r"list 'yes' must be true, or left out"):
        validate({**manifest, "arguments": odd}, "kernel")


@pytest.mark.parametrize("by_k", [False, True])
def test_grouped_matmul_takes_a_list_and_makes_its_table_once(
    install_driver: Any, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch, by_k: bool
) -> None:
    install_driver(Driver(compiled()))
    made: list[Grouped] = []
    passed: list[Operand] = []

    def make(wanted: Grouped) -> Any:
        made.append(wanted)
        return lambda a, b, **others: passed.append(b)

    monkeypatch.setattr(grouped, "kernel_for", make)
    call, a, ends = GroupedMatmul(), Tensor(aligned(M, K)), Tensor(np.array([9, 9, M], np.int32))
    matrices = [Tensor(aligned(N, K).T if by_k else aligned(K, N)) for _ in range(COUNT)]  # (K, N)
    for _ in range(2):
        call(a, matrices, ends)
    (product,) = made
    assert (product.lists, product.layout, product.n, product.other) == ("b", "tn" if by_k else "tt", N, K)
    assert product.spec(None).lists == "b" and passed[0].address == passed[1].address
    assert passed[0].shape == ((COUNT, N, K) if by_k else (COUNT, K, N)) and passed[0].strides[2] == 1
    assert torch.tables == 1
