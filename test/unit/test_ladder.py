"""`lowtide ladder` and `lowtide bench`: steps compiled and verified, tables, charts, and what a machine cannot do."""

import math
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import lowtide as lt
from lowtide.cli import bench as cli_bench
from lowtide.cli import ladder as cli_ladder
from lowtide.cli.main import app
from lowtide.compiler.cubin import instruction_count
from lowtide.compiler.presets import Preset, ladder_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CompileError, DeviceError, InterpreterError
from lowtide.measurement.bench import contest, ladder
from lowtide.measurement.bench.bar_chart import svg, text_bars
from lowtide.measurement.bench.gpu_timing import Contender
from lowtide.passes.schedules.facts.resources import threads_of
from lowtide.targets.atoms import WARPGROUP_THREADS

PEER = "torch.matmul (cuBLAS)"

SMALL = Schedule().with_(grid_tile=(64, 64), k=32, atoms=(2, 2, 1), stages=2, target="sm_80")
STEPS = {
    "first": Preset(SMALL, "sm_80", "a small tile"),
    "second": Preset(SMALL.with_(stages=3), "sm_80", "a third stage"),
}
PROBLEM = ("--m", "256", "--n", "256", "--k", "256")
SECONDS = {"torch.matmul": 1.0, "first": 4.0, "second": 2.0, "lowtide chosen": 0.5}


