"""Tensor maps: what is refused, what the driver is asked to encode, and when it is asked."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as bindings
from fake_arrays import FakeTorch, InterfaceArray, Tensor, aligned
from fake_driver import FakeDriver
from sample_kernel import argument, kernel_from, op, sample_manifest

import lowtide as lt
from lowtide.errors import DeviceError, LaunchError, LoadError
from lowtide.runtime import Kernel
from lowtide.runtime.host_compiler import compile_host
from lowtide.runtime.tensor_map_encoder import ENCODE_TILED, TensorMapEncoder
from lowtide.runtime.tensor_maps import BoxedTensor, TensorMap, check_tensor_map, swizzle_span

M, N, K = 40, 24, 64
CONTEXT = 7000
PLAIN = BoxedTensor("a", "bf16", (300, 520), (528, 1), (128, 64), (3, 3, 3), 256)
Install = Callable[[FakeDriver], FakeDriver]


class MapDriver(FakeDriver):
    """Encodes a map as the number of the call; `encoded` holds what each call was given, read through the C ABI."""

    CUtensorMapDataType = bindings.CUtensorMapDataType
    CUtensorMapInterleave = bindings.CUtensorMapInterleave
    CUtensorMapSwizzle = bindings.CUtensorMapSwizzle
    CUtensorMapL2promotion = bindings.CUtensorMapL2promotion
    CUtensorMapFloatOOBfill = bindings.CUtensorMapFloatOOBfill
    CUresult = bindings.CUresult

    def __init__(self, types: tuple[str, ...] = ()) -> None:
        super().__init__((9, 0), types)
        self.encoded: list[SimpleNamespace] = []
        self.encode_error = 0
        self.has_encode = True
        self._callback = ENCODE_TILED(self._encode)

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[int, int, int]:
        self.calls.append(("find", name, version))
        return (0, ctypes.cast(self._callback, ctypes.c_void_p).value or 0 if self.has_encode else 0, 0)

    def _encode(self, target: int, dtype: int, rank: int, address: int, *rest: Any) -> int:
        shape, strides, box, steps, interleave, swizzle, promotion, fill = rest
        if target % 64 or self.encode_error:
            return self.encode_error or 1
        self.encoded.append(
            SimpleNamespace(
                dtype=bindings.CUtensorMapDataType(dtype).name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_"),
                address=address,
                shape=shape[:rank],
                strides=strides[: rank - 1],
                box=box[:rank],
                steps=steps[:rank],
                modes=(interleave, fill),
                swizzle=bindings.CUtensorMapSwizzle(swizzle).name.removeprefix("CU_TENSOR_MAP_SWIZZLE_"),
                promotion=bindings.CUtensorMapL2promotion(promotion).name.removeprefix("CU_TENSOR_MAP_L2_PROMOTION_"),
                context=self.cuCtxGetCurrent()[1],
            )
        )
        ctypes.memmove(target, len(self.encoded).to_bytes(128, "little"), 128)
        return 0


@pytest.fixture
def fake(install_driver: Install) -> Iterator[MapDriver]:
    driver = MapDriver(types=("tensor_map", "bf16", "tensor_map", "ptr"))
    install_driver(driver)
    yield driver


def number(encoded: bytes) -> int:
    return int.from_bytes(encoded, "little")


def map_op(result: str, operand: str, dtype: str = "f16", **attributes: Any) -> dict[str, Any]:
    given = {"box": [128, 64], "swizzle": [3, 3, 3], "l2_promotion": 256, "dtype": dtype, **attributes}
    return op("sm.tensor_map", [result], [operand], **given)


def map_manifest(*ops: dict[str, Any], arguments: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Kernel arguments: the maps of a and b with a bf16 constant between them, and the address of d."""
    manifest = sample_manifest(dtype="f16", target="sm_90")
    manifest["host"] = [*(ops or (map_op("ta", "a"), map_op("tb", "b", box=[64, 64]))), *manifest["host"]]
    manifest["host"][-1]["attributes"]["arguments"] = arguments or [
        {"value": "ta", "type": "tensor_map"},
        {"value": 1.5, "type": "bf16"},
        {"value": "tb", "type": "tensor_map"},
        {"value": "pd", "type": "ptr"},
    ]
    return manifest


def arrays(wrap: Any = InterfaceArray) -> tuple[Any, Any, Any]:
    return wrap(aligned(M, K + 8)[:, :K]), wrap(aligned(N, K)), wrap(aligned(M, 32)[:, :N])


