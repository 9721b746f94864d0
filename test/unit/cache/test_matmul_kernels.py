"""The kernel of a class of `lt.matmul` where its extents were tuned: taken, kept on disk, or said not to serve."""

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from lowtide.compiler.cache import sources, tuned
from lowtide.compiler.cache.settings import open_store
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.matmul import kernels
from lowtide.compiler.matmul.arrangement import Product
from lowtide.compiler.matmul.kernels import Kernels, Wanted
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.matmul.shape_class import ShapeClass, class_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CacheWarning

DEVICE = "a GPU"
OF = class_of(Product("f16", "f16", "f16", "tn", "row", None, 64, 64, 256, True, True), Options(), "sm_80")
OTHER = "grid.tile = [64, 64], mainloop.k = 32, stages = 2"
DIVIDED = "grid.tile = [64, 64], mainloop.k = 32, grid.k_division = split(2)"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelStore:
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr(sources, "_STARTED", float("inf"))  # who edits sources while tests run is not the subject
    monkeypatch.setattr(kernels, "find_ptxas", lambda: None)
    found = open_store()
    assert found is not None
    return found


def keep(store: KernelStore, schedule: str, of: ShapeClass = OF) -> None:
    """As `lt.tune` would for the extents that the class stands for."""
    entries = {"own_choice": "", "microseconds": 1.0, "own_microseconds": 1.1, "confidence": 0.95, "certain": True}
    key = tuned.key_of_record(of.example(None), of.target, DEVICE, of.numerics)
    tuned.keep_record(store, key, {"schedule": schedule, "lowtide": "", **entries})


def schedule_of(wanted: Wanted) -> Schedule:
    return Schedule.parse(Kernels().get(wanted).manifest["schedule"])


def test_a_tuned_schedule_is_taken_on_its_gpu_unless_asked_not_to(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, OTHER)
    found = Kernels().where(Wanted(OF, None, DEVICE))
    assert (found.where, found.is_tuned) == ("nowhere", True)
    assert schedule_of(Wanted(OF, None, DEVICE)).mainloop.stages == 2
    assert Kernels().where(Wanted(OF, None, DEVICE)).where == "disk"
    own = schedule_of(Wanted(OF, None))
    assert own.mainloop.stages != 2
    assert not Kernels().where(Wanted(OF, None, "another GPU")).is_tuned
    assert not Kernels().where(Wanted(replace(OF, d_aligned=False), None, DEVICE)).is_tuned
    monkeypatch.setenv("LOWTIDE_TUNED", "off")
    assert schedule_of(Wanted(OF, None, DEVICE)) == own


def test_bits_are_kept_whatever_was_tuned(store: KernelStore) -> None:
    keep(store, DIVIDED)
    with pytest.warns(CacheWarning, match=r"it sums in the order .*split\(2\).*; it is ignored"):
        assert schedule_of(Wanted(OF, None, DEVICE)) == schedule_of(Wanted(OF, None))
    free = replace(OF, numerics="any")
    keep(store, DIVIDED, free)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert schedule_of(Wanted(free, None, DEVICE)).k_division is not None


def test_a_record_that_is_no_schedule_for_open_extents_is_ignored(store: KernelStore) -> None:
    keep(store, "grid.tile = [64, 64], mainloop.unroll = full")
    with pytest.warns(CacheWarning, match="it is ignored"):
        assert schedule_of(Wanted(OF, None, DEVICE)) == schedule_of(Wanted(OF, None))


def test_a_kernel_from_disk_imports_nothing(store: KernelStore) -> None:
    """Neither MLIR, half a second, nor anything else that importing `lt.matmul` left out."""
    Kernels().get(Wanted(OF, None))
    code = f"""if True:
        import sys
        import lowtide as lt
        lt.matmul
        from lowtide.compiler.block_scales import BlockScales
        from lowtide.compiler.matmul import kernels
        from lowtide.compiler.matmul.shape_class import ShapeClass
        kernels.find_ptxas = lambda: None
        before = set(sys.modules)
        found = kernels.Kernels().get(kernels.Wanted({OF!r}, None))
        print(found.name, *sorted(sys.modules.keys() - before))
        print(*sorted({{"mlir", "rich", "typer"}} & sys.modules.keys()))
    """
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.splitlines() == [Kernels().get(Wanted(OF, None)).name, ""]
