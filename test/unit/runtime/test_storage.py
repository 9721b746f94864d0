"""Saved kernels on disk: whole, checked, replaced only when they are ours."""

from __future__ import annotations

import json
import os
import shutil
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
        with pytest.raises(LoadError, match="not a saved kernel; choose another path"):
            runtime.save(tmp_path / name, sample_manifest(), PTX, None)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "all of it"
    assert sorted(os.listdir(tmp_path)) == ["file", "home"]


def test_a_saved_kernel_with_files_of_someone_else_is_not_replaced(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(LoadError, match="not a saved kernel"):
        runtime.save(saved, sample_manifest(), PTX, None)


def test_an_invalid_manifest_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="format 7"):
        runtime.save(tmp_path / "k", {**sample_manifest(), "format": 7}, PTX, None)
    assert os.listdir(tmp_path) == []


def test_a_disk_that_fills_leaves_the_old_kernel_and_nothing_else(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "kernel.cubin":
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LoadError, match="No space left on device; choose a path"):
        runtime.save(saved, {**sample_manifest(), "name": "other"}, PTX, CUBIN)
    assert os.listdir(saved.parent) == ["gemm"]
    assert runtime.load(saved).name == "gemm"


def test_a_rename_that_fails_puts_the_old_kernel_back(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def refuse(source: Any, target: Any) -> None:
        if str(source).endswith(".new"):
            raise OSError(1, "Operation not permitted")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(LoadError, match="Operation not permitted"):
        runtime.save(saved, {**sample_manifest(), "name": "other"}, PTX, CUBIN)
    assert runtime.load(saved).name == "gemm"
    assert os.listdir(saved.parent) == ["gemm"]


def test_a_path_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LoadError, match="cannot save to"):
        runtime.save(tmp_path / "file" / "k", sample_manifest(), PTX, None)


def test_a_missing_kernel_or_file_is_named(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no such directory"):
        runtime.load(tmp_path / "nothing")
    with pytest.raises(LoadError, match=r"kernel\.ptx: is no directory"):
        runtime.load(saved / "kernel.ptx")
    for name in ("kernel.cubin", "kernel.ptx", "manifest.json"):
        (saved / name).unlink()
        with pytest.raises(LoadError, match=f"{name} is missing"):
            runtime.load(saved)


@pytest.mark.parametrize("name", ["kernel.ptx", "kernel.cubin"])
def test_a_truncated_or_changed_file_is_refused(saved: Path, name: str) -> None:
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[:-1])
    with pytest.raises(LoadError, match=f"{name}: .*truncated"):
        runtime.load(saved)
    (saved / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(LoadError, match=f"{name}: its sha256"):
        runtime.load(saved)


def test_a_manifest_that_is_not_json_is_refused(saved: Path) -> None:
    text = (saved / "manifest.json").read_text()
    for broken in (text[: len(text) // 2], "", "\udcff"):
        (saved / "manifest.json").write_bytes(broken.encode(errors="surrogateescape"))
        with pytest.raises(LoadError, match="not JSON"):
            runtime.load(saved)


def test_a_kernel_of_another_format_is_refused(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps({**manifest, "format": 99, "lowtide": "3.0"}))
    with pytest.raises(LoadError, match=r"format 99 .*\(3.0\); this one reads format 1"):
        runtime.load(saved)


@pytest.mark.parametrize("files", [None, {}, {"kernel.ptx": {"size": 3}}])
def test_a_manifest_without_hashes_is_refused(saved: Path, files: Any) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps({**manifest, "files": files}))
    with pytest.raises(LoadError, match="files"):
        runtime.load(saved)


def test_ptx_without_the_launched_kernel_is_refused(tmp_path: Path) -> None:
    path = runtime.save(tmp_path / "k", sample_manifest(), PTX.replace("gemm_kernel", "gemm_kernel_2"), None)
    with pytest.raises(LoadError, match="no entry 'gemm_kernel'"):
        runtime.load(path)


def test_a_copied_directory_is_a_saved_kernel(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "copy")
    assert runtime.load(tmp_path / "copy").ptx == PTX
