"""The runtime on a real driver, with a plain kernel of its own: calls, streams, graphs, refusals, verify."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plain_gemm import DROPS_LAST_K, TAKES_LONG, plain_manifest, plain_ptx

import lowtide
from lowtide import runtime
from lowtide.errors import LaunchError, LoadError
from lowtide.runtime import Kernel

try:
    import torch
except ImportError:
    torch = None

pytestmark = pytest.mark.gpu
ROOT = Path(lowtide.__file__).parents[1]


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Kernel(plain_manifest("bf16"), plain_ptx("bf16"))


def matrix(rows: int, columns: int, dtype: str = "bfloat16", device: int = 0, padding: int = 0) -> Any:
    """Random normal values; rows padded to 16 bytes and by `padding` units of 16 bytes."""
    stride = -(-columns // 8) * 8 + 8 * padding
    kind = getattr(torch, dtype)
    return torch.randn(rows, stride, device=f"cuda:{device}").to(kind)[:, :columns]


def check(d: Any, a: Any, b: Any, alpha: float = 1.0) -> None:
    """D against float64, within n roundings of the sum and one to D's type."""
    torch.cuda.synchronize(d.device)
    exact = alpha * (a.double() @ b.double().T)
    size = abs(alpha) * (a.double().abs() @ b.double().abs().T)
    unit = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}[d.dtype]
    bound = size * (a.shape[1] + 3) * 2.0**-23
    bound = bound + (exact.abs() + bound) * unit + 2.0**-24
    assert bool(((d.double() - exact).abs() <= bound).all())


@pytest.mark.parametrize(("dtype", "name"), [("bf16", "bfloat16"), ("f16", "float16")])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (64, 128, 32), (70, 45, 133), (3, 521, 257)])
def test_a_saved_kernel_multiplies(tmp_path: Path, dtype: str, name: str, m: int, n: int, k: int) -> None:
    saved = Kernel(plain_manifest(dtype), plain_ptx(dtype)).save(tmp_path / "plain")
    a, b = matrix(m, k, name, padding=1), matrix(n, k, name)
    d = runtime.load(saved)(a, b, alpha=0.5)
    assert d.shape == (m, n)
    assert d.stride(0) % 8 == 0
    check(d, a, b, 0.5)


def test_every_gpu_runs_the_same_kernel_whichever_is_current(kernel: Kernel) -> None:
    for index in range(torch.cuda.device_count()):
        a, b = matrix(30, 40, device=index), matrix(20, 40, device=index)
        for _ in range(2):
            check(kernel(a, b, alpha=1.0), a, b)


def test_the_output_given_is_written_and_nothing_around_it(kernel: Kernel) -> None:
    a, b = matrix(50, 64), matrix(33, 64)
    whole = torch.full((52, 48), 7.0, dtype=torch.bfloat16, device="cuda")
    d = whole[1:51, :33]
    assert kernel(a, b, alpha=1.0, out=d) is d
    check(d, a, b)
    d.fill_(7.0)
    assert bool((whole == 7.0).all())


def test_a_bound_launch_reads_what_the_operands_hold_then(kernel: Kernel) -> None:
    a, b = matrix(64, 64), matrix(64, 64)
    d = torch.empty(64, 64, dtype=torch.bfloat16, device="cuda")
    launch = kernel.bind(a, b, alpha=2.0, out=d)
    for _ in range(3):
        a.copy_(torch.randn_like(a))
        assert launch() is d
        check(d, a, b, 2.0)


def test_a_graph_captures_a_launch_and_replays_it(kernel: Kernel) -> None:
    a, b = matrix(64, 64), matrix(64, 64)
    d = torch.empty(64, 64, dtype=torch.bfloat16, device="cuda")
    launch = kernel.bind(a, b, alpha=1.0, out=d)
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
        kernel(a, b, alpha=1.0, out=d)
    for _ in range(2):
        a.copy_(torch.randn_like(a))
        d.fill_(float("nan"))
        graph.replay()
        check(d, a, b)


@pytest.mark.parametrize("how", ["current", "given", "handle"])
def test_a_launch_is_ordered_in_its_stream(kernel: Kernel, how: str) -> None:
    stream = torch.cuda.Stream()
    a, b = torch.zeros(64, 64, dtype=torch.bfloat16, device="cuda"), matrix(64, 64)
    new = matrix(64, 64)
    d = torch.empty_like(a)
    kernel(a, b, alpha=1.0, out=d)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        a.copy_(new)
        if how == "current":
            kernel(a, b, alpha=1.0, out=d)
    if how != "current":
        kernel(a, b, alpha=1.0, out=d, stream=stream if how == "given" else stream.cuda_stream)
    stream.synchronize()
    check(d, new, b)


