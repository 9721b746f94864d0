"""benchmarks/gemm.py without a GPU: its options, what it leaves out, and what it says where it cannot run."""

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lowtide.errors import ScheduleError

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gemm.py"


@pytest.fixture(scope="module")
def gemm() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_gemm", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_size_is_one_extent_or_three(gemm: ModuleType) -> None:
    assert gemm.extents("4096") == (4096, 4096, 4096)
    assert gemm.extents("4096,28672,1024") == (4096, 28672, 1024)
    with pytest.raises(argparse.ArgumentTypeError, match="neither N nor M,N,K"):
        gemm.extents("4096,1024")


def test_options_that_repeat_are_collected(gemm: ModuleType) -> None:
    sizes, layouts = ["--size", "64", "--size", "32,16,8"], ["--layout", "nn", "--layout", "tt"]
    schedules = ["--schedule", "sm90-best", "--schedule", "chosen"]
    found = gemm.parser().parse_args([*sizes, *layouts, *schedules, "--cublaslt"])
    assert found.size == [(64, 64, 64), (32, 16, 8)]
    assert (found.layout, found.schedule, found.cublaslt) == (["nn", "tt"], ["sm90-best", "chosen"], True)


def test_a_schedule_that_is_refused_is_left_out_and_said(
    gemm: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Contest:
        spec = None
        added: tuple[str, ...] = ()

        def add_kernel(self, name: str, kernel: object) -> None:
            self.added += (name,)

    class Kernel:
        assembly = None
        schedule = "as chosen"

    def compile_gemm(spec: object, target: str, schedule: str | None) -> Kernel:
        if schedule == "stages = 1":
            raise ScheduleError("stages = 1 is out of range")
        assert schedule is None
        return Kernel()

    monkeypatch.setattr(gemm.lt, "compile_gemm", compile_gemm)
    contest = Contest()
    gemm.add_kernels(contest, "sm_90a", ["stages = 1", "chosen"])
    assert contest.added == ("lowtide chosen",)
    assert "lowtide stages = 1: left out: stages = 1 is out of range" in capsys.readouterr().err


def test_without_torch_or_a_gpu_it_ends_with_a_message() -> None:
    code = (
        "import sys, runpy; sys.modules['torch'] = None; sys.argv = ['gemm.py', '--size', '64']; "
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("gemm.py: error: torch is not installed") and "Traceback" not in done.stderr
