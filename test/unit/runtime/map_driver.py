"""A driver that encodes tensor maps, and manifests of kernels that take some."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as bindings
from fake_arrays import InterfaceArray, aligned
from fake_driver import FakeDriver, Install
from sample_kernel import op, sample_manifest

from lowtide.runtime.tensor_map_encoder import ENCODE_TILED
from lowtide.runtime.tensor_maps import BoxedTensor

M, N, K = 40, 24, 64
CONTEXT = 7000
PLAIN = BoxedTensor("a", "bf16", (300, 520), (528, 1), (128, 64), (3, 3, 3), 256)


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
def map_driver(install_driver: Install) -> Iterator[MapDriver]:
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
