"""Tensor maps on a real driver: TMA puts a box into shared memory as the map says, element for element."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from tma_kernels import CLUSTER_PTX, POISON, STORED_BYTES, TMA_PTX, box_manifest, cluster_manifest

from lowtide.errors import LaunchError
from lowtide.runtime import Kernel, driver

try:
    import torch
except ImportError:
    torch = None

pytestmark = pytest.mark.gpu
SIZES = {"bf16": 2, "f16": 2, "f32": 4, "s8": 1}
WORDS = STORED_BYTES // 4


@pytest.fixture(autouse=True)
def hopper() -> None:
    capability = driver.device(0).capability
    if capability < (9, 0):
        pytest.skip(f"TMA NOT TESTED: it needs capability 9.0, this GPU has {capability[0]}.{capability[1]}")


def bit_matrix(rows: int, columns: int, padding: int, size: int) -> Any:
    """Random bits, as integers of `size` bytes, rows padded by 16·`padding` bytes; the pads hold other bits too."""
    stride = -(-columns * size // 16) * 16 + 16 * padding
    whole = torch.randint(-128, 128, (rows, stride), dtype=torch.int8, device="cuda")
    return whole.view({1: torch.int8, 2: torch.int16, 4: torch.int32}[size])[:, :columns]


def typed(bits: Any, dtype: str) -> Any:
    kinds = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "s8": torch.int8}
    return bits.view(kinds[dtype])


def stored_box(
    bits: np.ndarray, row: int, column: int, box: tuple[int, int], swizzle: tuple[int, int, int] | None
) -> np.ndarray:
    """Shared memory after the load, in elements: zero outside of the matrix, element e at e ^ ((e >> S) & mask)."""
    i, j = row + np.arange(box[0])[:, None], column + np.arange(box[1])[None, :]
    inside = (i >= 0) & (i < bits.shape[0]) & (j >= 0) & (j < bits.shape[1])
    logical = np.where(inside, bits[i.clip(0, bits.shape[0] - 1), j.clip(0, bits.shape[1] - 1)], 0)
    place = np.arange(logical.size)
    if swizzle is not None:
        count, base, shift = swizzle
        place ^= (place >> shift) & (((1 << count) - 1) << base)
    stored = np.empty(logical.size, bits.dtype)
    stored[place] = logical.reshape(-1)
    return stored


def operands(bits: Any, dtype: str) -> tuple[Any, Any, Any]:
    """A, a B that no one reads, and a D that holds all of shared memory."""
    columns = -(-WORDS // bits.shape[0] // 4) * 4
    b = typed(bit_matrix(columns, bits.shape[1], 0, SIZES[dtype]), dtype)
    return typed(bits, dtype), b, torch.zeros(bits.shape[0], columns, dtype=torch.int32, device="cuda")


def stored_bytes(d: Any) -> np.ndarray:
    torch.cuda.synchronize()
    return d.cpu().numpy().reshape(-1)[:WORDS].view(np.uint8)


def check(d: Any, expected: np.ndarray) -> None:
    found = stored_bytes(d)
    np.testing.assert_array_equal(found[: expected.nbytes].view(expected.dtype), expected)
    assert (found[expected.nbytes :] == POISON & 0xFF).all(), "the load wrote past its box"


def box_kernel(dtype: str, box: tuple[int, int], swizzle: Any, l2_promotion: int = 256) -> Kernel:
    box_bytes = box[0] * box[1] * SIZES[dtype]
    return Kernel(box_manifest(dtype, box, box_bytes, swizzle, l2_promotion), TMA_PTX)


CASES = [
    pytest.param("bf16", (128, 64), (3, 3, 3), id="128B"),
    pytest.param("f16", (256, 64), (3, 3, 3), id="128B-largest"),
    pytest.param("f16", (64, 32), (2, 3, 3), id="64B"),
    pytest.param("bf16", (64, 16), (1, 3, 3), id="32B"),
    pytest.param("f16", (16, 256), None, id="plain"),
    pytest.param("bf16", (24, 40), None, id="plain-odd"),
    pytest.param("f32", (64, 32), (3, 2, 3), id="f32-128B"),
    pytest.param("s8", (64, 128), (3, 4, 3), id="s8-128B"),
]


@pytest.mark.parametrize(("dtype", "box", "swizzle"), CASES)
@pytest.mark.parametrize(("row", "unit"), [(0, 0), (40, 4), (100, 7), (-3, -1), (1000, 62)])
def test_a_box_lies_in_shared_memory_as_its_map_says(
    dtype: str, box: tuple[int, int], swizzle: Any, row: int, unit: int
) -> None:
    # A box whose first column is not at a multiple of 16 bytes is an illegal instruction (seen on an H200).
    column = unit * 16 // SIZES[dtype]
    bits = bit_matrix(130, 150, 2, SIZES[dtype])
    a, b, d = operands(bits, dtype)
    box_kernel(dtype, box, swizzle)(a, b, row=row, column=column, out=d)
    check(d, stored_box(bits.cpu().numpy(), row, column, box, swizzle))


@pytest.mark.parametrize("l2_promotion", [0, 64, 128, 256])
def test_every_l2_promotion_reads_the_same(l2_promotion: int) -> None:
    bits = bit_matrix(70, 90, 0, 2)
    a, b, d = operands(bits, "bf16")
    box_kernel("bf16", (64, 64), (3, 3, 3), l2_promotion)(a, b, row=32, column=32, out=d)
    check(d, stored_box(bits.cpu().numpy(), 32, 32, (64, 64), (3, 3, 3)))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 72), (3, 8), (257, 9)])
def test_a_matrix_may_be_smaller_than_the_box(rows: int, columns: int) -> None:
    bits = bit_matrix(rows, columns, 1, 2)
    a, b, d = operands(bits, "f16")
    box_kernel("f16", (64, 64), (3, 3, 3))(a, b, row=0, column=0, out=d)
    check(d, stored_box(bits.cpu().numpy(), 0, 0, (64, 64), (3, 3, 3)))


def test_each_call_reads_the_operand_it_was_given() -> None:
    kernel, whole = box_kernel("bf16", (64, 64), (3, 3, 3)), bit_matrix(200, 256, 0, 2)
    for bits in (whole[:100, :128], whole[64:164, 72:200], whole[:100, :128], bit_matrix(100, 128, 8, 2)):
        a, b, d = operands(bits, "bf16")
        kernel(a, b, row=50, column=80, out=d)
        check(d, stored_box(bits.cpu().numpy(), 50, 80, (64, 64), (3, 3, 3)))


def test_a_bound_launch_reads_what_its_operand_holds_then() -> None:
    bits = bit_matrix(100, 128, 0, 2)
    a, b, d = operands(bits, "bf16")
    launch = box_kernel("bf16", (64, 64), (3, 3, 3)).bind(a, b, row=64, column=0, out=d)
    for _ in range(2):
        bits.copy_(torch.randint_like(bits, -32768, 32767))
        d.zero_()
        launch()
        check(d, stored_box(bits.cpu().numpy(), 64, 0, (64, 64), (3, 3, 3)))


def test_a_graph_replays_a_load_by_tensor_map() -> None:
    bits = bit_matrix(64, 64, 0, 2)
    a, b, d = operands(bits, "f16")
    kernel = box_kernel("f16", (64, 64), (3, 3, 3))
    kernel(a, b, row=0, column=0, out=d)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, row=8, column=8, out=d)
    bits.copy_(torch.randint_like(bits, -32768, 32767))
    graph.replay()
    check(d, stored_box(bits.cpu().numpy(), 8, 8, (64, 64), (3, 3, 3)))


def test_a_thread_without_a_context_encodes_and_launches() -> None:
    bits = bit_matrix(64, 64, 0, 2)
    a, b, d = operands(bits, "f16")
    kernel = box_kernel("f16", (64, 64), (3, 3, 3))
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            kernel(a, b, row=0, column=0, out=d, stream=0)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures
    check(d, stored_box(bits.cpu().numpy(), 0, 0, (64, 64), (3, 3, 3)))


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
def test_a_launch_in_clusters_numbers_its_ctas(cluster: int) -> None:
    a, b = (torch.zeros(16, 8, dtype=torch.float16, device="cuda") for _ in range(2))
    d = torch.full((16, 16), -1, dtype=torch.int32, device="cuda")
    launch = Kernel(cluster_manifest(16, cluster), CLUSTER_PTX).bind(a, b, out=d)
    for _ in range(2):
        d.fill_(-1)
        launch()
        torch.cuda.synchronize()
        found = d.cpu().numpy().reshape(-1)[:32].reshape(16, 2)
        np.testing.assert_array_equal(found, [(i % cluster, cluster) for i in range(16)])


def test_a_grid_that_is_not_whole_clusters_is_refused() -> None:
    a, b = (torch.zeros(16, 8, dtype=torch.float16, device="cuda") for _ in range(2))
    with pytest.raises(LaunchError, match="must be whole clusters"):
        Kernel(cluster_manifest(15, 2), CLUSTER_PTX)(a, b, out=torch.zeros(16, 16, dtype=torch.int32, device="cuda"))
