"""Whether a change leaves the generated code alone: `python test/ptx_identity.py record DIR`, edit, then `compare DIR`.

Some 200 kernels (every preset, both targets, the four layouts, aligned, ragged and run-time shapes, several epilogues
and types) are compiled to PTX. Texts are compared with registers and labels renamed in order of appearance. Where
they differ and `nvdisasm` is on PATH, the machine code is compared too: how often each opcode occurs, registers and
spills. Exit status 0 where every kernel is the same by either measure.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.compiler.presets import LADDERS


def _plain(acc: Any) -> Any:
    return acc


def _bias_relu(acc: Any, bias: lt.PerColumn) -> Any:
    return lt.relu(acc + bias)


def _residual(acc: Any, residual: lt.Full, alpha: lt.Scalar) -> Any:
    return alpha * acc + residual


def _row_gelu(acc: Any, scale: lt.PerRow) -> Any:
    return lt.gelu(acc * scale)


_SHAPES: dict[str, tuple[int | None, int | None, int | None]] = {
    "aligned": (1024, 1024, 512),
    "ragged": (300, 520, 264),
    "run-time": (None, None, None),
}
# Operand, accumulator and D type, epilogue.
_VARIANTS: dict[str, tuple[str, str, str, Callable[..., Any]]] = {
    "bf16": ("bf16", "f32", "bf16", _plain),
    "bf16-bias-relu": ("bf16", "f32", "bf16", _bias_relu),
    "f16-to-f32-residual": ("f16", "f32", "f32", _residual),
    "f16-row-gelu": ("f16", "f32", "f16", _row_gelu),
}
_HALF_SUMS = ("f16", "f16", "f16", _bias_relu)
_LAYOUTS = ("tn", "tt", "nn", "nt")


@dataclass(frozen=True)
class Case:
    """One kernel."""

    name: str
    target: str
    shape: tuple[int | None, int | None, int | None]
    layout: str
    types: tuple[str, str, str]
    epilogue: Callable[..., Any]
    schedule: str | None

    def ptx(self) -> str:
        """The kernel's PTX."""
        m, n, k = self.shape
        ab, acc, d = self.types
        spec = lt.GemmSpec(m=m, n=n, k=k, a=ab, b=ab, d=d, acc=acc, layout=self.layout, epilogue=self.epilogue)
        return lt.compile_gemm(spec, target=self.target, schedule=self.schedule).ptx


def cases() -> Iterator[Case]:
    """Every kernel that is compared."""
    for target in ("sm_80", "sm_90a"):
        for layout in _LAYOUTS:
            for shape_name, shape in _SHAPES.items():
                for name, (ab, acc, d, epilogue) in _VARIANTS.items():
                    label = f"{target}-{layout}-{shape_name}-{name}"
                    yield Case(label, target, shape, layout, (ab, acc, d), epilogue, None)
            ab, acc, d, epilogue = _HALF_SUMS
            label = f"{target}-{layout}-f16-sums"
            yield Case(label, target, _SHAPES["ragged"], layout, (ab, acc, d), epilogue, None)
    ab, acc, d, epilogue = _VARIANTS["bf16-bias-relu"]
    for preset, schedule in lt.presets.items():
        if ab not in LADDERS[preset].dtypes or LADDERS[preset].problem:
            continue
        for layout in ("tn", "nt"):
            for shape_name in ("aligned", "run-time"):
                target = str(schedule.target)
                label = f"{preset}-{layout}-{shape_name}"
                yield Case(label, target, _SHAPES[shape_name], layout, (ab, acc, d), epilogue, preset)


_TOKENS = re.compile(r"%(?:rd|rs|r|p|f|fd|rq|h|hh|b)\d+\b|\$L__BB\d+_\d+")


def normalized(ptx: str) -> str:
    """The text without comments and declarations, registers and labels renamed in order of appearance."""
    names: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        token = match[0]
        kind = token.rstrip("0123456789")
        return names.setdefault(token, f"{kind}#{len(names)}")

    lines = (line.split("//")[0].strip() for line in ptx.splitlines())
    kept = (line for line in lines if line and not line.startswith(".reg "))
    return "\n".join(_TOKENS.sub(renamed, line) for line in kept) + "\n"


def machine_code(ptx: str, target: str) -> tuple[Counter[str], str]:
    """How often each opcode occurs, and ptxas's words on registers and spills."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = ["ptxas", "-v", f"-arch={target}", "-o", str(cubin), str(source)]
        words = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        sass = subprocess.run(["nvdisasm", "-c", str(cubin)], check=True, capture_output=True, text=True).stdout
    opcodes = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+|@!?U?PT\s+)?([A-Z][A-Z0-9_.]*)", sass, re.MULTILINE)
    usage = " ".join(re.findall(r"Used \d+ registers|\d+ bytes spill (?:stores|loads)", words))
    return Counter(opcodes), usage


_REFUSED = "// refused: "


def _compile(case: Case) -> str:
    """The PTX; or, where a preset does not serve the layout, why, which is compared as well."""
    try:
        return case.ptx()
    except lt.ScheduleError as error:
        return f"{_REFUSED}{' '.join(str(error).splitlines()[:1])}\n"


def main() -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    arguments = parser.parse_args()
    chosen = [case for case in cases() if arguments.only in case.name]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    moved, changed, refused = [], [], set[str]()
    with ProcessPoolExecutor() as pool:
        for case, ptx in zip(chosen, pool.map(_compile, chosen), strict=True):
            path = arguments.folder / f"{case.name}.ptx"
            refused.update([case.name] if ptx.startswith(_REFUSED) else [])
            if arguments.action == "record":
                path.write_text(ptx)
            elif _REFUSED in path.read_text() + ptx:
                if path.read_text() != ptx:
                    changed.append(case.name)
                    print(f"{case.name}: refused before or now; {ptx.splitlines()[0]}")
            elif normalized(path.read_text()) != normalized(ptx):
                (arguments.folder / f"{case.name}.new.ptx").write_text(ptx)
                before, after = (machine_code(text, case.target) for text in (path.read_text(), ptx))
                if before == after:
                    moved.append(case.name)
                else:
                    changed.append(case.name)
                    print(
                        f"{case.name}: {before[1]} -> {after[1]}; opcodes {dict(after[0] - before[0])} more, "
                        f"{dict(before[0] - after[0])} fewer"
                    )
    verb = "recorded" if arguments.action == "record" else "compared"
    if refused:
        print(f"refused: {', '.join(sorted(refused))}")
    print(f"{len(chosen)} kernels {verb}; {len(moved)} with instructions moved, {len(changed)} with other machine code")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
