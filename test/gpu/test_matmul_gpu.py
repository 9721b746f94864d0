"""`lt.matmul` on a GPU, with torch and the compiler: results, classes, bits that depend on no other row, graphs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.matmul.matmul import Matmul
from lowtide.errors import LaunchError

try:
    import torch
except ImportError:
    torch = None

pytestmark = pytest.mark.gpu
# Of a sum of K products: how far an element may be from float64, relative to the sum of magnitudes, with D's rounding.
UNITS = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all tests of a run: a kernel is compiled once."""
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


def rows(*shape: int, dtype: str = "bfloat16", padding: int = 0) -> Any:
    """Random normal values, each row followed by `padding` elements."""
    whole = torch.randn(*shape[:-1], shape[-1] + padding, device="cuda").to(getattr(torch, dtype))
    return whole[..., : shape[-1]]


def columns(*shape: int, dtype: str = "bfloat16", padding: int = 0) -> Any:
    return rows(*shape[:-2], shape[-1], shape[-2], dtype=dtype, padding=padding).mT


def check(d: Any, a: Any, b: Any) -> None:
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    unit = UNITS[str(d.dtype).rpartition(".")[2]]
    sums = 2.0**-52 if d.dtype == torch.float64 else 2.0**-23
    bound = size * (a.shape[-1] + 3) * sums + exact.abs() * unit + 2.0**-24
    assert d.shape == exact.shape and bool(((d.double() - exact).abs() <= bound).all())


MATRICES = {"rows": rows, "columns": columns}


@pytest.mark.parametrize("of_a", MATRICES)
@pytest.mark.parametrize("of_b", MATRICES)
def test_matrices_are_multiplied_as_they_lie(of_a: str, of_b: str) -> None:
    for m, n, k in ((1, 64, 128), (70, 136, 264), (300, 64, 520)):
        a, b = MATRICES[of_a](m, k, padding=8), MATRICES[of_b](k, n)
        d = lt.matmul(a, b)
        assert d.is_contiguous() and d.dtype == a.dtype
        check(d, a, b)
        by_columns = columns(m, n)
        assert lt.matmul(a, b, out=by_columns) is by_columns
        check(by_columns, a, b)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_types_of_torch(dtype: str) -> None:
    a, b = rows(130, 72, dtype=dtype), columns(72, 88, dtype=dtype)
    check(lt.matmul(a, b), a, b)


def test_integers_are_exact() -> None:
    a, b = (torch.randint(-100, 100, shape, device="cuda", dtype=torch.int8) for shape in ((70, 96), (48, 96)))
    d = lt.matmul(a, b.mT)
    assert d.dtype == torch.int32
    assert torch.equal(d.cpu().long(), a.cpu().long() @ b.cpu().long().T)


def test_matrices_lie_anywhere() -> None:
    a, b = rows(64, 79)[:, 1:78], columns(77, 129)
    check(lt.matmul(a, b), a, b)
    out = rows(64, 133)[:, 3:132]
    check(lt.matmul(a, b, out=out), a, b)


def test_batches() -> None:
    a, b, shared = rows(3, 40, 64), columns(3, 64, 72), columns(64, 72)
    check(lt.matmul(a, b), a, b)
    check(lt.matmul(a, shared), a, shared)
    check(lt.matmul(a[:, :33], shared), a[:, :33], shared)
    check(lt.matmul(a[0], b), a[0].expand(3, -1, -1), b)


def bias_gelu(acc: Any, bias: lt.PerColumn, c: lt.Full, alpha: lt.Scalar) -> Any:
    return lt.relu(alpha * acc + bias) + c


def test_epilogues() -> None:
    a, b, bias, c = rows(70, 128), columns(128, 96), rows(96), rows(70, 96)
    d = lt.matmul(a, b, epilogue=bias_gelu, bias=bias, c=c, alpha=0.5)
    exact = torch.relu(0.5 * (a.double() @ b.double()) + bias.double()) + c.double()
    assert torch.allclose(d.double(), exact, rtol=2.0**-7, atol=2.0**-6)


def test_precision_of_f32() -> None:
    a, b = rows(200, 264, dtype="float32"), columns(264, 136, dtype="float32")
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    for precision, unit in (("tf32", 2.0**-9), ("tf32x3", 2.0**-19), ("bf16x6", 2.0**-19)):
        d = lt.matmul(a, b, precision=precision)
        assert d.dtype == torch.float32 and bool(((d.double() - exact).abs() <= size * unit).all()), precision


