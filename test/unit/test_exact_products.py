"""Which results a contest believes: exact sums of integers, the tolerance of random ones, and torch's own sums."""

import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lowtide.compiler.dtypes import numpy_dtype
from lowtide.elements import element_type
from lowtide.errors import DeviceError
from lowtide.measurement.bench import exact_products
from lowtide.measurement.bench.exact_products import ExactProduct, density, exact_complaint
from lowtide.measurement.bench.gpu_timing import Contender, Operands, tolerance
from lowtide.measurement.bench.torch_matmul import check_sums, product_of, torch_product, with_exact_parts

PAIRS = [("bf16", "f32"), ("f16", "f32"), ("f16", "f16"), ("f32", "f32"), ("f64", "f64")]


def integers(shape: tuple[int, int], share: float, rng: np.random.Generator) -> np.ndarray:
    return rng.choice([-1, 0, 1], shape, p=[share / 2, 1 - share, share / 2])


@pytest.mark.parametrize(("dtype", "acc"), PAIRS)
@pytest.mark.parametrize("k", [16, 256, 4096, 16384])
def test_partial_sums_of_the_exact_product_need_no_rounding_in_any_order(dtype: str, acc: str, k: int) -> None:
    rng = np.random.default_rng(k)
    share = density(dtype, acc, k)
    a, b = integers((64, k), share, rng), integers((k, 64), share, rng)
    # The largest that a sum of any of the products can be.
    most = (np.abs(a) @ np.abs(b)).max()
    assert most <= min(element_type(dtype).exact_integers, element_type(acc).exact_integers)
    # Enough products for each element that one too few shows.
    assert (a @ b).any() and share**2 * k > 8


def test_one_product_too_few_in_one_element_is_a_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b = integers((8, 32), 1.0, rng), integers((32, 8), 1.0, rng)
    d = Matrix(np.zeros((8, 8)))
    exact = ExactProduct(Operands(None, None, d, "tn"), (a @ b).astype(np.float64))
    cuda = SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setattr(exact_products, "torch_with_gpu", lambda: SimpleNamespace(cuda=cuda))

    def right(i: int) -> None:
        d[...] = a @ b

    def one_short(i: int) -> None:
        d[...] = a @ b
        d[3, 5] -= a[3, 7] * b[7, 5]

    def silent(i: int) -> None:
        pass

    assert exact_complaint(Contender("right", right), exact, 0) == ""
    found = exact_complaint(Contender("short", one_short), exact, 0)
    assert found.startswith("1 of 64 elements differ from exact sums of integers; the first: d[3, 5] = ")
    assert exact_complaint(Contender("silent", silent), exact, 0).startswith("64 of 64")


class Matrix(np.ndarray):
    """As much of a tensor as the check needs."""

    def __new__(cls, values: np.ndarray) -> "Matrix":
        return np.array(values).view(cls)

    def fill_(self, value: float) -> None:
        self.fill(value)

    def is_floating_point(self) -> bool:
        return True

    def numel(self) -> int:
        return self.size

    def nonzero(self) -> Any:
        return np.argwhere(np.asarray(self))


def test_a_complaint_of_a_batch_names_its_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    d = Matrix(np.zeros((3, 4, 4)))
    cuda = SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setattr(exact_products, "torch_with_gpu", lambda: SimpleNamespace(cuda=cuda))

    def without_the_last(i: int) -> None:
        d[:2] = 1

    exact = ExactProduct(Operands(None, None, d, "tn"), np.ones((3, 4, 4)))
    found = exact_complaint(Contender("short", without_the_last), exact, 0)
    assert found.startswith("16 of 48") and "d[2, 0, 0] = " in found


def test_the_peer_of_a_batch_is_bmm() -> None:
    done: list[str] = []
    torch = SimpleNamespace(
        bmm=lambda a, b, out: done.append("bmm"),
        matmul=lambda a, b, out: done.append("matmul"),
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace())),
    )
    operands = SimpleNamespace(logical_a=None, logical_b=None, d=None)
    for batched, name in ((True, "torch.bmm"), (False, "torch.matmul")):
        contender = torch_product(torch, [operands], "f32", "f32", batched=batched)  # type: ignore[list-item]
        contender.launch(0)
        assert contender.name == name
    assert done == ["bmm", "matmul"]


@pytest.mark.parametrize(("dtype", "acc"), PAIRS)
@pytest.mark.parametrize("k", [64, 900])
def test_sums_rounded_at_every_product_are_within_the_tolerance(dtype: str, acc: str, k: int) -> None:
    """The worst that a kernel may do: products added one by one, each sum cut to the accumulator where it may be."""
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal((32, k)).astype(numpy_dtype(dtype)).astype(np.float64) for _ in range(2))
    exact = a @ b.T
    sums = np.zeros((32, 32))
    for column in range(k):
        sums = rounded(sums + np.outer(a[:, column], b[:, column]), acc, cut=not element_type(dtype).rounds_sums)
    d = sums.astype(numpy_dtype(dtype)).astype(np.float64)
    error = np.linalg.norm(d - exact) / np.linalg.norm(exact)
    assert error < tolerance(dtype, acc, k)
    # It is no more than a small multiple of what such a kernel does.
    assert tolerance(dtype, acc, k) < 8 * error


