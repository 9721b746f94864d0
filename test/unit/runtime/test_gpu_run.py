"""`run_on_gpu` on a driver whose launches run numpy: D comes back, faults show, and all memory is given back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import DeviceError, LaunchError
from lowtide.runtime.dtypes import from_bits, to_bits
from lowtide.verification.checking.gpu_run import GpuRun, run_on_gpu
from lowtide.verification.checking.verdicts import against_float64


def _epilogue(acc: Any, bias: lt.PerColumn, alpha: lt.Scalar) -> Any:
    return alpha * acc + bias


class Driver(FakeDriver):
    """With the events by which launches are timed: each launch takes 2 ms."""

    def __init__(self, kernel: CompiledKernel) -> None:
        launches = [entry["attributes"] for entry in kernel.manifest["host"] if entry["op"] == "tile.launch"]
        super().__init__()
        self.types_of = {each["kernel"]: tuple(x["type"] for x in each["arguments"]) for each in launches}
        self.free_bytes = 1 << 30
        self.recorded: list[int] = []

    def cuLaunchKernelEx(self, config: Any, function: str, pointers: int, extra: int) -> tuple[int]:
        self.types = self.types_of[function]
        return super().cuLaunchKernelEx(config, function, pointers, extra)

    def cuEventRecord(self, event: str, stream: int) -> tuple[int]:
        self.recorded.append(len(self.launches))
        return (0,)

    def cuEventSynchronize(self, event: str) -> tuple[int]:
        return (0,)

    def cuEventElapsedTime(self, start: str, end: str) -> tuple[int, float]:
        return (0, 2.0 * (self.recorded[-1] - self.recorded[-2]))

    def cuMemAlloc(self, size: int) -> tuple[int, int]:
        if size > self.free_bytes:
            return (2, 0)
        return super().cuMemAlloc(size)


def matrix(address: int, rows: int, stride: int, columns: int) -> np.ndarray[Any, Any]:
    size = ((rows - 1) * stride + columns) * 2
    flat = np.frombuffer((ctypes.c_char * size).from_address(address), dtype=np.uint16)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (2 * stride, 2))


def numpy_kernel(past_the_edge: int = 0, rows: int = 37) -> Callable[[list[Any]], None]:
    def kernel(values: list[Any]) -> None:
        a, lda, b, ldb, d, ldd, bias, alpha = values
        left = from_bits(np.ascontiguousarray(matrix(a, 37, lda, 40)), "bf16")
        right = from_bits(np.ascontiguousarray(matrix(b, 21, ldb, 40)), "bf16")
        sums = alpha * (left @ right.T) + from_bits(np.ascontiguousarray(matrix(bias, 1, 21, 21)), "bf16")
        matrix(d, 37, ldd, 21)[:rows] = to_bits(sums, "bf16")[:rows]
        matrix(d, 37, ldd, 21 + past_the_edge)[3, 21:] = 0

    return kernel


@pytest.fixture(scope="module")
def compiled() -> tuple[lt.GemmSpec, CompiledKernel]:
    spec = lt.GemmSpec(m=37, n=21, k=40, a="bf16", b="bf16", d="bf16", epilogue=_epilogue)
    return spec, lt.compile_gemm(spec, "sm_80", schedule="pack = none")  # one launch, which `numpy_kernel` runs


def run(install: Any, compiled: tuple[lt.GemmSpec, CompiledKernel], **fault: Any) -> tuple[Any, dict[str, Any], GpuRun]:
    spec, kernel = compiled
    fake = install(Driver(kernel))
    fake.kernel = numpy_kernel(**fault)
    inputs = lt.random_inputs(spec, None, None, None, np.random.default_rng(1), row_padding=8)
    ran = run_on_gpu(kernel, spec, inputs)
    assert not fake.memory
    return fake, inputs, ran


def test_d_comes_back_and_is_within_bound(install_driver: Any, compiled: Any) -> None:
    _, inputs, ran = run(install_driver, compiled)
    assert ran.complaint == ""
    assert against_float64(compiled[0], inputs, ran.d).ok


def test_an_amax_comes_back_among_the_inputs(install_driver: Any) -> None:
    spec = lt.GemmSpec(m=37, n=21, k=40, a="bf16", b="bf16", d="bf16", amax=True)
    kernel = lt.compile_gemm(spec, "sm_80", schedule="pack = none")
    fake = install_driver(Driver(kernel))

    def set_amax(values: list[Any]) -> None:
        if len(values) > 1:  # not the launch that clears it
            ctypes.c_float.from_address(values[-1]).value = 5.0

    fake.kernel, inputs = set_amax, lt.random_inputs(spec, None, None, None, np.random.default_rng(1))
    run_on_gpu(kernel, spec, inputs)
    assert inputs["amax"].tolist() == [5.0]


@pytest.mark.parametrize(
    ("target", "types"),
    (("sm_80", {"a": "bf16", "b": "s4", "group": 32}), ("sm_89", {"a": "e4m3", "b": "e4m3"})),
    ids=("packed weights", "8-bit floats"),
)
def test_padded_bytes_reach_the_kernel_as_they_lie(install_driver: Any, target: str, types: dict[str, Any]) -> None:
    spec = lt.GemmSpec(m=16, n=32, k=64, d="bf16", **types)
    kernel = lt.compile_gemm(spec, target, schedule="pack = none")
    fake, seen = install_driver(Driver(kernel)), []
    fake.capability = (9, 0)
    inputs = lt.random_inputs(spec, None, None, None, np.random.default_rng(1), row_padding=16)
    b = inputs["b"].view(np.uint8)

    def read_b(values: list[Any]) -> None:
        seen.append([held for held in fake.memory.values() if b[0].tobytes() in bytes(held)])

    fake.kernel = read_b
    assert "were not written" in run_on_gpu(kernel, spec, inputs).complaint
    assert seen[0]


def test_reductions_of_a_run_time_batch_have_its_extent(install_driver: Any) -> None:
    def epilogue(acc: Any) -> Any:
        return {"d": acc, "of_rows": lt.sum(acc, dim=1), "of_columns": lt.sum(acc, dim=0)}

    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", batch=None, epilogue=epilogue)
    kernel = lt.compile_gemm(spec, "sm_80", schedule="grid.tile = [64, 64], pack = none")
    fake = install_driver(Driver(kernel))
    inputs = lt.random_inputs(spec, 37, 24, 40, np.random.default_rng(1), batch=3)
    ran = run_on_gpu(kernel, spec, inputs)
    assert {name: values.shape for name, values in ran.d.items()} == {
        "d": (3, 37, 24),
        "of_rows": (3, 37),
        "of_columns": (3, 24),
    }
    assert "were not written" in ran.complaint and fake.launches


def test_the_time_of_a_launch_is_the_mean_of_many(install_driver: Any, compiled: Any) -> None:
    fake, _, ran = run(install_driver, compiled)
    assert ran.seconds == pytest.approx(0.002)
    assert ran.launches == 100
    assert len(fake.launches) == 1 + 1 + 100


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ({"rows": 36}, "21 elements of D were not written"),
        ({"past_the_edge": 1}, "the padding of D's rows was written"),
    ],
)
def test_what_is_not_written_or_written_past_the_edge_is_told(
    install_driver: Any, compiled: Any, fault: dict[str, int], complaint: str
) -> None:
    _, _, ran = run(install_driver, compiled, **fault)
    assert complaint in ran.complaint


def test_a_gpu_without_memory_is_refused_and_memory_given_back(install_driver: Any, compiled: Any) -> None:
    spec, kernel = compiled
    fake = install_driver(Driver(kernel))
    fake.free_bytes = 4000  # enough for the operands, not for D between its guards
    inputs = lt.random_inputs(spec, None, None, None, np.random.default_rng(1))
    with pytest.raises(DeviceError, match=r"bytes on the GPU failed.*take a smaller problem.*\[driver-failed\]"):
        run_on_gpu(kernel, spec, inputs)
    assert not fake.memory


def test_a_refused_launch_gives_memory_back(install_driver: Any, compiled: Any) -> None:
    spec, kernel = compiled
    fake = install_driver(Driver(kernel))
    fake.launch_error = 700
    with pytest.raises(LaunchError, match=r"launching kernel.*\[launch-failed\]"):
        run_on_gpu(kernel, spec, lt.random_inputs(spec, None, None, None, np.random.default_rng(1)))
    assert not fake.memory