def lowtide(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def no_torch() -> Any:
    raise DeviceError("torch is not installed, but timing needs it; install torch with CUDA")


@pytest.fixture
def two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_ladder, "ladder_of", lambda target, dtype: STEPS)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cli_ladder, cli_bench, contest):
        monkeypatch.setattr(module, "torch_with_gpu", no_torch)


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A GPU on which everyone takes SECONDS and bursts at twice the speed. Gives a function that makes one wrong."""
    wrong: set[str] = set()
    cuda = SimpleNamespace(get_device_name=lambda: "Fake GPU", synchronize=lambda: None)
    torch = SimpleNamespace(cuda=cuda, __version__="9.9", backends=SimpleNamespace(cuda=SimpleNamespace(matmul=None)))

    def race(contenders: list[Contender], sets: int, rounds: int, seed: int, *more: Any) -> None:
        for one in contenders:
            one.sustained += [SECONDS[one.name]] * rounds
            one.burst += [SECONDS[one.name] / 2] * rounds

    for module in (cli_ladder, cli_bench, contest):
        monkeypatch.setattr(module, "torch_with_gpu", lambda: torch)
    monkeypatch.setattr(contest, "operand_sets", lambda *given: [SimpleNamespace()])
    monkeypatch.setattr(contest, "exact_product", lambda *given: SimpleNamespace(operands=SimpleNamespace()))
    monkeypatch.setattr(contest, "exact_complaint", lambda one, *given: "off by one" if one.name in wrong else "")
    monkeypatch.setattr(contest, "complaint", lambda *given, **more: "")
    monkeypatch.setattr(contest, "race", race)
    monkeypatch.setattr(ladder, "run_on_gpu", computed_by_numpy)
    return wrong.add


def computed_by_numpy(kernel: Any, spec: Any, inputs: Any) -> Any:
    a, b = (inputs[name].astype(np.float64) for name in "ab")
    return SimpleNamespace(d=a @ b.T, complaint="")


def test_a_step_is_judged_by_its_amax_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "run_on_gpu", computed_by_numpy)
    spec = lt.GemmSpec(m=8, n=8, k=8, a="bf16", b="bf16", d="f32")
    found = [ladder.verify(replace(spec, amax=amax), None, 0, True).message for amax in (False, True)]  # type: ignore[arg-type]
    assert found[0].startswith("all 64 elements") and found[1].startswith("the amax is")


def rows_of(output: str) -> dict[str, list[str]]:
    """Cells by step, of the table, whose columns stand two spaces apart."""
    found = (re.split(r" {2,}", line) for line in output.splitlines())
    return {cells[0]: cells[1:] for cells in found if len(cells) > 4}


# The ladder -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("two_steps", "no_gpu")
def test_without_a_gpu_each_step_is_verified_and_nothing_is_timed(tmp_path: Path) -> None:
    page = tmp_path / "ladder.md"
    result = lowtide("ladder", *PROBLEM, "--markdown", str(page), "--seed", "3")
    assert result.exit_code == 0, result.output
    rows = rows_of(result.stdout)
    assert rows["first"][0] == rows["second"][0] == "ok"
    assert rows["second"][-1] == "a third stage"
    # Two and three stages of 64×32 of A and of B.
    scratch = int(rows["first"][3]) - 2 * 8192
    assert int(rows["second"][3]) == max(3 * 8192 + scratch, int(rows["first"][3]))
    assert re.search(r"^time +nothing was timed: torch is not installed", result.stdout, re.MULTILINE)
    assert re.search(r"^verified +264x72x136 .*on the interpreter", result.stdout, re.MULTILINE)
    assert page.read_text(encoding="utf-8").startswith("| step | result | threads |")


@pytest.mark.usefixtures("two_steps")
def test_with_a_gpu_each_step_has_its_speed_and_two_ratios(fake_gpu: Callable[[str], None], tmp_path: Path) -> None:
    page, chart = tmp_path / "ladder.md", tmp_path / "ladder.svg"
    result = lowtide("ladder", *PROBLEM, "--markdown", str(page), "--chart", str(chart))
    assert result.exit_code == 0, result.output
    rate = 2 * 256**3 / 1e12
    cells = [line.split(" | ") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    by_name = {line[0].removeprefix("| "): line[1:] for line in cells}
    assert [by_name["first"][i].split()[0] for i in (1, 4)] == ["0.250", "0.250"]
    assert by_name["first"][2] == by_name["first"][5] == ""
    assert [by_name["second"][i].split()[0] for i in (1, 2, 4, 5)] == ["0.500", "2.000", "0.500", "2.000"]
    assert by_name["second"][0] == f"{rate / 2:.1f} ({rate / 2:.1f} … {rate / 2:.1f})"
    assert by_name["torch.matmul (cuBLAS)"][1] == "1.000 (1.000 … 1.000)"
    assert "Fake GPU, torch 9.9" in page.read_text(encoding="utf-8")
    ElementTree.fromstring(chart.read_text(encoding="utf-8"))
    assert list(rows_of(result.stdout))[1:4] == ["first", "second", "torch.matmul (cuBLAS)"]


@pytest.mark.usefixtures("two_steps")
def test_a_step_that_is_wrong_at_the_whole_problem_is_not_timed(fake_gpu: Callable[[str], None]) -> None:
    fake_gpu("first")
    result = lowtide("ladder", *PROBLEM)
    assert result.exit_code == 1
    assert "first: left out: off by one" in result.stderr
    table = [line.split() for line in result.stdout.splitlines()]
    assert next(line for line in table if line[:1] == ["first"])[1] == "wrong"
    assert "0.500" in next(line for line in table if line[:1] == ["second"])


@pytest.mark.usefixtures("two_steps")
def test_a_store_past_the_edge_of_the_small_problem_makes_a_step_wrong(
    fake_gpu: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def spilling(kernel: Any, spec: Any, inputs: Any) -> Any:
        return SimpleNamespace(d=computed_by_numpy(kernel, spec, inputs).d, complaint="bytes past D were written")

    monkeypatch.setattr(ladder, "run_on_gpu", spilling)
    result = lowtide("ladder", *PROBLEM)
    assert result.exit_code == 1
    assert re.search(r"^wrong +second: bytes past D were written$", result.stdout, re.MULTILINE)


@pytest.mark.usefixtures("no_gpu")
def sums(preset: Preset) -> int:
    """Of a tile, held by each thread of the consumers that share it."""
    return math.prod(preset.schedule.grid.tile or ()) // (
        WARPGROUP_THREADS * (preset.schedule.agents.consumer.warpgroups or 1)
    )


@pytest.mark.parametrize("name", [name for name, step in ladder_of("sm_90a").items() if sums(step) >= 192])
@pytest.mark.parametrize("whole", [False, True], ids=["small", "whole"])
def test_no_step_whose_sums_leave_few_registers_spills_at_the_sizes_of_the_ladder(name: str, whole: bool) -> None:
    preset = ladder_of("sm_90a")[name]
    spec = lt.GemmSpec(m=4096, n=4096, k=4096, a="bf16", b="bf16", d="bf16")
    assembly = ladder.compiled(spec if whole else ladder.small_problem(spec, preset), name, preset).assembly
    assert assembly is not None and (assembly.spill_stores, assembly.spill_loads, assembly.warnings) == (0, 0, ())


def test_a_step_that_is_refused_stands_in_the_table_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = STEPS | {"third": Preset(SMALL.with_(stages=1), "sm_80", "nothing")}
    monkeypatch.setattr(cli_ladder, "ladder_of", lambda target, dtype: broken)
    result = lowtide("ladder", *PROBLEM)
    assert result.exit_code == 1
    assert re.search(r"^refused +third: .*stages = 1", result.stdout, re.MULTILINE)
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "sm_86"), "no preset names sm_86 for bf16"),
        (("--target", "sm_99"), "unknown target 'sm_99'"),
        (("--chart", "x.svg"), "--chart draws speeds, but nothing can be timed: torch is not installed"),
        (("--dtype", "i32"), "unknown dtype 'i32'"),
    ],
)
def test_the_ladder_refuses(arguments: tuple[str, ...], message: str) -> None:
    result = lowtide("ladder", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("lowtide: error: ") and message in result.stderr


@pytest.mark.parametrize("option", ["--markdown", "--chart"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_timed(
    option: str, fake_gpu: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def climb(*given: Any) -> Any:
        raise AssertionError("a step was compiled")

    monkeypatch.setattr(ladder, "climb", climb)
    (tmp_path / "file").write_text("", encoding="utf-8")
    for path in (tmp_path, tmp_path / "file" / "below"):
        result = lowtide("ladder", *PROBLEM, option, str(path))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"lowtide: error: cannot write {path}; name a file in a writable folder")


@pytest.mark.usefixtures("two_steps", "no_gpu")
def test_a_page_is_written_into_a_folder_that_is_made(tmp_path: Path) -> None:
    page = tmp_path / "new" / "ladder.md"
    assert lowtide("ladder", *PROBLEM, "--markdown", str(page)).exit_code == 0
    assert [path.name for path in page.parent.iterdir()] == ["ladder.md"]


@pytest.mark.usefixtures("two_steps", "no_gpu")
def test_several_types_are_several_ladders_in_one_page(tmp_path: Path) -> None:
    page = tmp_path / "ladder.md"
    result = lowtide("ladder", *PROBLEM, "--dtype", "f16", "--dtype", "bf16", "--markdown", str(page))
    assert result.exit_code == 0, result.output
    assert re.findall(r"^problem +(\w+)", result.stdout, re.MULTILINE) == ["f16", "bf16"]
    assert page.read_text(encoding="utf-8").count("| second | ok |") == 2


@pytest.mark.usefixtures("two_steps")
def test_a_chart_is_of_one_ladder(fake_gpu: Callable[[str], None], tmp_path: Path) -> None:
    result = lowtide("ladder", "--dtype", "f32", "--dtype", "bf16", "--chart", str(tmp_path / "x.svg"))
    assert result.exit_code == 2
    assert "--chart draws one ladder and its peer; give one --dtype" in result.stderr


@pytest.mark.usefixtures("two_steps", "no_gpu")
def test_a_step_that_breaks_a_rule_of_the_hardware_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interpret(*given: Any, **named: Any) -> Any:
        raise InterpreterError("deadlock: warp 4 waits on full[0]\n  and more of it")

    monkeypatch.setattr(ladder, "interpret", interpret)
    result = lowtide("ladder", *PROBLEM)
    assert result.exit_code == 1
    assert re.search(r"^failed +second: deadlock: warp 4 waits on full\[0\]$", result.stdout, re.MULTILINE)


# bench ----------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_gpu")
def test_bench_without_a_gpu_says_what_is_missing() -> None:
    result = lowtide("bench", *PROBLEM)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("lowtide: error: torch is not installed")


def test_bench_prints_sustained_and_burst(fake_gpu: Callable[[str], None]) -> None:
    result = lowtide("bench", *PROBLEM, "--no-cublaslt", "--rounds", "2")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("lowtide chosen") == 2
    assert result.stdout.count("2.000 (2.000 … 2.000)") == 4
    assert result.stdout.index("\nsustained") < result.stdout.index("\nburst")


def test_bench_and_the_ladder_refuse_sums_that_torch_does_not_have(fake_gpu: Callable[[str], None]) -> None:
    for command in ("bench", "ladder"):
        result = lowtide(command, *PROBLEM, "--dtype", "f16", "--acc", "f16", "--target", "sm_80")
        assert result.exit_code == 2
        assert "torch 9.9 has no setting to sum products of f16 in f16" in result.stderr


def test_bench_times_no_wrong_kernel(fake_gpu: Callable[[str], None]) -> None:
    fake_gpu("lowtide chosen")
    result = lowtide("bench", *PROBLEM, "--no-cublaslt")
    assert result.exit_code == 1
    assert "lowtide chosen: left out: off by one" in result.stderr
    assert "lowtide chosen" not in result.stdout


def test_a_gpu_whose_torch_is_wrong_is_not_trusted(
    fake_gpu: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_gpu("torch.matmul")
    within = lowtide("bench", *PROBLEM, "--no-cublaslt")
    assert within.exit_code == 0
    assert "takes part, within the bound of sums of parts of K in bf16: off by one" in within.stderr
    wrong = {"torch.matmul": "far off"}
    monkeypatch.setattr(contest, "complaint", lambda one, *given, **more: wrong.get(one.name, ""))
    result = lowtide("bench", *PROBLEM, "--no-cublaslt")
    assert result.exit_code == 2
    assert "torch.matmul's own result is wrong" in result.stderr


# Charts and counts ----------------------------------------------------------------------------------------------------

BARS = [("one", 100.0, 200.0), ("two & more", 300.0, 400.0), ("torch", 200.0, 250.0)]


def test_text_bars_are_as_long_as_their_figures() -> None:
    lines = text_bars(BARS).splitlines()
    assert [line.split()[-1] for line in lines] == ["100", "300", "200"]
    assert [line.count("█") for line in lines] == [16, 48, 32]
    assert len({line.index("█") for line in lines}) == 1


def test_the_chart_has_every_name_figure_and_word_of_its_title() -> None:
    title = "a < b, and a title that is much too long for one line of any chart that has the width of this one"
    root = ElementTree.fromstring(svg(title, "TFLOP/s", BARS))
    texts = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"one", "two & more", "torch", "TFLOP/s", "sustained", "burst"} <= set(texts)
    assert {f"{figure:.0f}" for _, *figures in BARS for figure in figures} <= set(texts)
    assert set(title.split()) <= {word for text in texts for word in text.split()}
    assert max(map(len, texts)) < 72


def test_the_same_figures_give_the_same_chart() -> None:
    assert svg("title", "TFLOP/s", BARS) == svg("title", "TFLOP/s", BARS)


@pytest.mark.usefixtures("two_steps")
def test_without_matplotlib_a_chart_is_refused_before_anything_is_timed(
    fake_gpu: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import of it then fails; others do not
    result = lowtide("ladder", *PROBLEM, "--chart", str(tmp_path / "ladder.svg"))
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert "pip install 'lowtide[bench]'" in result.stderr


def elf(sections: dict[str, int]) -> bytes:
    """A 64-bit ELF file with sections of these names and sizes."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in [*sections, ".shstrtab"])
    table = 64 + len(names)
    entries, place = [], 1
    for name, size in sections.items():
        entries.append(struct.pack("<IIQQQQIIQQ", place, 1, 0, 0, 0, size, 0, 0, 0, 0))
        place += len(name) + 1
    entries.append(struct.pack("<IIQQQQIIQQ", place, 3, 0, 0, 64, len(names), 0, 0, 0, 0))
    head = b"\x7fELF\x02".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, table, 0, 64, 0, 0, 64, len(entries), len(entries) - 1)
    return head + names + b"".join(entries)


