"""Without a driver: importing and loading work, a call says what is missing and names the interpreter."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_arrays import InterfaceArray, aligned
from fake_driver import FakeDriver
from sample_kernel import PTX, kernel_from, sample_manifest

import lowtide
from lowtide import runtime
from lowtide.errors import DeviceError
from lowtide.runtime import driver
from lowtide.runtime.__main__ import main

ROOT = Path(lowtide.__file__).parents[1]


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_importing_and_loading_touch_neither_the_compiler_nor_cuda(tmp_path: Path) -> None:
    saved = runtime.save(tmp_path / "gemm", sample_manifest(), PTX, None)
    done = run_python(
        "import sys, lowtide.runtime, lowtide.runtime.verify\n"
        f"lowtide.runtime.load({str(saved)!r})\n"
        "above = ['compiler', 'passes', 'interpreter', 'dialects', 'targets']\n"
        "above += ['verification', 'inspection', 'measurement', 'cli']\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('mlir', 'cuda', 'torch', 'cupy', 'ml_dtypes')]\n"
        "bad += [m for m in sys.modules if m.startswith('lowtide.') and m.split('.')[1] in above]\n"
        "print(bad)"
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def call() -> Any:
    manifest = sample_manifest(dtype="f16")
    a, b, d = (InterfaceArray(aligned(16, 16)) for _ in range(3))
    return kernel_from(manifest)(a, b, out=d)


def with_results(init: Any, count: tuple[int, int] = (0, 1)) -> FakeDriver:
    fake = FakeDriver()
    fake.cuInit = init  # type: ignore[method-assign]
    fake.cuDeviceGetCount = lambda: count  # type: ignore[method-assign]
    return fake


def no_library(flags: int) -> tuple[int]:
    raise RuntimeError("libcuda.so.1 cannot be opened")


@pytest.mark.parametrize(
    ("fake", "message"),
    [
        (with_results(no_library), "no NVIDIA driver is installed here .libcuda.so.1 cannot be opened."),
        (with_results(lambda flags: (100,)), "did not start: CUDA_ERROR_100"),
        (with_results(lambda flags: (0,), (0, 0)), "sees no GPU"),
    ],
)
def test_a_call_without_gpu_names_the_interpreter(install_driver: Any, fake: FakeDriver, message: str) -> None:
    install_driver(fake)
    with pytest.raises(DeviceError, match=rf"{message}.*kernel.interpret.*lowtide interpret"):
        call()


def test_a_call_without_cuda_python_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    driver.api.cache_clear()
    monkeypatch.setattr(driver, "importlib", SimpleNamespace(import_module=missing))
    with pytest.raises(DeviceError, match=r"pip install 'cuda-python>=13,<14'.*kernel.interpret.*\[cuda-python\]"):
        call()
    driver.api.cache_clear()


def test_the_real_bindings_have_what_the_runtime_calls() -> None:
    bindings = importlib.import_module("cuda.bindings.driver")
    for name in dir(FakeDriver):
        if name.startswith(("cu", "CU")):
            assert hasattr(bindings, name), name
    for enumeration, member in (
        ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
        ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"),
        ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"),
        ("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"),
        ("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"),
        ("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES"),
        ("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK"),
        ("CUjit_option", "CU_JIT_ERROR_LOG_BUFFER"),
        ("CUjit_option", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"),
        ("CUpointer_attribute", "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL"),
        ("CUevent_flags", "CU_EVENT_DISABLE_TIMING"),
        ("CUlaunchAttributeID", "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"),
    ):
        assert hasattr(getattr(bindings, enumeration), member), member


def test_verify_on_a_machine_without_gpu_says_so_and_fails(
    install_driver: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install_driver(with_results(no_library))
    assert main(["verify", str(tmp_path)]) == 1
    assert "cannot verify: no NVIDIA driver" in capsys.readouterr().err
