"""`compile_gemm` with a cache, its keys, `precompile` and the command `lowtide cache`."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_problem import SPEC
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli.main import app
from lowtide.compiler.cache import sources
from lowtide.compiler.cache.keys import key_of
from lowtide.compiler.cache.settings import open_store, size_of
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.kernel import CachedKernel, CompiledKernel
from lowtide.errors import CacheWarning, Error, TargetError
from lowtide.runtime import storage

pytestmark = pytest.mark.code_at_once

VERSIONS = {"lowtide": "1", "mlir": "22"}
Spec = lt.GemmSpec


def test_a_kernel_from_the_cache_is_the_kernel(store: KernelStore, kernel: CompiledKernel) -> None:
    first = lt.compile_gemm(Spec(**SPEC), "sm_80")
    steps: list[str] = []
    second = lt.compile_gemm(Spec(**SPEC), "sm_80", on_progress=lambda level, step: steps.append(step))
    assert type(first) is CompiledKernel and isinstance(second, CachedKernel) and steps == []
    for found in (first, second):
        assert (found.ptx, found.manifest, found.target) == (kernel.ptx, kernel.manifest, kernel.target)
        assert found.schedule == kernel.schedule
    assert dict(second.levels) == dict(kernel.levels)
    assert second.timings


def test_machine_code_is_kept_once_it_is_there(
    store: KernelStore, kernel: CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = kernel.schedule
    first = lt.compile_gemm(Spec(**SPEC), "sm_80", schedule=whole)
    assert not (store.entries()[0].folder / storage.CUBIN).exists()
    cubin = first.cubin
    monkeypatch.setattr("lowtide.compiler.kernel.assemble", None)
    assert cubin is not None and lt.compile_gemm(Spec(**SPEC), "sm_80", schedule=whole).cubin == cubin


def test_a_choice_is_kept_with_the_machine_code_that_it_was_judged_by(store: KernelStore) -> None:
    lt.compile_gemm(Spec(**SPEC), "sm_80")
    assert (store.entries()[0].folder / storage.CUBIN).exists()


def test_a_damaged_kernel_is_compiled_again(store: KernelStore, kernel: CompiledKernel) -> None:
    lt.compile_gemm(Spec(**SPEC), "sm_80")
    (store.entries()[0].folder / storage.PTX).write_text("no PTX")
    with pytest.warns(CacheWarning, match="truncated; it is compiled again"):
        assert lt.compile_gemm(Spec(**SPEC), "sm_80").ptx == kernel.ptx


def test_dumps_and_a_cache_that_is_off_compile(
    store: KernelStore, kernel: CompiledKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.keep(key_of(Spec(**SPEC), "sm_80", None, VERSIONS), kernel.manifest, kernel.ptx, None)
    assert type(lt.compile_gemm(Spec(**SPEC), "sm_80", dump_ir=tmp_path / "dump")) is CompiledKernel
    monkeypatch.setenv("LOWTIDE_CACHE", "off")
    assert open_store() is None
    assert len(store.entries()) == 1


def one(acc: Any, bias: lt.PerColumn) -> Any:
    return lt.relu(acc + bias)


def same(x: Any, bias: lt.PerColumn) -> Any:
    added = x + bias
    return lt.relu(added)


def other(acc: Any, bias: lt.PerColumn) -> Any:
    return lt.relu(acc + 2.0 * bias)


def test_all_that_the_code_depends_on_is_in_the_key() -> None:
    spec = Spec(**{**SPEC, "d": "f32"}, epilogue=one)
    keys = {
        key_of(each, target, schedule, {**VERSIONS, "ptxas": ptxas})
        for each, target, schedule, ptxas in (
            (spec, "sm_80", None, ""),
            (replace(spec, m=None), "sm_80", None, ""),
            (replace(spec, acc="f16"), "sm_80", None, ""),
            (replace(spec, layout="nt"), "sm_80", None, ""),
            (replace(spec, batch=2), "sm_80", None, ""),
            (replace(spec, d_order="column"), "sm_80", None, ""),
            (replace(spec, epilogue=None), "sm_80", None, ""),
            (replace(spec, epilogue=other), "sm_80", None, ""),
            (spec, "sm_90a", None, ""),
            (spec, "sm_80", "stages = 3", ""),
            (spec, "sm_80", lt.Schedule(), ""),
            (spec, "sm_80", lt.presets["sm90-tma-stores"], ""),
            (spec, "sm_80", lt.presets["sm90-tma-stores"].with_(target=None), ""),
            (spec, "sm_80", "sm80-best", ""),
            (spec, "sm_80", None, "13.0"),
        )
    }
    assert len(keys) == 15
    assert key_of(spec, "sm_80", None, {**VERSIONS, "ptxas": ""}, "repeatable") not in keys
    assert key_of(replace(spec, epilogue=same), "sm_80", None, {**VERSIONS, "ptxas": ""}) in keys


def test_what_is_left_out_of_the_digest_makes_no_kernel() -> None:
    """No source that counts imports one that does not."""
    paths = [path for path in map(Path, sources.sources()) if path.suffix == ".py"]
    apart = re.compile(rf"lowtide\.compiler\.({'|'.join(sources.APART)})\b.* import")
    imports = {path.name: path.read_text(encoding="utf-8").splitlines() for path in paths}
    found = [name for name, lines in imports.items() if any(apart.search(x) for x in lines if x.startswith("from"))]
    assert found == [] and {"elements.py", "compile.py", "bind_wgmma.py"} <= imports.keys()


def test_sizes_are_bytes_or_have_a_unit() -> None:
    assert [size_of(text) for text in ("12", "3K", "512M", "2GiB", "1g")] == [12, 3072, 2**29, 2**31, 2**30]
    for text in ("", "much", "-1", "1T"):
        with pytest.raises(Error, match=r"\[cache-size\]"):
            size_of(text)


def test_precompiled_kernels_are_found_and_a_refusal_is_raised(store: KernelStore) -> None:
    scaled = Spec(**SPEC, epilogue=lambda acc: 2.0 * acc)  # which no other process can have
    refused = Spec(a="e4m3", b="e4m3", d="f16")
    with pytest.raises((Error, TargetError), match=r"e4m3.*\[atom-of-types\]"):
        lt.precompile([refused, scaled, scaled], "sm_80", jobs=1)
    assert isinstance(lt.compile_gemm(scaled, "sm_80"), CachedKernel)
    assert lt.compile_gemm(scaled, "sm_80").manifest["spec"]["a"] == "f16"
    assert (store.entries()[0].folder / storage.CUBIN).exists()
    assert lt.precompile([scaled], "sm_80") == 0


def test_precompiling_without_a_cache_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", "off")
    with pytest.raises(Error, match=r"no cache to compile into; unset it, or name a folder.*\[precompile-cache\]"):
        lt.precompile([Spec(**SPEC)], "sm_80")


def test_the_command_lists_verifies_and_clears(store: KernelStore, kernel: CompiledKernel) -> None:
    for key in ("a" * 64, "b" * 64):
        store.keep(key, kernel.manifest, kernel.ptx, None)

    def cache(word: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["cache", word])
        return done.exit_code, done.stdout

    status, text = cache("list")
    assert status == 0 and "2 kernels" in text and "f16 tn 64x64x64 to f16" in text
    assert cache("verify")[0] == 0
    (store.folder / ("a" * 64) / storage.PTX).write_text("no PTX")
    status, text = cache("verify")
    assert status == 1 and "1 kernel whole, 1 damaged" in text
    assert cache("clear") == (0, f"removed    2 kernels from {store.folder}\n")
    assert cache("list")[1].count("0 kernels") == 1


@pytest.mark.parametrize("word", ["list", "verify", "clear"])
def test_the_command_without_a_cache_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", "off")
    done = CliRunner().invoke(app, ["cache", word])
    assert done.exit_code == 2 and "unset it, or name a folder" in done.stderr