def test_what_a_step_takes_is_that_of_the_launch_that_multiplies() -> None:
    """The last launch copies D to where it belongs."""
    preset = ladder_of("sm_90a", "bf16")["sm90-packed-rows"]
    kernel = lt.compile_gemm(preset.spec(None), preset.target, preset.schedule)
    launches = [entry["attributes"] for entry in kernel.manifest["host"] if entry["op"] == "tile.launch"]
    taken = ladder.resources_of(kernel)
    assert taken.threads == threads_of(preset.schedule) != launches[-1]["block"][0]
    assert taken.shared_memory == max(launch["shared_memory"] for launch in launches) > 0
    if kernel.assembly is not None:
        assert taken.instructions is not None
        assert 0 < taken.instructions < instruction_count(kernel.assembly.cubin)


def test_instructions_are_counted_in_the_sections_of_code() -> None:
    assert instruction_count(elf({".text.gemm_kernel": 160, ".nv.info": 320, ".text.other": 32})) == 12


@pytest.mark.parametrize("broken", [b"", b"PTX", elf({".text.a": 16})[:-8]])
def test_what_is_no_cubin_is_refused(broken: bytes) -> None:
    with pytest.raises(CompileError, match=r"machine code.*\[cubin-read\]"):
        instruction_count(broken)


def test_cublaslts_best_is_the_last_row_and_the_last_bar() -> None:
    def contender(name: str, sustained: float, burst: float) -> Contender:
        return Contender(name, lambda i: None, [sustained], [burst])

    peers = (contender("id 1", 0.5, 0.8), contender("id 2", 0.8, 0.4))
    standings = contest.Standings(1e12, contender("torch.matmul", 1.0, 1.0), peers, 7, ())
    rows = ladder.timed_rows([], standings, with_intervals=False)
    assert rows[-2:] == [
        (PEER, "1.0", "1.000", "", "1.0", "1.000", "", ""),
        ("cuBLASLt best of 7", "2.0", "2.000", "", "2.5", "2.500", "", ""),
    ]
    assert ladder.bars([], standings) == [(PEER, 1.0, 1.0), ("cuBLASLt best of 7", 2.0, 2.5)]
