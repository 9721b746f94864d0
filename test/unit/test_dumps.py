"""Dump folders: one compilation at a time, whose result no other one can change; files whole or not at all."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from mlir import ir

from lowtide.compiler import driver, dumps
from lowtide.compiler.attempts import compile_ir
from lowtide.compiler.driver import lower
from lowtide.compiler.dumps import DumpFolder
from lowtide.compiler.whole_files import write_whole
from lowtide.dialects.levels import Level
from lowtide.errors import Error, IRError

SCHEDULE = "#tile.schedule<grid = <tile = [64, 64]>, mainloop = <k = 32, stages = 3>>"


def problem(scale: str) -> str:
    matrix = "memref<?x?xbf16, strided<[?, 1]>>"
    return f"""module attributes {{tile.level = "problem", tile.target = "sm_80"}} {{
  func.func @gemm(%a: {matrix}, %b: {matrix}, %d: {matrix}) {{
    tile.gemm tn %a, %b into %d acc(f32) schedule({SCHEDULE}) {{
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


def test_a_dump_that_another_replaces_at_once_does_not_change_the_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = compile_ir(problem("1.5")), compile_ir(problem("2.5"))
    by_text = {mine.levels[level]: other.levels[level] for level in mine.levels}

    def write_and_lose(path: Path, text: str) -> None:
        write_whole(path, by_text.get(text, text))

    monkeypatch.setattr(driver, "write_whole", write_and_lose)
    assert compile_ir(problem("1.5"), dump_dir=tmp_path).ptx == mine.ptx
    assert (tmp_path / "09-ptx" / "kernel.ptx").read_text() == other.ptx  # the fault was planted


def test_a_folder_in_use_is_refused_and_its_user_undisturbed(tmp_path: Path) -> None:
    expected = compile_ir(problem("1.5"))
    met: list[str] = []

    def meanwhile(level: Level, step: str) -> None:
        with pytest.raises(
            Error, match=rf"another compilation is dumping into {tmp_path}; name another folder.*\[dump-locked\]"
        ):
            lower(problem("2.5"), dump_dir=tmp_path, until="cta")
        met.append(step)

    assert compile_ir(problem("1.5"), dump_dir=tmp_path, on_progress=meanwhile).ptx == expected.ptx
    assert met
    for level, text in expected.levels.items():
        assert sorted(tmp_path.glob(f"*-{level}/*"))[-1].read_text() == text
    lower(problem("2.5"), dump_dir=tmp_path, until="cta")  # free again


def test_threads_that_share_a_folder_get_their_own_code_or_a_refusal(tmp_path: Path) -> None:
    scales = [f"{number}.5" for number in range(1, 5)]
    expected = {scale: compile_ir(problem(scale)).ptx for scale in scales}
    wrong: list[str] = []
    refused: list[str] = []
    together = threading.Barrier(len(scales))

    def work(scale: str) -> None:
        together.wait()
        for _ in range(3):
            try:
                if compile_ir(problem(scale), dump_dir=tmp_path).ptx != expected[scale]:
                    wrong.append(scale)
            except Error as error:
                (refused if "another compilation is dumping" in str(error) else wrong).append(str(error))

    threads = [threading.Thread(target=work, args=(scale,)) for scale in scales]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(refused) < 3 * len(scales)


HOLD = """
import sys, time
from lowtide.compiler.dumps import DumpFolder
with DumpFolder(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_another_process_keeps_the_folder_until_it_ends_however_it_ends(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(Error, match=r"another compilation is dumping into.*\[dump-locked\]"):
            lower(problem("1.5"), dump_dir=tmp_path, until="cta")
        holder.send_signal(signal.SIGKILL)
    lower(problem("1.5"), dump_dir=tmp_path, until="cta")


def test_a_folder_is_free_again_after_a_refusal(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(IRError, match=r"not a legal module.*\[text-legal\]"):
            lower("module {", dump_dir=tmp_path)


def test_locations_name_the_dumped_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    real = driver.parse_text

    def parse(text: str, context: ir.Context, name: str) -> ir.Module:
        module = real(text, context, name)
        names.append(module.body.operations[0].location.filename)
        return module

    monkeypatch.setattr(driver, "parse_text", parse)
    lower(problem("1.5"), dump_dir=tmp_path, until="cta")
    assert names == [str(max((tmp_path / level).iterdir())) for level in ("01-problem", "02-cta")]


@pytest.mark.parametrize("path", ["a\0b", "file/below", "file"])
def test_a_folder_that_cannot_be_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(Error, match=r"the name of the dump folder is empty.*\[dump-name\]"):
        lower(problem("1.5"), dump_dir="")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(Error, match=r"\[file-written\]"):
        lower(problem("1.5"), dump_dir=f"{tmp_path}/{path}")
    assert os.listdir(tmp_path) == ["file"]


def test_an_interrupt_at_any_point_of_writing_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "level.mlir"
    path.write_text("old")

    def interrupted(*arguments: object, **keywords: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dumps.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "new")
    assert os.listdir(tmp_path) == ["level.mlir"] and path.read_text() == "old"


def test_writing_follows_a_link_and_spares_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "text"
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    read: list[str] = []
    reader.start()
    write_whole(tmp_path / "pipe", "through")
    reader.join()
    assert read == ["through"] and (tmp_path / "pipe").is_fifo()


def test_the_folder_is_probed_without_touching_a_file_of_that_name(tmp_path: Path) -> None:
    (tmp_path / ".writable").write_text("mine")
    with DumpFolder(tmp_path):
        pass
    assert (tmp_path / ".writable").read_text() == "mine"
