"""`lt.matmul` on a driver of host memory: families, kernels made once, calls met before, what is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_arrays import DLPackArray, FakeTorch, Tensor, aligned
from fake_driver import GEMM_TYPES, FakeDriver
from sample_kernel import argument, kernel_from, sample_manifest

import lowtide as lt
from lowtide.compiler.matmul import calls, kernels, matmul
from lowtide.compiler.matmul.family import Family
from lowtide.compiler.matmul.kernels import Kernels, Planned, Wanted
from lowtide.compiler.matmul.matmul import Matmul
from lowtide.compiler.matmul.schedule_plan import Intervals, SchedulePlan
from lowtide.errors import LaunchError, SpecError
from lowtide.runtime import Kernel

pytestmark = pytest.mark.usefixtures("torch")
M, N, K = 40, 24, 32
FEW, MANY = "grid.tile = [64, 64]", "grid.tile = [128, 128]"
PLAN = SchedulePlan((FEW, MANY), (Intervals((64, 16384), (0, 1), (False, False)),), 1, ((1,), (0,)), None, 0.001, 0.02)


def planned(of: Family) -> Planned:
    """The schedules keep what the family fixes."""
    return Planned(replace(PLAN, schedules=tuple(", ".join(filter(None, (each, of.given))) for each in PLAN.schedules)))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Family, str]]:
    """The families and schedules for which a kernel was made; compiling takes a moment."""
    found: list[tuple[Family, str]] = []
    plans: dict[Family, Planned] = {}

    def make(store: Any, wanted: Wanted, schedule: str, key: str) -> Kernel:
        time.sleep(0.02)
        found.append((wanted.of, schedule))
        extra = [] if wanted.epilogue is None else [argument("bias", "per_column", "f16", alignment=2)]
        extra += [argument("alpha", "scalar", "f32")] if wanted.epilogue is scaled else []
        return kernel_from(sample_manifest(*extra, dtype="f16"))

    monkeypatch.setattr(kernels, "_made", make)
    monkeypatch.setattr(kernels, "_from_disk", lambda *_: None)

    monkeypatch.setattr(Kernels, "_plan", lambda self, store, wanted: plans.setdefault(wanted.of, planned(wanted.of)))
    monkeypatch.setattr(Kernels, "_alone", lambda self, wanted: make(None, wanted, "alone", ""))
    return found


def biased(acc: Any, bias: lt.PerColumn) -> Any:
    return acc + bias


def scaled(acc: Any, bias: lt.PerColumn, alpha: lt.Scalar) -> Any:
    return alpha * acc + bias


def arrays(m: int = M, n: int = N, k: int = K) -> tuple[Tensor, Tensor, Tensor]:
    """A (M, K), B (K, N) as the transpose of an array of (N, K), and D (M, N)."""
    return Tensor(aligned(m, k)), Tensor(aligned(n, k).T), Tensor(aligned(m, n))


def test_operands_go_to_the_kernel_as_they_lie(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    a, b, d = arrays()
    assert Matmul()(a, b, out=d) is d
    (launch,) = fake.launches
    assert launch.values == [a.data_ptr(), K, b.data_ptr(), K, d.data_ptr(), N, M, N, K]
    assert launch.stream == 11
    assert [str(of) for of, _ in made] == ["f16 x f16 tn to f16, Mx24x32, aligned, repeatable, sm_80"]


def test_a_name_of_the_package_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lt.matmul is matmul.matmul
    monkeypatch.setattr(lt, "importlib", None)
    assert lt.matmul is matmul.matmul
    with pytest.raises(AttributeError, match="has no attribute 'matmull'"):
        _ = lt.matmull


def test_a_known_call_makes_no_records(
    fake: FakeDriver, made: list[tuple[Family, str]], monkeypatch: pytest.MonkeyPatch, torch: FakeTorch
) -> None:
    multiply, (a, b, d) = Matmul(), arrays()
    multiply(a, b, out=d)
    multiply(a, b)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("made again")

    monkeypatch.setattr(calls, "view", never)
    monkeypatch.setattr(matmul, "view", never)
    torch.stream = 12
    assert multiply(a, b, out=d) is d
    assert fake.launches[2].values == fake.launches[0].values and fake.launches[2].stream == 12
    assert multiply(a, b, out=d, stream=13) is d
    assert fake.launches[3].stream == 13
    others = arrays()
    multiply(others[0], others[1], out=others[2])
    assert fake.launches[4].values[:6:2] == [x.data_ptr() for x in others]
    fresh = multiply(a, b)
    assert fresh.shape == (M, N) and fake.launches[5].values[4] == fresh.data_ptr()
    assert len(made) == 1


def test_the_launch_of_a_call_can_be_kept(fake: FakeDriver, made: list[tuple[Family, str]], torch: FakeTorch) -> None:
    a, b, out = arrays()
    asked: dict[str, Any] = {"epilogue": None, "numerics": "repeatable", "precision": None, "alone": False}
    matmul = Matmul()
    assert matmul.known(a, b, out, **asked) == (None, None)
    matmul(a, b, out=out)
    launch, plan = matmul.known(a, b, out, **asked)
    other = arrays()[2]
    assert launch is not None and plan is not None and matmul.known(a, b, other, **asked) == (None, plan)
    for other_asked in ({"numerics": "any"}, {"alone": True}):
        assert matmul.known(a, b, out, **{**asked, **other_asked}) == (None, None)
    launch.run(launch.follow(), fake.cuCtxGetCurrent()[1])
    first, second = fake.launches[-2:]
    assert first == second
    plan.prepare([a.data_ptr(), b.data_ptr(), other.data_ptr()]).again()
    values = [*first.values]
    values[4] = other.data_ptr()
    assert fake.launches[-1].values == values


def test_what_may_change_between_calls_is_seen(
    fake: FakeDriver, made: list[tuple[Family, str]], torch: FakeTorch
) -> None:
    multiply, (a, b, d) = Matmul(), arrays()
    multiply(a, b, out=d)
    a.shape, d.shape = (M - 8, K), (M - 8, N)
    multiply(a, b, out=d)
    assert fake.launches[1].values[6] == M - 8
    a.requires_grad, torch.records_gradients = True, True
    with pytest.raises(LaunchError, match=r"not recorded by autograd: call lowtide.torch.matmul.*\[product-autograd\]"):
        multiply(a, b, out=d)
    torch.records_gradients = False
    multiply(a, b, out=d)
    assert len(fake.launches) == 3


def test_an_unaligned_base_is_another_family(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    multiply, (a, b, d) = Matmul(), arrays()
    multiply(a, b, out=d)
    with pytest.raises(LaunchError, match="base address"):  # the sample kernel packs nothing
        multiply(Tensor(aligned(M, K, offset=2)), b, out=d)
    assert [of.inputs_aligned for of, _ in made] == [True, False]
    assert made[1][0].given == "a.pack = rows, b.pack = rows"


def test_shapes_with_one_schedule_share_a_kernel(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    multiply = Matmul()
    for m in (0, 33, 40, 64):
        multiply(*arrays(m=m)[:2])
    assert [schedule for _, schedule in made] == [FEW]
    multiply(*arrays(m=65)[:2])
    multiply(*arrays(m=20000)[:2])
    multiply(*arrays(m=72, n=48, k=64)[:2])
    assert [schedule for _, schedule in made] == [FEW, MANY]


def test_threads_that_need_one_kernel_make_it_once(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    multiply, start = Matmul(), threading.Barrier(8)
    wrong: list[Any] = []

    def call() -> None:
        a, b, d = arrays()
        start.wait()
        if multiply(a, b, out=d) is not d:
            wrong.append(d)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(fake.launches) == 8 and wrong == []


def test_epilogues_take_their_operands_by_name(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    multiply, (a, b, d) = Matmul(), arrays()
    fake.types = (*GEMM_TYPES, "ptr", "f32")
    bias = Tensor(aligned(1, N)[0])
    multiply(a, b, epilogue=scaled, out=d, alpha=2, bias=bias)
    multiply(a, b, epilogue=scaled, out=d, bias=bias, alpha=3.0)
    multiply(a, b, epilogue=scaled, out=d, bias=bias, alpha=4.0)
    assert [launch.values[9:] for launch in fake.launches] == [[bias.data_ptr(), x] for x in (2.0, 3.0, 4.0)]
    for given, message in (
        ({}, r"operand bias is missing: the epilogue takes bias: pass bias=.*\[product-operand-missing\]"),
        ({"bias": bias, "gain": 1.0}, r"unknown operand gain: the epilogue takes bias.*\[product-operand-unknown\]"),
    ):
        with pytest.raises(LaunchError, match=message):
            multiply(a, b, epilogue=biased, out=d, **given)
    with pytest.raises(
        LaunchError,
        match=r"unknown operand bias: .* there is none.*\[product-operand-unknown\]",
    ):
        multiply(a, b, bias=bias)


def test_arrays_of_any_library_go_by_dlpack(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    a, b, d = (DLPackArray(x.array) for x in arrays())
    multiply = Matmul()
    assert multiply(a, b, out=d, stream=5) is d
    assert fake.launches[0].stream == 5 and fake.launches[0].values[:2] == [a.array.ctypes.data, K]
    with pytest.raises(LaunchError, match=r"DLPackArray.*\[output-library\]"):
        multiply(a, b)


def test_the_kernel_of_a_call_can_be_asked_for(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    multiply, (a, b, d) = Matmul(), arrays()
    before = multiply.explain(a, b)
    assert before.where == "nowhere" and made == [] and fake.launches == []
    assert "the first call compiles it" in str(before)
    multiply(a, b, out=d)
    after = multiply.explain(a, b)
    assert after.where == "memory" and (after.family, after.m) == (made[0][0], M)
    assert "M = 40: schedule 1, for M from 0 to 64" in str(after) and "128" in str(after.schedule)
    assert "2 schedules serve every M; they are estimated to take 0.1 % more" in str(after)
    assert (after.spec.m, after.spec.n, after.spec.k) == (M, N, K)


def test_an_explanation_says_how_unaligned_operands_are_packed(
    fake: FakeDriver, made: list[tuple[Family, str]]
) -> None:
    _, b, _ = arrays()
    found = Matmul().explain(Tensor(aligned(M, K, offset=2)), b)
    assert "fixed     a.pack = rows, b.pack = rows\n" in str(found)
    plan = found.found.plan
    assert plan is not None
    transposing = replace(plan, schedules=(f"{FEW}, a.pack = transposed, b.pack = rows", *plan.schedules[1:]))
    other = replace(found, found=replace(found.found, plan=transposing))
    assert "fixed     a.pack = transposed, b.pack = rows\n" in str(other)


def test_a_call_can_ask_for_a_kernel_of_its_shape_alone(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    multiply, (a, b, d) = Matmul(), arrays()
    for alone in (False, True, True, False):
        multiply(a, b, out=d, alone=alone)
    assert [schedule for _, schedule in made] == [FEW, "alone"] and len(fake.launches) == 4
    found = multiply.explain(a, b, alone=True)
    assert "extents   those of the call: a kernel for M = 40 alone" in str(found) and found.where == "memory"
    multiply(a, b, out=d, alone=True, numerics="batch_invariant")  # by the kernel of the plan, which is there
    assert len(made) == 2 and multiply.explain(a, b, alone=True, numerics="batch_invariant").found.plan is not None
    others = arrays(m=M + 1)
    assert "schedule  chosen by the first call" in str(multiply.explain(others[0], others[1], alone=True))


def dtype_of(name: str) -> Callable[[Tensor], None]:
    return lambda tensor: setattr(tensor, "dtype", f"torch.{name}")


def on_the_cpu(tensor: Tensor) -> None:
    tensor.device = Tensor(tensor.array, "cpu", None).device


def on_another_gpu(tensor: Tensor) -> None:
    tensor.device = Tensor(tensor.array, "cuda", 1).device


def sparse(tensor: Tensor) -> None:
    def stride() -> tuple[int, ...]:
        raise RuntimeError("sparse tensors do not have strides")

    tensor.stride = stride  # type: ignore[method-assign]


def negated(tensor: Tensor) -> None:
    tensor.is_neg = lambda: True  # type: ignore[attr-defined]


def a_vector(tensor: Tensor) -> None:
    tensor.array = tensor.array[0]
    tensor.shape = tensor.array.shape


def scattered(tensor: Tensor) -> None:
    tensor.array = np.zeros((2 * M, 2 * K), np.float16)[::2, ::2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (on_the_cpu, r"operand a.*torch\.Tensor.*the CPU.*\[operand-on-gpu\]"),
        (on_another_gpu, r"operand b.*GPU 0, a.*GPU 1.*\[one-gpu\]"),
        (dtype_of("complex64"), r"dtype torch.complex64 is unknown.*\[operand-dtype-known\]"),
        (sparse, r"not a strided tensor .*call .to_dense\(\) first.*\[strided-tensor\]"),
        (negated, r"negates its memory; pass x.resolve_neg\(\).*\[negated-view\]"),
        (
            a_vector,
            r"rank 1, must have rank 2 or more: a vector is a matrix of one row, x\[None, :\].*\[product-rank\]",
        ),
        (scattered, r"its rows or of its columns must be contiguous: pass a contiguous copy.*\[matrix-contiguous\]"),
        (dtype_of("int8"), r"s8 and f16 are not multiplied by each other; convert one of them.*\[product-types\]"),
    ],
)
def test_bad_operands_are_refused_before_anything_is_made(
    fake: FakeDriver, made: list[tuple[Family, str]], change: Callable[[Tensor], None], message: str
) -> None:
    a, b, d = arrays()
    change(a)
    with pytest.raises(LaunchError, match=message):
        Matmul()(a, b, out=d)
    assert made == [] and fake.launches == []


def test_bad_arguments_are_refused(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    multiply, (a, b, d) = Matmul(), arrays()
    for operands, out, message in (
        (
            (a, Tensor(aligned(N, K))),
            d,
            r"has 24 rows, but a of shape \(40, 32\) has 32 columns.*pass b.mT.*\[product-k\]",
        ),
        (
            (a, b),
            Tensor(aligned(N, M)),
            r"out: shape is \(24, 40\), .* shape \(40, 24\).*\[out-of-product\]",
        ),
    ):
        with pytest.raises(LaunchError, match=message):
            multiply(*operands, out=out)
    with pytest.raises(SpecError, match=r"\[numerics-word\]"):
        multiply(a, b, out=d, numerics="exact")
    with pytest.raises(SpecError, match=r"it must be a function of the accumulator.*\[epilogue-function\]"):
        multiply(a, b, out=d, epilogue=3)
    with pytest.raises(SpecError, match=r"returns pre, act, but lt.matmul returns only D: .*\[matmul-results\]"):
        multiply(a, b, out=d, epilogue=lambda acc: {"pre": acc, "act": -acc})
    assert made == [] and fake.launches == []


def test_options_are_part_of_the_family_and_add_operands(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    """What the kernel is of, though the sample kernel that stands for it refuses the launch."""
    multiply, packed = Matmul(), Tensor(aligned(16, 128, dtype=np.uint8).T)
    a, scales = Tensor(aligned(M, 128)), Tensor(aligned(2, 32))
    of = multiply.explain(a, packed, weights="s4", scales=scales).family
    assert (of.b, of.n, of.group, of.scales, of.zero_points) == ("s4", 32, 64, "f16", False)
    assert "f16 x s4 tn to f16, groups of 64 scaled by f16, Mx32x128" in str(of)
    zeros = Tensor(aligned(2, 32, dtype=np.int8))
    assert multiply.explain(a, packed, weights="s4", scales=scales, zeros=zeros).family.zero_points
    eight = Tensor(aligned(32, 128, dtype=np.uint8).T)
    of = multiply.explain(a, eight, weights="u8").family
    assert (of.b, of.n, of.group) == ("u8", 32, None)
    for given, message in (
        (
            {"weights": "s4", "scales": Tensor(aligned(2, 16))},
            r"N = 32.*\[group-scales\]",
        ),
        ({"weights": "s5"}, r"weights='s5': packed weights are one of e4m3, s4.*\[packed-words\]"),
        ({"weights": "s4", "gain": scales}, r"gain.*\[product-operand-unknown\]"),
        ({"block_scales": (1, 128)}, r"must be lt.BlockScales.*\[block-scales-kind\]"),
        ({"block_scales": lt.BlockScales()}, "operand scale_a is missing: the call takes scale_a, scale_b"),
    ):
        with pytest.raises((LaunchError, SpecError), match=message):
            multiply.explain(a, packed, **given)  # type: ignore[arg-type]
    with pytest.raises(LaunchError, match=r"packed weights are bytes with K contiguous.*\[packed-layout\]"):
        multiply.explain(a, Tensor(aligned(128, 16, dtype=np.uint8)), weights="s4", scales=scales)
    with pytest.raises(LaunchError, match=r'weights="u8".*\[packed-types\]'):
        multiply.explain(a, eight)


def test_what_the_options_ask_for_is_compiled_once(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    multiply, (a, b, d) = Matmul(), arrays()
    for given in ({}, {"tuned": False}, {"numerics": "any"}, {"precision": "f16"}):
        multiply(a, b, out=d, **given)
        multiply(a, b, out=d, **given)
    assert len(made) == 1  # the kernels of one schedule are the same, and those of f16 have the precision "f16" anyway
    with pytest.raises(SpecError, match=r"unknown precision 'tf32': valid are f16.*\[unknown-word\]"):
        multiply.explain(a, b, precision="tf32")
    assert len(fake.launches) == 8


def test_a_batch_of_no_products_is_a_family_like_others(fake: FakeDriver, made: list[tuple[Family, str]]) -> None:
    a, b = (aligned(2 * rows, columns).reshape(2, 1, rows, columns)[:, :0] for rows, columns in ((M, K), (K, N)))
    found = Matmul().explain(Tensor(a), Tensor(b))
    assert (found.family.batch, found.m, found.spec.batch) == (0, M, None)


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, acc: Any) -> Any:
        return acc


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ({"numerics": []}, "numerics-word"),
        ({"precision": ["f16"]}, "precision-kind"),
        ({"weights": [1]}, "packed-words"),
        ({"block_scales": {}}, "block-scales-kind"),
        ({"tuned": []}, "option-flag"),
        ({"alone": "no"}, "option-flag"),
        ({"epilogue": []}, "epilogue-function"),
        ({"epilogue": Unhashable()}, "epilogue-hash"),
    ],
)
def test_options_of_the_wrong_kind_are_refused(fake: FakeDriver, option: dict[str, Any], code: str) -> None:
    (a, b, _), multiply = arrays(), Matmul()
    for call in (multiply, multiply.explain):
        with pytest.raises(SpecError, match=rf"\[{code}\]"):
            call(a, b, **option)