def test_a_kernel_gets_each_map_by_value_among_its_other_arguments(fake: MapDriver) -> None:
    a, b, d = arrays()
    kernel_from(map_manifest())(a, b, out=d)
    ((first, constant, second, output),) = [x.values for x in fake.launches]
    assert (number(first), constant, number(second)) == (1, 0x3FC0, 2)
    assert output == d.array.ctypes.data
    assert [x.address for x in fake.encoded] == [a.array.ctypes.data, b.array.ctypes.data]
    assert ("find", b"cuTensorMapEncodeTiled", 12000) in fake.calls


def test_the_driver_is_told_dimensions_innermost_first_and_strides_in_bytes(fake: MapDriver) -> None:
    a, b, d = arrays()
    kernel_from(map_manifest())(a, b, out=d)
    found = fake.encoded[0]
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
    fake: MapDriver, dtype: str, name: str, swizzle: Any, span: str, columns: int
) -> None:
    tensor = BoxedTensor("a", dtype, (9, 1024), (1024, 1), (8, columns), swizzle)
    TensorMapEncoder()(TensorMap(4096, tensor), CONTEXT)
    assert (fake.encoded[0].dtype, fake.encoded[0].swizzle, fake.encoded[0].promotion) == (name, span, "NONE")
    assert swizzle_span(swizzle, dtype) == (0 if span == "NONE" else int(span[:-1]))


def test_element_strides_go_to_the_driver_innermost_first(fake: MapDriver) -> None:
    manifest = map_manifest(map_op("ta", "a", element_strides=[8, 1]), map_op("tb", "b", element_strides=[1, 1]))
    a, b, d = arrays()
    kernel_from(manifest)(a, b, out=d)
    assert [x.steps for x in fake.encoded] == [[1, 8], [1, 1]]


@pytest.mark.parametrize(("value", "rows"), [(-3, 1), (0, 1), (1, 1), (40, 40), (128, 128), (300, 128)])
def test_boxes_have_the_rows_of_a_value_at_least_one_and_at_most_those_of_the_box(
    fake: MapDriver, value: int, rows: int
) -> None:
    ops = [
        op("arith.constant", ["rows"], [], value=value),
        map_op("ta", "a", rows="rows"),
        map_op("tb", "b", rows="rows"),
    ]
    a, b, d = arrays()
    kernel_from(map_manifest(*ops))(a, b, out=d)
    assert [(x.box, x.shape) for x in fake.encoded] == [([64, rows], [K, M]), ([64, rows], [K, N])]


def test_the_rows_of_boxes_follow_the_extents_of_each_call(fake: MapDriver) -> None:
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
        fake.encoded.clear()
        kernel(*(InterfaceArray(aligned(x, K)) for x in (rows, N)), out=InterfaceArray(aligned(rows, 32)[:, :N]))
        assert fake.encoded[0].box == [64, last]
        assert all(x.box == [64, 16] for x in fake.encoded[1:])


def test_a_compiled_kernel_maps_the_rows_of_the_last_tiles(install_driver: Install) -> None:
    """A, whose M is open, has maps of boxes of 64 rows and of the last rows. B, whose N is 24, has boxes of 24 rows."""
    schedule = "grid.tile = [64, 32], k = 64, stages = 2, roles = cooperative(1), pack = none, path = smem"
    compiled = lt.compile_gemm(lt.GemmSpec(a="f16", b="f16", d="f16", n=N), target="sm_90a", schedule=schedule)
    types = tuple(entry["type"] for entry in compiled.manifest["host"][-1]["attributes"]["arguments"])
    fake = MapDriver(types=types)
    install_driver(fake)
    kernel = Kernel(compiled.manifest, compiled.ptx)
    for rows, last in ((65, 1), (63, 63), (128, 64)):
        fake.encoded.clear()
        kernel(*(InterfaceArray(aligned(x, K)) for x in (rows, N)), out=InterfaceArray(aligned(rows, 32)[:, :N]))
        assert [x.box for x in fake.encoded if x.shape[1] == rows] == [[64, last], [64, 64]][: 1 + (last < 64)]
        assert all(x.box == [64, 24] for x in fake.encoded if x.shape[1] == N)


def test_a_map_may_have_up_to_five_dimensions(fake: MapDriver) -> None:
    tensor = BoxedTensor("a", "f16", (2, 3, 4, 5, 64), (4096, 1024, 512, 72, 1), (1, 1, 2, 5, 64), None, 64)
    TensorMapEncoder()(TensorMap(4096, tensor), CONTEXT)
    found = fake.encoded[0]
    assert (found.shape, found.strides) == ([64, 5, 4, 3, 2], [144, 1024, 2048, 8192])
    assert (found.box, found.promotion) == ([64, 5, 2, 1, 1], "L2_64B")


