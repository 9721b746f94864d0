"""The command `lowtide`: every command, its exit status, and what it refuses."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lowtide import runtime
from lowtide.compiler.checking.gpu_run import GpuRun
from lowtide.compiler.cli import compile as cli_compile
from lowtide.compiler.cli import console as cli_console
from lowtide.compiler.cli import run as cli_run
from lowtide.compiler.cli.main import app
from lowtide.compiler.presets import PRESETS
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import DeviceError
from lowtide.runtime import driver
from lowtide.runtime.driver import Device
from lowtide.targets import KNOWN

SMALL = ("--m", "70", "--n", "50", "--k", "40", "--target", "sm_80")
RUN = ("run", *SMALL, "--level", "smem")
LEVELS = ["problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm"]


def lowtide(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def accepted(*arguments: str) -> str:
    """What the command prints; it must succeed."""
    result = lowtide(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    """The message of a command that must be refused: exit status 2, no traceback, nothing on standard output but what
    was reported before."""
    result = lowtide(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    # What takes longer than a second reports where it is, before the error.
    told = "\n".join(line for line in result.stderr.splitlines() if not line.startswith("compiling: "))
    assert told.startswith("lowtide: error: ")
    return str(result.stderr)


def reported(output: str, label: str) -> str:
    """The text of a report's line."""
    found = re.search(rf"^{label} +(.*)$", output, re.MULTILINE)
    assert found is not None, output
    return found[1]


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every step of a small kernel with a bias, in f16, nt."""
    folder = tmp_path_factory.mktemp("dump")
    problem = (*SMALL, "--dtype", "f16", "--layout", "nt", "--epilogue", "bias-relu")
    accepted("compile", *problem, "--schedule", "grid.tile = [64, 64], k = 32, stages = 3", "--dump-ir", str(folder))
    return folder


def level_file(dump: Path, level: str) -> Path:
    """The last step of a level."""
    return max(dump.glob(f"*-{level}/*.mlir"))


def edited(path: Path, folder: Path, old: str, new: str) -> str:
    """A copy of a dump in a folder of its own, with an edit that must apply."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    copy = folder / path.name
    copy.write_text(text.replace(old, new), encoding="utf-8")
    return str(copy)


# run ------------------------------------------------------------------------------------------------------------------


def test_run_reports_where_it_ran_the_schedule_the_error_and_the_time() -> None:
    output = accepted(*RUN, "--seed", "7")
    assert reported(output, "problem") == "bf16 tn 70x50x40 to bf16, f32 accumulators"
    assert reported(output, "ran") == "on the interpreter, level smem, 2 SMs (as asked)"
    schedule = re.search(r"^schedule +(#tile\.schedule<.*?)^ran ", output, re.MULTILINE | re.DOTALL)
    assert schedule is not None and Schedule.parse(schedule[1]).grid.tile is not None
    assert re.match(r"ok: all 3500 elements within bound; the worst error is 0\.\d+ of it", reported(output, "result"))
    assert re.match(r"[\d.]+ m?s on the CPU", reported(output, "time"))
    assert reported(output, "seed") == "7"


def test_run_repeats_itself_by_its_seed() -> None:
    def result(seed: str) -> str:
        return reported(accepted(*RUN, "--seed", seed), "result")

    assert result("7") == result("7") != result("8")


def test_run_without_a_gpu_runs_level_nvvm_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Device:
        raise DeviceError("no NVIDIA driver is installed here (libcuda); run it elsewhere")

    monkeypatch.setattr(driver, "current_device", none)
    output = accepted("run", "--m", "5", "--n", "9", "--k", "3")
    expected = "on the interpreter, level nvvm, 2 SMs (no NVIDIA driver is installed here)"
    assert reported(output, "ran") == expected
    assert reported(output, "target") == "sm_90a (no NVIDIA driver is installed here)"


