"""The driver: levels, dumps, entry at any of them, reproducers, bad input."""

import os
import re
import shlex
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlir import ir

from lowtide import targets
from lowtide.cli import opt_tool
from lowtide.compiler import driver, whole_files
from lowtide.compiler.attempts import compile_ir
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import Lowered, lower
from lowtide.dialects.levels import Level
from lowtide.errors import CompileError, Error, IRError, PassError, ScheduleError, TargetError
from lowtide.passes.cta.tile_to_ctas import TileToCtas
from lowtide.passes.pipeline import STEPS, Step

IR_LEVELS = [level for level in Level if level is not Level.PTX]


SCHEDULE = "grid = <tile = [64, 64]>, mainloop = <k = 32, stages = 3>, multiply = <atoms = [2, 2, 1]>"
UNPACKED = (
    "grid = <tile = [32, 32]>, mainloop = <k = 32, stages = 3, a = <pack = none>, b = <pack = none>>, "
    "multiply = <atoms = [2, 2, 1]>, epilogue = <pack = none>"
)
BAD_TILE = "grid = <tile = [100, 64]>, mainloop = <k = 32>"


def problem(scale: str = "1.5", schedule: str = SCHEDULE) -> str:
    matrix = "memref<?x?xbf16, strided<[?, 1]>>"
    return f"""module attributes {{tile.level = "problem", tile.target = "sm_80"}} {{
  func.func @gemm(%a: {matrix}, %b: {matrix}, %d: {matrix}) {{
    tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<{schedule}>) {{
    ^bb0(%x: f32):
      %c = arith.constant {scale} : f32
      %s = arith.mulf %x, %c : f32
      %y = arith.truncf %s : f32 to bf16
      tile.yield %y : bf16
    }} : {matrix}, {matrix}, {matrix}
    return
  }}
}}
"""


@dataclass(frozen=True)
class Compiled:
    result: Lowered
    folder: Path

    def files(self) -> list[str]:
        return files_in(self.folder)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("dump")
    return Compiled(lower(problem(), dump_dir=folder), folder)


def test_a_compilation_goes_through_every_level_to_ptx(compiled: Compiled) -> None:
    assert list(compiled.result.levels) == [str(level) for level in Level]
    assert compiled.result.ptx is not None
    assert ".target sm_80" in compiled.result.ptx and "mma.sync" in compiled.result.ptx
    assert compiled.result.levels["ptx"] == compiled.result.ptx
    assert compiled.result.target is targets.get("sm_80")
    for level in IR_LEVELS:
        assert f'tile.level = "{level}"' in compiled.result.levels[str(level)]


def test_dumps_are_numbered_by_level_and_by_place_in_the_table(compiled: Compiled) -> None:
    expected = ["01-problem/00-input.mlir", "09-ptx/kernel.ptx"]
    for level in IR_LEVELS:
        for number, step in enumerate(STEPS[level], 1):
            expected.append(f"{level.value:02d}-{level}/{number:02d}-{step.name}.mlir")
    expected += [str(Path("origins", file).with_suffix(".json")) for file in expected]
    assert compiled.files() == sorted(expected)
    for level in IR_LEVELS:
        last = compiled.folder / f"{level.value:02d}-{level}"
        assert sorted(last.iterdir())[-1].read_text() == compiled.result.levels[str(level)]
    assert (compiled.folder / "09-ptx/kernel.ptx").read_text() == compiled.result.ptx


@pytest.mark.parametrize("level", IR_LEVELS, ids=str)
def test_each_level_reads_back_to_itself(compiled: Compiled, level: Level) -> None:
    text = compiled.result.levels[str(level)]
    assert str(parse_text(text, make_context(), "text")) == text


@pytest.mark.parametrize("level", IR_LEVELS, ids=str)
def test_going_on_from_a_level_gives_the_same_ptx(compiled: Compiled, level: Level) -> None:
    assert compile_ir(compiled.result.levels[str(level)]).ptx == compiled.result.ptx


def test_going_on_from_any_dumped_file_gives_the_same_ptx(compiled: Compiled) -> None:
    """From a file the same text of its level, of which the test above makes the same PTX."""
    files = [Path(name) for name in compiled.files() if name.endswith(".mlir")]
    assert {file.parts[0][3:] for file in files} >= set(map(str, IR_LEVELS))
    for file in files:
        level = file.parts[0][3:]
        found = lower(compiled.folder / file, until=level).levels[level]
        assert found == compiled.result.levels[level], file