def test_a_map_is_encoded_once_for_all_that_it_says_and_again_for_anything_else(fake: MapDriver) -> None:
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
    assert sum(call[0] == "find" for call in fake.calls) == 1


def test_the_map_used_longest_ago_is_forgotten_first(fake: MapDriver) -> None:
    encode = TensorMapEncoder(most=2)
    for address in (16, 32, 16, 48, 16):
        encode(TensorMap(address, PLAIN), CONTEXT)
    assert [x.address for x in fake.encoded] == [16, 32, 48]
    encode(TensorMap(32, PLAIN), CONTEXT)
    assert [x.address for x in fake.encoded] == [16, 32, 48, 32]


def test_threads_share_the_maps_of_a_kernel(fake: MapDriver) -> None:
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
    assert len(seen) == len(fake.encoded) == 50
    assert not fake.contexts


def test_calls_encode_anew_only_for_new_pointers(fake: MapDriver, torch: FakeTorch) -> None:
    kernel = kernel_from(map_manifest())
    a, b, d = arrays(Tensor)
    other = Tensor(aligned(M, K + 8)[:, :K])
    for left in (a, a, other, a):
        kernel(left, b, out=d)
    assert [x.address for x in fake.encoded] == [x.array.ctypes.data for x in (a, b, other)]
    assert [number(x.values[0]) for x in fake.launches] == [1, 1, 3, 1]
    assert [number(x.values[2]) for x in fake.launches] == [2, 2, 2, 2]


def test_a_bound_launch_encodes_when_it_is_bound_and_never_again(fake: MapDriver, torch: FakeTorch) -> None:
    launch = kernel_from(map_manifest()).bind(*arrays(Tensor)[:2], out=arrays(Tensor)[2])
    assert len(fake.encoded) == 2
    launch()
    launch()
    assert len(fake.encoded) == 2
    assert [number(x.values[2]) for x in fake.launches] == [2, 2]


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


def test_maps_of_a_swizzle_of_no_bits_are_maps_without(fake: MapDriver) -> None:
    manifest = map_manifest(map_op("ta", "a", swizzle=[0, 3, 3], box=[8, 256]), map_op("tb", "b"))
    a, b, d = arrays()
    kernel_from(manifest)(a, b, out=d)
    assert [x.swizzle for x in fake.encoded] == ["NONE", "128B"]