def fake_gpu(monkeypatch: pytest.MonkeyPatch, error: float = 0.0, complaint: str = "") -> None:
    """A GPU whose kernels add `error` to float64's result."""

    def run(kernel: Any, spec: Any, inputs: Any, device: int) -> GpuRun:
        a, b = (inputs[name].astype(np.float64) for name in "ab")
        return GpuRun(a @ b.T + error, complaint, 0.001, 200)

    monkeypatch.setattr(driver, "current_device", lambda: Device(0, "Fake GPU", (8, 0), 166912, 108))
    monkeypatch.setattr(cli_run, "run_on_gpu", run)


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
        assert (
            'target="native" asks for the GPU at hand: the NVIDIA driver sees no GPU; name a target: sm_80, ' in message
        )


def test_a_gpu_that_is_too_old_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "current_device", lambda: Device(0, "T4", (7, 5), 65536, 40))
    output = accepted("run", "--m", "8", "--n", "8", "--k", "8")
    assert reported(output, "target") == "sm_90a (no target runs on T4, of compute capability 7.5)"
    assert reported(output, "ran").startswith("on the interpreter, level nvvm, 2 SMs (no target runs on T4")


def test_a_target_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    hopper(monkeypatch)
    assert reported(accepted("compile", *SMALL), "target") == "sm_80 (as asked)"


def test_run_on_a_gpu_names_it_and_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch)
    output = accepted("run", *SMALL)
    assert reported(output, "ran") == "on Fake GPU"
    assert reported(output, "time") == "1 ms per launch, 0.00028 TFLOP/s (mean of 200)"


@pytest.mark.parametrize(
    ("fault", "message"),
    [({"error": 50.0}, "3500 of 3500 elements are out of bound"), ({"complaint": "bytes before D"}, "bytes before D")],
)
def test_run_exits_with_1_where_the_result_is_wrong(
    monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any], message: str
) -> None:
    fake_gpu(monkeypatch, **fault)
    result = lowtide("run", *SMALL)
    assert result.exit_code == 1
    assert reported(result.stdout, "result").startswith(f"WRONG: {message}")


def test_run_compares_some_rows_of_a_large_product(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch)
    monkeypatch.setattr("lowtide.compiler.checking.verdicts._MOST_PRODUCTS", 50 * 40 * 20)
    assert "20 of 70 rows compared" in reported(accepted("run", *SMALL), "result")


@pytest.mark.parametrize("layout", ["tn", "nt", "tt", "nn"])
@pytest.mark.parametrize("options", [("--dtype", "f16", "--acc", "f16"), ("--d", "f32", "--epilogue", "alpha-beta")])
def test_run_takes_every_layout_type_and_epilogue(layout: str, options: tuple[str, ...]) -> None:
    output = accepted("run", *SMALL, "--level", "cta", "--layout", layout, *options)
    assert reported(output, "result").startswith("ok")


def test_run_compiles_for_any_extents_with_dynamic(tmp_path: Path) -> None:
    accepted(*RUN, "--dynamic", "--dump-ir", str(tmp_path))
    assert "memref<?x?xbf16" in level_file(tmp_path, "problem").read_text()