@pytest.fixture(scope="module")
def ptx_of_the_edited_problem() -> str | None:
    return compile_ir(problem("2.5")).ptx


@pytest.mark.parametrize("level", IR_LEVELS, ids=str)
def test_a_constant_edited_at_any_level_gives_the_ptx_of_the_problem_so_edited(
    compiled: Compiled, ptx_of_the_edited_problem: str | None, level: Level
) -> None:
    text = compiled.result.levels[str(level)]
    assert text.count("1.500000e+00") == 1
    edited = compile_ir(text.replace("1.500000e+00", "2.500000e+00")).ptx
    assert edited == ptx_of_the_edited_problem
    assert edited != compiled.result.ptx


def test_a_dump_has_the_same_numbers_wherever_it_was_entered(compiled: Compiled, tmp_path: Path) -> None:
    lower(compiled.result.levels["atoms"], dump_dir=tmp_path)
    later = [name for name in compiled.files() if name.removeprefix("origins/") > "06"]
    assert [name for name in files_in(tmp_path) if name.removeprefix("origins/") > "06"] == later
    assert "05-atoms/00-input.mlir" in files_in(tmp_path)


def test_a_level_may_be_where_compiling_ends(compiled: Compiled) -> None:
    result = lower(problem(), until="smem")
    assert list(result.levels) == ["problem", "cta", "smem"]
    assert result.ptx is None
    assert result.levels["smem"] == compiled.result.levels["smem"]


def test_a_path_may_be_a_string(compiled: Compiled) -> None:
    path = str(compiled.folder / "02-cta" / sorted(os.listdir(compiled.folder / "02-cta"))[-1])
    assert lower(path, until=Level.CTA).levels["cta"] == compiled.result.levels["cta"]


def test_a_second_dump_leaves_nothing_of_the_first(compiled: Compiled, tmp_path: Path) -> None:
    lower(problem(), dump_dir=tmp_path)
    mine = tmp_path / "03-smem" / "mine.mlir"
    mine.write_text("kept")
    lower(problem(), dump_dir=tmp_path, until="cta")
    assert {name.split("/")[0] for name in files_in(tmp_path)} == {"01-problem", "02-cta", "03-smem", "origins"}
    assert {name.split("/")[0] for name in files_in(tmp_path / "origins")} == {"01-problem", "02-cta"}
    assert mine.read_text() == "kept"


def test_a_dumped_file_that_is_compiled_into_its_own_folder_stays(tmp_path: Path) -> None:
    lower(problem(), dump_dir=tmp_path, until="atoms")
    last = sorted((tmp_path / "05-atoms").iterdir())[-1]
    text = last.read_text()
    lower(last, dump_dir=tmp_path, until="epilogue")
    assert last.read_text() == text


def test_the_kernel_is_for_the_target_given() -> None:
    text = problem().replace(', tile.target = "sm_80"', "")
    result = lower(text, target="sm_90")
    assert 'tile.target = "sm_90"' in result.levels["problem"]
    assert result.ptx is not None and ".target sm_90\n" in result.ptx


def test_times_and_progress_name_every_step() -> None:
    seen: list[tuple[Level, str]] = []
    result = lower(problem(), on_progress=lambda level, step: seen.append((level, step)))
    assert seen == [(level, step.name) for level, steps in STEPS.items() for step in steps]
    assert {timing.owner for timing in result.timings} == {"lowtide", "mlir", "llvm"}
    assert all(timing.seconds >= 0 for timing in result.timings)
    timed = {timing.step for timing in result.timings}
    assert {"tile-to-ctas", "lower-device-to-llvm", "emit-ptx"} <= timed


