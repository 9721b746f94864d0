"""Operands of other libraries on the GPU: CuPy by __cuda_array_interface__, any DLPack producer, mixed with torch."""

import numpy as np
import pytest

import lowtide as lt

cupy = pytest.importorskip("cupy")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


class OnlyDlpack:
    """An array that says nothing of itself but DLPack."""

    def __init__(self, tensor: "torch.Tensor") -> None:
        self._tensor = tensor

    def __dlpack__(self, **options: object) -> object:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()


def kernel(dtype: str) -> object:
    spec = lt.GemmSpec(a=dtype, b=dtype, d=dtype)
    return lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64], k = 32, stages = 3")


def test_cupy_arrays_go_in_and_come_out():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((100, 72), (56, 72)))
    d = kernel("f16")(cupy.asarray(a), cupy.asarray(b))
    assert isinstance(d, cupy.ndarray)
    assert np.array_equal(cupy.asnumpy(d), a.astype(np.float64) @ b.astype(np.float64).T)


def test_a_given_cupy_output_on_a_cupy_stream_is_written():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 64), (64, 64)))
    out, stream = cupy.full((64, 64), cupy.nan, cupy.float16), cupy.cuda.Stream()
    on_gpu = [cupy.asarray(x) for x in (a, b)]
    cupy.cuda.get_current_stream().synchronize()
    d = kernel("f16")(*on_gpu, out=out, stream=stream)
    stream.synchronize()
    assert d is out
    assert np.array_equal(cupy.asnumpy(out), a.astype(np.float64) @ b.astype(np.float64).T)


def test_bf16_comes_in_by_dlpack_alone():
    a, b = (torch.randint(-3, 4, (80, 64), device="cuda").bfloat16() for _ in range(2))
    out = torch.full((80, 80), float("nan"), device="cuda", dtype=torch.bfloat16)
    kernel("bf16")(OnlyDlpack(a), OnlyDlpack(b), out=OnlyDlpack(out))
    torch.cuda.synchronize()
    assert torch.equal(out.double(), a.double() @ b.double().t())


def test_cupy_and_torch_mix():
    a = torch.randint(-3, 4, (48, 64), device="cuda").half()
    b = cupy.asarray(np.random.default_rng(2).integers(-3, 4, (40, 64)).astype(np.float16))
    d = kernel("f16")(a, b)
    torch.cuda.synchronize()
    expected = a.double().cpu().numpy() @ cupy.asnumpy(b).astype(np.float64).T
    assert np.array_equal(torch.as_tensor(d).double().cpu().numpy(), expected)
