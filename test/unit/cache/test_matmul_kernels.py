"""Plans and kernels of `lt.matmul`: kernels kept by schedule and on disk, schedules that are replaced, tuned ones."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.compiler import attempts
from lowtide.compiler.cache import sources, tuned
from lowtide.compiler.cache.settings import open_store
from lowtide.compiler.cache.store import PLANS, REFUSED, KernelStore
from lowtide.compiler.matmul import compilation, kernels, planning
from lowtide.compiler.matmul.arrangement import Product
from lowtide.compiler.matmul.family import Family, family_of
from lowtide.compiler.matmul.kernels import Kernels, Wanted
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.matmul.schedule_plan import Intervals, SchedulePlan
from lowtide.compiler.ptxas import BadCode
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CacheWarning, ScheduleError

DEVICE = "a GPU"
OF = family_of(Product("f16", "f16", "f16", "tn", "row", None, 64, 64, 256, True, True), Options(), "sm_80")
FEW = "grid.tile = [64, 64], mainloop.k = 32, stages = 3"
MANY = "grid.tile = [128, 128], mainloop.k = 32, stages = 3"
OTHER = "grid.tile = [64, 64], mainloop.k = 32, stages = 2"
DIVIDED = "grid.tile = [64, 64], mainloop.k = 32, grid.k_division = split(2)"
SUM = "mma k16 f16 x f16 in f32"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelStore:
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr(sources, "_STARTED", float("inf"))  # who edits sources while tests run is not the subject
    for module in (kernels, attempts):
        monkeypatch.setattr(module, "find_ptxas", lambda: None)
    found = open_store()
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Family]:
    """The families for which a plan was made. With up to 64 rows, a call takes the first schedule."""
    families: list[Family] = []

    def make(of: Family, epilogue: object) -> SchedulePlan:
        families.append(of)
        order = SUM if of.numerics == "batch_invariant" else None
        divided = DIVIDED if of.numerics == "batch_invariant" else FEW
        rows = (Intervals((64, 16384), (0, 1), (False, False)),)
        return SchedulePlan((divided, MANY), rows, 1, ((1,), (0,)), order, 0.0, 0.0)

    monkeypatch.setattr(planning, "make_plan", make)
    return families


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The planned schedules that were compiled."""
    schedules: list[str] = []
    compile_planned = compilation.compile_planned

    def compile_one(spec: lt.GemmSpec, target: str, schedule: str) -> object:
        schedules.append(schedule)
        return compile_planned(spec, target, schedule)

    monkeypatch.setattr(compilation, "compile_planned", compile_one)
    return schedules


def wanted(m: int = 64, of: Family = OF, device: str | None = None) -> Wanted:
    return Wanted(of, m, None, device)


def tile_of(found: Kernels, m: int, of: Family = OF) -> tuple[int, int] | None:
    return Schedule.parse(found.get(wanted(m, of)).manifest["schedule"]).grid.tile


def keep(store: KernelStore, schedule: str, m: int = 64, of: Family = OF) -> None:
    """As `lt.tune` would for the shape."""
    entries = {"own_choice": "", "microseconds": 1.0, "own_microseconds": 1.1, "confidence": 0.95, "certain": True}
    key = tuned.key_of_record(of.example(None, m), of.target, DEVICE, of.numerics)
    tuned.keep_record(store, key, {"schedule": schedule, "lowtide": "", **entries})


def schedule_of(asked: Wanted) -> Schedule:
    return Schedule.parse(Kernels().get(asked).manifest["schedule"])


