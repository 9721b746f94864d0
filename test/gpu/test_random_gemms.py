"""Random problems on the GPU against float64, within the derived bound: shapes, strides, types, schedules, epilogues.

Every kernel takes its extents at run time or has them compiled in; D lies in a larger, poisoned allocation whose
surroundings must stay as they were.
"""

import random
from dataclasses import dataclass

import numpy as np
import pytest

import lowtide as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
KERNELS, SHAPES_EACH = 42, 5


def plain(acc):
    return acc


def bias_relu(acc, bias: lt.PerColumn):
    return lt.relu(acc + bias)


def everything(acc, c: lt.Full, row: lt.PerRow, bias: lt.PerColumn, alpha: lt.Scalar):
    return lt.gelu(alpha * acc + 0.5 * c + bias) - row


def silu_of_full(acc, c: lt.Full):
    return lt.silu(acc) * c


EPILOGUES = (None, plain, bias_relu, everything, silu_of_full)
SCHEDULES = (
    None,
    "cta = [64, 64, 32], warps = [2, 2, 1], stages = 2",
    "cta = [64, 128, 64], warps = [1, 4, 1], stages = 3, fragment_buffers = 1",
    "cta = [128, 64, 32], warps = [4, 1, 1], stages = 5, raster = column",
    "cta = [96, 64, 32], warps = [2, 2, 1], stages = 3, raster = row",
    "cta = [128, 128, 32], warps = [2, 2, 1], stages = 4, scheduler = persistent",
    "cta = [128, 128, 32], warps = [2, 2, 1], stages = 3, epilogue = direct",
    "cta = [128, 128, 32], warps = [2, 2, 1], stages = 3, epilogue_math = rows, epilogue_tile = [32, 128]",
    "cta = [64, 64, 16], warps = [2, 2, 1], stages = 4, mma = mma.m16n8k8",
    "cta = [128, 256, 32], warps = [2, 4, 1], stages = 3",
)


@dataclass(frozen=True)
class Case:
    number: int
    dtype: str
    d: str
    acc: str
    epilogue: int
    schedule: int
    static: bool


def cases() -> list[Case]:
    """The same cases every time; each schedule and each epilogue comes up."""
    rng = random.Random(20)
    found = []
    for number in range(KERNELS):
        dtype = rng.choice(("f16", "bf16"))
        acc = "f16" if dtype == "f16" and rng.random() < 0.25 else "f32"
        found.append(
            Case(
                number,
                dtype,
                rng.choice((dtype, dtype, "f32")),
                acc,
                number % len(EPILOGUES),
                number % len(SCHEDULES),
                rng.random() < 0.3,
            )
        )
    return found


def device_matrix(array: np.ndarray, dtype: str, pad: int) -> "torch.Tensor":
    """On the GPU with padded rows; the padding is NaN."""
    rows, columns = array.shape
    whole = torch.full((rows, columns + pad), float("nan"), device="cuda", dtype=TORCH[dtype])
    whole[:, :columns] = torch.from_numpy(array.astype(np.float32)).to("cuda", TORCH[dtype])
    return whole[:, :columns]


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.number:02d}")
def test_random_gemms_agree_with_float64_within_the_derived_bound(case):
    rng = np.random.default_rng(case.number)
    kernel = None
    for _ in range(SHAPES_EACH):
        limit = 120 if case.acc == "f16" else 700
        m, n, k = (int(rng.integers(1, top)) for top in (400, 400, limit))
        extents = {"m": m, "n": n, "k": k} if case.static else {}
        spec = lt.GemmSpec(
            **extents, a=case.dtype, b=case.dtype, d=case.d, acc=case.acc, epilogue=EPILOGUES[case.epilogue]
        )
        if kernel is None or case.static:
            kernel = lt.compile_gemm(spec, target="sm_80", schedule=SCHEDULES[case.schedule])
        check(spec, kernel, (m, n, k), rng)


def aligned_pad(columns: int, itemsize: int, extra: int) -> int:
    """Padding that makes rows multiples of 16 bytes."""
    vector = 16 // itemsize
    return -columns % vector + vector * extra


