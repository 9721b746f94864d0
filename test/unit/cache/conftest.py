"""A kernel to keep, and a cache of the test's own."""

import math
from pathlib import Path

import pytest
from small_problem import SPEC

import lowtide as lt
from lowtide.compiler.cache import sources
from lowtide.compiler.cache.settings import open_store
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.kernel import CompiledKernel


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelStore:
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "_STARTED", math.inf)  # who edits sources while tests run is not the subject
    found = open_store()
    assert found is not None
    return found


@pytest.fixture(scope="session")
def kernel() -> CompiledKernel:
    return lt.compile_gemm(lt.GemmSpec(**SPEC), "sm_80")
