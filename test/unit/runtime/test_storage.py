"""Saved kernels on disk: whole, checked, replaced only when they are ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sample_kernel import PTX, cubin_of, sample_manifest

from lowtide import runtime
from lowtide.errors import LoadError
from lowtide.runtime import storage

CUBIN = cubin_of(sample_manifest())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return runtime.save(tmp_path / "gemm", sample_manifest(), PTX, CUBIN)


def test_a_saved_kernel_loads_as_it_was(saved: Path) -> None:
    kernel = runtime.load(saved)
    assert (kernel.ptx, kernel.cubin, kernel.name) == (PTX, CUBIN, "gemm")
    assert {k: v for k, v in kernel.manifest.items() if k != "files"} == sample_manifest()


def test_saving_again_replaces_the_kernel_and_leaves_nothing_beside_it(saved: Path) -> None:
    runtime.load(saved).save(saved)
    storage.save(saved, {**sample_manifest(), "name": "other"}, PTX, None)
    assert runtime.load(saved).name == "other"
    assert runtime.load(saved).cubin is None
    assert os.listdir(saved.parent) == ["gemm"]
    assert sorted(os.listdir(saved)) == ["kernel.ptx", "manifest.json"]


def test_missing_parents_are_made(tmp_path: Path) -> None:
    assert runtime.load(runtime.save(tmp_path / "x" / "y", sample_manifest(), PTX, None)).cubin is None


def test_a_directory_that_is_not_a_saved_kernel_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("all of it")
    (tmp_path / "file").write_text("text")
    for name in ("home", "file"):
        with pytest.raises(LoadError, match=r"not a saved kernel; choose another path.*\[save-over-other\]"):
            runtime.save(tmp_path / name, sample_manifest(), PTX, None)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "all of it"
    assert sorted(os.listdir(tmp_path)) == ["file", "home"]


def test_a_saved_kernel_with_files_of_someone_else_is_not_replaced(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(LoadError, match=r"\[save-over-other\]"):
        runtime.save(saved, sample_manifest(), PTX, None)


def test_an_invalid_manifest_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"format 7.*\[manifest-format\]"):
        runtime.save(tmp_path / "k", {**sample_manifest(), "format": 7}, PTX, None)
    assert os.listdir(tmp_path) == []


def test_a_disk_that_fills_leaves_the_old_kernel_and_nothing_else(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "kernel.cubin":
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LoadError, match=r"No space left on device; choose a path.*\[save-write\]"):
        runtime.save(saved, {**sample_manifest(), "name": "other"}, PTX, CUBIN)
    assert os.listdir(saved.parent) == ["gemm"]
    assert runtime.load(saved).name == "gemm"


def test_a_rename_that_fails_puts_the_old_kernel_back(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace
    refused: list[Any] = []

    def refuse(source: Any, target: Any) -> None:
        if Path(target) == saved and not refused:
            refused.append(source)
            raise OSError(1, "Operation not permitted")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(LoadError, match=r"Operation not permitted.*\[save-write\]"):
        runtime.save(saved, {**sample_manifest(), "name": "other"}, PTX, None)
    assert refused
    assert runtime.load(saved).name == "gemm"
    assert os.listdir(saved.parent) == ["gemm"]


def test_an_interrupt_between_the_renames_puts_the_old_kernel_back(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace
    interrupted: list[Any] = []

    def interrupt(source: Any, target: Any) -> None:
        replace(source, target)
        if Path(source) == saved and not interrupted:
            interrupted.append(source)
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        runtime.save(saved, {**sample_manifest(), "name": "other"}, PTX, None)
    assert runtime.load(saved).name == "gemm"
    assert os.listdir(saved.parent) == ["gemm"]


def test_a_link_to_a_saved_kernel_is_followed(saved: Path, tmp_path: Path) -> None:
    for name in ("gemm", "new"):
        link = tmp_path / f"to-{name}"
        link.symlink_to(name)
        assert runtime.save(link, {**sample_manifest(), "name": "other"}, PTX, None) == link
        assert link.is_symlink()
        assert runtime.load(link).name == runtime.load(tmp_path / name).name == "other"
    assert sorted(os.listdir(tmp_path)) == ["gemm", "new", "to-gemm", "to-new"]


@pytest.mark.parametrize("path", [".", "..", "../..", "/"])
def test_the_working_directory_is_not_replaced(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    with pytest.raises(
        LoadError,
        match=r"cannot save to .*: it is the working directory, or holds it; name a folder.*\[save-over-cwd\]",
    ):
        runtime.save(path, sample_manifest(), PTX, None)
    assert (tmp_path / "a" / "b").is_dir()


def test_a_name_as_long_as_the_file_system_allows_is_saved_and_a_longer_one_refused(tmp_path: Path) -> None:
    runtime.load(runtime.save(tmp_path / ("k" * 255), sample_manifest(), PTX, None))
    with pytest.raises(LoadError, match=r"cannot save to .*: File name too long; choose a path.*\[save-write\]"):
        runtime.save(tmp_path / ("k" * 256), sample_manifest(), PTX, None)


def test_a_load_in_the_midst_of_a_save_waits_for_it(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two renames there is no folder; then a reader has the old one open, whose files are gone."""
    replace = os.replace
    during: list[Any] = []

    def slow(source: Any, target: Any) -> None:
        replace(source, target)
        if Path(source) == saved:
            reader = threading.Thread(target=lambda: during.append(runtime.load(saved).name))
            reader.start()
            readers.append(reader)
            time.sleep(0.1)

    readers: list[threading.Thread] = []
    monkeypatch.setattr(os, "replace", slow)
    runtime.save(saved, {**sample_manifest(), "name": "other"}, PTX, None)
    for reader in readers:
        reader.join()
    assert during == ["other"]


