"""The folder of compiled kernels: whole entries or none, whoever dies; nothing damaged is used; a bound that holds."""

import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from lowtide.compiler.cache import sources
from lowtide.compiler.cache import store as store_module
from lowtide.compiler.cache.store import KernelStore, Stored
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import CacheWarning, LoadError
from lowtide.runtime import folders, storage

KEY, OTHER = "a" * 64, "b" * 64

WRITER = """
import os, signal, sys
from pathlib import Path
from lowtide.compiler.cache.store import KernelStore
from lowtide.runtime import storage
source, folder, key, times = sys.argv[1:]
manifest, ptx, cubin = storage.read(source)
store = KernelStore(Path(folder), 2**30)
if times == "killed":
    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    store.keep(key, manifest, ptx, cubin)
for number in range(int(times)):
    store.keep(key, manifest, ptx + "\\n" * (number % 7), cubin)
"""


def keep(store: KernelStore, kernel: CompiledKernel, key: str = KEY) -> None:
    store.keep(key, kernel.manifest, kernel.ptx, b"")


def writer(source: Path, store: KernelStore, times: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "error", "-c", WRITER, str(source), str(store.folder), KEY, times]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def saved(kernel: CompiledKernel, tmp_path: Path) -> Path:
    storage.save(tmp_path / "saved", kernel.manifest, kernel.ptx, None)
    return tmp_path / "saved"


def test_what_is_kept_is_found(store: KernelStore, kernel: CompiledKernel) -> None:
    assert store.load(KEY) is None
    store.keep(KEY, kernel.manifest, kernel.ptx, None)
    assert store.load(KEY) == Stored(kernel.manifest, kernel.ptx, None)
    assert store.load(OTHER) is None
    assert [entry.key for entry in store.entries()] == [KEY]


def changed_byte(folder: Path) -> None:
    path = folder / storage.PTX
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncated(folder: Path) -> None:
    path = folder / storage.PTX
    path.write_bytes(path.read_bytes()[:-1])


def without_manifest(folder: Path) -> None:
    (folder / storage.MANIFEST).unlink()


def edited_manifest(folder: Path) -> None:
    path = folder / storage.MANIFEST
    path.write_text(path.read_text(encoding="utf-8").replace('"m": 64', '"m": 65'), encoding="utf-8")


def of_another_key(folder: Path) -> None:
    store = KernelStore(folder.parent, 2**30)
    stored = store.load(KEY)
    assert stored is not None
    store.keep(OTHER, stored.manifest, stored.ptx, stored.cubin)
    shutil.rmtree(folder)
    (folder.parent / OTHER).rename(folder)


@pytest.mark.parametrize("damage", [changed_byte, truncated, without_manifest, edited_manifest, of_another_key])
def test_a_damaged_kernel_is_said_and_removed(
    store: KernelStore, kernel: CompiledKernel, damage: Callable[[Path], None]
) -> None:
    keep(store, kernel)
    damage(store.folder / KEY)
    (entry,) = store.entries()
    assert store.fault(entry) is not None
    with pytest.warns(CacheWarning, match=rf"^cached kernel .*{KEY}.*; it is compiled again$"):
        assert store.load(KEY) is None
    assert store.entries() == []
    keep(store, kernel)
    assert store.load(KEY) is not None


def test_a_folder_that_others_may_write_is_not_used(store: KernelStore, kernel: CompiledKernel) -> None:
    keep(store, kernel)
    for mode in (0o720, 0o702, 0o777):
        store.folder.chmod(mode)
        anew = KernelStore(store.folder, 2**30)
        with pytest.warns(CacheWarning, match=r"others may write to .*; look at what it holds and `chmod go-w` it: "):
            assert anew.load(KEY) is None
        anew.keep(OTHER, kernel.manifest, kernel.ptx, None)
        assert not anew.has(OTHER)
    store.folder.chmod(0o755)
    assert KernelStore(store.folder, 2**30).load(KEY) is not None


def test_kernels_of_another_user_are_not_used(
    store: KernelStore, kernel: CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, kernel)
    owner = os.stat(store.folder).st_uid
    monkeypatch.setattr(store_module, "_owners", lambda: (owner + 1,))
    with pytest.warns(CacheWarning, match="belongs to another user, whose kernels would be run"):
        assert KernelStore(store.folder, 2**30).load(KEY) is None
    monkeypatch.setattr(KernelStore, "distrust", lambda self: None)  # the folder is ours, the entry is not
    with pytest.warns(CacheWarning, match=r"cached kernel .*\[cache-owner\]; it is compiled again"):
        assert KernelStore(store.folder, 2**30).load(KEY) is None