def check(spec: lt.GemmSpec, kernel, size: tuple[int, int, int], rng: np.random.Generator) -> None:
    m, n, k = size
    inputs = lt.random_inputs(spec, m, n, k, rng)
    device = {}
    for name, value in inputs.items():
        if name in ("a", "b"):
            pad = aligned_pad(value.shape[1], 2, int(rng.integers(0, 3)))
            device[name] = device_matrix(value, spec.a, pad)
        elif np.ndim(value) == 2:  # an epilogue operand: rows of any padding
            device[name] = device_matrix(value, str(operand_dtype(spec, name)), int(rng.integers(0, 4)))
        elif np.ndim(value) == 1:
            device[name] = torch.from_numpy(value.astype(np.float32)).to("cuda", TORCH[operand_dtype(spec, name)])
        else:
            device[name] = float(value)
    itemsize = 4 if spec.d == "f32" else 2
    pad = aligned_pad(n, itemsize, int(rng.integers(1, 3)))
    guard = 8
    whole = torch.full((m + 2 * guard, n + pad), float("nan"), device="cuda", dtype=TORCH[spec.d])
    out = whole[guard : guard + m, :n]
    result = kernel(device.pop("a"), device.pop("b"), out=out, **device)
    torch.cuda.synchronize()
    assert result.data_ptr() == out.data_ptr()
    reference, bound = lt.reference_with_bound(spec, **inputs)
    comparison = lt.compare(spec, out.float().cpu().numpy(), reference, bound)
    assert comparison.ok, f"{spec.layout} {size} {kernel.schedule}: {comparison.message}"
    surroundings = whole.clone()
    surroundings[guard : guard + m, :n] = float("nan")
    assert bool(surroundings.isnan().all()), f"wrote outside D: {size} {kernel.schedule}"


def operand_dtype(spec: lt.GemmSpec, name: str) -> str:
    return next(operand.dtype for operand in spec.operands if operand.name == name)


HOPPER_SCHEDULES = (
    "sm90-cooperative",
    "sm90-one-consumer",
    "roles = cooperative(2), cta = [128, 128, 64], stages = 5, raster = row",
    "roles = cooperative(2), cta = [128, 256, 64], epilogue = direct, raster = column",
    "roles = cooperative(2), cta = [128, 192, 64], stages = 4",
    "roles = cooperative(1), cta = [64, 64, 64], stages = 2",
)


@pytest.mark.parametrize("number", range(24))
def test_random_gemms_with_roles_agree_with_float64_within_the_derived_bound(number):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")
    rng = np.random.default_rng(1000 + number)
    dtype = ("bf16", "f16")[number % 2]
    epilogue = EPILOGUES[number % len(EPILOGUES)]
    schedule = HOPPER_SCHEDULES[number % len(HOPPER_SCHEDULES)]
    if "direct" in schedule:  # the whole tile's operands would not fit into registers beside its accumulators
        epilogue = EPILOGUES[number % 3]
    for static in (False, True):
        kernel = None
        for _ in range(1 if static else 5):
            m, n, k = (int(rng.integers(1, top)) for top in (900, 900, 700))
            extents = {"m": m, "n": n, "k": k} if static else {}
            spec = lt.GemmSpec(**extents, a=dtype, b=dtype, d=(dtype, "f32")[number % 3 == 0], epilogue=epilogue)
            kernel = kernel or lt.compile_gemm(spec, target="sm_90a", schedule=schedule)
            check(spec, kernel, (m, n, k), rng)


@pytest.mark.parametrize("layout", ["tt", "nn", "nt"])
@pytest.mark.parametrize("schedule", SCHEDULES[:4])
def test_the_other_layouts_agree_with_float64_within_the_derived_bound(layout, schedule):
    rng = np.random.default_rng(7)
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout=layout)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule=schedule)
    for _ in range(3):
        m, n, k = (int(rng.integers(1, top)) for top in (300, 300, 300))
        check(spec, kernel, (m, n, k), rng)


def test_there_are_at_least_two_hundred_combinations():
    assert KERNELS * SHAPES_EACH >= 200
    assert {case.schedule for case in cases()} == set(range(len(SCHEDULES)))
    assert {case.epilogue for case in cases()} == set(range(len(EPILOGUES)))
