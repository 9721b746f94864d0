"""Counters by ncu, with a script in its place: the command, its table, and what is said where it does not count."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_ncu import LAUNCH, fake_ncu, table_of

from lowtide.errors import DeviceError
from lowtide.inspection.timeline.shares import FIELDS
from lowtide.measurement.counters import launch as once
from lowtide.measurement.counters.metrics import CYCLES, RESOURCES, TIME, asked, binding, rows, summary
from lowtide.measurement.counters.ncu import count, counters_of

TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
MEMORY = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
ACTIVE = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"


def test_the_table_is_read_in_nanoseconds_and_bytes() -> None:
    (found,) = counters_of(f"a line of the program\n{table_of()}==PROF== Disconnected\n")
    assert found[TIME] == 91200 and found[TENSOR] == 91.25 and MEMORY not in found
    (scaled,) = counters_of(table_of({TIME: ("us", "91.2"), "dram__bytes_read.sum": ("Mbyte", "1.5")}))
    assert scaled == {TIME: pytest.approx(91200), "dram__bytes_read.sum": 1.5e6}
    assert counters_of("==ERROR== no table") == []


def test_one_launch_is_counted(tmp_path: Path) -> None:
    found = count(tmp_path / "kernel", "lowtide_gemm", str(fake_ncu(tmp_path) / "ncu"))
    (line,) = (tmp_path / "asked").read_text().splitlines()
    words = line.split()
    assert words[words.index("--metrics") + 1].split(",") == asked() and set(LAUNCH) <= set(asked())
    assert words[words.index("--kernel-name") + 1] == "lowtide_gemm"
    assert words[-3:] == ["-m", "lowtide.measurement.counters.launch", str(tmp_path / "kernel")]
    assert found.values[CYCLES] == 160056
    assert {"lts__throughput.avg.pct_of_peak_sustained_elapsed", MEMORY} <= set(found.unknown)


@pytest.mark.parametrize("words", [f"==ERROR== Failed to find metric {TENSOR}", "==ERROR== a metric is unknown"])
def test_metrics_that_ncu_refuses_are_left_out(words: str, tmp_path: Path) -> None:
    """Those that it names; else those that it does not list."""
    folder = fake_ncu(tmp_path, table_of({name: each for name, each in LAUNCH.items() if name != TENSOR}))
    base = TENSOR.partition(".")[0]
    (folder / "ncu").write_text(
        f"""#!/bin/sh
[ $1 = --query-metrics ] && {{ grep -v '^{base}' '{folder}/listed'; exit 0; }}
case "$*" in *{TENSOR}*) echo '{words}'; exit 1;; esac
echo "$@" > '{folder}/asked'
cat '{folder}/output'
""",
        encoding="utf-8",
    )
    found = count(tmp_path, "lowtide_gemm", str(folder / "ncu"))
    assert TENSOR in found.unknown and found.values[TIME] == 91200
    names = (folder / "asked").read_text()
    assert "launch__registers_per_thread" in names and ("lts__throughput" in names) == (TENSOR in words)


def test_an_ncu_that_fails_is_quoted(tmp_path: Path) -> None:
    words = "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n==ERROR== again"
    ncu = str(fake_ncu(tmp_path, words, 1) / "ncu")
    with pytest.raises(DeviceError, match=r"ERR_NVGPUCTRPERM.*permission / ==ERROR== again.*\[ncu-failed\]"):
        count(tmp_path, "lowtide_gemm", ncu)
    ncu = str(fake_ncu(tmp_path, "Traceback\nlowtide.errors.LoadError: no manifest", 0) / "ncu")
    with pytest.raises(DeviceError, match=r"LoadError: no manifest.*\[ncu-failed\]"):
        count(tmp_path, "lowtide_gemm", ncu)
    with pytest.raises(DeviceError, match=r"no-such-ncu is not on the PATH.*\[ncu-found\]"):
        count(tmp_path, "lowtide_gemm", "no-such-ncu")
    (tmp_path / "ncu").write_text("no program")
    with pytest.raises(DeviceError, match=r"did not end well.*\[ncu-ran\]"):
        count(tmp_path, "lowtide_gemm", ncu)


@pytest.mark.parametrize(
    ("values", "resource"),
    [
        ({TENSOR: 91.0, MEMORY: 20.0, ACTIVE: 97.0}, "tensor cores"),
        ({TENSOR: 30.0, MEMORY: 93.0}, "memory"),
        ({TENSOR: 30.0, MEMORY: 20.0, ACTIVE: 90.0}, "waits"),
        ({TENSOR: 10.0, MEMORY: 20.0, ACTIVE: 12.0}, "idle SMs"),
        ({TIME: 1000.0}, None),
    ],
)
def test_the_resource_that_binds(values: dict[str, float], resource: str | None) -> None:
    assert binding(values) == resource
    assert (resource or "no shares") in summary(values, FIELDS)


def test_each_resource_has_its_shares_its_counts_and_its_fields() -> None:
    found = {row[0]: row[1:] for row in rows(counters_of(table_of())[0], {"tensor cores": 0.884}, FIELDS)}
    assert list(found) == list(FIELDS) and {row.name for row in RESOURCES} < set(FIELDS)
    assert found["tensor cores"] == ("88%", "91%", "262144 wgmma of warps", "grid.tile, multiply.atom")
    assert found["L2"][1:3] == ("40%", "912.0 MB, 10000 GB/s, 89% of sectors hit")
    assert found["memory"][:3] == ("", "", "100.0 MB, 1096 GB/s, 67.0 MB read, 33.0 MB written")
    assert found["idle SMs"][1] == "3%" and found["epilogue"][1:3] == ("", "")


class Torch:
    """In place of torch: a matrix is its shape and the name of its type."""

    float16, int8 = "float16", "int8"

    def __init__(self) -> None:
        self.cuda = SimpleNamespace(synchronize=lambda: None)

    def randn(self, shape: tuple[int, int], device: str) -> SimpleNamespace:
        return SimpleNamespace(to=lambda dtype: (*shape, dtype))

    def randint(self, least: int, end: int, shape: tuple[int, int], device: str) -> SimpleNamespace:
        return SimpleNamespace(to=lambda dtype: (*shape, dtype, least, end))


@pytest.mark.parametrize(
    ("layout", "dtype", "operands"),
    [
        ("tn", "f16", ((2, 4, "float16"), (3, 4, "float16"))),
        ("nt", "f16", ((4, 2, "float16"), (4, 3, "float16"))),
        ("tn", "s8", ((2, 4, "int8", 0, 3), (3, 4, "int8", 0, 3))),
    ],
)
def test_the_process_under_ncu_launches_once(
    layout: str, dtype: str, operands: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[tuple[object, ...]] = []

    def load(folder: str) -> object:
        def kernel(a: object, b: object) -> None:
            launched.append((a, b))

        kernel.manifest = {"spec": {"m": 2, "n": 3, "k": 4, "layout": layout, "a": dtype, "b": dtype}}  # type: ignore[attr-defined]
        return kernel

    monkeypatch.setitem(sys.modules, "torch", Torch())  # type: ignore[arg-type]
    monkeypatch.setattr(once, "load", load)
    once.launch("folder")
    assert launched == [operands]


def test_the_process_under_ncu_ends_with_the_reason_if_there_is_no_kernel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lowtide.measurement.counters.launch", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode and f"LoadError: {tmp_path}" in done.stderr