@pytest.mark.parametrize("kind", ["brackets", "pipe", "device"])
def test_a_manifest_that_is_no_text_holds_up_nobody(store: KernelStore, kernel: CompiledKernel, kind: str) -> None:
    keep(store, kernel)
    manifest = store.folder / KEY / storage.MANIFEST
    manifest.unlink()
    if kind == "brackets":
        manifest.write_text("[" * 200_000, encoding="utf-8")
    elif kind == "pipe":
        os.mkfifo(manifest)
    else:
        manifest.symlink_to("/dev/zero")
    (entry,) = store.entries()
    assert entry.described() == {}
    assert store.fault(entry) is not None


def test_code_that_is_no_regular_file_is_refused(store: KernelStore, kernel: CompiledKernel) -> None:
    keep(store, kernel)
    code = store.folder / KEY / storage.PTX
    code.unlink()
    code.symlink_to("/dev/zero")
    with pytest.raises(LoadError, match=r"regular file.*\[file-readable\]"):
        storage.read(store.folder / KEY)


def test_a_killed_writer_leaves_no_kernel_and_no_lock(store: KernelStore, kernel: CompiledKernel, saved: Path) -> None:
    assert writer(saved, store, "killed").wait() == -signal.SIGKILL
    (left,) = store.folder.iterdir()
    assert left.name.startswith(folders.HIDDEN) and store.entries() == []
    assert store.load(KEY) is None
    keep(store, kernel)
    assert left.exists()  # it may still have a writer
    os.utime(left, (0, 0))
    KernelStore(store.folder, 2**30).keep(OTHER, kernel.manifest, kernel.ptx, None)
    assert not left.exists() and len(store.entries()) == 2


def test_processes_that_write_one_kernel_at_once_disturb_nobody(
    store: KernelStore, kernel: CompiledKernel, saved: Path
) -> None:
    keep(store, kernel)
    running = [writer(saved, store, "60") for _ in range(2)]
    found = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while any(process.poll() is None for process in running):
            stored = store.load(KEY)
            found += stored is not None
            assert stored is None or stored.ptx.rstrip() == kernel.ptx.rstrip()
    assert [process.communicate()[1] for process in running] == ["", ""]
    assert found and store.load(KEY) is not None
    assert [path.name for path in store.folder.iterdir()] == [KEY]


def test_what_was_used_longest_ago_goes_first(store: KernelStore, kernel: CompiledKernel) -> None:
    keys = [digit * 64 for digit in "123456"]
    keep(store, kernel, keys[0])
    size = store.entries()[0].size
    store = KernelStore(store.folder, 3 * size + size // 2)
    for number, key in enumerate(keys[:3]):
        keep(store, kernel, key)
        os.utime(store.folder / key, (number, number))
    assert store.load(keys[0]) is not None  # is used now
    keep(store, kernel, keys[3])
    assert {entry.key for entry in store.entries()} == {keys[0], keys[2], keys[3]}
    keep(store, kernel, keys[4])
    keep(store, kernel, keys[5])
    assert sum(entry.size for entry in store.entries()) <= store.most_bytes


def test_a_kernel_larger_than_the_bound_is_kept_alone(store: KernelStore, kernel: CompiledKernel) -> None:
    store = KernelStore(store.folder, 10)
    keep(store, kernel)
    keep(store, kernel, OTHER)
    assert [entry.key for entry in store.entries()] == [OTHER]


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path, kernel: CompiledKernel) -> None:
    (tmp_path / "file").write_text("")
    store = KernelStore(tmp_path / "file" / "cache", 2**30)
    with pytest.warns(CacheWarning, match="set LOWTIDE_CACHE to another folder") as said:
        keep(store, kernel)
        keep(store, kernel)
    assert len(said) == 1
    assert store.load(KEY) is None


def test_a_full_disk_is_said_and_nothing_is_left(
    store: KernelStore, kernel: CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(CacheWarning, match="No space left on device"):
        keep(store, kernel)
    assert list(store.folder.iterdir()) == []


def test_code_that_may_not_be_what_lies_there_is_not_kept(
    store: KernelStore, kernel: CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_STARTED", 0.0)
    keep(store, kernel)
    assert store.entries() == []


def test_only_what_is_a_kernel_is_cleared(store: KernelStore, kernel: CompiledKernel) -> None:
    keep(store, kernel)
    (store.folder / f"{folders.HIDDEN}left").mkdir()
    (store.folder / "thesis.tex").write_text("mine")
    (store.folder / OTHER[1:]).mkdir()
    assert store.clear() == 1
    assert {path.name for path in store.folder.iterdir()} == {"thesis.tex", OTHER[1:]}