def test_a_load_whose_folder_is_replaced_under_it_reads_the_new_one_whole(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = storage._read_bytes
    other = {**sample_manifest(), "name": "other"}

    def replace_first(source: Path, folder: int, name: str) -> bytes:
        if name == "kernel.ptx" and runtime.save in pending:
            pending.clear()
            runtime.save(saved, other, PTX + "// other\n", None)
        return read(source, folder, name)

    pending: list[Any] = [runtime.save]
    monkeypatch.setattr(storage, "_read_bytes", replace_first)
    kernel = runtime.load(saved)
    assert (kernel.name, kernel.ptx, kernel.cubin) == ("other", PTX + "// other\n", None)


WORK = """
import sys
sys.path.insert(0, sys.argv[4])
from sample_kernel import ptx_of, sample_manifest
from lowtide import runtime
path, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
manifest = {**sample_manifest(), "name": name}
manifest["host"][-1]["attributes"]["kernel"] = name
ptx = ptx_of(manifest)
runtime.save(path, manifest, ptx, None)
print("started", flush=True)
sys.stdin.readline()
for _ in range(rounds):
    runtime.save(path, manifest, ptx, None)
    kernel = runtime.load(path)
    assert kernel.program.launches[0].kernel == kernel.name, kernel.name
    assert f".entry {kernel.name}(" in kernel.ptx
"""


def test_processes_that_save_to_one_path_and_load_from_it_see_whole_kernels(tmp_path: Path) -> None:
    path, here = tmp_path / "shared", str(Path(__file__).parent)
    command = [sys.executable, "-c", WORK, str(path)]
    workers = [
        subprocess.Popen(
            [*command, f"kernel_{number}", "60", here],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "started\n", worker.communicate()[1]
    results = []
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        results.append((worker.communicate()[1], worker.returncode))
    assert results == [("", 0)] * 4
    assert runtime.load(path).name.startswith("kernel_")
    assert os.listdir(tmp_path) == ["shared"]


def test_a_path_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LoadError, match=r"\[save-write\]"):
        runtime.save(tmp_path / "file" / "k", sample_manifest(), PTX, None)


def test_a_missing_kernel_or_file_is_named(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"no such directory.*\[load-read\]"):
        runtime.load(tmp_path / "nothing")
    with pytest.raises(LoadError, match=r"kernel\.ptx: .*\[load-read\]"):
        runtime.load(saved / "kernel.ptx")
    for name in ("kernel.cubin", "kernel.ptx", "manifest.json"):
        (saved / name).unlink()
        with pytest.raises(LoadError, match=rf"{name} is missing.*\[file-missing\]"):
            runtime.load(saved)


@pytest.mark.parametrize("name", ["kernel.ptx", "kernel.cubin"])
def test_a_truncated_or_changed_file_is_refused(saved: Path, name: str) -> None:
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[:-1])
    with pytest.raises(LoadError, match=rf"{name}: .*truncated.*\[file-size\]"):
        runtime.load(saved)
    (saved / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(LoadError, match=rf"{name}: its sha256.*\[file-digest\]"):
        runtime.load(saved)


def test_a_manifest_that_is_not_json_is_refused(saved: Path) -> None:
    text = (saved / "manifest.json").read_text()
    for broken in (text[: len(text) // 2], "", "\udcff"):
        (saved / "manifest.json").write_bytes(broken.encode(errors="surrogateescape"))
        with pytest.raises(LoadError, match=r"not JSON.*\[manifest-json\]"):
            runtime.load(saved)


def test_a_kernel_of_another_format_is_refused(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps({**manifest, "format": 99, "lowtide": "3.0"}))
    with pytest.raises(LoadError, match=r"format 99.*3\.0.*format 2.*\[manifest-format\]"):
        runtime.load(saved)


@pytest.mark.parametrize("files", [None, {}, {"kernel.ptx": {"size": 3}}])
def test_a_manifest_without_hashes_is_refused(saved: Path, files: Any) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps({**manifest, "files": files}))
    with pytest.raises(LoadError, match="files"):
        runtime.load(saved)


def test_ptx_without_the_launched_kernel_is_refused(tmp_path: Path) -> None:
    path = runtime.save(tmp_path / "k", sample_manifest(), PTX.replace("gemm_kernel", "gemm_kernel_2"), None)
    with pytest.raises(LoadError, match=r"no entry 'gemm_kernel'.*\[ptx-code\]"):
        runtime.load(path)


def test_a_copied_directory_is_a_saved_kernel(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "copy")
    assert runtime.load(tmp_path / "copy").ptx == PTX
