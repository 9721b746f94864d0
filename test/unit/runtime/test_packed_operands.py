"""Operands that are packed where they are not aligned: which launches and workspaces a call has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_arrays import FakeTorch, InterfaceArray, Tensor, aligned
from fake_driver import FakeDriver, Install
from sample_kernel import kernel_from, op, sample_manifest

import lowtide as lt
from lowtide.errors import LaunchError, LoadError
from lowtide.runtime import Kernel, compile_host

_SEEN = ("ptr", "i64", "ptr", "i64")  # the first arguments of both kernels
_COPIED = 40 * 64 * 2  # bytes of A in rows of 64


def manifest_of(*more: dict[str, Any]) -> dict[str, Any]:
    """The sample, where A is copied to rows of a multiple of 64 elements before the kernel unless it is aligned."""
    manifest = sample_manifest(dtype="f16")
    *host, launch = manifest["host"]
    taken = ("pa", "lda", "rest_a", "whole_a")
    host = [entry for entry in host if not {*taken} & {*entry["results"], *entry["operands"]}]
    host += [
        op("memref.base_address", ["pa"], ["a"]),
        op("memref.row_stride", ["lda"], ["a"]),
        op("arith.constant", ["c2"], [], value=2),
        op("arith.constant", ["c64"], [], value=64),
        op("arith.remui", ["base"], ["pa", "c16"]),
        op("arith.muli", ["bytes"], ["lda", "c2"]),
        op("arith.remui", ["stride"], ["bytes", "c16"]),
        op("arith.ori", ["rest"], ["base", "stride"]),
        op("arith.cmpi", ["apart"], ["rest", "c0"], predicate="ne"),
        op("arith.ceildivui", ["lines"], ["k", "c64"]),
        op("arith.muli", ["row"], ["lines", "c64"]),
        op("arith.muli", ["all"], ["m", "row"]),
        op("arith.select", ["elements"], ["apart", "all", "c0"]),
        op("tile.workspace", ["space"], ["elements"], dtype="f16", zeroed=False),
        op("arith.select", ["from"], ["apart", "space", "pa"]),
        op("arith.select", ["ld"], ["apart", "row", "lda"]),
        op("arith.select", ["copies"], ["apart", "m", "c0"]),
        *more,
    ]
    values = [("pa", "ptr"), ("lda", "i64"), ("space", "ptr"), ("row", "i64")]
    copy = {"kernel": "copy_kernel", "grid": ["copies", 1, 1], "arguments": as_arguments(values)}
    own = launch["attributes"]
    renamed = {"pa": "from", "lda": "ld"}
    arguments = [{**entry, "value": renamed.get(entry["value"], entry["value"])} for entry in own["arguments"]]
    host += [{**launch, "attributes": {**own, **copy}}, {**launch, "attributes": {**own, "arguments": arguments}}]
    found = [{**x, "base_alignment": 2, "row_stride_alignment": 2} for x in manifest["arguments"][:1]]
    return {**manifest, "host": host, "arguments": [*found, *manifest["arguments"][1:]]}


def as_arguments(values: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"value": name, "type": kind} for name, kind in values]


@pytest.fixture
def fake(install_driver: Install) -> FakeDriver:
    return install_driver(FakeDriver(types=_SEEN))


def off(make: Callable[..., Any], rows: int, columns: int, elements: int) -> Any:
    """An array whose base is that many elements beyond an aligned one; its rows are aligned."""
    whole = np.lib.stride_tricks.as_strided(aligned(rows + 1, columns), (rows, columns + 8), (columns * 2, 2))
    return make(whole[:, elements : elements + columns])


def kernel_of() -> Kernel:
    return kernel_from(manifest_of())


def launched(fake: FakeDriver) -> list[int]:
    """CTAs of the launches since the last time."""
    found = [x.geometry[0] for x in fake.launches]
    fake.launches.clear()
    return found


@pytest.mark.parametrize("kind", ["interface", "torch"])
def test_a_copy_is_launched_where_the_base_is_not_aligned(fake: FakeDriver, torch: FakeTorch, kind: str) -> None:
    make = InterfaceArray if kind == "interface" else Tensor
    kernel, b, d = kernel_of(), make(aligned(24, 64)), make(aligned(40, 24))
    for elements in (0, 1, 8, 3, 1):  # known signatures, with other addresses, too
        kernel(off(make, 40, 64, elements), b, out=d)
        assert launched(fake) == ([40, 1] if elements % 8 else [1])


def test_the_kernel_reads_the_workspace_or_the_operand_itself(fake: FakeDriver) -> None:
    kernel, b, d = kernel_of(), InterfaceArray(aligned(24, 64)), InterfaceArray(aligned(40, 24))
    a = off(InterfaceArray, 40, 64, 3)
    kernel(a, b, out=d, stream=3)
    copy, product = fake.launches
    assert copy.values[2] == product.values[0] != copy.values[0] and product.values[1] == 64
    assert [size for size in fake.memory.values()] != [] and len(fake.memory) == 1
    own = kernel_of()
    whole = off(InterfaceArray, 40, 64, 0)
    own(whole, b, out=d, stream=3)
    assert fake.launches[-1].values[0] == whole.__cuda_array_interface__["data"][0] and len(fake.memory) == 1


def test_workspace_bytes_and_the_callers_workspace(fake: FakeDriver) -> None:
    kernel, b, d = kernel_of(), InterfaceArray(aligned(24, 64)), InterfaceArray(aligned(40, 24))
    assert kernel.workspace_bytes(off(InterfaceArray, 40, 64, 0), b) == 0
    a = off(InterfaceArray, 40, 64, 1)
    assert kernel.workspace_bytes(a, b) == _COPIED
    space = aligned(1, _COPIED // 2)
    kernel(a, b, out=d, stream=3, workspace=InterfaceArray(space))
    assert fake.launches[-1].values[0] == space.ctypes.data and not fake.memory


def test_a_bound_launch_and_another_stream(fake: FakeDriver) -> None:
    kernel, b, d = kernel_of(), InterfaceArray(aligned(24, 64)), InterfaceArray(aligned(40, 24))
    launch = kernel.bind(off(InterfaceArray, 40, 64, 1), b, out=d, stream=3)
    launch(), launch()
    kernel(off(InterfaceArray, 40, 64, 1), b, out=d, stream=4)
    copies = [x.values[2] for x in fake.launches[::2]]
    assert copies[0] == copies[1] != copies[2] and launched(fake) == [40, 1] * 3


def test_a_column_is_copied_to_a_row_only_if_it_is_strided_or_unaligned(fake: FakeDriver) -> None:
    spec = lt.GemmSpec(m=1, n=24, k=40, a="f16", b="f16", d="f16", layout="nn")
    kernel = kernel_from(lt.compile_gemm(spec, target="sm_80").manifest)
    b, d = InterfaceArray(aligned(24, 40)), InterfaceArray(aligned(1, 24))
    whole = aligned(40, 8)
    contiguous, memory = whole.reshape(-1, 1)[:40], whole.reshape(1, -1)[:, :40].T
    assert contiguous.strides != memory.strides  # of the dimension of one element, where any stride is as good
    for a, copies in ((contiguous, []), (memory, []), (whole[:, :1], [1]), (whole.reshape(-1, 1)[4:44], [1])):
        kernel(InterfaceArray(a), b, out=d)
        assert launched(fake) == [*copies, 1]
        assert bool(kernel.workspace_bytes(InterfaceArray(a), b)) == bool(copies)


@pytest.mark.parametrize(("m", "n", "layout", "name"), [(1, 512, "nt", "a"), (1, 1000, "nn", "a"), (512, 1, "tt", "b")])
def test_the_tensor_map_of_a_column_names_its_argument(m: int, n: int, layout: str, name: str) -> None:
    """A select of a workspace and of the matrix itself as a row."""
    spec = lt.GemmSpec(m=m, n=n, k=512, a="bf16", b="bf16", d="bf16", layout=layout)
    manifest = lt.compile_gemm(spec, target="sm_90a").manifest
    compile_host(manifest)
    maps = [entry["attributes"] for entry in manifest["host"] if entry["op"] == "sm.tensor_map"]
    assert name in [each.get("name") for each in maps]


@pytest.mark.parametrize("layout", ["tt", "nt", "nn"])
def test_operands_of_one_element_are_copied_to_aligned_rows(layout: str) -> None:
    """A tensor map takes no row stride of one element."""
    spec = lt.GemmSpec(m=1, n=1, k=1, a="s8", b="s8", d="s32", layout=layout)
    manifest = lt.compile_gemm(spec, target="sm_90a").manifest
    launched = [entry["attributes"]["kernel"] for entry in manifest["host"] if entry["op"] == "tile.launch"]
    assert launched[:2] == ["lowtide_gemm_copy_s8"] * 2


@pytest.fixture(scope="module")
def batched() -> dict[str, Any]:
    """The manifest of a kernel that packs batches."""
    spec = lt.GemmSpec(m=40, n=24, k=40, batch=None, a="f16", b="f16", d="f16")
    schedule = "a.pack = rows, b.pack = rows, epilogue.pack = rows, grid.tile = [64, 64]"
    return lt.compile_gemm(spec, target="sm_80", schedule=schedule).manifest


def test_a_batch_is_copied_where_its_matrices_are_not_aligned_to_each_other(
    install_driver: Install, batched: dict[str, Any]
) -> None:
    """Strides and number of matrices of A and of its copy: all, or the one that all products share."""
    fake = install_driver(FakeDriver(types=("ptr", "i64", "i64", "i32")))
    kernel = kernel_from(batched)

    def batch(rows: int, columns: int, gap: int) -> Any:
        step = rows * columns + gap
        whole = aligned(1, 3 * step)[0]
        return np.lib.stride_tricks.as_strided(whole, (3, rows, columns), (step * 2, columns * 2, 2))

    b, d = InterfaceArray(batch(24, 40, 0)), InterfaceArray(batch(40, 24, 0))
    kernel(InterfaceArray(batch(40, 40, 0)), b, out=d)
    assert len(fake.launches) == 1
    kernel(InterfaceArray(batch(40, 40, 4)), b, out=d)
    copy, product = fake.launches[1:]
    units = 40 * ((40 + 14) // 8)
    assert (copy.geometry[0], copy.values[1:]) == (-(-3 * units // 256), [1604, 40, 3])
    assert product.values[1:] == [40 * 64, 64, 3]
    one = np.lib.stride_tricks.as_strided(aligned(41, 41)[0:, 1:], (3, 40, 40), (0, 41 * 2, 2))
    kernel(InterfaceArray(one), b, out=d)
    copy, product = fake.launches[3:]
    assert (copy.geometry[0], copy.values[1:]) == (-(-units // 256), [0, 41, 1])
    assert product.values[1:] == [0, 64, 3]


def test_only_where_a_base_lies_in_a_unit_is_known_before_the_call() -> None:
    for text in ("arith.remui", "arith.divui"):
        more = [op(text, ["late"], ["pa", "c64"]), op("tile.workspace", ["w"], ["late"], dtype="f16", zeroed=False)]
        manifest = manifest_of(*more)
        if text == "arith.remui":
            assert compile_host(manifest).placed == ((0, 64),)
        else:
            with pytest.raises(LoadError, match=r"depends on an address.*\[host-program\]"):
                compile_host(manifest)


def entry(ptx: str, name: str) -> str:
    """The code of a kernel."""
    return ptx[ptx.index(f".entry {name}(") :].partition("\n}\n")[0]


def test_a_compiled_kernel_packs_from_the_first_matrix_on_that_is_not_aligned(fake: FakeDriver) -> None:
    """Its own code stays, and so does what a call costs whose matrices are aligned."""
    spec = lt.GemmSpec(m=40, n=24, k=64, a="f16", b="f16", d="f16")
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [32, 32], k = 32, atoms = [2, 1, 1]")
    b, d = InterfaceArray(aligned(24, 64)), InterfaceArray(aligned(40, 24))
    kernel(off(InterfaceArray, 40, 64, 0), b, out=d)
    direct = kernel._loaded
    assert len(fake.launches) == 1 and not direct.program.workspaces
    for elements, launches in ((1, 2), (0, 1), (8, 1), (3, 2)):
        fake.launches.clear()
        kernel.bind(off(InterfaceArray, 40, 64, elements), b, out=d, stream=3)()
        assert len(fake.launches) == launches and fake.launches[-1].geometry[:3] == (2, 1, 1)
    packing = kernel._loaded
    assert packing is not direct and kernel.workspace_bytes(off(InterfaceArray, 40, 64, 1), b) > 0
    assert entry(packing.ptx, kernel.entry) == entry(direct.ptx, kernel.entry)
    with pytest.raises(LaunchError, match=r"\[negative-strides\]"):
        kernel(InterfaceArray(np.zeros((40, 64), np.float16)[::-1]), b, out=d)
