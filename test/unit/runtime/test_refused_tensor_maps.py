"""Tensor maps that are refused: when a kernel is loaded, at a launch, and by the driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_arrays import FakeTorch, InterfaceArray, Tensor, aligned
from map_driver import CONTEXT, PLAIN, K, M, MapDriver, N, arrays, map_manifest, map_op, number
from sample_kernel import argument, kernel_from, op, sample_manifest

from lowtide.errors import DeviceError, LaunchError, LoadError
from lowtide.runtime.host_compiler import compile_host
from lowtide.runtime.tensor_map_encoder import TensorMapEncoder
from lowtide.runtime.tensor_maps import TensorMap, check_tensor_map


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
    map_driver: MapDriver, address: int, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(LaunchError, match=f"operand a: a tensor map.*{message}"):
        TensorMapEncoder()(TensorMap(address, replace(PLAIN, **change)), CONTEXT)
    assert not map_driver.encoded


def test_the_largest_map_is_not_refused() -> None:
    largest = replace(PLAIN, shape=(2**32 - 1,) * 2, strides=(2**39 - 8, 1), box=(256, 64))
    check_tensor_map(TensorMap(16, largest))


def test_an_operand_that_tma_cannot_read_is_refused_before_any_launch(map_driver: MapDriver) -> None:
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
    assert not map_driver.launches


@pytest.mark.parametrize("name", ["a", "b", "d"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_host_memory_is_never_mapped(map_driver: MapDriver, torch: FakeTorch, library: str, name: str) -> None:
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
    assert (len(map_driver.encoded), len(map_driver.launches)) == (2, 1)


def test_a_map_that_the_driver_refuses_is_reported_with_what_it_says(map_driver: MapDriver) -> None:
    map_driver.encode_error = 1
    encode = TensorMapEncoder()
    with pytest.raises(
        LaunchError, match=r"encoding TensorMap\(address=4096, .*shape=\(300, 520\).* CUDA_ERROR_1.*\[driver-failed\]"
    ):
        encode(TensorMap(4096, PLAIN), CONTEXT)
    assert not map_driver.contexts
    map_driver.encode_error = 0
    assert number(encode(TensorMap(4096, PLAIN), CONTEXT)) == 1


def test_a_driver_without_tensor_maps_is_told_to_be_updated(map_driver: MapDriver) -> None:
    map_driver.has_encode = False
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


def test_a_grid_that_is_not_whole_clusters_is_refused(map_driver: MapDriver) -> None:
    manifest = map_manifest()
    manifest["host"][-1]["attributes"].update(cluster=[2, 1, 1], grid=[3, 1, 1])
    a, b, d = arrays()
    with pytest.raises(
        LaunchError, match=r"would be \(3, 1, 1\) CTAs, must be whole clusters of \(2, 1, 1\).*\[grid-clusters\]"
    ):
        kernel_from(manifest)(a, b, out=d)