def test_two_threads_do_not_disturb_each_other(compiled: Compiled) -> None:
    results: dict[str, str | None] = {}
    scales = ["1.5", "2.5", "3.5", "4.5"]
    threads = [
        threading.Thread(target=lambda scale=scale: results.__setitem__(scale, lower(problem(scale)).ptx))
        for scale in scales
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results["1.5"] == compiled.result.ptx
    assert len(set(results.values())) == len(scales)
    assert results == {scale: lower(problem(scale)).ptx for scale in scales}


# What is refused before anything runs.


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("module {", IRError, r"not a legal module: <text>:1:7: expected operation.*\[text-legal\]"),
        (problem().replace("arith.mulf", "arith.mulx"), IRError, r"<text>:6:12: .*arith.mulx"),
        (problem().replace("tn %a", "tt %a").replace("?x?", "4x8"), IRError, "<text>:3:5: 'tile.gemm' op K is 8 in A"),
        (problem().replace('tile.level = "problem", ', ""), IRError, r"lacks tile.level.*\[module-lacks\]"),
        (problem().replace('"problem"', '"problems"'), IRError, r"unknown level 'problems'.*\[unknown-level\]"),
        (problem().replace('"problem"', '"ptx"'), IRError, r"text, not IR.*\[level-is-text\]"),
        (
            problem().replace(', tile.target = "sm_80"', ""),
            IRError,
            r"no tile.target and no target was given.*\[target-unsaid\]",
        ),
        (problem().replace("sm_80", "sm_81"), TargetError, r"'sm_81'.*\[unknown-target\]"),
        (
            problem().replace('"problem"', '"cta"'),
            IRError,
            r"<text>:3:5: tile.gemm does not belong.*\[past-its-levels\]",
        ),
        (
            problem().replace("{tile.level", '{tile.after = "cse", tile.level'),
            IRError,
            r"\[unknown-step\]",
        ),
    ],
)
def test_a_bad_module_is_refused_with_its_place(text: str, kind: type[Error], message: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=message):
        lower(text)


def test_target_and_module_must_agree() -> None:
    with pytest.raises(IRError, match=r"sm_90.*sm_80.*\[target-differs\]"):
        lower(problem(), target="sm_90")
    with pytest.raises(TargetError, match=r"sm_81.*\[unknown-target\]"):
        lower(problem(), target="sm_81")


def test_a_level_already_passed_is_refused(compiled: Compiled) -> None:
    with pytest.raises(IRError, match=r"\[past-last-level\]"):
        lower(compiled.result.levels["atoms"], until="cta")
    with pytest.raises(IRError, match=r"'asm'.*\[unknown-level\]"):
        lower(problem(), until="asm")


def test_an_edited_level_that_breaks_its_rules_is_refused(compiled: Compiled, tmp_path: Path) -> None:
    path = tmp_path / "edited.mlir"
    path.write_text(compiled.result.levels["pipelined"].replace('tile.level = "pipelined"', 'tile.level = "atoms"'))
    with pytest.raises(
        IRError, match=rf"^{path}:\d+:\d+: \S+ does not belong in device code at level atoms.*\[past-its-levels\]"
    ):
        lower(path)


@pytest.mark.parametrize("source", ["dump", "dump/08-llvm", "gemm.ptx"])
def test_a_string_that_is_neither_text_nor_a_dump_is_refused_with_the_way_out(source: str) -> None:
    with pytest.raises(
        IRError, match=rf"{source!r} is neither the text of a module nor the path of a dump; pass a pa.*\[source-text\]"
    ):
        lower(source)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(IRError, match=r"cannot read .*missing.mlir.*\[source-read\]"):
        lower(tmp_path / "missing.mlir")
    (tmp_path / "binary.mlir").write_bytes(b"\xff\xfe\x00module")
    with pytest.raises(IRError, match=r"cannot read .*binary.mlir.*\[source-read\]"):
        lower(tmp_path / "binary.mlir")


def test_an_unwritable_dump_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran: list[str] = []
    with pytest.raises(Error, match=r"cannot write .*\[file-written\]"):
        lower(problem(), dump_dir=tmp_path / "file" / "dump", on_progress=lambda level, step: ran.append(step))
    assert not ran


def test_nothing_half_written_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "level.mlir"
    path.write_text("old")

    def full(source: str, destination: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_files.os, "replace", full)
    with pytest.raises(Error, match=r"cannot write .*level.mlir: No space left on device.*\[file-written\]"):
        whole_files.write_whole(path, "new")
    assert files_in(tmp_path) == ["level.mlir"] and path.read_text() == "old"


# Failing passes.