def test_run_says_how_long_each_pass_took_and_whose_it_is() -> None:
    output = accepted(*RUN, "--time-passes")
    shares = [int(share) for share in re.findall(r"(\d+)%  \w+ +all +(?:Lowtide|MLIR|LLVM)'s", output)]
    assert len(shares) == 3
    assert 98 <= sum(shares) <= 102
    assert re.search(r"lowtide +cta +tile-to-ctas", output)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dtype", "float16"), "unknown dtype 'float16' for a: valid are f16, bf16, f32, f64; did you mean 'f16'?"),
        (("--layout", "tm"), "unknown layout 'tm'"),
        (("--target", "sm_81"), "unknown target 'sm_81'; known are sm_80"),
        (("--acc", "f16"), "f16 accumulators take f16 inputs only"),
        (("--epilogue", "bias-rely"), "did you mean 'bias-relu'?"),
        (("--m", "-1"), "m is -1; extents are 1 to 2**31-1"),
        (("--k", "0"), "k is 0; extents are 1 to 2**31-1"),
        (("--n", "2147483648"), "n is 2147483648; extents are 1 to 2**31-1"),
        (("--m", "2000000000", "--n", "2000000000"), "of host memory to make and to check"),
        (("--schedule", "sm80-swizled"), "did you mean 'sm80-swizzled'?"),
        (("--schedule", "grid.tile = 3"), "'grid.tile = 3' is not a schedule: expected '['"),
        (("--schedule", "tiles = [64, 64]"), "unknown schedule field 'tiles'; the fields are grid.tile, grid.cluster,"),
        (("--schedule", "grid.tile = [100, 128], k = 32, atoms = [2, 2, 1]"), "100 is not a multiple of"),
        (("--schedule", "grid.tile = [128, 128], k = 32, stages = 30"), "bytes of shared memory"),
        (("--schedule", "grid.tile = [256, 256], k = 32, atoms = [8, 8, 1]"), "at most 1024 per CTA"),
        (("--level", "llvm"), "level llvm is not interpreted; the levels that are: problem"),
        (("--level", "ctas"), "unknown level 'ctas'; the levels are problem"),
        (
            ("--m", "9000", "--n", "9000", "--level", "nvvm", "--k", "9000"),
            "more than 10 min: take a GPU, a smaller problem, or --force",
        ),
    ],
)
def test_run_refuses_bad_input_with_a_message(options: tuple[str, ...], message: str) -> None:
    assert message in refused(*RUN, *options)


@pytest.mark.parametrize("options", [("--m", "x"), ("--sms", "0"), ("--seed", "-1"), ("--colour", "red")])
def test_an_option_that_cannot_be_read_is_a_usage_error(options: tuple[str, ...]) -> None:
    result = lowtide(*RUN, *options)
    assert result.exit_code == 2
    assert "Usage: lowtide run" in result.stderr


def test_force_starts_the_interpreter_whatever_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowtide.compiler.checking.interpretation.LONGEST_SECONDS", 1e-6)
    assert "take a GPU, a smaller problem, or --force" in refused(*RUN)
    accepted(*RUN, "--force")


def test_a_dump_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    for command in (RUN, ("compile", *SMALL)):
        assert f"cannot write {occupied}/dump" in refused(*command, "--dump-ir", str(occupied / "dump"))
    assert occupied.read_text() == ""


# compile --------------------------------------------------------------------------------------------------------------


def test_compile_reports_the_schedule_sizes_and_ptxas() -> None:
    output = accepted("compile", "--n", "48", "--target", "sm_80")
    assert reported(output, "problem") == "bf16 tn ?x48x? to bf16, f32 accumulators"
    assert re.match(r"for sm_80 in [\d.]+ m?s, from level problem", reported(output, "compiled"))
    assert re.match(r"\d+ lines, \d+ bytes", reported(output, "ptx"))
    assert re.match(r"\d+ registers per thread, spills 0 bytes stored, 0 loaded|none in", reported(output, "ptxas"))


def test_compile_says_so_where_there_is_no_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowtide.compiler.kernel.find_ptxas", lambda: None)
    assert "the driver assembles the PTX" in reported(accepted("compile", *SMALL), "ptxas")


def test_compile_saves_a_kernel_that_the_runtime_loads(tmp_path: Path) -> None:
    folder = tmp_path / "kernel"
    assert reported(accepted("compile", *SMALL, "-o", str(folder)), "saved") == str(folder)
    assert runtime.load(folder).manifest["spec"]["m"] == 70


def test_compile_to_a_place_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    assert "cannot save to" in refused("compile", *SMALL, "-o", str(occupied / "kernel"))
    assert list(tmp_path.iterdir()) == [occupied]


@pytest.mark.parametrize("level", ["problem", "pipelined", "nvvm", "ptx"])
def test_compile_emits_a_level_and_nothing_else(level: str) -> None:
    output = accepted("compile", *SMALL, "--emit", level)
    expected = ".version 8.0" if level == "ptx" else f'tile.level = "{level}", tile.target = "sm_80"'
    assert expected in output
    assert "schedule   " not in output


