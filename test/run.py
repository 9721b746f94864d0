"""All checks, in one command: `python test/run.py`, or some of them by name: `python test/run.py lit pytest`.

Every check runs, whatever the others did. Exit status 0 where all passed; else the last line names those that did not.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent

# In the order of their files: xdist would start files of few tests last, and among them are the longest ones.
SCHEDULED = ("--dist", "loadgroup", "--no-loadscope-reorder")

# Quick ones first. Each is the arguments of this Python, in the repository's root.
CHECKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ruff": ("-m", "ruff", "check", "."),
        "format": ("-m", "ruff", "format", "--check", "."),
        # By the paths that git knows: mypy finds the folders through the links in src/lowtide, and names these.
        "mypy": (
            "-c",
            "import re, sys; from mypy.api import run; out, err, status = run([]); "
            "print(re.sub(r'(?m)^src/lowtide/(?=\\w+/)', '', out) + err, end=''); sys.exit(status)",
        ),
        # lit has no module to run by -m.
        "lit": ("-c", "from lit.main import main; main()", "-s", "-v", "test/lit"),
        # Compiles the extension once more, as a wheel does; CI takes what is compiled already (test/compile_once.py).
        "package": ("test/package.py",),
        "pytest": ("-m", "pytest", "-q", "-n", "auto", "--maxprocesses", "8", *SCHEDULED),
    }
)


# Two of these run at a time, the longest first: for the most part each is one process, but for lit, which fills the
# cores that are left. pytest starts as many processes as there are cores.
BESIDE = ("package", "mypy", "ruff", "format", "lit")


def run(name: str, captured: bool = False) -> bool:
    """Run one check. Returns whether it passed. Its output goes straight through, or is printed at its end."""
    if not captured:
        print(f"== {name}", flush=True)
    started = time.monotonic()
    # The checks start Python some 200 times. Without bytecode, each start compiles the sources again: 0.7 s.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    to = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if captured else {}
    done = subprocess.run([sys.executable, *CHECKS[name]], cwd=ROOT, env=environment, text=True, check=False, **to)
    status, output = done.returncode, f"== {name}\n{done.stdout}" if captured else ""
    print(output, end="", flush=True)
    if status != 0:
        print(f"== {name}: FAILED (exit status {status})", flush=True)
    elif name != "pytest":  # which closes with a line of its own
        print(f"== {name}: passed in {time.monotonic() - started:.0f} s", flush=True)
    return status == 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"{', '.join(CHECKS)}; all when none is named")
    names = parser.parse_args(argv).checks or list(CHECKS)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        parser.error(f"no check {unknown[0]!r}; the checks are {', '.join(CHECKS)}")
    beside = [name for name in BESIDE if name in names]
    with ThreadPoolExecutor(2) as pool:
        passed = dict(zip(beside, pool.map(lambda name: run(name, captured=True), beside), strict=True))
    passed |= {name: run(name) for name in names if name not in passed}
    failed = [name for name in names if not passed[name]]
    if failed:
        print(f"checks: {len(names) - len(failed)} passed, {len(failed)} failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