@pytest.mark.parametrize(
    ("address", "change", "message"),
    [
        (4104, {}, r"starts at address 0x1008, must be a multiple of 16 bytes .* multiple of 8 elements"),
        (0, {}, "starts at address 0x0, .* not null"),
        (4096, {"strides": (521, 1)}, r"rows 1042 bytes apart, must be a multiple of 16 below 2\^40; pad each row"),
        (4096, {"strides": (2**39, 1)}, r"rows 1099511627776 bytes apart, .* below 2\^40"),
        (4096, {"strides": (-528, 1)}, "rows -1056 bytes apart"),
        (4096, {"strides": (528, 2)}, r"stride 2 in its last dimension, must have 1.*\[map-last-stride\]"),
        (
            4096,
            {"strides": (528, 16, 1)},
            r"3 strides and a box of rank 2; all must have one rank.*\[map-ranks-agree\]",
        ),
        (
            4096,
            {"shape": (2**32, 520)},
            r"shape \(4294967296, 520\) must have extents of 1 to 4294967295.*\[map-extents\]",
        ),
        (4096, {"shape": (300, 0)}, "must have extents of 1 to"),
        (4096, {"box": (257, 64)}, "box of 257×64 bf16 must have sides of 1 to 256; copy it as several boxes"),
        (4096, {"box": (0, 64)}, r"must have sides of 1 to 256.*\[map-sides\]"),
        (
            4096,
            {"box": (128, 60)},
            r"rows of 120 bytes, must be a multiple of 16; make its last side a multiple of 8.*\[map-row-bytes\]",
        ),
        (
            4096,
            {"box": (128, 72)},
            r"rows of 144 bytes, its swizzle permutes 128; make its last side at most 64.*\[map-swizzle-span\]",
        ),
        (4096, {"swizzle": (2, 3, 3)}, "rows of 128 bytes, its swizzle permutes 64"),
        (4096, {"swizzle": (3, 4, 3)}, r"swizzle \(3, 4, 3\); on bf16 TMA has <1, 3, 3>, <2, 3, 3>, <3, 3, 3>"),
        (4096, {"swizzle": (4, 3, 3)}, r"swizzle \(4, 3, 3\)"),
        (4096, {"swizzle": (3, 3, 4)}, r"swizzle \(3, 3, 4\)"),
        (4096, {"swizzle": (-1, 3, 3)}, r"swizzle \(-1, 3, 3\)"),
        (4096, {"l2_promotion": 32}, r"L2 promotion 32, must be one of 0, 64, 128, 256 bytes.*\[map-promotion\]"),
        (4096, {"shape": (4,), "strides": (1,), "box": (64,)}, r"has rank 1, must have rank 2 to 5.*\[map-rank\]"),
        (4096, {"shape": (4,) * 6, "strides": (8,) * 5 + (1,), "box": (8,) * 6}, "has rank 6, must have rank 2 to 5"),
        (4096, {"element_strides": (0, 1)}, r"element strides \(0, 1\), must have 2 of 1 to 8"),
        (4096, {"element_strides": (9, 1)}, r"element strides \(9, 1\), must have 2 of 1 to 8; pass a copy"),
        (4096, {"element_strides": (2,)}, r"element strides \(2,\), must have 2"),
        (
            4096,
            {"element_strides": (1, 2)},
            r"element strides \(1, 2\), TMA ignores all but 1 in the last dimension.*\[map-last-element-stride\]",
        ),
    ],
)
def test_a_map_that_tma_cannot_have_is_refused_before_the_driver_is_asked(
    fake: MapDriver, address: int, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(LaunchError, match=f"operand a: a tensor map.*{message}"):
        TensorMapEncoder()(TensorMap(address, replace(PLAIN, **change)), CONTEXT)
    assert not fake.encoded


def test_the_largest_map_is_not_refused() -> None:
    largest = replace(PLAIN, shape=(2**32 - 1,) * 2, strides=(2**39 - 8, 1), box=(256, 64))
    check_tensor_map(TensorMap(16, largest))


def test_an_operand_that_tma_cannot_read_is_refused_before_any_launch(fake: MapDriver) -> None:
    manifest = map_manifest()
    for entry in manifest["arguments"]:
        entry.update(base_alignment=2, row_stride_alignment=2)
    manifest["host"] = [x for x in manifest["host"] if x["op"] != "cf.assert"]
    kernel, (a, b, d) = kernel_from(manifest), arrays()
    with pytest.raises(
        LaunchError, match=r"operand b: a tensor map of shape \(24, 64\) has rows 130 bytes apart.*\[map-row-stride\]"
    ):
        kernel(a, InterfaceArray(aligned(N, K + 1)[:, :K]), out=d)
    with pytest.raises(LaunchError, match=r"operand a: .* must be a multiple of 16 bytes.*\[map-address\]"):
        kernel(InterfaceArray(aligned(M, K, offset=2)), b, out=d)
    assert not fake.launches


def test_without_k_zeros_are_mapped_and_without_m_or_n_nothing(fake: MapDriver, torch: FakeTorch) -> None:
    kernel = kernel_from(map_manifest())
    d = Tensor(aligned(M, N))
    for _ in range(2):
        kernel(Tensor(aligned(M, 8)[:, :0]), Tensor(aligned(N, 8)[:, :0]), out=d)
    assert [(x.shape, x.strides) for x in fake.encoded] == [([1, M], [16]), ([1, N], [16])]
    for found in fake.encoded:
        assert not any(ctypes.string_at(found.address, found.shape[1] * found.strides[0]))
    assert [number(x.values[0]) for x in fake.launches] == [1, 1]
    kernel(Tensor(aligned(1, K)[:0]), Tensor(aligned(N, K)), out=Tensor(aligned(1, N)[:0]))
    assert (len(fake.encoded), len(fake.launches)) == (2, 2)


@pytest.mark.parametrize("name", ["a", "b", "d"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_host_memory_is_never_mapped(fake: MapDriver, torch: FakeTorch, library: str, name: str) -> None:
    kernel = kernel_from(map_manifest())
    values = dict(zip("abd", arrays(Tensor), strict=True))
    kernel(values["a"], values["b"], out=values["d"])
    array = values[name].array
    values[name] = array if library == "numpy" else Tensor(array, device="cpu", index=None)
    with pytest.raises(
        LaunchError,
        match=rf"operand {name}: this {library}.* is on the CPU; operands must be on the GPU.*\[operand-on-gpu\]",
    ):
        kernel(values["a"], values["b"], out=values["d"])
    assert (len(fake.encoded), len(fake.launches)) == (2, 1)


def test_a_map_that_the_driver_refuses_is_reported_with_what_it_says(fake: MapDriver) -> None:
    fake.encode_error = 1
    encode = TensorMapEncoder()
    with pytest.raises(
        LaunchError, match=r"encoding TensorMap\(address=4096, .*shape=\(300, 520\).* CUDA_ERROR_1.*\[driver-failed\]"
    ):
        encode(TensorMap(4096, PLAIN), CONTEXT)
    assert not fake.contexts
    fake.encode_error = 0
    assert number(encode(TensorMap(4096, PLAIN), CONTEXT)) == 1


def test_a_driver_without_tensor_maps_is_told_to_be_updated(fake: MapDriver) -> None:
    fake.has_encode = False
    with pytest.raises(
        DeviceError,
        match=r"cuTensorMapEncodeTiled .* new in CUDA 12.0 \(update the driver\) failed.*\[driver-function\]",
    ):
        TensorMapEncoder()(TensorMap(4096, PLAIN), CONTEXT)


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([map_op("ta", "m")], "its operand must be one memref argument"),
        ([map_op("ta", "a", dtype="bf16")], "dtype is 'bf16', a has 'f16'"),
        ([map_op("ta", "a", box=[128])], r"box is \[128\], must be two to five integers"),
        ([map_op("ta", "a", box=None)], r"box is None.*\[host-program\]"),
        ([map_op("ta", "a", box=[1, 1, 1, 1, 8, 64])], r"box is \[1, 1, 1, 1, 8, 64\], must be two to five integers"),
        ([map_op("ta", "a", box=[1, 8, 64], element_strides=[1, 1])], "must be 3 integers or null"),
        ([map_op("ta", "a", box=[512, 64])], r"256.*\[map-sides\]"),
        ([map_op("ta", "a", swizzle=[3, 3])], r"swizzle is \[3, 3\], must be three integers or null"),
        ([map_op("ta", "a", swizzle=[3, 4, 3])], r"on f16 TMA has.*\[map-swizzle\]"),
        ([map_op("ta", "a", l2_promotion="big")], r"l2_promotion is 'big'.*\[host-program\]"),
        (
            [map_op("ta", "a", element_strides=[9, 1])],
            r"element strides \(9, 1\), must have 2 of 1 to 8.*\[map-element-strides\]",
        ),
        ([map_op("ta", "a", element_strides=2)], "element_strides is 2, must be 2 integers or null"),
        ([map_op("ta", "a", interleave=16)], "attribute 'interleave' is unknown"),
        ([map_op("ta", "a", rows="all")], r"value 'all' is used before it is defined.*\[host-program\]"),
        ([map_op("ta", "a", rows=64)], r"\[host-program\]"),
        ([map_op("ta", "a", rows=["m"])], r"\[host-program\]"),
        (
            [op("memref.base_address", ["at"], ["a"]), map_op("ta", "a", rows="at")],
            r"rows depends on an address or a run-time scalar.*\[host-program\]",
        ),
        ([map_op("tb", "b"), map_op("ta", "a", rows="tb")], r"\[host-program\]"),
        ([map_op("ta", "a"), op("arith.addi", ["x"], ["ta", "ta"])], r"\[host-program\]"),
    ],
)
def test_a_map_op_that_cannot_be_is_refused_when_loading(ops: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        compile_host(map_manifest(*ops))


def test_only_a_matrix_is_mapped() -> None:
    manifest = sample_manifest(argument("bias", "per_column", "f16"), dtype="f16")
    manifest["host"].insert(0, map_op("ta", "bias"))
    with pytest.raises(LoadError, match=r"bias has rank 1, must have rank 2.*\[host-program\]"):
        compile_host(manifest)


@pytest.mark.parametrize("entry", [{"value": "ta", "type": "ptr"}, {"value": "pd", "type": "tensor_map"}])
def test_a_kernel_argument_and_its_type_must_agree_on_being_a_map(entry: dict[str, Any]) -> None:
    with pytest.raises(LoadError, match=r"\[host-program\]"):
        compile_host(map_manifest(arguments=[entry]))


def test_a_grid_that_is_not_whole_clusters_is_refused(fake: MapDriver) -> None:
    manifest = map_manifest()
    manifest["host"][-1]["attributes"].update(cluster=[2, 1, 1], grid=[3, 1, 1])
    a, b, d = arrays()
    with pytest.raises(
        LaunchError, match=r"would be \(3, 1, 1\) CTAs, must be whole clusters of \(2, 1, 1\).*\[grid-clusters\]"
    ):
        kernel_from(manifest)(a, b, out=d)
