"""Lists of matrices as operands: their tables, what a call checks of them, and `lt.grouped_matmul` with a list."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_arrays import FakeTorch, InterfaceArray, Tensor, aligned
from test_gpu_run import Driver, matrix

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.matmul import grouped
from lowtide.compiler.matmul.grouped import GroupedMatmul, kernel_for
from lowtide.compiler.matmul.grouped_products import Grouped
from lowtide.compiler.matmul.listed import fields_anywhere
from lowtide.errors import CompileError, LaunchError
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
    fake = install_driver(Driver(of_f16()))
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
    with pytest.raises(lt.LoadError, match=r"the matrices that spec\.lists names, and only these"):
        validate({**manifest, "arguments": one}, "kernel")
    with pytest.raises(lt.LoadError, match=r"spec\.lists is 'a', must be left out, or one of b, d, abd"):
        validate({**manifest, "spec": {**manifest["spec"], "lists": "a"}}, "kernel")
    odd = [{**each, "list": "yes"} if each["name"] == "b" else each for each in manifest["arguments"]]
    with pytest.raises(lt.LoadError, match=r"list 'yes' must be one of equal, any, or left out"):
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


# Lists of products ----------------------------------------------------------------------------------------------------

SIZES = ((9, 24, 40), (0, 8, 16), (37, 16, 8))


def products(fake: Driver) -> Callable[[list[Any]], None]:
    """A kernel that multiplies lists in numpy, as far as their tables and the counts say."""

    def kernel(values: list[Any]) -> None:
        *tables, at_counts = [value for value, kind in zip(values, fake.types, strict=True) if kind == "ptr"]
        count = len(SIZES)
        rows = [
            np.frombuffer((ctypes.c_char * (8 * ENTRIES * count)).from_address(at), np.int64).reshape(count, ENTRIES)
            for at in tables
        ]
        counts = np.frombuffer((ctypes.c_char * (4 * count)).from_address(at_counts), np.int32).tolist()
        for counted, of_a, of_b, of_d in zip(counts, *(each.tolist() for each in rows), strict=True):
            assert (of_d[1], of_d[2], of_a[2]) == (of_a[1], of_b[1], of_b[2]) and counted == of_a[1]
            if counted:
                left, right, d = (matrix(x[0], x[1], x[3], x[2]).view(np.float16) for x in (of_a, of_b, of_d))
                d[:] = left @ right.T

    return kernel


def test_a_run_on_a_gpu_stores_into_a_list(install_driver: Any) -> None:
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", batch=None, counts=True, lists="abd")
    compiled_ = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    fake = install_driver(Driver(compiled_))

    def kernel(values: list[Any]) -> None:
        *tables, at_counts = [value for value, kind in zip(values, fake.types, strict=True) if kind == "ptr"]
        entries = 8 * ENTRIES * COUNT
        rows = [np.frombuffer((ctypes.c_char * entries).from_address(at), np.int64) for at in tables]
        counts = np.frombuffer((ctypes.c_char * (4 * COUNT)).from_address(at_counts), np.int32).tolist()
        of_each = (each.reshape(COUNT, ENTRIES).tolist() for each in rows)
        for count, *places in zip(counts, *of_each, strict=True):
            left, right, d = (matrix(x[0], x[1], x[3], x[2]).view(np.float16) for x in places)
            d[:count] = left[:count].astype(np.float32) @ right.T.astype(np.float32)

    fake.kernel = kernel
    inputs = lt.random_inputs(spec, M, N, K, np.random.default_rng(0), batch=COUNT)
    ran = run_on_gpu(compiled_, spec, inputs, is_timed=False)
    assert not ran.complaint and against_float64(spec, inputs, ran.d).ok
    assert (ran.seconds, ran.launches, len(fake.launches)) == (0.0, 0, 1)
    assert not fake.memory


def tensors(offset: int = 0) -> tuple[list[Tensor], list[Tensor]]:
    rng, lists = np.random.default_rng(0), ([], [])
    for m, n, k in SIZES:
        for place, (rows, columns) in zip(lists, ((m, k), (n, k)), strict=True):
            array = aligned(rows, columns, offset=offset)
            array[...] = rng.integers(-3, 4, array.shape)
            place.append(Tensor(array))
    return lists[0], [Tensor(each.array.T) for each in lists[1]]


def test_a_list_of_products_is_one_launch(install_driver: Any, torch: FakeTorch) -> None:
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", batch=None, counts=True, lists="abd")
    found = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    fake = install_driver(Driver(found))
    fake.kernel = products(fake)
    (a, b), call = tensors(), GroupedMatmul()
    made: list[Grouped] = []

    def make(wanted: Grouped) -> Kernel:
        made.append(wanted)
        return Kernel(found.manifest, found.ptx)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped, "kernel_for", make)
        results = call(a, b)
        torch.stream = 12
        call(a, b, out=results)
        call(a, b, out=results, stream=5)
    assert [launch.stream for launch in fake.launches] == [11, 12, 5]  # that of torch, though A is a list
    assert len(made) == 1
    (product,) = made
    assert (product.n, product.other, product.groups, product.layout, product.lists) == (None, None, None, "tn", "abd")
    for left, right, d in zip(a, b, results, strict=True):
        np.testing.assert_array_equal(d.array.astype(float), left.array.astype(float) @ right.array.astype(float))


def test_matrices_at_odd_addresses_have_a_kernel_that_takes_any(
    install_driver: Any, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_driver(Driver(compiled()))
    made: list[Grouped] = []

    def make(wanted: Grouped) -> Any:
        made.append(wanted)
        return lambda a, b, **others: None

    monkeypatch.setattr(grouped, "kernel_for", make)
    for offset in (0, 2):
        GroupedMatmul()(*tensors(offset=offset))
    assert [each.anywhere for each in made] == [False, True]
    assert fields_anywhere(("bf16", "bf16", "f32")).endswith("epilogue.path = direct, epilogue.store = 4")


@pytest.mark.parametrize(
    ("fields", "copies"),
    [
        ({}, ("tma", "tma")),
        ({"anywhere": True}, ("realigned.16", "realigned.16")),
        ({"target": "sm_80"}, ("cp.async.16", "cp.async.16")),
        ({"lists": "b", "padded": False, "groups": 4}, ("tma", "tma")),
    ],
)
def test_tma_loads_lists_where_their_matrices_are_aligned(fields: dict[str, Any], copies: tuple[str, str]) -> None:
    of_lists = Grouped(("bf16",) * 3, "tn", 256, 128, None, 64, "sm_90a", None, padded=True, lists="abd")
    mainloop = kernel_for(of_lists._replace(**fields)).schedule.mainloop
    assert (mainloop.a.copy, mainloop.b.copy) == copies


def test_where_the_chosen_kernel_is_refused_the_default_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def compile_gemm(spec: lt.GemmSpec, target: str, schedule: Any = None) -> Any:
        given.append(schedule)
        if schedule is not None:
            raise CompileError("ptxas spills")
        return SimpleNamespace(cubin=b"")

    monkeypatch.setattr("lowtide.compiler.compile.compile_gemm", compile_gemm)
    product = Grouped(("bf16",) * 3, "tn", 256, 128, None, 64, "sm_90a", None, padded=True, lists="abd")
    known = grouped.schedule_of(product)
    chosen, default = given
    assert "b.copy = tma" in chosen and default is None
    monkeypatch.setattr(grouped.AHEAD, "result", {product: known}.get)  # of a job that made the kernel
    kernel_for(product)
    assert given[2:] == [None]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"b": Tensor(aligned(8, 8))}, "grouped-lists"),
        ({"ends": Tensor(np.zeros(3, np.int32))}, "grouped-lists"),
        ({"pairs": "stacked"}, "grouped-lists"),
        ({"out": Tensor(aligned(8, 8))}, "grouped-lists"),
        ({"b": [Tensor(aligned(40, 8))]}, "listed-count"),
        ({"a": [], "b": []}, "listed-count"),
        ({"b": [Tensor(aligned(8, 8))] * 3}, "listed-shapes"),
    ],
)
def test_lists_of_products_that_do_not_fit_are_refused(
    install_driver: Any, torch: FakeTorch, given: dict[str, Any], code: str
) -> None:
    install_driver(Driver(compiled()))
    a, b = tensors()
    with pytest.raises(LaunchError, match=rf"\[{code}\]"):
        GroupedMatmul()(**({"a": a, "b": b} | given))


def test_matrices_that_require_gradients_are_refused(install_driver: Any, torch: FakeTorch) -> None:
    install_driver(Driver(compiled()))
    a, b = tensors()
    torch.records_gradients = a[0].requires_grad = True
    with pytest.raises(LaunchError, match=r"\[listed-autograd\]"):
        GroupedMatmul()(a, b)


def test_a_kernel_of_lists_does_not_allocate_d(install_driver: Any, torch: FakeTorch) -> None:
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", batch=None, counts=True, lists="abd")
    found = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    install_driver(Driver(found))
    with pytest.raises(LaunchError, match=r"\[out-of-list\]"):
        Kernel(found.manifest, found.ptx)(*[listed(torch, aligned(8, 8))] * 2, counts=Tensor(np.zeros(1, np.int32)))
