"""The target that the commands compile for where none is given."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_calls import SMALL, accepted, fake_gpu, refused, reported

from lowtide.errors import DeviceError
from lowtide.runtime import driver
from lowtide.runtime.driver import Device


def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "current_device", lambda: Device(0, "NVIDIA H200", (9, 0), 232448, 132))


def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Device:
        raise DeviceError("the NVIDIA driver sees no GPU; run it elsewhere")

    monkeypatch.setattr(driver, "current_device", none)


DEFAULTS: tuple[tuple[Callable[[pytest.MonkeyPatch], None], str], ...] = (
    (hopper, "sm_90a (native: NVIDIA H200)"),
    (no_gpu, "sm_90a (the NVIDIA driver sees no GPU)"),
)


@pytest.mark.parametrize(("machine", "expected"), DEFAULTS, ids=["hopper", "no gpu"])
@pytest.mark.parametrize("command", ["run", "compile", "interpret", "explain"])
def test_commands_compile_for_the_gpu_at_hand_and_say_so(
    command: str, machine: Callable[[pytest.MonkeyPatch], None], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch)
    level = ("--level", "smem") if command in ("run", "interpret") else ()
    output = accepted(command, "--m", "72", "--n", "48", "--k", "40", *level)
    assert reported(output, "target") == expected


def test_the_first_command_of_the_readme_gives_wgmma_on_hopper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_gpu(monkeypatch)
    hopper(monkeypatch)
    output = accepted("run", "--m", "300", "--n", "520", "--k", "264", "--dump-ir", str(tmp_path))
    assert reported(output, "ran") == "on NVIDIA H200"
    assert "wgmma.mma_async" in (tmp_path / "09-ptx" / "kernel.ptx").read_text()


def test_native_on_the_command_line_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    no_gpu(monkeypatch)
    for command in ("run", "compile", "interpret", "explain", "ladder"):
        message = refused(command, "--m", "72", "--n", "48", "--k", "40", "--target", "native")
        assert 'target="native" needs a GPU: the NVIDIA driver sees no GPU; name a target: sm_80, ' in message


def test_a_gpu_that_is_too_old_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "current_device", lambda: Device(0, "T4", (7, 5), 65536, 40))
    output = accepted("run", "--m", "8", "--n", "8", "--k", "8")
    assert reported(output, "target") == "sm_90a (no target runs on T4, of compute capability 7.5)"
    assert reported(output, "ran").startswith("on the interpreter, level nvvm, 2 SMs (no target runs on T4")


def test_a_target_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    hopper(monkeypatch)
    assert reported(accepted("compile", *SMALL), "target") == "sm_80 (as asked)"
