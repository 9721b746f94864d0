"""Kernels that pack, of one product and of a batch, saved and loaded: their launches, run by numpy, give D."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_arrays import InterfaceArray
from fake_driver import FakeDriver

import lowtide as lt
from lowtide.runtime import Kernel, load

SMALL = "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 2"
COPY = "lowtide_gemm_copy_f16"
PACKED = f"{SMALL}, a.pack = rows, b.pack = rows, epilogue.pack = rows"
M, N, K, BATCH = 37, 21, 45, 3


class Driver(FakeDriver):
    """Runs the product and the copies in numpy; each kernel has arguments of its own."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        super().__init__()
        launches = [entry["attributes"] for entry in manifest["host"] if entry["op"] == "tile.launch"]
        self.types_of = {
            launch["kernel"]: tuple(argument["type"] for argument in launch["arguments"]) for launch in launches
        }
        self.ran: list[str] = []

    def cuLaunchKernelEx(self, config: Any, function: str, pointers: int, extra: int) -> tuple[int]:
        self.types = self.types_of[function]
        self.kernel = copy if function == COPY else product
        self.ran.append(function)
        return super().cuLaunchKernelEx(config, function, pointers, extra)


def matrices(values: list[Any], count: int) -> list[np.ndarray]:
    """The arguments of a kernel as arrays: a base, strides but the last, which is 1, and extents of each."""
    each = len(values) // count
    found = []
    for base, *rest in (values[at : at + each] for at in range(0, len(values), each)):
        strides, shape = [*rest[: each // 2 - 1], 1], rest[each // 2 - 1 :]
        size = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        flat = np.frombuffer((ctypes.c_char * (2 * size)).from_address(base), np.float16)
        found.append(np.lib.stride_tricks.as_strided(flat, shape, [2 * stride for stride in strides]))
    return found


def copy(values: list[Any]) -> None:
    source, target = matrices(values, 2)
    target[...] = source


def product(values: list[Any]) -> None:
    a, b, d = matrices(values, 3)
    assert all(array.ctypes.data % 16 == 0 and array.strides[-2] % 16 == 0 for array in (a, b, d))
    d[...] = a.astype(np.float32) @ np.swapaxes(b, -1, -2).astype(np.float32)


def array(*shape: int, gap: int = 0, offset: int = 0) -> np.ndarray:
    """Small integers, their rows `gap` elements further apart than they are long; `offset` elements past 16 bytes."""
    *outer, rows, columns = shape
    size = math.prod(outer) * rows * (columns + gap)
    raw = np.random.default_rng(size).integers(-3, 4, size + offset + 8).astype(np.float16)
    start = -raw.ctypes.data % 16 // 2 + offset
    return raw[start : start + size].reshape(*outer, rows, columns + gap)[..., :columns]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool, str], Path]:
    """The folder of a kernel of a batch or of one product, with a schedule."""
    made: dict[tuple[bool, str], Path] = {}

    def save(is_batched: bool, schedule: str) -> Path:
        if (is_batched, schedule) not in made:
            batch = {"batch": None} if is_batched else {}
            kernel = lt.compile_gemm(lt.GemmSpec(**batch, a="f16", b="f16", d="f16"), "sm_80", schedule)
            made[is_batched, schedule] = kernel.save(tmp_path_factory.mktemp("saved") / "gemm.lowtide")
        return made[is_batched, schedule]

    return save


def loaded(install: Callable[[FakeDriver], FakeDriver], folder: Path) -> tuple[Kernel, Driver]:
    kernel = load(folder)
    fake = install(Driver(dict(kernel.manifest)))
    assert isinstance(fake, Driver)
    return kernel, fake


@pytest.mark.parametrize("batch", [(), (BATCH,)], ids=["one", "batch"])
@pytest.mark.parametrize(("gap", "offset", "copies"), [(3, 1, 3), (0, 0, 3), (5, 0, 2)])
def test_a_saved_kernel_that_packs_copies_what_is_not_aligned(
    install_driver: Any, saved: Any, batch: tuple[int, ...], gap: int, offset: int, copies: int
) -> None:
    """In the last case rows of D, of 21 + 3 elements, are aligned, those of A and B are not."""
    kernel, fake = loaded(install_driver, saved(bool(batch), PACKED))
    a, b = (array(*batch, rows, K, gap=gap, offset=offset) for rows in (M, N))
    d = array(*batch, M, N, gap=3 if gap == 5 else gap, offset=offset)
    kernel(InterfaceArray(a), InterfaceArray(b), out=InterfaceArray(d))
    np.testing.assert_array_equal(d, a @ np.swapaxes(b, -1, -2))
    assert fake.ran.count(COPY) == copies and len(fake.ran) == copies + 1


@pytest.mark.parametrize("batch", [(), (BATCH,)], ids=["one", "batch"])
def test_a_saved_kernel_that_packs_launches_nothing_else_where_all_is_aligned(
    install_driver: Any, saved: Any, batch: tuple[int, ...]
) -> None:
    kernel, fake = loaded(install_driver, saved(bool(batch), PACKED))
    a, b, d = array(*batch, M, K, gap=3), array(*batch, N, K, gap=3), array(*batch, M, N, gap=3)
    kernel(InterfaceArray(a), InterfaceArray(b), out=InterfaceArray(d))
    np.testing.assert_array_equal(d, a @ np.swapaxes(b, -1, -2))
    assert len(fake.ran) == 1 and COPY not in fake.ran and not fake.memory


def test_a_saved_kernel_of_a_batch_takes_an_operand_that_all_share(install_driver: Any, saved: Any) -> None:
    kernel, _ = loaded(install_driver, saved(True, SMALL))
    a, b, d = array(BATCH, M, K, gap=3), array(N, K, gap=3), array(BATCH, M, N, gap=3)
    kernel(InterfaceArray(a), InterfaceArray(b), out=InterfaceArray(d))
    np.testing.assert_array_equal(d, a @ b.T)
