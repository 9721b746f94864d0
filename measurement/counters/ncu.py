"""Run ncu (Nsight Compute's command line) on one launch of a saved kernel, and read its table.

ncu replays the launch until it has counted everything. Clocks are left alone, and caches are not flushed.
"""

import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lowtide.errors import DeviceError
from lowtide.measurement.counters.metrics import asked

_SECONDS = 300
_LAST_LINES = 4
_LAUNCH = "lowtide.measurement.counters.launch"
#: By ncu's unit: the factor to nanoseconds or bytes.
_UNITS = {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9} | {
    f"{prefix}byte": 1000.0**power for power, prefix in enumerate(("", "K", "M", "G"))
}


@dataclass(frozen=True)
class Counters:
    """The counts of a launch by ncu's names, and the names that this ncu does not have."""

    values: dict[str, float]
    unknown: tuple[str, ...]


def count(folder: Path, kernel: str, ncu: str = "ncu") -> Counters:
    """Launch the saved kernel in `folder` once under ncu. `kernel` is its name in the PTX. Raises DeviceError if ncu is
    missing, or if it counts nothing."""
    program = shutil.which(ncu)
    if program is None:
        raise DeviceError(
            f"{ncu} is not on the PATH, so there are no counters of the GPU; install Nsight Compute, or add its folder"
            " to PATH [ncu-found]"
        )
    names, command = asked(), [sys.executable, "-m", _LAUNCH, str(folder)]
    done = _profiled(program, names, kernel, command)
    rows = counters_of(done.stdout)
    refused = [] if rows else _refused(done, names) or _unlisted(program, names)
    if refused and len(refused) < len(names):
        names = [name for name in names if name not in refused]
        done = _profiled(program, names, kernel, command)
        rows = counters_of(done.stdout)
    if done.returncode or not rows or not rows[-1]:
        raise DeviceError(
            f"ncu counted nothing. Its last lines: {_last_lines(done)}. If it lacks the permission, run this as root;"
            " otherwise run ncu by hand [ncu-failed]"
        )
    return Counters(rows[-1], tuple(name for name in asked() if name not in rows[-1]))


def _refused(done: subprocess.CompletedProcess[str], names: Sequence[str]) -> list[str]:
    """The metrics that ncu's messages name, with or without their suffixes."""
    own = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.startswith("==")]
    named = {name.rstrip(".") for line in own for name in re.findall(r"[a-z0-9]+__[\w.]+", line)}
    return [name for name in names if name in named or name.partition(".")[0] in named]


def _unlisted(program: str, names: Sequence[str]) -> list[str]:
    """The metrics that `ncu --query-metrics` does not list. It lists them without suffixes, and none of launches."""
    listed = set(re.findall(r"^\W*([a-z0-9]+__\w+)", _run([program, "--query-metrics"]).stdout, re.MULTILINE))
    return [name for name in names if not name.startswith("launch__") and name.partition(".")[0] not in listed]


def _profiled(
    program: str, names: Sequence[str], kernel: str, command: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    options = ["--clock-control", "none", "--cache-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    return _run([program, *options, "--metrics", ",".join(names), "--kernel-name", kernel, *command])


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"ncu did not end well: {error}; run it by hand [ncu-ran]") from None


def _last_lines(done: subprocess.CompletedProcess[str]) -> str:
    """The last lines of ncu's messages; without messages, the last lines of all output."""
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(("==ERROR==", "==WARNING=="))]
    return " / ".join((own or lines)[-_LAST_LINES:]) or "none"


def counters_of(output: str) -> list[dict[str, float]]:
    """The counts of each launch in ncu's CSV (`--csv --page raw`), in order, in nanoseconds and bytes. Values that are
    not numbers are left out. Lines of the program and of ncu may come before and after the table."""
    found: list[dict[str, float]] = []
    units: dict[str, str] = {}
    for row in csv.DictReader(line for line in output.splitlines() if line.startswith('"')):
        cells = {name: text for name, text in row.items() if name and "__" in name and text}
        if row.get("ID", "").isdigit():
            found.append({name: value for name, text in cells.items() for value in _number(text, units.get(name, ""))})
        else:
            units = cells
    return found


def _number(text: str, unit: str) -> list[float]:
    try:
        return [float(text.replace(",", "")) * _UNITS.get(unit, 1.0)]
    except ValueError:
        return []