def test_compile_goes_on_from_a_dump_and_shows_an_edit(dump: Path, tmp_path: Path) -> None:
    atoms = level_file(dump, "atoms")
    same = accepted("compile", "--ir", str(atoms), "--emit", "ptx")
    assert same == (dump / "09-ptx" / "kernel.ptx").read_text().rstrip("\n") + "\n"
    copy = edited(atoms, tmp_path, "sm.splat 0.000000e+00", "sm.splat 1.000000e+00")
    assert accepted("compile", "--ir", copy, "--emit", "ptx") != same


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--emit", "atom"), "unknown level 'atom'"),
        (("--emit", "ptx", "--time-passes"), "--emit prints a level and nothing else"),
        (("--ir", "none.mlir"), "cannot read none.mlir"),
    ],
)
def test_compile_refuses_bad_input_with_a_message(options: tuple[str, ...], message: str) -> None:
    assert message in refused("compile", *options)


def test_options_that_a_file_answers_are_refused_beside_it(dump: Path) -> None:
    file = str(level_file(dump, "cta"))
    assert "--layout beside" in refused("compile", "--ir", file, "--layout", "tn")
    assert "--schedule beside" in refused("explain", "--ir", file, "--schedule", "stages = 2")
    assert "--dtype beside" in refused("interpret", file, "--dtype", "f16")
    assert "--against goes with a FILE" in refused("interpret", *SMALL, "--against", file)