@pytest.mark.parametrize("dtype", ["s4", "e4m3"])
@pytest.mark.parametrize("m", [5, 100])
def test_packed_weights(m: int, dtype: str) -> None:
    x, weights = rows(m, 512), torch.randint(-8, 8, (256, 512))
    if dtype == "e4m3":
        weights = (torch.randn(256, 512) * 8).to(torch.float8_e4m3fn).float()
    packed = torch.from_numpy(lt.pack_weights(weights.numpy(), dtype)).cuda()
    scales = rows(4, 256).abs() + 0.5
    d = lt.matmul(x, packed.mT, weights=dtype, scales=scales)
    check(d, x, (weights.cuda() * scales.double().mT.repeat_interleave(128, 1)).mT)


def test_scales_of_blocks() -> None:
    a, b = (rows(n, 256).to(torch.float8_e4m3fn) for n in (70, 264))
    scale_a, scale_b = (rows(*shape, dtype="float32").abs() + 0.5 for shape in ((2, 70), (3, 2)))
    d = lt.matmul(a, b.mT, block_scales=lt.BlockScales(), scale_a=scale_a, scale_b=scale_b)
    whole_a = a.double() * scale_a.double().mT.repeat_interleave(128, 1)
    whole_b = b.double() * scale_b.double().repeat_interleave(128, 1).repeat_interleave(128, 0)[:264]
    exact, size = whole_a @ whole_b.mT, whole_a.abs() @ whole_b.abs().mT
    assert d.dtype == torch.bfloat16
    assert bool(((d.double() - exact).abs() <= size * 0.02 + exact.abs() * 2.0**-8).all())


def test_a_tuned_schedule_keeps_the_bits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    a, b = rows(1024, 1024), columns(1024, 1024)
    before = Matmul()(a, b)
    lt.tune(lt.matmul.explain(a, b).spec, budget=8.0, most=6)
    explained = Matmul().explain(a, b)
    assert explained.is_tuned
    assert torch.equal(Matmul()(a, b), before)


def test_bits_do_not_depend_on_the_rows_or_on_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a, b = rows(4096, 1024), columns(1024, 512)
    whole = lt.matmul(a, b, numerics="batch_invariant")
    for m in (*range(1, 66), 127, 128, 129, 1000, 2048, 4095):
        assert torch.equal(lt.matmul(a[:m], b, numerics="batch_invariant"), whole[:m]), m
    for start in (8, 800, 2001):
        there = slice(start, start + 64)
        assert torch.equal(lt.matmul(a[there], b, numerics="batch_invariant"), whole[there]), start
    unaligned = rows(4096, 1027)[:, 1:1025].copy_(a)
    assert torch.equal(lt.matmul(unaligned[:70], b, numerics="batch_invariant"), whole[:70])
    of_batch = lt.matmul(a[:64].view(4, 16, 1024)[:, :15], b, numerics="batch_invariant")
    assert torch.equal(of_batch, whole[:64].view(4, 16, 512)[:, :15])
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cold"))
    for m in (16, 300, 4096):
        assert torch.equal(Matmul()(a[:m], b), lt.matmul(a[:m], b))
        assert torch.equal(Matmul()(a[:m], b, numerics="batch_invariant"), whole[:m])


def test_a_call_can_be_captured_and_goes_to_the_current_stream() -> None:
    a, b, d = rows(64, 128), columns(128, 64), rows(64, 64)
    lt.matmul(a, b, out=d)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        lt.matmul(a, b, out=d)
    a.copy_(rows(64, 128))
    d.zero_()
    graph.replay()
    check(d, a, b)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        a.copy_(rows(64, 128))
        other = lt.matmul(a, b)
    stream.synchronize()
    check(other, a, b)


def test_threads_share_what_was_compiled() -> None:
    multiply, results = Matmul(), []

    def call(size: int) -> None:
        a, b = rows(size, 64), columns(64, 64)
        results.append((multiply(a, b), a, b))

    threads = [threading.Thread(target=call, args=(size,)) for size in (40, 64, 70, 128) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert len(results) == 8
    for result in results:
        check(*result)


def test_what_cannot_be_multiplied_is_refused() -> None:
    a, b = rows(64, 128), columns(128, 64)
    weights = torch.nn.Parameter(b)
    with pytest.raises(LaunchError, match="not recorded by autograd"):
        lt.matmul(a, weights)
    with torch.no_grad():
        check(lt.matmul(a, weights), a, weights)
    for bad, message in (
        (a.cpu(), "is on the CPU"),
        (a.to(torch.complex64), "complex64 is unknown"),
        (a.to_sparse(), "not a strided tensor"),
        (torch.empty(64, 256, device="cuda", dtype=a.dtype)[::2, ::2], "must be contiguous"),
    ):
        with pytest.raises(LaunchError, match=message):
            lt.matmul(bad, b)