def test_a_thread_without_a_context_can_launch(kernel: Kernel) -> None:
    a, b = matrix(64, 64), matrix(64, 64)
    d = torch.full((64, 64), float("nan"), dtype=torch.bfloat16, device="cuda")
    launch = kernel.bind(a, b, alpha=1.0, out=d, stream=0)
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            launch()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures
    check(d, a, b)


def by_dlpack(tensor: Any) -> Any:
    def capsule(*, stream: int, **more: Any) -> Any:
        return tensor.__dlpack__(stream=stream)

    return SimpleNamespace(__dlpack__=capsule, __dlpack_device__=tensor.__dlpack_device__)


def by_interface(tensor: Any) -> Any:
    return SimpleNamespace(__cuda_array_interface__=tensor.__cuda_array_interface__, owner=tensor)


@pytest.mark.parametrize(("wrap", "dtype", "name"), [(by_dlpack, "bf16", "bfloat16"), (by_interface, "f16", "float16")])
def test_other_libraries_arrays_are_read_by_protocol(wrap: Any, dtype: str, name: str) -> None:
    kernel = Kernel(plain_manifest(dtype), plain_ptx(dtype))
    a, b, d = matrix(40, 24, name, padding=2), matrix(56, 24, name), matrix(40, 56, name, padding=1)
    torch.cuda.synchronize()
    kernel(wrap(a), wrap(b), alpha=1.0, out=wrap(d))
    check(d, a, b)


def refused_operands() -> list[Any]:
    def make(name: str, message: str, **change: Any) -> Any:
        return pytest.param(change, message, id=name)

    return [
        make("base", "operand a: base address .* multiple of 16", a=lambda: matrix(64, 72)[:, 1:65]),
        make("rows", "operand b: rows are 130 bytes apart", b=lambda: flat(64 * 65).view(64, 65)[:, :64]),
        make("transposed", "last dimension has stride 64", a=lambda: matrix(64, 64).T),
        make("dtype", "operand a: dtype is f16", a=lambda: matrix(64, 64, "float16")),
        make("shape", "makes k = 32, but a", b=lambda: matrix(64, 32)),
        make("cpu", "operand a: this torch.Tensor is on the CPU; .*kernel.interpret", a=lambda: matrix(64, 64).cpu()),
        make("output", "operand d: shape", out=lambda: matrix(64, 32)),
    ]


def flat(size: int) -> Any:
    return torch.zeros(size, dtype=torch.bfloat16, device="cuda")


@pytest.mark.parametrize(("change", "message"), refused_operands())
def test_operands_that_do_not_fit_are_refused(kernel: Kernel, change: Any, message: str) -> None:
    operands = {"a": matrix(64, 64), "b": matrix(64, 64), "out": matrix(64, 64)}
    kernel(**operands, alpha=1.0)  # so that the signature is known
    with pytest.raises(LaunchError, match=message):
        kernel(**{**operands, **{name: value() for name, value in change.items()}}, alpha=1.0)


def test_an_output_over_an_input_is_refused(kernel: Kernel) -> None:
    a = matrix(64, 64)
    with pytest.raises(LaunchError, match=r"input a,.*\[output-overlaps\]"):
        kernel(a, matrix(64, 64), alpha=1.0, out=a)


def test_a_kernel_for_another_architecture_is_refused() -> None:
    kernel = Kernel(plain_manifest("bf16", "sm_75a"), plain_ptx("bf16", "sm_75a"))
    with pytest.raises(LoadError, match=r"compiled for sm_75a, which runs on capability 7.5 only"):
        kernel(matrix(8, 8), matrix(8, 8), alpha=1.0)


def test_ptx_that_does_not_assemble_is_refused_with_the_drivers_words() -> None:
    kernel = Kernel(plain_manifest("bf16"), plain_ptx("bf16").replace("fma.rn.f32", "fma.frobnicate"))
    with pytest.raises(LoadError, match=r"(?s)loading the ptx of kernel plain .*frobnicate"):
        kernel(matrix(8, 8), matrix(8, 8), alpha=1.0)


def verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "lowtide.runtime", "verify", *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)


def test_verify_passes_a_right_kernel_and_finds_a_wrong_one(tmp_path: Path) -> None:
    right = str(Kernel(plain_manifest("bf16"), plain_ptx("bf16")).save(tmp_path / "right"))
    wrong = str(Kernel(plain_manifest("f16"), plain_ptx("f16", fault=DROPS_LAST_K)).save(tmp_path / "wrong"))
    done = verify(right)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok   {right}" in done.stdout
    done = verify(right, wrong)
    assert done.returncode == 1
    assert "elements out of bound" in done.stdout
    assert "1 of 2 kernels verified" in done.stdout


def test_verify_gives_up_on_a_kernel_that_does_not_end(tmp_path: Path) -> None:
    slow = str(Kernel(plain_manifest("bf16"), plain_ptx("bf16", fault=TAKES_LONG)).save(tmp_path / "slow"))
    done = verify(slow, "--timeout", "5")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "did not end within 5 s" in done.stdout
