"""Bundles: what is written, which kernel a call takes, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.errors import LaunchError, LoadError, SpecError
from lowtide.runtime import Operand, bundle, driver, load_bundle, storage
from lowtide.runtime.driver import Device

OPEN = lt.GemmSpec(k=64, a="f16", b="f16", d="f16")
FIXED = lt.GemmSpec(m=64, n=64, k=64, a="f16", b="f16", d="f16")
TARGETS = ("sm_80", "sm_90a")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lt.bundle([OPEN, FIXED], tmp_path_factory.mktemp("bundle") / "gemms", TARGETS)


def on_gpu(monkeypatch: pytest.MonkeyPatch, *capability: int) -> None:
    gpu = Device(0, "Fake GPU", (capability[0], capability[1]), 227 * 1024, 132)
    monkeypatch.setattr(driver, "device", lambda ordinal: gpu)


def matrix(rows: int, columns: int = 64, dtype: str = "f16", address: int = 4096) -> Operand:
    return Operand(address, (rows, columns), (columns, 1), dtype, 0)


def resealed(held: dict[str, Any], **changes: str) -> str:
    """An index whose first entry is changed, and whose digest is right."""
    kernels = [held["kernels"][0] | changes, *held["kernels"][1:]]
    edited = {name: value for name, value in held.items() if name != storage.DIGEST} | {"kernels": kernels}
    return json.dumps(edited | {storage.DIGEST: storage.digest(edited)})


def taken(found: bundle.Bundle, *operands: Operand) -> tuple[str, Any]:
    manifest = found.kernel_for(*operands).manifest
    return manifest["target"], manifest["spec"]["m"]


def test_a_call_takes_the_newest_target_and_then_the_most_extents(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_bundle(folder)
    assert len(found.entries) == 4 and not found._kernels  # nothing is loaded yet
    on_gpu(monkeypatch, 9, 0)
    assert taken(found, matrix(64), matrix(64)) == ("sm_90a", 64)
    assert taken(found, matrix(65), matrix(64)) == ("sm_90a", None)
    assert len(found._kernels) == 2
    again = load_bundle(folder)
    on_gpu(monkeypatch, 8, 6)
    assert taken(again, matrix(64), matrix(64)) == ("sm_80", 64)
    assert again.kernel_for(matrix(64), matrix(64)) is again.kernel_for(matrix(64), matrix(64))


def test_scalars_are_numbers_of_any_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scalar = {"name": "alpha", "role": "input", "kind": "scalar", "dtype": "f32", "shape": []}
    entries = load_bundle(folder).entries
    with_alpha = replace(entries[1], arguments=(*entries[1].arguments, scalar))
    found = bundle.Bundle(folder, [with_alpha, entries[0]])
    on_gpu(monkeypatch, 8, 0)
    assert found.kernel_for(matrix(64), matrix(64), alpha=np.float32(2)).manifest["spec"]["m"] == 64
    assert taken(found, matrix(64), matrix(64)) == ("sm_80", None)


def test_a_call_that_no_kernel_takes_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_bundle(folder)
    on_gpu(monkeypatch, 8, 0)
    for operands, why in (
        ((matrix(64, dtype="bf16"), matrix(64)), "dtype is bf16"),
        ((matrix(64, 32), matrix(64, 32)), "compiled for 64"),
        ((matrix(64), replace(matrix(64), address=4098)), "multiple of 16"),
        ((matrix(64),), r"it takes a, b.*\[no-kernel-fits\]"),
        ((matrix(64), matrix(64)), ""),
    ):
        if why:
            with pytest.raises(LaunchError, match=f"no kernel of .*{why}"):
                found.kernel_for(*operands)
    with pytest.raises(LaunchError, match=r"it takes a, b.*\[no-kernel-fits\]"):
        found.kernel_for(matrix(64), matrix(64), bias=matrix(64))
    on_gpu(monkeypatch, 7, 5)
    with pytest.raises(LaunchError, match=r"run on Fake GPU.*\[no-kernel-fits\]"):
        found.kernel_for(matrix(64), matrix(64))


def test_outputs_are_given_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_bundle(folder)
    on_gpu(monkeypatch, 8, 0)
    for out in (matrix(64), {"d": matrix(64)}, {"d": None}, None):
        assert found.kernel_for(matrix(64), matrix(64), out=out).manifest["spec"]["m"] == 64
    with pytest.raises(LaunchError, match=r"its results are d; .*\[no-kernel-fits\]"):
        found.kernel_for(matrix(64), matrix(64), out={"pre": matrix(64)})
    with pytest.raises(LaunchError, match=r"\[bundle-outputs\]"):
        bundle._check(found.entries[0], [matrix(64), matrix(64)], {}, {"pre": matrix(64)})


def test_what_is_damaged_or_of_another_version_is_refused(folder: Path, tmp_path: Path) -> None:
    index = folder / bundle.INDEX
    text = index.read_text()
    held = json.loads(text)
    try:
        for change, message in (
            ("{", r"not JSON.*\[bundle-json\]"),
            ("[]", r"another version of lowtide.*\[bundle-version\]"),
            (json.dumps(held | {"bundle": 2}), r"\[bundle-version\]"),
            (json.dumps(held | {"format": 9}), r"\[bundle-version\]"),
            (text.replace('"sm_80"', '"sm_86"', 1), r"\[bundle-digest\]"),
            (resealed(held, folder="../other"), r"\[bundle-entry\]"),
        ):
            index.write_text(change)
            with pytest.raises(LoadError, match=message):
                load_bundle(folder)
    finally:
        index.write_text(text)
    with pytest.raises(LoadError, match=r"No such file.*\[bundle-read\]"):
        load_bundle(tmp_path / "none")
    found = load_bundle(folder)
    other = replace(found.entries[0], folder=found.entries[1].folder)
    with pytest.raises(LoadError, match=r"of another bundle.*\[other-bundle\]"):
        found.load(other)


def test_a_bundle_is_replaced_and_nothing_else_is(folder: Path, tmp_path: Path) -> None:
    kernel = lt.compile_gemm(FIXED, "sm_80")
    parts = [(kernel.manifest, kernel.ptx, None)]
    path = bundle.save_bundle(tmp_path / "one", [*parts, *parts])
    assert len(load_bundle(bundle.save_bundle(path, parts)).entries) == 1
    assert sorted(each.name for each in path.iterdir()) == ["0", bundle.INDEX]
    assert lt.runtime.load(path / "0").ptx == kernel.ptx  # each kernel is a saved one
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(LoadError, match=r"\[bundle-replaces\]"):
        bundle.save_bundle(tmp_path / "other", parts)
    with pytest.raises(SpecError, match=r"at least one of each.*\[bundle-empty\]"):
        lt.bundle([], tmp_path / "none")
