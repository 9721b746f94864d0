"""Tensor maps: what the driver is asked to encode, and when it is asked."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fake_arrays import FakeTorch, InterfaceArray, Tensor, aligned
from fake_driver import Install
from map_driver import CONTEXT, PLAIN, K, M, MapDriver, N, arrays, map_manifest, map_op, number
from sample_kernel import kernel_from, op

import lowtide as lt
from lowtide.errors import LaunchError, LoadError
from lowtide.runtime import Kernel
from lowtide.runtime.host_compiler import compile_host
from lowtide.runtime.tensor_map_encoder import TensorMapEncoder
from lowtide.runtime.tensor_maps import BoxedTensor, TensorMap, check_tensor_map, swizzle_span


def test_a_kernel_gets_each_map_by_value_among_its_other_arguments(map_driver: MapDriver) -> None:
    a, b, d = arrays()
    kernel_from(map_manifest())(a, b, out=d)
    ((first, constant, second, output),) = [x.values for x in map_driver.launches]
    assert (number(first), constant, number(second)) == (1, 0x3FC0, 2)
    assert output == d.array.ctypes.data
    assert [x.address for x in map_driver.encoded] == [a.array.ctypes.data, b.array.ctypes.data]
    assert ("find", b"cuTensorMapEncodeTiled", 12000) in map_driver.calls


def test_the_driver_is_told_dimensions_innermost_first_and_strides_in_bytes(map_driver: MapDriver) -> None:
    a, b, d = arrays()
    kernel_from(map_manifest())(a, b, out=d)
    found = map_driver.encoded[0]
    assert (found.dtype, found.shape, found.strides) == ("FLOAT16", [K, M], [2 * (K + 8)])
    assert (found.box, found.steps, found.modes) == ([64, 128], [1, 1], (0, 0))
    assert (found.swizzle, found.promotion) == ("128B", "L2_256B")
    assert found.context == CONTEXT


@pytest.mark.parametrize(
    ("dtype", "name", "swizzle", "span", "columns"),
    [
        ("bf16", "BFLOAT16", (3, 3, 3), "128B", 64),
        ("f16", "FLOAT16", (2, 3, 3), "64B", 32),
        ("f16", "FLOAT16", (1, 3, 3), "32B", 16),
        ("f16", "FLOAT16", (0, 3, 3), "NONE", 256),
        ("f32", "FLOAT32", (3, 2, 3), "128B", 32),
        ("f64", "FLOAT64", (2, 1, 3), "64B", 8),
        ("e4m3", "UINT8", (3, 4, 3), "128B", 128),
        ("s32", "INT32", None, "NONE", 4),
    ],
)
def test_a_swizzle_on_elements_is_the_drivers_span_in_bytes(
    map_driver: MapDriver, dtype: str, name: str, swizzle: Any, span: str, columns: int
) -> None:
    tensor = BoxedTensor("a", dtype, (9, 1024), (1024, 1), (8, columns), swizzle)
    TensorMapEncoder()(TensorMap(4096, tensor), CONTEXT)
    assert (map_driver.encoded[0].dtype, map_driver.encoded[0].swizzle, map_driver.encoded[0].promotion) == (
        name,
        span,
        "NONE",
    )
    assert swizzle_span(swizzle, dtype) == (0 if span == "NONE" else int(span[:-1]))


def test_element_strides_go_to_the_driver_innermost_first(map_driver: MapDriver) -> None:
    manifest = map_manifest(map_op("ta", "a", element_strides=[8, 1]), map_op("tb", "b", element_strides=[1, 1]))
    a, b, d = arrays()
    kernel_from(manifest)(a, b, out=d)
    assert [x.steps for x in map_driver.encoded] == [[1, 8], [1, 1]]


@pytest.mark.parametrize(("value", "rows"), [(-3, 1), (0, 1), (1, 1), (40, 40), (128, 128), (300, 128)])
def test_boxes_have_the_rows_of_a_value_at_least_one_and_at_most_those_of_the_box(
    map_driver: MapDriver, value: int, rows: int
) -> None:
    ops = [
        op("arith.constant", ["rows"], [], value=value),
        map_op("ta", "a", rows="rows"),
        map_op("tb", "b", rows="rows"),
    ]
    a, b, d = arrays()
    kernel_from(map_manifest(*ops))(a, b, out=d)
    assert [(x.box, x.shape) for x in map_driver.encoded] == [([64, rows], [K, M]), ([64, rows], [K, N])]


def test_the_rows_of_boxes_follow_the_extents_of_each_call(map_driver: MapDriver) -> None:
    """(M + 15) mod 16 + 1, as for the last of the tiles of 16 rows."""
    ops = [
        op("memref.dim", ["all"], ["a"], index=0),
        op("arith.constant", ["c15"], [], value=15),
        op("arith.constant", ["tile"], [], value=16),
        op("arith.addi", ["up"], ["all", "c15"]),
        op("arith.remui", ["rest"], ["up", "tile"]),
        op("arith.constant", ["c1"], [], value=1),
        op("arith.addi", ["rows"], ["rest", "c1"]),
        map_op("ta", "a", box=[16, 64], rows="rows"),
        map_op("tb", "b", box=[16, 64]),
    ]
    kernel = kernel_from(map_manifest(*ops))
    for rows, last in ((40, 8), (17, 1), (32, 16), (1, 1)):
        map_driver.encoded.clear()
        kernel(*(InterfaceArray(aligned(x, K)) for x in (rows, N)), out=InterfaceArray(aligned(rows, 32)[:, :N]))
        assert map_driver.encoded[0].box == [64, last]
        assert all(x.box == [64, 16] for x in map_driver.encoded[1:])


def test_a_compiled_kernel_maps_the_rows_of_the_last_tiles(install_driver: Install) -> None:
    """A, whose M is open, has maps of boxes of 64 rows and of the last rows. B, whose N is 24, has boxes of 24 rows."""
    schedule = "grid.tile = [64, 32], k = 64, stages = 2, roles = cooperative(1), pack = none, path = smem"
    compiled = lt.compile_gemm(lt.GemmSpec(a="f16", b="f16", d="f16", n=N), target="sm_90a", schedule=schedule)
    types = tuple(entry["type"] for entry in compiled.manifest["host"][-1]["attributes"]["arguments"])
    map_driver = MapDriver(types=types)
    install_driver(map_driver)
    kernel = Kernel(compiled.manifest, compiled.ptx)
    for rows, last in ((65, 1), (63, 63), (128, 64)):
        map_driver.encoded.clear()
        kernel(*(InterfaceArray(aligned(x, K)) for x in (rows, N)), out=InterfaceArray(aligned(rows, 32)[:, :N]))
        assert [x.box for x in map_driver.encoded if x.shape[1] == rows] == [[64, last], [64, 64]][: 1 + (last < 64)]
        assert all(x.box == [64, 24] for x in map_driver.encoded if x.shape[1] == N)


def test_a_map_may_have_up_to_five_dimensions(map_driver: MapDriver) -> None:
    tensor = BoxedTensor("a", "f16", (2, 3, 4, 5, 64), (4096, 1024, 512, 72, 1), (1, 1, 2, 5, 64), None, 64)
    TensorMapEncoder()(TensorMap(4096, tensor), CONTEXT)
    found = map_driver.encoded[0]
    assert (found.shape, found.strides) == ([64, 5, 4, 3, 2], [144, 1024, 2048, 8192])
    assert (found.box, found.promotion) == ([64, 5, 2, 1, 1], "L2_64B")


def test_a_map_is_encoded_once_for_all_that_it_says_and_again_for_anything_else(map_driver: MapDriver) -> None:
    encode = TensorMapEncoder()
    first = TensorMap(4096, PLAIN)
    others = [
        TensorMap(8192, PLAIN),
        *(
            TensorMap(4096, replace(PLAIN, **change))
            for change in (
                {"dtype": "f16"},
                {"shape": (301, 520)},
                {"strides": (536, 1)},
                {"box": (64, 64)},
                {"swizzle": None},
                {"l2_promotion": 128},
                {"element_strides": (2, 1)},
            )
        ),
    ]
    assert number(encode(first, CONTEXT)) == 1
    assert [number(encode(x, CONTEXT)) for x in others] == list(range(2, 10))
    assert number(encode(TensorMap(4096, replace(PLAIN, name="b")), CONTEXT)) == 1
    assert [number(encode(x, CONTEXT)) for x in others] == list(range(2, 10))
    assert sum(call[0] == "find" for call in map_driver.calls) == 1


def test_the_map_used_longest_ago_is_forgotten_first(map_driver: MapDriver) -> None:
    encode = TensorMapEncoder(most=2)
    for address in (16, 32, 16, 48, 16):
        encode(TensorMap(address, PLAIN), CONTEXT)
    assert [x.address for x in map_driver.encoded] == [16, 32, 48]
    encode(TensorMap(32, PLAIN), CONTEXT)
    assert [x.address for x in map_driver.encoded] == [16, 32, 48, 32]


def test_threads_share_the_maps_of_a_kernel(map_driver: MapDriver) -> None:
    encode, seen, barrier = TensorMapEncoder(), set(), threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        for address in range(16, 16 * 51, 16):
            seen.add((address, encode(TensorMap(address, PLAIN), CONTEXT)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == len(map_driver.encoded) == 50
    assert not map_driver.contexts


def test_calls_encode_anew_only_for_new_pointers(map_driver: MapDriver, torch: FakeTorch) -> None:
    kernel = kernel_from(map_manifest())
    a, b, d = arrays(Tensor)
    other = Tensor(aligned(M, K + 8)[:, :K])
    for left in (a, a, other, a):
        kernel(left, b, out=d)
    assert [x.address for x in map_driver.encoded] == [x.array.ctypes.data for x in (a, b, other)]
    assert [number(x.values[0]) for x in map_driver.launches] == [1, 1, 3, 1]
    assert [number(x.values[2]) for x in map_driver.launches] == [2, 2, 2, 2]


def test_a_bound_launch_encodes_when_it_is_bound_and_never_again(map_driver: MapDriver, torch: FakeTorch) -> None:
    launch = kernel_from(map_manifest()).bind(*arrays(Tensor)[:2], out=arrays(Tensor)[2])
    assert len(map_driver.encoded) == 2
    launch()
    launch()
    assert len(map_driver.encoded) == 2
    assert [number(x.values[2]) for x in map_driver.launches] == [2, 2]


def test_a_host_function_says_what_to_map_without_a_driver() -> None:
    manifest = map_manifest()
    memrefs = {
        name: SimpleNamespace(address=address, shape=shape, row_stride=stride)
        for name, address, shape, stride in (("a", 256, (300, 64), 72), ("b", 512, (129, 64), 64), ("d", 64, (4, 8), 8))
    }
    (launch,) = compile_host(manifest)(memrefs)
    value, kind = launch.arguments[0]
    assert kind == "tensor_map"
    assert value == TensorMap(256, BoxedTensor("a", "f16", (300, 64), (72, 1), (128, 64), (3, 3, 3), 256))


def test_a_map_of_more_dimensions_sees_a_matrix_as_panels_that_must_divide_it() -> None:
    box = [1, 2, 128, 64]
    mapped = compile_host(map_manifest(map_op("ta", "a", box=box), map_op("tb", "b", box=[128, 64])))

    def a_map(columns: int) -> TensorMap:
        extents = (("a", (300, columns), 264), ("b", (129, 64), 64), ("d", (4, 8), 8))
        memrefs = {name: SimpleNamespace(address=256, shape=s, row_stride=stride) for name, s, stride in extents}
        return mapped(memrefs)[0].arguments[0][0]

    # Elements: a panel is 64 further on, a row 264.
    panels = BoxedTensor("a", "f16", (1, 4, 300, 64), (64, 64, 264, 1), (1, 2, 128, 64), (3, 3, 3), 256)
    assert a_map(256) == TensorMap(256, panels)
    check_tensor_map(a_map(256))
    with pytest.raises(
        LaunchError,
        match=r"operand a: a tensor map of rank 4 sees its 200 columns as panels of 64.*\[map-whole-panels\]",
    ):
        a_map(200)


def test_a_ragged_map_has_a_coordinate_for_the_end_of_the_rows() -> None:
    mapped = compile_host(map_manifest(map_op("ta", "a", box=[1, 1, 128, 64], ragged=True), map_op("tb", "b")))
    extents = (("a", (300, 64), 72), ("b", (129, 64), 64), ("d", (4, 8), 8))
    memrefs = {name: SimpleNamespace(address=256, shape=s, row_stride=stride) for name, s, stride in extents}
    (value, _), *_ = mapped(memrefs)[0].arguments
    check_tensor_map(value)
    assert value.tensor.shape == (2**31 - 1, 2**31 - 1, 2**30, 64)
    for end, row in ((300, 0), (300, 299), (10, 9), (0, 0)):
        corner = (2**30, end, 2**30 - end + row, 0)
        terms = zip(corner, value.tensor.strides, strict=True)
        assert sum(at * stride for at, stride in terms) * 2 % 2**64 == row * 72 * 2  # of f16
        assert (corner[2] < 2**30) == (row < end)
    with pytest.raises(LoadError, match="ragged is True, must be true or false; true for a matrix with a box of four"):
        compile_host(map_manifest(map_op("ta", "a", ragged=True), map_op("tb", "b")))


def test_maps_of_a_swizzle_of_no_bits_are_maps_without(map_driver: MapDriver) -> None:
    manifest = map_manifest(map_op("ta", "a", swizzle=[0, 3, 3], box=[8, 256]), map_op("tb", "b"))
    a, b, d = arrays()
    kernel_from(manifest)(a, b, out=d)
    assert [x.swizzle for x in map_driver.encoded] == ["NONE", "128B"]


def test_without_k_zeros_are_mapped_and_without_m_or_n_nothing(map_driver: MapDriver, torch: FakeTorch) -> None:
    kernel = kernel_from(map_manifest())
    d = Tensor(aligned(M, N))
    for _ in range(2):
        kernel(Tensor(aligned(M, 8)[:, :0]), Tensor(aligned(N, 8)[:, :0]), out=d)
    assert [(x.shape, x.strides) for x in map_driver.encoded] == [([1, M], [16]), ([1, N], [16])]
    for found in map_driver.encoded:
        assert not any(ctypes.string_at(found.address, found.shape[1] * found.strides[0]))
    assert [number(x.values[0]) for x in map_driver.launches] == [1, 1]
    kernel(Tensor(aligned(1, K)[:0]), Tensor(aligned(N, K)), out=Tensor(aligned(1, N)[:0]))
    assert (len(map_driver.encoded), len(map_driver.launches)) == (2, 2)