@pytest.mark.parametrize("command", [("compile", "--ir"), ("interpret",), ("explain", "--ir")])
def test_files_that_are_no_module_of_a_level_are_refused(command: tuple[str, ...], dump: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.mlir"
    bad.write_text("module { func.func @f( }")
    assert f"not a legal module: {bad}:1:" in refused(*command, str(bad))
    bad.write_text('module attributes {tile.target = "sm_80"} {}')
    assert "the module lacks tile.level" in refused(*command, str(bad))
    misplaced = edited(level_file(dump, "smem"), tmp_path, 'tile.level = "smem"', 'tile.level = "cta"')
    assert "does not belong in device code at level cta" in refused(*command, misplaced)
    bad.write_bytes(b"\xff\xfe")
    assert f"cannot read {bad}" in refused(*command, str(bad))


def test_a_target_that_contradicts_the_file_is_refused(dump: Path) -> None:
    file = str(level_file(dump, "cta"))
    for command in (("compile", "--ir", file), ("interpret", file), ("explain", "--ir", file)):
        assert "is for sm_80" in refused(*command, "--target", "sm_90")


# interpret ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_interpret_runs_every_dumped_level(dump: Path, level: str) -> None:
    output = accepted("interpret", str(level_file(dump, level)), "--sms", "3")
    assert reported(output, "level") == f"{level}, 3 SMs, numbers: float"
    assert reported(output, "result").startswith("ok: all 3500 elements within bound")
    own = level not in ("epilogue", "nvvm")
    problem = "the file" if own else str(level_file(dump, "problem"))
    assert reported(output, "against") == f"float64, with the epilogue in {problem}"


@pytest.mark.parametrize("level", LEVELS[1:6])
def test_interpret_compares_integers_for_equality(dump: Path, level: str) -> None:
    output = accepted("interpret", str(level_file(dump, level)), "--domain", "exact")
    assert reported(output, "result") == "ok: all 3500 elements are equal"


def test_interpret_runs_steps_inside_a_level(dump: Path) -> None:
    (step,) = dump.glob("05-atoms/*-bind-copy-atoms.mlir")
    assert 'tile.after = "bind-copy-atoms"' in step.read_text()
    accepted("interpret", str(step))


def test_interpret_lowers_a_file_to_the_level_asked_for(dump: Path) -> None:
    output = accepted("interpret", str(level_file(dump, "cta")), "--level", "pipelined")
    assert reported(output, "level").startswith("pipelined")
    assert "past level problem already" in refused("interpret", str(level_file(dump, "cta")), "--level", "problem")


def test_interpret_makes_the_level_of_a_problem() -> None:
    output = accepted("interpret", *SMALL, "--level", "cta", "--epilogue", "residual")
    assert reported(output, "against") == "float64"
    assert reported(output, "result").startswith("ok")


def test_interpret_wants_run_time_extents(tmp_path: Path) -> None:
    accepted("compile", "--target", "sm_80", "--dump-ir", str(tmp_path))
    file = str(level_file(tmp_path, "cta"))
    assert "say which it is to be run with: --m" in refused("interpret", file)
    assert reported(accepted("interpret", file, *SMALL), "problem").startswith("bf16 tn 70x50x40")


def test_interpret_refuses_extents_that_the_file_contradicts(dump: Path) -> None:
    assert "n = 51 contradicts the spec's 50" in refused("interpret", str(level_file(dump, "cta")), "--n", "51")


def test_interpret_exits_with_1_for_a_wrong_result(dump: Path, tmp_path: Path) -> None:
    copy = edited(level_file(dump, "atoms"), tmp_path, "sm.splat 0.000000e+00", "sm.splat 9.000000e+00")
    result = lowtide("interpret", copy)
    assert result.exit_code == 1
    assert reported(result.stdout, "result").startswith("WRONG: ")
    result = lowtide("interpret", copy, "--domain", "exact")
    assert result.exit_code == 1
    assert "elements differ; the first: d[0, " in reported(result.stdout, "result")


def test_interpret_exits_with_2_for_a_broken_rule_of_the_hardware(dump: Path, tmp_path: Path) -> None:
    copy = edited(level_file(dump, "atoms"), tmp_path, "sm.barrier\n", "\n")
    assert "sm.ldmatrix" in refused("interpret", copy, "--seed", "1")


def test_interpret_of_a_level_without_its_epilogue_wants_a_reference(dump: Path, tmp_path: Path) -> None:
    alone = edited(level_file(dump, "nvvm"), tmp_path, "module", "module")
    assert "no longer says its epilogue, which takes bias: give an earlier dump with --against" in refused(
        "interpret", alone
    )
    pipelined = str(level_file(dump, "pipelined"))
    output = accepted("interpret", alone, "--against", pipelined)
    assert reported(output, "against") == f"float64, with the epilogue in {pipelined}"


def test_interpret_beside_a_level_without_its_epilogue_needs_exact_numbers(dump: Path, tmp_path: Path) -> None:
    epilogue = level_file(dump, "epilogue")
    against = ("--against", str(level_file(dump, "nvvm")))
    assert "compare with --domain exact" in refused("interpret", str(epilogue), *against)
    accepted("interpret", str(epilogue), *against, "--domain", "exact")
    copy = edited(epilogue, tmp_path, "sm.splat 0.000000e+00", "sm.splat 2.000000e+00")
    assert lowtide("interpret", copy, *against, "--domain", "exact").exit_code == 1


def test_interpret_without_operands_takes_the_product_for_the_reference(tmp_path: Path) -> None:
    file = tmp_path / "alone.mlir"
    file.write_text(accepted("compile", *SMALL, "--emit", "epilogue"))
    assert "of A · B alone" in reported(accepted("interpret", str(file)), "against")
    file.write_text(accepted("compile", *SMALL, "--emit", "epilogue", "--epilogue", "relu"))
    assert lowtide("interpret", str(file)).exit_code == 1


def test_interpret_refuses_a_reference_of_another_problem(dump: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.mlir"
    other.write_text(accepted("compile", *SMALL, "--emit", "problem", "--dtype", "f16", "--layout", "nt"))
    message = refused("interpret", str(level_file(dump, "nvvm")), "--against", str(other))
    assert "is of another problem: its operands are none, here bias (per_column f16)" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--domain", "real"), "unknown number domain 'real'; known are float, exact, field"),
        (("--level", "ptx"), "level ptx is not interpreted"),
        (("--domain", "exact", "--epilogue", "gelu", "--level", "cta"), "the number domain 'exact' has no"),
    ],
)
def test_interpret_refuses_bad_input_with_a_message(options: tuple[str, ...], message: str) -> None:
    assert message in refused("interpret", *SMALL, *options)


