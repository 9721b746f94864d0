"""What ptxas refuses of the kernels that the tests run: such a kernel cannot run on a GPU, so its test shows nothing.

Kernels with the same text before `.visible .entry` are assembled in one call of ptxas.
"""

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

_ENTRY = ".visible .entry test("
# ptxas refuses it, too, so it makes no machine code, which takes most of its time.
_LAST = ".visible .entry last() {\n.reg .b32 %r<2>;\nsub.u16x2 %r1, %r1, %r1;\nret; }\n"


def refusals(texts: Mapping[str, str], ptxas: Path, folder: Path) -> list[str]:
    """The errors of ptxas in texts, each with the test that runs it. `texts`: tests by their text."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for text, test in texts.items():
        start, _, rest = text.partition(_ENTRY)
        groups[start].append((rest, test))
    return [error for start, kernels in groups.items() for error in _refused(start, kernels, ptxas, folder / "k.ptx")]


def _refused(start: str, kernels: list[tuple[str, str]], ptxas: Path, path: Path) -> list[str]:
    whole, tests = start, [""] * start.count("\n")  # by line
    for at, (rest, test) in enumerate(kernels):
        kernel = _ENTRY.replace("test", f"test{at}") + rest.rstrip() + "\n"
        whole += kernel
        tests += [test] * kernel.count("\n")
    path.write_text(whole + _LAST)
    target = re.search(r"^\.target (\w+)", start, re.MULTILINE)
    command = [ptxas, "-O0", "-arch", target[1] if target else "sm_90a", path, "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    log, lines = done.stdout + done.stderr, whole.splitlines()
    found = [(int(line), rule) for line, rule in re.findall(r", line (\d+); (?:error|fatal)\s*: (.*)", log)]
    errors = [f"{tests[at - 1]}: {rule}: {lines[at - 1].strip()[:200]}" for at, rule in found if at <= len(lines)]
    if not errors and not any(at > len(lines) for at, _ in found):
        return [f"{kernels[0][1]}: {log}"]
    return errors
