"""Calls of a kernel for batches: strides, operands that are shared, what is refused, and what the driver is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_arrays import FakeTorch, InterfaceArray, Tensor, aligned
from fake_driver import FakeDriver, Install
from sample_kernel import argument, kernel_from, op, sample_manifest

from lowtide.errors import LaunchError, LoadError
from lowtide.runtime import Kernel
from lowtide.runtime.checks import MatrixView
from lowtide.runtime.host_arrays import check_written, host_array
from lowtide.runtime.manifest import validate
from lowtide.runtime.tensor_maps import boxed_matrix

TYPES = ("ptr", "i64", "ptr", "i64", "ptr", "i64", "i32", "i32", "i32", *["i64"] * 3, "i32")
M, N, K, BATCH = 40, 24, 32, 3


def batched_manifest(*extra: dict[str, Any], batch: int | None = None) -> dict[str, Any]:
    """D = A·Bᵀ for each product, on the grid of one; the batch strides and the batch go last to the kernel."""
    manifest = sample_manifest(*extra, dtype="f16")
    manifest["spec"]["batch"] = batch
    for entry in manifest["arguments"]:
        if entry["kind"] != "scalar":
            entry["shape"].insert(0, batch)
    for entry in manifest["host"]:
        if entry["op"] == "memref.dim":
            entry["attributes"]["index"] += 1
    launch = manifest["host"].pop()
    for matrix in ("a", "b", "d"):
        manifest["host"].append(op("memref.batch_stride", [f"s{matrix}"], [matrix]))
        launch["attributes"]["arguments"].append({"value": f"s{matrix}", "type": "i64"})
    manifest["host"].append(op("memref.dim", ["batch"], ["d"], index=0))
    launch["attributes"]["arguments"].append({"value": "batch", "type": "i32"})
    manifest["host"].append(launch)
    return manifest


def kernel_of(*extra: dict[str, Any], batch: int | None = None) -> Kernel:
    return kernel_from(batched_manifest(*extra, batch=batch))


def matrices(count: int, rows: int, columns: int) -> np.ndarray:
    return aligned(count * rows, columns).reshape(count, rows, columns)


def arrays(wrap: Any = InterfaceArray) -> tuple[Any, Any, Any]:
    return tuple(wrap(matrices(BATCH, *shape)) for shape in ((M, K), (N, K), (M, N)))  # type: ignore[return-value]


@pytest.fixture
def fake(install_driver: Install) -> FakeDriver:
    return install_driver(FakeDriver(types=TYPES))


def test_the_kernel_gets_batch_strides(fake: FakeDriver) -> None:
    a, b, d = arrays()
    assert kernel_of()(a, b, out=d) is d
    (launch,) = fake.launches
    assert launch.values[6:] == [M, N, K, M * K, N * K, M * N, BATCH]


def test_an_operand_without_the_batch_is_shared_as_one_with_a_stride_of_zero_is(fake: FakeDriver) -> None:
    a, _, d = arrays()
    one = aligned(N, K)
    for b in (one, np.broadcast_to(one, (BATCH, N, K))):
        kernel_of()(a, InterfaceArray(b), out=d)
    assert fake.launches[0].values == fake.launches[1].values
    assert fake.launches[0].values[10] == 0


def test_matrices_may_overlap_in_an_input_and_alternate_rows_in_the_output(fake: FakeDriver) -> None:
    _, b, _ = arrays()
    a = np.lib.stride_tricks.as_strided(aligned(M + BATCH, K), (BATCH, M, K), (2 * K, 2 * K, 2))
    d = aligned(M * BATCH, N).reshape(M, BATCH, N).transpose(1, 0, 2)
    kernel_of()(InterfaceArray(a), b, out=InterfaceArray(d))
    (launch,) = fake.launches
    assert (launch.values[1], launch.values[9]) == (K, K)
    assert (launch.values[5], launch.values[11]) == (BATCH * N, N)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"b": matrices(2, N, K)},
            r"operand b: shape \(2, 24, 32\) makes batch = 2, but a of .* makes it 3.*\[extents-differ\]",
        ),
        (
            {"a": aligned(M, K)[0]},
            r"operand a: shape \(32,\) has rank 1, must have rank 3, or 2 if the batch shares it.*\[operand-rank\]",
        ),
        ({"out": aligned(M, N)}, r"operand d.*\(40, 24\).*rank 2.*rank 3.*\[operand-rank\]"),
        (
            {"out": np.broadcast_to(aligned(M, N), (BATCH, M, N))},
            r"operand d: matrices of 40 x 24 elements overlap.*\[batch-apart\]",
        ),
        (
            {"out": np.lib.stride_tricks.as_strided(aligned(M, N), (BATCH, M, N), (16, 2 * N, 2))},
            r"\[batch-apart\]",
        ),
        ({"a": matrices(BATCH, M, K)[::-1]}, r"operand a: strides .* must not be negative.*\[negative-strides\]"),
        (
            {"a": np.lib.stride_tricks.as_strided(matrices(BATCH, M, K), (BATCH, M, K), (2 * M * K - 4, 2 * K, 2))},
            r"operand a: matrices are 2556 bytes apart, must be a multiple of 16; put 1280 elements between them"
            r".*\[rows-misaligned\]",
        ),
    ],
)
def test_what_is_no_batch_is_refused_before_a_launch(fake: FakeDriver, changes: dict[str, Any], message: str) -> None:
    a, b, d = arrays()
    wrapped = {name: InterfaceArray(value) for name, value in changes.items()}
    with pytest.raises(LaunchError, match=message):
        kernel_of()(**{"a": a, "b": b, "out": d} | wrapped)
    assert not fake.launches


def test_a_stride_over_an_extent_of_1_says_nothing(fake: FakeDriver) -> None:
    a, b, d = (matrices(1, rows, columns) for rows, columns in ((1, K), (N, K), (1, N)))
    any_strides = np.lib.stride_tricks.as_strided(a, (1, 1, K), (-6, -10, 2))
    for stride in (-2, 6, 0):
        lies = np.lib.stride_tricks.as_strided(d, (1, 1, N), (stride, stride, 2))
        kernel_of()(InterfaceArray(any_strides), InterfaceArray(b), out=InterfaceArray(lies))
    assert len(fake.launches) == 3


def test_the_output_is_allocated_with_the_batch(fake: FakeDriver, torch: FakeTorch) -> None:
    a, b = Tensor(matrices(BATCH, M, K)), Tensor(aligned(21, K))
    d = kernel_of()(a, b)
    assert (d.shape, d.stride()) == ((BATCH, M, 21), (M * 24, 24, 1))
    assert kernel_of(batch=BATCH)(Tensor(aligned(M, K)), b).shape == (BATCH, M, 21)
    with pytest.raises(
        LaunchError,
        match=r"\[batch-of-shared\]",
    ):
        kernel_of()(Tensor(aligned(M, K)), b)


def test_the_batch_is_that_of_the_output_where_inputs_are_shared(fake: FakeDriver) -> None:
    _, _, d = arrays()
    kernel_of()(InterfaceArray(aligned(M, K)), InterfaceArray(aligned(N, K)), out=d)
    assert fake.launches[0].values[9:] == [0, 0, M * N, BATCH]
    with pytest.raises(
        LaunchError, match=r"extent 0 of shape .* is 3, the kernel was compiled for 5.*\[operand-extent\]"
    ):
        kernel_of(batch=5)(InterfaceArray(aligned(M, K)), InterfaceArray(aligned(N, K)), out=d)


def test_an_empty_batch_launches_nothing(fake: FakeDriver) -> None:
    shapes = ((0, M, K), (0, N, K), (0, M, N))
    a, b, d = (InterfaceArray(np.zeros(shape, np.float16)) for shape in shapes)
    kernel_of()(a, b, out=d)
    assert not fake.launches


def test_vectors_of_the_epilogue_have_a_batch_or_are_shared(install_driver: Install) -> None:
    fake = install_driver(FakeDriver(types=(*TYPES[:9], "ptr", *TYPES[9:])))
    kernel = kernel_of(argument("bias", "per_column", "f16", alignment=2))
    a, b, d = arrays()
    for bias in (aligned(BATCH, N), aligned(1, N)[0]):
        kernel(a, b, bias=InterfaceArray(bias), out=d)
    assert len(fake.launches) == 2
    with pytest.raises(LaunchError, match=r"bias.*\(2, 24\).*batch = 2.*\[extents-differ\]"):
        kernel(a, b, bias=InterfaceArray(aligned(2, N)), out=d)


def test_a_shared_view_lies_in_one_place() -> None:
    shared = MatrixView(256, (8, 16), (16,), 256).shared_by(5)
    assert (shared.shape, shared.strides, shared.batch_stride, shared.row_stride) == ((5, 8, 16), (0, 16), 0, 16)


def test_the_map_of_a_batch_has_it_outermost() -> None:
    plain = boxed_matrix("a", "f16", (5, 100, 64), (0, 72), (1, 8, 64), None)
    assert (plain.shape, plain.strides) == ((5, 100, 64), (0, 72, 1))
    panels = boxed_matrix("a", "f16", (5, 100, 128), (12800, 128), (1, 1, 2, 8, 64), None)
    assert (panels.shape, panels.strides) == ((5, 1, 2, 100, 64), (12800, 64, 64, 128, 1))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m["spec"].update(batch=-1), r"spec.batch is -1.*\[manifest-entry\]"),
        (lambda m: m["spec"].pop("batch"), r"shape \[None, None, None\] must have 2 extents"),
        (lambda m: m["arguments"][0]["shape"].pop(), r"must have 3 extents.*\[manifest-entry\]"),
        (lambda m: m.update(example={"batch": -1}), r"example\.batch is -1.*\[manifest-entry\]"),
    ],
)
def test_a_manifest_of_no_batch_is_refused(edit: Callable[[dict[str, Any]], Any], message: str) -> None:
    manifest = batched_manifest()
    edit(manifest)
    with pytest.raises(LoadError, match=message):
        validate(manifest)


def test_a_batch_stride_of_a_matrix_is_refused_when_loading() -> None:
    manifest = sample_manifest(dtype="f16")
    manifest["host"].insert(-1, op("memref.batch_stride", ["s"], ["a"]))
    with pytest.raises(LoadError, match=r"a has rank 2; a batch of matrices has rank 3.*\[host-program\]"):
        kernel_from(manifest)


def test_verify_lays_out_batches_one_matrix_behind_the_other() -> None:
    values = np.arange(2.0 * 3 * 5).reshape(2, 3, 5)
    array = host_array((2, 3, 5), "f16", 16, values)
    assert array.strides == (24, 8, 1)
    np.testing.assert_array_equal(array.values(), values)


def test_verify_finds_what_is_written_beside_the_matrices_of_a_batch() -> None:
    array = host_array((2, 3, 5), "f16", 16, np.ones((2, 3, 5)))
    assert check_written(array) == ""
    array.elements()[4, 6] = 0
    assert check_written(array) == "the padding of D's rows was written"
    missing = host_array((2, 3, 5), "f16", 16, np.ones((2, 3, 5)))
    missing.elements().view(np.uint16)[4, 2] = 0xFFFF
    assert check_written(missing) == "1 elements of D were not written, first D[1, 1, 2]"


def test_the_output_may_be_a_full_operand_of_the_batch_but_not_one_that_it_shares(install_driver: Install) -> None:
    fake = install_driver(FakeDriver(types=(*TYPES, "ptr")))
    kernel, (a, b, d) = kernel_of(argument("c", "full", "f16")), arrays()
    kernel(a, b, c=d, out=d)
    assert len(fake.launches) == 1
    first = d.array[0]
    apart = np.lib.stride_tricks.as_strided(first, d.array.shape, (0, *first.strides))
    for shared in (first, apart, d.array[::-1]):  # the product of a matrix would overwrite what the next one reads
        with pytest.raises(LaunchError, match=r"input c,.*\[output-overlaps\]|\[negative-strides\]"):
            kernel(a, b, c=InterfaceArray(shared), out=d)
    assert len(fake.launches) == 1
