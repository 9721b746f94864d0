"""Every preset that sm_90a can run, in every layout that it takes, and the ladder, on the GPU against float64."""

import numpy as np
import pytest
from gemm_checks import check, least_k
from role_draws import TARGET, refusal

import lowtide as lt
from lowtide.compiler.presets import LADDERS, check_target, ladder_of
from lowtide.dialects.tile import StorePath
from lowtide.measurement.bench.ladder import climb
from lowtide.targets import get

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

LAYOUTS = ("tn", "tt", "nn", "nt")
SIZES = ((264, 72, 104), (1, 1, 1), (700, 1001, 333), (1543, 2309, 72))


def runs_here(name: str, dtype: str = "bf16") -> bool:
    if dtype not in LADDERS[name].dtypes or LADDERS[name].problem:  # see test_batches_gpu.py
        return False
    try:
        check_target(lt.presets[name], get(TARGET))
    except lt.ScheduleError:
        return False
    return True


PRESETS = [name for name in lt.presets if runs_here(name)]


@pytest.fixture(scope="module", autouse=True)
def hopper() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")


def check_preset(name: str, spec: lt.GemmSpec) -> None:
    kernel = lt.compile_gemm(spec, target=TARGET, schedule=name)
    # Boxes of whole panels take extents that panels divide; TMA stores, rows of D of whole 16 bytes.
    unit = 64 if str(kernel.schedule.mainloop.a.copy).startswith("tma.") else 1
    whole = max(unit, 8 if kernel.schedule.epilogue.path is StorePath.tma else 1)
    rng = np.random.default_rng(len(name))
    for size in SIZES:
        m, n, k = (-(-extent // side) * side for extent, side in zip(size, (unit, whole, unit), strict=True))
        check(spec, kernel, (m, n, max(k, least_k(kernel.schedule))), rng)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_agrees_with_float64_at_ragged_shapes(name):
    check_preset(name, lt.GemmSpec(a="bf16", b="bf16", d="bf16"))


def other_layouts() -> list[tuple[str, str]]:
    """Presets with the layouts other than tn that their schedules are legal for."""
    return [
        (name, layout)
        for name in PRESETS
        for layout in LAYOUTS[1:]
        if refusal(lt.GemmSpec(a="f16", b="f16", d="f16", layout=layout), lt.presets[name]) is None
    ]


@pytest.mark.parametrize(("name", "layout"), other_layouts())
def test_a_preset_agrees_with_float64_in_the_other_layouts_too(name, layout):
    check_preset(name, lt.GemmSpec(a="f16", b="f16", d="f16", layout=layout))


def scaled(acc, c: lt.Full, alpha: lt.Scalar):
    return alpha * acc - c


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [name for name in lt.presets if runs_here(name, "f64")])
def test_a_preset_of_f64_agrees_with_wider_arithmetic_in_every_layout(name, layout):
    check_preset(name, lt.GemmSpec(a="f64", b="f64", d="f64", acc="f64", layout=layout, epilogue=scaled))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_every_step_of_the_ladder_is_compiled_and_right(dtype):
    spec = lt.GemmSpec(m=4096, n=4096, k=4096, a=dtype, b=dtype, d=dtype)
    ladder = ladder_of(TARGET)
    steps = climb(spec, ladder, seed=3, on_gpu=True, say=lambda name: None)
    assert [step.name for step in steps] == list(ladder)
    assert {step.name: step.message for step in steps if step.result != "ok"} == {}