def test_interpret_refuses_a_dump_below_nvvm(dump: Path) -> None:
    assert "level llvm is not interpreted" in refused("interpret", str(level_file(dump, "llvm")))


# explain --------------------------------------------------------------------------------------------------------------


def test_explain_prints_reasons_resources_and_accesses() -> None:
    output = accepted("explain", *SMALL, "--schedule", "stages = 3")
    assert re.search(r"^mainloop\.stages +3 +given$", output, re.MULTILINE)
    assert re.search(r"^mainloop\.a\.swizzle .*1-way", output, re.MULTILINE)
    assert re.match(r"\d+ threads, \d+ bytes of shared memory", reported(output, "CTA"))
    assert re.search(r"^a +ldmatrix.x4 reads", output, re.MULTILINE)
    assert re.search(r"^d +st.global.16 writes", output, re.MULTILINE)


def test_explain_shows_a_conflict_with_its_witness() -> None:
    output = accepted("explain", *SMALL, "--schedule", "grid.tile = [64, 64], k = 32, a.swizzle = <0,3,3>")
    row = next(line for line in output.splitlines() if re.match(r"a +ldmatrix", line))
    assert "4-way" in row
    assert "bank 0: lane 0 at byte 0, lane 2 at byte 128, lane 4 at byte 256, lane 6 at byte 384" in row


def test_explain_of_a_dump_names_the_lines_of_its_accesses(dump: Path) -> None:
    file = level_file(dump, "epilogue")
    output = accepted("explain", "--ir", str(file))
    lines = file.read_text().splitlines()
    named = [int(number) for number in re.findall(r"sm?.* line (\d+)", output)]
    assert named
    assert all(re.search(r"sm\.(cp_async|ldmatrix|store|load)", lines[number - 1]) for number in named)
    assert "why: not chosen here" in output


def test_explain_prints_json_and_nothing_else() -> None:
    found = json.loads(accepted("explain", *SMALL, "--json"))
    assert found["format"] == 1
    assert found["problem"]["m"] == 70


@pytest.mark.parametrize("level", ["nvvm", "llvm"])
def test_explain_refuses_levels_below_epilogue(dump: Path, level: str) -> None:
    message = refused("explain", "--ir", str(level_file(dump, level)))
    assert f"level {level} no longer says which access is whose" in message


# the rest -------------------------------------------------------------------------------------------------------------


def test_presets_and_targets_are_listed() -> None:
    presets, targets = accepted("presets"), accepted("targets")
    assert all(re.search(rf"^{name} ", presets, re.MULTILINE) for name in PRESETS)
    assert re.search(r"^sm80-three-stages +sm_80 +a third stage\n +grid\.tile = .*, stages = 3,", presets, re.MULTILINE)
    assert all(re.search(rf"^{target.name} ", targets, re.MULTILINE) for target in KNOWN)


def test_the_console_script_prints_help_and_version() -> None:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "lowtide.compiler.cli.main", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("--version").stdout == "lowtide 0.1.0\n"
    done = run("compile", "--emit", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lowtide: error: unknown level 'nothing'")


def test_what_takes_longer_than_patience_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_console, "_PATIENCE", 0.0)
    with cli_console.busy("waiting") as update:
        update("waiting for [1/2]")
        while not (shown := capsys.readouterr().err):
            pass
    assert shown in ("waiting …\n", "waiting for [1/2] …\n")
    assert cli_compile.busy is cli_console.busy


def test_what_is_quick_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with cli_console.busy("waiting"):
        pass
    assert capsys.readouterr() == ("", "")
