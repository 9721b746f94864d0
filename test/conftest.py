"""For all tests: kernels are compiled by the compiler under test, never taken from a cache of the machine.

Tests of a file, or of a kernel on which passes are tried, run in one process, which compiles a kernel of theirs once.
LLVM's backend and ptxas take half of a compilation, and most tests read neither PTX nor machine code: tests make those
on demand.
"""

import gc
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

# Each worker of pytest-xdist has a core. NumPy's BLAS would start a thread for each core in each of them; they wait for
# one another by spinning, and a small product of matrices then takes ten times its CPU time. BLAS reads this once, when
# NumPy is imported; the commands that tests start read it too.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

from lowtide.compiler import attempts
from lowtide.compiler.driver import Lowered, lower
from lowtide.dialects.levels import Level

os.environ["LOWTIDE_CACHE"] = "off"
_GPU = Path(__file__).parent / "gpu"
gc.set_threshold(100_000, 50, 50)  # IR is freed by counting: with the usual thresholds, 5 % of all time goes to looking


@pytest.fixture(scope="session", autouse=True)
def temporary_files_below_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Reproducers of the faults that tests plant, in this process or in a command, lie in pytest's own folder. Ranks
    under torchrun keep the folder that they have in common: torch's symmetric memory has its sockets there."""
    if "LOCAL_RANK" in os.environ:
        yield
        return
    folder = str(tmp_path_factory.mktemp("tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


class _WithPtx(Mapping[str, str]):
    """The levels of a kernel. PTX is made from level llvm when it is read first."""

    def __init__(self, above: Mapping[str, str]) -> None:
        self._above = above

    @cached_property
    def _ptx(self) -> str:
        return lower(self._above[str(Level.LLVM)]).levels[str(Level.PTX)]

    def __getitem__(self, name: str) -> str:
        return self._ptx if name == str(Level.PTX) else self._above[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._above, str(Level.PTX)))

    def __len__(self) -> int:
        return len(self._above) + 1


class _Kernels:
    """The kernels of a file of tests: compiled once, except by tests that patch something, which may be a pass."""

    def __init__(self) -> None:
        self.kept: dict[Any, Lowered] = {}
        self.is_patched = True

    def lower(self, source: Any, *, dump_dir: Any = None, on_progress: Any = None, **options: Any) -> Lowered:
        """As `driver.lower`. Without a folder of dumps, PTX is made from level llvm when it is read."""
        if dump_dir is not None:
            return lower(source, dump_dir=dump_dir, on_progress=on_progress, **options)
        may_keep = isinstance(source, str) and on_progress is None and not self.is_patched
        key = source, *sorted(options.items())
        if may_keep and key in self.kept:
            return self.kept[key]
        lowered = lower(source, until=Level.LLVM, on_progress=on_progress, **options)
        lowered = replace(lowered, levels=_WithPtx(lowered.levels))
        if may_keep:
            self.kept[key] = lowered
        return lowered


@pytest.fixture(scope="module", autouse=True)
def code_on_demand(request: pytest.FixtureRequest) -> Iterator[_Kernels]:
    """The compiler takes the first choice of a schedule without assembling it, and makes PTX when a test reads it.

    This does not apply to tests for the GPU, and to files marked `code_at_once`, which test what a compilation does
    with the code.
    """
    kernels = _Kernels()
    with pytest.MonkeyPatch.context() as patch:
        if not (request.node.get_closest_marker("code_at_once") or _GPU in request.path.parents):
            patch.setattr(attempts, "find_ptxas", lambda: None)
            patch.setattr(attempts, "lower", kernels.lower)
        yield kernels


@pytest.fixture(autouse=True)
def kernels_kept(request: pytest.FixtureRequest, code_on_demand: _Kernels) -> Iterator[None]:
    """Kernels of a test are kept for later tests of the file, unless it patches something."""
    code_on_demand.is_patched = "monkeypatch" in request.fixturenames
    yield
    code_on_demand.is_patched = True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
        item.add_marker(pytest.mark.xdist_group(getattr(case, "name", None) or item.path.stem))