def test_a_kernel_may_be_launched_in_two_ways(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (Intervals((32, 64, 16384), (0, 0, 1), (True, False, False)),)
    plan = SchedulePlan((FEW, MANY), rows, 1, ((1,), (0,)), None, 0.0, 0.0)
    monkeypatch.setattr(planning, "make_plan", lambda of, epilogue: plan)
    found = Kernels()
    assert found.where(wanted(20)).kernel is None
    waiting, early, later = (found.get(wanted(m)) for m in (20, 40, 30))
    assert compiled == [FEW] and waiting is later and waiting is not early
    assert waiting.ptx == early.ptx
    assert found.where(wanted(20)).kernel is waiting and found.where(wanted(40)).kernel is early
    read = Kernels()
    assert read.where(wanted(20)).where == "disk"
    assert read.get(wanted(20)) is not read.get(wanted(40)) and compiled == [FEW]


def test_families_share_the_kernel_of_a_schedule(compiled: list[str], planned: list[Family]) -> None:
    found, wider = Kernels(), replace(OF, n=4096, k=512)
    assert {tile_of(found, m, of) for m in (1, 33, 64) for of in (OF, wider)} == {(64, 64)}
    assert tile_of(found, 65) == tile_of(found, 100000, wider) == (128, 128)
    assert compiled == [FEW, MANY] and planned == [OF, wider]
    assert tile_of(found, 5, replace(OF, layout="tt")) == (64, 64) and compiled == [FEW, MANY, FEW]


def test_plans_and_kernels_are_found_on_disk(store: KernelStore, compiled: list[str], planned: list[Family]) -> None:
    assert Kernels().where(wanted()).where == "nowhere"
    first = Kernels()
    first.get(wanted())
    assert (first.where(wanted(50)).where, first.where(wanted(65)).where) == ("memory", "nowhere")
    assert Kernels().where(wanted(1)).where == "disk"
    Kernels().get(wanted(17))
    assert compiled == [FEW] and planned == [OF]
    (path,) = (store.folder / PLANS).iterdir()
    path.write_text(path.read_text().replace("16384", "16385"))
    with pytest.warns(CacheWarning, match="its sha256 does not match its entries.*; it is made again"):
        assert Kernels().where(wanted()).where == "disk"
    assert store.clear() == 1 and not (store.folder / PLANS).exists()


@pytest.mark.parametrize("of", [OF, replace(OF, inputs_aligned=False, numerics="any")], ids=["aligned", "packed"])
def test_a_shape_alone_has_the_kernel_of_compile_gemm(of: Family, compiled: list[str], planned: list[Family]) -> None:
    alone = Wanted(of, 96, None, alone=True)
    there = Kernels().where(alone)
    assert (there.where, there.kernel, there.plan) == ("nowhere", None, None)
    own = Kernels()
    kernel = own.get(alone)
    given = {"schedule": of.given or None, "numerics": of.numerics}
    expected = lt.compile_gemm(of.example(None, 96), of.target, **given)  # type: ignore[arg-type]
    assert kernel.manifest == expected.manifest and kernel.ptx == expected.ptx
    assert own.get(alone) is kernel is own.where(alone).kernel and own.where(alone).where == "memory"
    assert Kernels().where(alone).where == "disk" and Kernels().where(alone._replace(m=97)).where == "nowhere"
    assert compiled == [] and planned == []


def test_a_tuned_schedule_is_taken_for_a_shape_alone(store: KernelStore) -> None:
    keep(store, OTHER)
    alone = wanted(device=DEVICE)._replace(alone=True)
    assert Kernels().where(alone).where == "nowhere" and Kernels().where(alone).is_tuned
    own = Kernels()
    assert Schedule.parse(own.get(alone).manifest["schedule"]).mainloop.stages == 2
    assert own.where(alone).where == "memory"
    assert schedule_of(alone._replace(device=None)) == lt.compile_gemm(OF.example(None, 64), OF.target).schedule


def spilling(schedules: tuple[str, ...]) -> Callable[..., object]:
    compile_planned = compilation.compile_planned

    def compile_one(spec: lt.GemmSpec, target: str, schedule: str) -> object:
        if schedule in schedules:
            raise BadCode("the kernel spills 8 bytes per thread; take another [kernel-spills]")
        return compile_planned(spec, target, schedule)

    return compile_one


def test_a_schedule_without_good_code_is_replaced_in_every_process(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "compile_planned", spilling((FEW,)))
    found = Kernels()
    assert tile_of(found, 64) == tile_of(found, 65) == (128, 128)
    assert len(list((store.folder / REFUSED).iterdir())) == 1
    monkeypatch.setattr(compilation, "compile_planned", spilling((FEW, MANY)))  # nothing is compiled again
    for kernels_ in (found, Kernels()):
        assert tile_of(kernels_, 20) == (128, 128)
        there = kernels_.where(wanted(30))
        assert there.index == 1 and "spills 8 bytes" in there.refused[0]
    with pytest.raises(ScheduleError, match=r"spills 8 bytes.*; the other schedules do no better \(1 tried\)"):
        Kernels().get(wanted(of=replace(OF, layout="tt")))


def test_a_kernel_that_sums_in_another_order_than_its_plan_is_replaced(compiled: list[str]) -> None:
    of, found = replace(OF, numerics="batch_invariant"), Kernels()
    assert tile_of(found, 64, of) == (128, 128) and compiled == [DIVIDED, MANY]
    assert found.get(wanted(64, of)).manifest["summation"] == SUM
    assert "[planned-order]" in Kernels().where(wanted(64, of)).refused[0]


def test_a_tuned_schedule_is_taken_for_its_shape_on_its_gpu(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, OTHER)
    there = Kernels().where(wanted(device=DEVICE))
    assert (there.where, there.is_tuned) == ("nowhere", True)
    assert schedule_of(wanted(device=DEVICE)).mainloop.stages == 2
    assert Kernels().where(wanted(device=DEVICE)).where == "disk"
    for other in (wanted(), wanted(63, device=DEVICE), wanted(device="another GPU")):
        assert schedule_of(other).mainloop.stages == 3 and not Kernels().where(other).is_tuned
    assert not Kernels().where(wanted(of=replace(OF, d_aligned=False), device=DEVICE)).is_tuned
    monkeypatch.setenv("LOWTIDE_TUNED", "off")
    assert schedule_of(wanted(device=DEVICE)).mainloop.stages == 3


def test_a_tuned_kernel_is_launched_as_its_schedule_says(store: KernelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = SchedulePlan((FEW,), (Intervals((16384,), (0,), (True,)),), 1, ((),), None, 0.0, 0.0)
    monkeypatch.setattr(planning, "make_plan", lambda of, epilogue: plan)
    keep(store, OTHER)
    found, tuned_one = Kernels(), wanted(device=DEVICE)
    kernel = Kernels().get(tuned_one)
    assert kernel.manifest["schedule"] == found.where(tuned_one).kernel.manifest["schedule"]
    assert found.get(wanted()).manifest["schedule"] != kernel.manifest["schedule"]


def test_bits_are_kept_whatever_was_tuned(store: KernelStore) -> None:
    keep(store, DIVIDED)
    with pytest.warns(CacheWarning, match=r"it sums in the order .*split\(2\).*; it is ignored"):
        assert schedule_of(wanted(device=DEVICE)) == schedule_of(wanted())
    free = replace(OF, numerics="any")
    keep(store, DIVIDED, of=free)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert schedule_of(wanted(of=free, device=DEVICE)).k_division is not None


def test_a_record_that_is_no_schedule_for_open_extents_is_ignored(store: KernelStore) -> None:
    keep(store, "grid.tile = [64, 64], mainloop.unroll = full")
    with pytest.warns(CacheWarning, match="it is ignored"):
        assert schedule_of(wanted(device=DEVICE)) == schedule_of(wanted())


def test_a_kernel_from_disk_imports_nothing(store: KernelStore) -> None:
    """Neither MLIR, half a second, nor anything else that importing `lt.matmul` left out."""
    Kernels().get(wanted())
    code = f"""if True:
        import sys
        import lowtide as lt
        lt.matmul
        from lowtide.compiler.block_scales import BlockScales
        from lowtide.compiler.matmul import kernels
        from lowtide.compiler.matmul.family import Family
        kernels.find_ptxas = lambda: None
        before = set(sys.modules)
        found = kernels.Kernels().get(kernels.Wanted({OF!r}, 20, None))
        print(found.name, *sorted(sys.modules.keys() - before))
        print(*sorted({{"mlir", "rich", "typer"}} & sys.modules.keys()))
    """
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.splitlines() == [Kernels().get(wanted()).name, ""]
