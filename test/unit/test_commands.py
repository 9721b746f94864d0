"""The commands as a shell starts them: interrupts, full disks and closed pipes end in a message and a status."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("lowtide", "lowtide_opt")
SCRIPTS = {name: f"import sys; from lowtide.entry import {name}; sys.exit({name}())" for name in NAMES}
FULL = "error: cannot write the output: No space left on device; send it where there is room\n"
SMALL = ("--m", "70", "--n", "50", "--k", "40", "--target", "sm_80")


def shell(line: str, script: str = "lowtide", before: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a line of bash, in which `@` stands for the command."""
    environment = {**os.environ, "SCRIPT": before + SCRIPTS[script], "PYTHON": sys.executable}
    line = line.replace("@", '"$PYTHON" -c "$SCRIPT"')
    return subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "in.mlir"
    path.write_text("module {}\n")
    return path


@pytest.mark.parametrize("arguments", [f"compile {' '.join(SMALL)} --emit ptx", "targets", "--help"])
def test_output_to_a_full_disk_is_refused(arguments: str) -> None:
    done = shell(f"@ {arguments} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.endswith(f"lowtide: {FULL}")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_the_tools_output_to_a_full_disk_is_refused(module: Path) -> None:
    done = shell(f"@ {module} > /dev/full", "lowtide_opt")
    assert (done.returncode, done.stderr) == (1, f"lowtide-opt: {FULL}")


@pytest.mark.parametrize("arguments", [f"compile {' '.join(SMALL)} --emit ptx", "presets"])
def test_a_reader_that_goes_early_ends_the_command_quietly(arguments: str) -> None:
    done = shell(f"set -o pipefail; @ {arguments} | head -c 1 | cat; echo ${{PIPESTATUS[0]}} >&2")
    *reported, status = done.stderr.splitlines()
    assert all(line.endswith(" …") for line in reported)  # where it is, if it takes longer than a second
    assert status in ("0", "141")  # 0 where all fitted into the pipe


def test_a_reader_that_is_gone_before_anything_is_written_is_no_error(module: Path) -> None:
    for script, arguments in (("lowtide", "targets"), ("lowtide_opt", str(module))):
        done = shell(f"@ {arguments} | true; echo ${{PIPESTATUS[0]}}", script, before="import time; time.sleep(0.2); ")
        assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.parametrize(
    ("script", "arguments", "status"),
    [("lowtide", "targets", 2), ("lowtide", "presets", 2), ("lowtide_opt", "@module", 1)],
)
def test_a_closed_standard_output_is_refused(module: Path, script: str, arguments: str, status: int) -> None:
    done = shell(f"@ {arguments.replace('@module', str(module))} >&-", script)
    assert done.returncode == status
    assert "error: cannot write the output: " in done.stderr and "Traceback" not in done.stderr


def test_a_closed_standard_input_is_refused() -> None:
    done = shell("@ - <&-", "lowtide_opt")
    assert done.returncode == 1
    assert done.stderr == "lowtide-opt: error: cannot read -: standard input is closed; name a file of MLIR text\n"


@pytest.mark.parametrize("script", ["lowtide", "lowtide_opt"])
def test_an_exception_that_nobody_foresaw_has_a_status_of_its_own(script: str) -> None:
    """1 says that D is wrong, or that a pass refused."""
    before = "from lowtide import entry; entry.importlib.import_module = lambda name: {}['x']; "
    done = shell("@ targets", script, before=before)
    assert done.returncode == 3
    assert "error: Lowtide failed, by KeyError; please report this with the lines above" in done.stderr


# A shell starts what runs in its background with interrupts ignored, and with it this test and its processes.
TAKEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"

INTERRUPT = """
import os, signal, sys
class Interrupt:
    def find_spec(name, path, target=None):
        if name == '{module}' and not hasattr(Interrupt, 'sent'):
            Interrupt.sent = True
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt)
"""


@pytest.mark.parametrize("script", ["lowtide", "lowtide_opt"])
@pytest.mark.parametrize("module", ["mlir", "lowtide.passes.pipeline"])
def test_an_interrupt_during_imports_is_said_in_a_line(script: str, module: str) -> None:
    done = shell("@ --help", script, before=TAKEN + INTERRUPT.format(module=module))
    name = script.replace("_", "-")
    assert (done.returncode, done.stderr, done.stdout) == (130, f"\n{name}: interrupted\n", "")


DURING_A_PASS = """
import os, signal, sys
from lowtide.passes.smem.assign_smem_layouts import AssignSmemLayouts
real = AssignSmemLayouts.run
def run(self, module, target):
    os.kill(os.getpid(), signal.SIGINT)
    real(self, module, target)
AssignSmemLayouts.run = run
"""


def test_an_interrupt_during_compilation_leaves_whole_dumps_and_nothing_else(tmp_path: Path) -> None:
    done = shell(f"@ compile {' '.join(SMALL)} --dump-ir {tmp_path}/dump", before=TAKEN + DURING_A_PASS)
    assert (done.returncode, done.stderr) == (130, "\nlowtide: interrupted\n")
    names = [path.name for path in (tmp_path / "dump").rglob("*") if path.is_file()]
    assert names and all(name.endswith((".mlir", ".json")) and not name.startswith(".") for name in names)


def test_a_refused_schedule_leaves_no_temporary_folder(tmp_path: Path) -> None:
    done = shell(f"TMPDIR={tmp_path} @ compile {' '.join(SMALL)} --schedule 'grid.tile = [100, 64]'")
    assert done.returncode == 2
    assert "100" in done.stderr and "--dump-ir" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_project_starts_its_commands_here() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'lowtide = "lowtide.entry:lowtide"' in text
    assert 'lowtide-opt = "lowtide.entry:lowtide_opt"' in text
