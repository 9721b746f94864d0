"""`lowtide run`: where it ran, what it reports, and what it refuses."""

import re
from pathlib import Path
from typing import Any

import pytest
from cli_calls import RUN, SMALL, accepted, fake_gpu, level_file, lowtide, refused, reported

from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import DeviceError
from lowtide.runtime import driver
from lowtide.runtime.driver import Device


def test_run_reports_where_it_ran_the_schedule_the_error_and_the_time() -> None:
    output = accepted(*RUN, "--seed", "7")
    assert reported(output, "problem") == "bf16 tn 70x50x40 to bf16, f32 accumulators"
    assert reported(output, "ran") == "on the interpreter, level smem, 2 SMs (as asked)"
    schedule = re.search(r"^schedule +(#tile\.schedule<.*?)^ran ", output, re.MULTILINE | re.DOTALL)
    assert schedule is not None and Schedule.parse(schedule[1]).grid.tile is not None
    assert re.match(r"ok: all 3500 elements within bound; the worst error is 0\.\d+ of it", reported(output, "result"))
    assert re.match(r"[\d.]+ m?s on the CPU", reported(output, "time"))
    assert reported(output, "seed") == "7"


@pytest.mark.parametrize(
    ("options", "problem", "elements"),
    [
        (("--batch", "2"), "2 of 70x50x40 to bf16", 7000),
        (("--batch", "2", "--dynamic"), "2 of 70x50x40 to bf16", 7000),
        (("--d-order", "column"), "70x50x40 to bf16 by columns", 3500),
    ],
)
def test_run_takes_batches_and_d_by_columns(options: tuple[str, ...], problem: str, elements: int) -> None:
    output = accepted(*RUN, *options)
    assert reported(output, "problem") == f"bf16 tn {problem}, f32 accumulators"
    assert reported(output, "result").startswith(f"ok: all {elements} elements within bound")


def test_run_takes_packed_weights() -> None:
    weights = ("--b", "s4", "--group", "32", "--zero-points")
    output = accepted("run", "--m", "5", "--n", "48", "--k", "64", *weights, "--target", "sm_80", "--level", "cta")
    assert reported(output, "result").startswith("ok: all 240 elements within bound")


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


def test_run_judges_the_amax_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(accepted(*RUN, "--amax"), "result").startswith("ok: all 3500 elements")
    fake_gpu(monkeypatch)  # it leaves the amax of before
    result = lowtide("run", *SMALL, "--amax")
    assert result.exit_code == 1
    assert reported(result.stdout, "result").startswith("WRONG: the amax is")


def test_run_compares_some_rows_of_a_large_product(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch)
    monkeypatch.setattr("lowtide.verification.checking.verdicts._MOST_PRODUCTS", 50 * 40 * 20)
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
        (("--dtype", "float16"), "unknown dtype 'float16' for a: valid are f16, bf16, tf32, f32, f64, "),
        (("--layout", "tm"), "unknown layout 'tm'"),
        (("--target", "sm_81"), "unknown target 'sm_81'; known are sm_80"),
        (("--acc", "f16"), "f16 accumulators take f16 inputs only"),
        (("--epilogue", "bias-rely"), "did you mean 'bias-relu'?"),
        (("--m", "-1"), "m is -1; it must be at least 0, or None for a run-time argument"),
        (("--n", "2147483648"), "n is 2147483648; extents are 0 to 2**31-1"),
        (("--m", "2000000000", "--n", "2000000000"), "of host memory to make and to check"),
        (("--schedule", "sm80-swizled"), "did you mean 'sm80-swizzled'?"),
        (("--schedule", "grid.tile = 3"), "'grid.tile = 3' is not a schedule: expected '['"),
        (("--schedule", "tiles = [64, 64]"), "unknown schedule field 'tiles'; the fields are grid.tile, grid.cluster,"),
        (("--schedule", "grid.tile = [100, 128], k = 32, atoms = [2, 2, 1]"), "100 is not a multiple of"),
        (("--schedule", "grid.tile = [128, 128], k = 32, stages = 30"), "bytes of shared memory"),
        (("--schedule", "grid.tile = [256, 256], k = 32, atoms = [8, 8, 1]"), "at most 1024 per CTA"),
        (("--level", "ctas"), "unknown level 'ctas'; the levels are problem"),
        (
            ("--m", "9000", "--n", "9000", "--level", "nvvm", "--k", "9000"),
            "more than 10 min: take a GPU, a smaller problem, an earlier level (--level problem), or --force",
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
    monkeypatch.setattr("lowtide.verification.checking.interpretation.LONGEST_SECONDS", 1e-6)
    assert "take a GPU, a smaller problem, or --force" in refused(*RUN)
    accepted(*RUN, "--force")


def test_a_dump_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    for command in (RUN, ("compile", *SMALL)):
        assert f"cannot write {occupied}/dump" in refused(*command, "--dump-ir", str(occupied / "dump"))
    assert occupied.read_text() == ""
