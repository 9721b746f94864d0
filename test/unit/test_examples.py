"""Every script in examples/ runs to its end, without a GPU."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# The last line of each: what it shows has come out.
LAST_LINES = {
    "batches.py": "3 of 70×48×72, level ptx: all 10080 elements within bound",
    "column_major.py": "d (72, 40) is (a @ b + c.T + bias).T",
    "edit_a_level.py": "its PTX is that of a spec scaled by 0.25",
    "epilogue.py": "level nvvm: all 7200 elements within bound",
    "expert_gradients.py": "d down (4, 48, 32): the largest error is 1.1e-03 of the largest element",
    "experts.py": "(0, 0, 100, 0) rows, level ptx: 4800 of 7200 elements within bound",
    "f32_on_tensor_cores.py": "bf16x6: relative error 1.0e-07; 2 launches that split; all 3360 elements within bound",
    "lists_of_matrices.py": "ptx: products of shapes (90, 24), (1, 40), (0, 8), (33, 16) are right",
    "odd_matrices.py": "150×73×67, level nvvm: all 10950 elements within bound",
    "own_pass.py": "same D before it, after it, and at level nvvm",
    "padded_experts.py": "(0, 200, 0, 0) rows: 2400 of 9600 elements within bound",
    "quantized_linear.py": "of the layer in float64: at most 0.335; one step of D is 0.15",
    "gated.py": "interleaved: all 7200 elements within bound",
    "gated_experts.py": "experts (2, 3) on the interpreter: relative error 1.6e-03",
    "reductions.py": "the mean cross entropy of 20 rows is 13.9370",
    "results.py": "pre and act in one matrix of (100, 144): -10.0625 and -0.000",
    "save_and_load.py": "torch has no GPU here: the kernel was loaded, but not run",
    "scaled_fp8.py": "all 15360 elements within bound",
    "tensor_parallel_mlp.py": "not run: lowtide.torch needs PyTorch"
    if not importlib.util.find_spec("torch")
    else "1 rank(s) on cpu",
    "torch_experts.py": "not run: lowtide.torch needs PyTorch"
    if not importlib.util.find_spec("torch")
    else "8 experts agree with a loop in float64",
    "torch_mlp.py": "not run: lowtide.torch needs PyTorch"
    if not importlib.util.find_spec("torch")
    else "trained on cpu",
    "transformers_experts.py": "not run: lowtide.torch needs PyTorch"
    if not importlib.util.find_spec("torch")
    else "not run: the example needs transformers 5"
    if not importlib.util.find_spec("transformers")
    else "2 layers of experts agree with loops in float64",
    "weights.py": "all 800 elements within bound",
}


# Runs each script that is given as an argument, in a forked process. The parent imports the compiler, the interpreter
# and the checks once, and compiles and runs one kernel: both take longer than most scripts. `gc.freeze` keeps
# these objects out of the scripts' garbage collections. The output and the exit status of each script go to files in a
# folder. Schedules are not chosen by their machine code, as for other tests.
RUN = """
import gc, os, runpy, sys

import ml_dtypes
import numpy as np

import lowtide as lt
from lowtide.compiler import attempts
from lowtide.verification.checking import check

attempts.find_ptxas = lambda: None
ones = np.ones((8, 8), ml_dtypes.bfloat16)
lt.compile_gemm(lt.GemmSpec(a="bf16", b="bf16", d="bf16"), "sm_80").interpret(ones, ones, level="ptx")
gc.freeze()
folder, *scripts = sys.argv[1:]
for script in scripts:
    place = os.path.join(folder, os.path.basename(script))
    if os.fork():
        _, status = os.wait()
        with open(place + ".status", "w") as file:
            file.write(str(os.waitstatus_to_exitcode(status)))
        continue
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{place}.{name}", os.O_CREAT | os.O_WRONLY), descriptor)
    sys.argv, sys.path[0] = [script], os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")
    break
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the output and the exit status of each script."""
    folder = tmp_path_factory.mktemp("examples")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", RUN, str(folder), *map(str, EXAMPLES)]
    subprocess.run(command, env=environment, timeout=600, check=True)
    return folder


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_to_its_end(ended: Path, script: Path) -> None:
    status, out, err = (ended / f"{script.name}.{name}" for name in ("status", "out", "err"))
    assert status.read_text() == "0", err.read_text(encoding="utf-8")
    assert out.read_text(encoding="utf-8").splitlines()[-1].startswith(LAST_LINES[script.name])


def test_every_example_has_its_last_line() -> None:
    assert [path.name for path in EXAMPLES] == sorted(LAST_LINES)
