"""The litmus tests on two GPUs that access each other's memory: no word is wrong in the order of an axiom."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
_SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "litmus" / "run_peers.py"


def test_no_axiom_of_ranks_has_a_wrong_word() -> None:
    if torch.cuda.device_count() < 2 or not torch.cuda.can_device_access_peer(0, 1):
        pytest.skip("NO LITMUS TEST OF RANKS RAN: two GPUs that access each other's memory are required")
    if torch.cuda.get_device_capability(0) != (9, 0):
        pytest.skip("the kernels are for sm_90a")
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), "--epochs", "2000"], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
