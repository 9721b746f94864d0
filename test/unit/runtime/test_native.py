"""`target="native"` and the default: which target a GPU gets, by what the driver says of it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from fake_driver import FakeDriver, Install
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli.main import app
from lowtide.cli.opt_tool import main as opt
from lowtide.compiler.native import choose, native_target, resolve
from lowtide.errors import DeviceError, IRError, TargetError
from lowtide.inspection.explain.explanation import explain_spec
from lowtide.targets import KNOWN

SPEC = lt.GemmSpec(m=64, n=64, k=64, a="bf16", b="bf16", d="bf16")
NAMES = "name a target: sm_80, sm_86, sm_89, sm_90, sm_90a"


def gpu(install: Install, capability: tuple[int, int], shared_memory: int = 232448) -> FakeDriver:
    fake = FakeDriver(capability)
    fake.attributes["CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"] = shared_memory
    return install(fake)


def no_gpu(install: Install) -> None:
    fake = FakeDriver()
    fake.cuDeviceGetCount = lambda: (0, 0)  # type: ignore[method-assign]
    install(fake)


@pytest.mark.parametrize(
    ("capability", "shared_memory", "name"),
    [
        ((8, 0), 166912, "sm_80"),
        ((8, 6), 101376, "sm_86"),
        ((8, 7), 166912, "sm_86"),
        ((8, 9), 101376, "sm_89"),
        ((9, 0), 232448, "sm_90a"),
        ((10, 0), 232448, "sm_90"),
        ((12, 0), 101376, "sm_89"),  # less shared memory than sm_90 kernels may ask for
    ],
)
def test_the_target_that_fits_a_gpu_best(
    install_driver: Install, capability: tuple[int, int], shared_memory: int, name: str
) -> None:
    gpu(install_driver, capability, shared_memory)
    target, device = native_target()
    assert (target.name, device.name) == (name, "Fake GPU")
    assert resolve("native") == target
    assert choose("native").name == choose(None).name == name
    assert choose(None).reason == "native: Fake GPU"


@pytest.mark.parametrize(("capability", "name"), [((8, 0), "sm_80"), ((9, 0), "sm_90a"), (None, "sm_90a")])
def test_without_a_name_python_and_the_commands_take_the_same_target(
    install_driver: Install, capability: tuple[int, int] | None, name: str
) -> None:
    if capability is None:
        no_gpu(install_driver)
        reason = "the NVIDIA driver sees no GPU"
    else:
        gpu(install_driver, capability)
        reason = "native: Fake GPU"
    assert lt.compile_gemm(SPEC).target.name == name
    assert resolve(None).name == choose(None).name == name
    found = explain_spec(SPEC)
    assert (found.target.name, found.target_reason) == (name, reason)
    assert found.to_json()["target_reason"] == reason
    for public in (lt.compile_gemm, lt.precompile, lt.tune, lt.tuned_schedule):
        assert inspect.signature(public).parameters["target"].default is None


def test_lowtide_explain_says_why_it_is_this_target(install_driver: Install) -> None:
    no_gpu(install_driver)
    printed = CliRunner().invoke(app, ["explain", "--m", "64", "--n", "64", "--k", "64"]).stdout
    assert re.search(r"^target +sm_90a \(the NVIDIA driver sees no GPU\)$", printed, re.MULTILINE)


def test_a_ladder_takes_the_newest_of_its_targets(install_driver: Install) -> None:
    gpu(install_driver, (8, 9), 101376)
    with_ladders = [target for target in KNOWN if target.name in ("sm_80", "sm_90a")]
    assert choose(None, with_ladders).name == "sm_80"


def test_native_compiles_for_the_gpu(install_driver: Install) -> None:
    gpu(install_driver, (9, 0))
    kernel = lt.compile_gemm(SPEC, target="native")
    assert kernel.target.name == "sm_90a" and "wgmma.mma_async" in kernel.ptx
    text = kernel.levels["cta"]
    assert lt.compile_ir(text, target="native").ptx == kernel.ptx
    unsaid = text.replace(', tile.target = "sm_90a"', "")
    assert unsaid != text
    assert lt.compile_ir(unsaid, target="native").ptx == kernel.ptx


def test_native_and_the_modules_target_must_agree(install_driver: Install) -> None:
    text = lt.compile_gemm(SPEC, target="sm_80").levels["cta"]
    gpu(install_driver, (9, 0))
    with pytest.raises(IRError, match=r"target native was asked for, but the module is for sm_80.*\[target-differs\]"):
        lt.compile_ir(text, target="native")


def test_without_a_gpu_native_is_refused_with_the_targets(install_driver: Install) -> None:
    no_gpu(install_driver)
    text = lt.compile_gemm(SPEC, "sm_80").levels["cta"]
    for compile_it in (lambda: lt.compile_gemm(SPEC, "native"), lambda: lt.compile_ir(text, "native")):
        with pytest.raises(DeviceError, match=rf"needs a GPU: the NVIDIA driver sees no GPU; {NAMES}.*\[native-gpu\]"):
            compile_it()
    assert choose(None).not_on_gpu == "the NVIDIA driver sees no GPU"


def test_a_gpu_older_than_every_target_is_refused_with_the_targets(install_driver: Install) -> None:
    gpu(install_driver, (7, 5), 65536)
    with pytest.raises(
        TargetError, match=rf"no target runs on Fake GPU, of compute capability 7.5; {NAMES}.*\[native-target\]"
    ):
        lt.compile_gemm(SPEC, "native")


def test_the_gpu_is_that_of_the_current_context(install_driver: Install) -> None:
    fake = gpu(install_driver, (9, 0))
    fake.contexts.append(7000)
    asked: list[int] = []
    fake.cuCtxGetDevice = lambda: asked.append(0) or (0, 0)  # type: ignore[method-assign, func-returns-value]
    assert native_target()[0].name == "sm_90a"
    assert asked == [0]


def test_lowtide_opt_takes_native(install_driver: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.mlir"
    text = lt.compile_gemm(SPEC, target="sm_90a").levels["problem"].replace(', tile.target = "sm_90a"', "")
    path.write_text(text)
    gpu(install_driver, (9, 0))
    assert opt([str(path), "--target=native", "-p", "verify-schedule"]) == 0
    no_gpu(install_driver)
    # The device's facts are kept; a machine does not lose its GPU.
    assert opt([str(path), "--target=native", "-p", "verify-schedule"]) == 1
    assert NAMES in capsys.readouterr().err