def rounded(values: np.ndarray, acc: str, cut: bool) -> np.ndarray:
    """To the nearest of the type, or toward 0. f64 is computed in itself."""
    nearest = values.astype(numpy_dtype(acc))
    if cut:
        over = np.abs(nearest.astype(np.float64)) > np.abs(values)
        nearest = np.where(over, np.nextafter(nearest, np.zeros((), nearest.dtype)), nearest)
    return nearest.astype(np.float64)


@pytest.mark.parametrize(("dtype", "acc"), PAIRS)
def test_a_missing_k_step_is_out_of_tolerance_where_that_says_anything(dtype: str, acc: str) -> None:
    # Without 32 of K products, the norm of what is missing is √(32 / K) of the whole.
    for k in (128, 4096, 16384):
        assert tolerance(dtype, acc, k) < math.sqrt(32 / k) or (acc == "f16" and k > 128)


@pytest.mark.parametrize("fails", [False, True])
def test_torch_sums_in_the_type_asked_for_and_its_setting_is_put_back(fails: bool) -> None:
    settings = SimpleNamespace(allow_fp16_accumulation=False)
    seen = []

    def matmul(a: Any, b: Any, out: Any) -> None:
        seen.append(settings.allow_fp16_accumulation)
        if fails:
            raise RuntimeError("out of memory")

    torch = SimpleNamespace(matmul=matmul, bmm=None, backends=SimpleNamespace(cuda=SimpleNamespace(matmul=settings)))
    operands = SimpleNamespace(logical_a=None, logical_b=None, d=None)
    for before, acc in ((False, "f16"), (True, "f32"), (True, "f16")):
        settings.allow_fp16_accumulation = before
        with pytest.raises(RuntimeError) if fails else nullcontext():
            torch_product(torch, [operands], "f16", acc).launch(0)  # type: ignore[list-item]
        assert (seen[-1], settings.allow_fp16_accumulation) == (acc == "f16", before)


def test_torch_rounds_no_parts_of_sums_if_it_may_not() -> None:
    names = [f"allow_{dtype}_reduced_precision_reduction" for dtype in ("bf16", "fp16")]
    settings = SimpleNamespace(**dict.fromkeys(names, True))
    seen: list[dict[str, bool]] = []
    own = Contender("torch", lambda i: seen.append({**vars(settings)}))
    torch = SimpleNamespace(backends=SimpleNamespace(cuda=SimpleNamespace(matmul=settings)))
    with_exact_parts(torch, own).launch(0)
    assert seen == [dict.fromkeys(names, False)] and vars(settings) == dict.fromkeys(names, True)


def test_a_torch_without_the_setting_is_refused_for_f16_sums_alone() -> None:
    old = SimpleNamespace(__version__="2.6", backends=SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace())))
    check_sums(old, "f16", "f32")
    check_sums(old, "f64", "f64")
    with pytest.raises(
        DeviceError, match=r"allow_fp16_accumulation, of torch 2.7 and later\); time sums in f32.*\[torch-sums\]"
    ):
        check_sums(old, "f16", "f16")


def test_each_type_has_a_peer_that_gives_its_d() -> None:
    """And tf32 is what is multiplied only where it is asked for."""
    settings = SimpleNamespace(allow_tf32=False)
    done: list[tuple[str, bool]] = []

    def note(name: str) -> Any:
        return lambda *given, **named: done.append((name, settings.allow_tf32))

    torch = SimpleNamespace(
        **{name: note(name) for name in ("matmul", "_scaled_mm", "_int_mm", "ones")},
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=settings)),
    )
    operands = SimpleNamespace(logical_a=None, logical_b=None, d=SimpleNamespace(device=None, dtype=None))
    given = {"e4m3": "bf16", "s8": "s32", "tf32": "f32", "f32": None}
    for dtype, d in given.items():
        assert (product_of(dtype).d or (None,))[0] == d
        torch_product(torch, [operands], dtype, "s32" if d == "s32" else "f32").launch(0)  # type: ignore[list-item]
    names = [one for one in done if one[0] != "ones"]
    assert names == [("_scaled_mm", False), ("_int_mm", False), ("matmul", True), ("matmul", False)]
    assert not settings.allow_tf32


def test_sums_of_bytes_have_no_tolerance_and_those_of_8_bit_floats_say_something() -> None:
    assert tolerance("s8", "s32", 4096, "s32") == 0.0
    assert tolerance("e4m3", "f32", 4096, "bf16") < 0.05 < tolerance("e4m3", "f32", 4096, "bf16", is_fast=True)
