"""Times what a developer waits for after an edit: `python test/edit_loop.py [BUILD]`, BUILD being up to date.

For each kind of edit, a file is touched, the extension built again and one lit test run. Nothing is changed. The limit
is on CPU seconds per core, so that other work on the machine does not decide: one core for an edit that compiles one
file, two for one that compiles many. With CI's launcher (test/compile_once.py), a compilation whose output is kept
counts with the seconds that it took. Exit status 1 where an edit takes longer than its limit.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
LIT_TEST = "test/lit/passes/cta/tile-to-ctas.mlir"

# Files touched, seconds, cores. All units include Tile.h, and with it what TableGen makes of tile/: the worst case.
EDITS: Mapping[str, tuple[tuple[str, ...], float, int]] = MappingProxyType(
    {
        "a .cpp file": (("dialects/sm/SmOps.cpp",), 30.0, 1),
        "a .td file": (("dialects/tile/TileAttrs.td", "dialects/tile/Tile.h"), 60.0, 2),
    }
)


def build_and_test(build: Path, **variables: str) -> None:
    """Build the extension, then run one lit test. Raises CalledProcessError where either fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
    subprocess.run(["cmake", "--build", str(build)], check=True, env=environment, stdout=subprocess.DEVNULL)
    lit = [sys.executable, "-c", "from lit.main import main; main()", "-q", LIT_TEST]
    subprocess.run(lit, check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)


def children_cpu() -> float:
    """CPU seconds of all finished child processes, theirs included."""
    times = os.times()
    return times.children_user + times.children_system


def measure(build: Path, edit: str) -> bool:
    """Time one kind of edit and print it. Returns whether it kept its limit."""
    files, limit, cores = EDITS[edit]
    for name in files:
        (ROOT / name).touch()
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as taken:
        started, cpu = time.monotonic(), children_cpu()
        build_and_test(build, COMPILE_TAKEN=taken.name)
        cpu, wall = children_cpu() - cpu, time.monotonic() - started
        per_core = (cpu + sum(map(float, taken))) / cores
    print(f"{edit}: {per_core:.1f} s of CPU per core, limit {limit:.0f} s, on {cores} core(s); {wall:.1f} s here")
    return per_core <= limit


def main(argv: list[str]) -> int:
    """The command. Returns the exit status."""
    found = [Path(name) for name in argv] or [cache.parent for cache in sorted(ROOT.glob("build/*/CMakeCache.txt"))]
    if len(found) != 1:
        sys.exit(f"name one build folder: {', '.join(map(str, found)) or 'there is none; pip install -e .[test]'}")
    build_and_test(found[0])
    return 0 if all([measure(found[0], edit) for edit in EDITS]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