def reproduce(message: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Runs the command that an error names; what it printed."""
    command = re.search(r"fails again with: lowtide-opt (.*)$", message)
    assert command is not None, message
    assert opt_tool.main(shlex.split(command[1])) == 1
    return capsys.readouterr().err


def test_a_refusal_names_op_place_and_rule_and_leaves_a_reproducer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((PassError, ScheduleError)) as caught:
        lower(problem(schedule=BAD_TILE), dump_dir=tmp_path)
    path = tmp_path / "reproducer.mlir"
    message = str(caught.value)
    assert re.match(rf"{path}:\d+:\d+: 'tile.gemm': choose-schedule: .*100", message), message
    line, column = map(int, message.removeprefix(f"{path}:").split(":")[:2])
    assert path.read_text().splitlines()[line - 1][column - 1 :].startswith("tile.gemm")
    assert path.read_text().startswith(f"// lowtide-opt {path} --target=sm_80 --pass-pipeline=choose-schedule\n")
    assert f"{path}:{line}:{column}: error: choose-schedule:" in reproduce(message, capsys)


def test_without_a_dump_folder_a_refusal_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with pytest.raises((PassError, ScheduleError), match=r"(?s)^<text>:3:5: 'tile.gemm': .*100.*dump_ir="):
        lower(problem(schedule="grid = <tile = [100, 64]>"))
    path = tmp_path / "edited.mlir"
    path.write_text(problem(schedule="grid = <tile = [100, 64]>"))
    with pytest.raises((PassError, ScheduleError), match=rf"^{path}:3:5: 'tile.gemm': .*\[tile-steps\]"):
        lower(path)
    assert os.listdir(tmp_path / "tmp") == []


def test_without_a_dump_folder_a_fault_has_a_reproducer_in_a_fresh_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(self: TileToCtas, module: ir.Module, target: targets.Target) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr(TileToCtas, "run", crash)
    with pytest.raises(PassError) as caught:
        lower(problem())
    path = Path(re.search(r"IR before it: (.*)", str(caught.value))[1])  # type: ignore[index]
    assert path.is_file()
    reproduce(str(caught.value), capsys)


def test_a_fault_in_a_pass_has_a_reproducer_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: TileToCtas, module: ir.Module, target: targets.Target) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr(TileToCtas, "run", crash)
    with pytest.raises(
        PassError, match=r"tile-to-ctas stopped with AttributeError: no such thing; .*\[pass-stopped\]"
    ) as e:
        lower(problem(), dump_dir=tmp_path)
    assert isinstance(e.value.__cause__, AttributeError)
    assert 'tile.level = "problem"' in (tmp_path / "reproducer.mlir").read_text()


def test_an_op_that_outlives_its_level_is_an_error_of_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "STEPS", {**STEPS, Level.CTA: (Step("cse", "forgets to tile"),)})
    with pytest.raises(
        PassError, match=r"cse: .*tile.gemm does not belong in host code at level cta.*\[past-its-levels\]"
    ) as caught:
        lower(problem(schedule=UNPACKED), dump_dir=tmp_path)
    assert "--pass-pipeline=cse --check-level=cta" in str(caught.value)
    assert "tile.gemm does not belong" in reproduce(str(caught.value), capsys)


def test_what_the_backend_refuses_is_a_compile_error(compiled: Compiled, tmp_path: Path) -> None:
    text = re.sub(
        r"( *)llvm.return\n",
        r'\1"llvm.call_intrinsic"() <{intrin = "llvm.nvvm.no.such", op_bundle_sizes = array<i32>, '
        r"operandSegmentSizes = array<i32: 0, 0>}> : () -> ()\n\1llvm.return\n",
        compiled.result.levels["llvm"],
    )
    with pytest.raises(CompileError, match=r"gpu-module-to-binary.*llvm.nvvm.no.such"):
        lower(text, dump_dir=tmp_path)
    assert not (tmp_path / "09-ptx").exists()


def test_level_llvm_holds_exactly_one_gpu_module() -> None:
    text = 'module attributes {tile.level = "llvm", tile.target = "sm_80"} {}'
    with pytest.raises(CompileError, match=r"level llvm has 0 gpu.module.*\[one-gpu-module\]"):
        lower(text)


def test_a_text_that_does_not_read_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    first = lower(problem(), until="cta").levels["cta"]
    other = first.replace("64, 64", "64, 128")
    real = driver.parse_text

    def misread(text: str, context: ir.Context, name: str) -> ir.Module:
        return real(other if text == first else text, context, name)

    monkeypatch.setattr(driver, "parse_text", misread)
    with pytest.raises(PassError, match=r"level cta does not read back as it was printed.*\[level-reads-back\]"):
        lower(problem(), until="cta")


@pytest.mark.parametrize("level", [level for level in Level if level <= Level.EPILOGUE], ids=str)
def test_an_edited_schedule_is_verified_on_entry(compiled: Compiled, level: Level) -> None:
    text = compiled.result.levels[str(level)]
    assert "stages = 3" in text
    by = "choose-schedule" if level is Level.PROBLEM else "verify-schedule"
    with pytest.raises((PassError, ScheduleError), match=rf"{by}: .*stages.*\[stages-range\]"):
        lower(text.replace("stages = 3", "stages = 300"))
