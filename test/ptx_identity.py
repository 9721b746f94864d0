"""Whether a change leaves choices and generated code alone: `ptx_identity.py record DIR`, edit, then `compare DIR`.

Some 350 kernels are compiled: every preset; every type; the four layouts; aligned, ragged, run-time and batched shapes;
several epilogues; K divided in all ways; shapes of models whose choices use the rarer fields. `record` writes the
schedule and the PTX of each. `compare` checks two things:

- the schedule chosen now is the recorded one;
- the recorded schedule gives the recorded PTX, with registers and labels renamed in order of appearance.

`--translate OLD NEW` replaces text in the recorded schedules first, for fields that are spelled in another way now. New
PTX that differs is written beside the old one. Exit status 0 if all kernels are the same.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.compiler.presets import LADDERS
from lowtide.dialects.tile import KDivisionKind


def _plain(acc: Any) -> Any:
    return acc


def _bias_relu(acc: Any, bias: lt.PerColumn) -> Any:
    return lt.relu(acc + bias)


def _residual(acc: Any, residual: lt.Full, alpha: lt.Scalar) -> Any:
    return alpha * acc + residual


def _row_gelu(acc: Any, scale: lt.PerRow) -> Any:
    return lt.gelu(acc * scale)


_SHAPES: Mapping[str, dict[str, int | None]] = {
    "aligned": {"m": 1024, "n": 1024, "k": 512},
    "ragged": {"m": 300, "n": 520, "k": 264},
    "run-time": {"m": None, "n": None, "k": None},
}
_VARIANTS: Mapping[str, dict[str, Any]] = {
    "bf16": {"a": "bf16", "b": "bf16", "d": "bf16"},
    "bf16-bias-relu": {"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": _bias_relu},
    "f16-to-f32-residual": {"a": "f16", "b": "f16", "d": "f32", "epilogue": _residual},
    "f16-row-gelu": {"a": "f16", "b": "f16", "d": "f16", "epilogue": _row_gelu},
}
_TYPES: Mapping[str, dict[str, Any]] = {
    "f16-sums": {"a": "f16", "b": "f16", "d": "f16", "acc": "f16", "epilogue": _bias_relu},
    "f32": {"a": "f32", "b": "f32", "d": "f32", "epilogue": _residual},
    "tf32": {"a": "tf32", "b": "tf32", "d": "f32"},
    "tf32x3": {"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"},
    "bf16x6": {"a": "f32", "b": "f32", "d": "f32", "precision": "bf16x6"},
    "f64": {"a": "f64", "b": "f64", "d": "f64"},
    "s8": {"a": "s8", "b": "s8", "d": "s32"},
    "u8-s8": {"a": "u8", "b": "s8", "d": "s8"},
    "e4m3": {"a": "e4m3", "b": "e4m3", "d": "bf16"},
    "e4m3-fast": {"a": "e4m3", "b": "e5m2", "d": "bf16", "acc": "fast"},
}
_LAYOUTS = ("tn", "tt", "nn", "nt")
# Whose choices take fields that small shapes do not.
_MODELS = (
    (4096, 4096, 4096),
    (4096, 28672, 4096),
    (16384, 16384, 16384),
    (512, 512, 16384),
    (16, 28672, 4096),
    (1, 4096, 4096),
    (81920, 256, 256),
    (300, 4104, 4104),
)
_DIVIDED = {KDivisionKind.stream_k: "", KDivisionKind.hybrid: "", KDivisionKind.none: ""}


@dataclass(frozen=True)
class Case:
    """One kernel: fields of its GemmSpec, or a preset's own problem."""

    name: str
    target: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | None = None
    preset: str | None = None

    def compile(self, schedule: str | None) -> Any:
        spec = lt.GemmSpec(**self.fields) if self.preset is None else LADDERS[self.preset].spec(**self.fields)
        return lt.compile_gemm(spec, target=self.target, schedule=schedule or self.schedule or self.preset)


def cases() -> Iterator[Case]:
    """Every kernel that is compared."""
    for target in ("sm_80", "sm_90a"):
        for layout in _LAYOUTS:
            for shape, extents in _SHAPES.items():
                for name, types in _VARIANTS.items():
                    yield Case(f"{target}-{layout}-{shape}-{name}", target, {**extents, **types, "layout": layout})
            for name, types in _TYPES.items():
                fields = {**_SHAPES["ragged" if layout in ("tn", "nt") else "run-time"], **types, "layout": layout}
                yield Case(f"{target}-{layout}-{name}", "sm_89" if target < "sm_89" else target, fields)
        for m, n, k in _MODELS:
            for name in ("bf16", "f16-to-f32-residual"):
                yield Case(f"{target}-{m}x{n}x{k}-{name}", target, {"m": m, "n": n, "k": k, **_VARIANTS[name]})
        for kind in KDivisionKind:
            parts = _DIVIDED.get(kind, "(3)")
            fields = {"m": 1024, "n": 1536, "k": 2048, **_VARIANTS["bf16-bias-relu"]}
            yield Case(f"{target}-{kind}", target, fields, f"k_division = {kind}{parts}")
        for batch in (3, None):
            for layout in ("tn", "nt"):
                fields = {**_SHAPES["ragged"], **_VARIANTS["bf16"], "layout": layout, "batch": batch}
                yield Case(f"{target}-{layout}-batch-{batch}", target, fields)
        columns = {**_SHAPES["aligned"], **_VARIANTS["f16-to-f32-residual"], "d_order": "column"}
        yield Case(f"{target}-by-columns", target, columns)
    for preset, one in LADDERS.items():
        weights = {"k": 1024, "n": 1024} if "weights" in preset else {}
        yield Case(f"{preset}-run-time", one.target, weights, preset=preset)
        yield Case(f"{preset}-aligned", one.target, {**_SHAPES["aligned"], "k": 1024}, preset=preset)


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


_REFUSED = "// refused: "


def _compile(case: Case, schedule: str | None = None) -> tuple[str, str]:
    """Schedule and PTX; or, if the preset does not serve the problem, why."""
    try:
        kernel = case.compile(schedule)
    except lt.Error as error:
        return "", f"{_REFUSED}{' '.join(str(error).splitlines()[:1])}\n"
    return f"{kernel.schedule}\n", kernel.ptx


def _record(case: Case, folder: Path) -> str:
    schedule, ptx = _compile(case)
    (folder / f"{case.name}.schedule").write_text(schedule)
    (folder / f"{case.name}.ptx").write_text(ptx)
    return f"{case.name}: {ptx.strip()}" if ptx.startswith(_REFUSED) else ""


def _compare(case: Case, folder: Path, translations: list[tuple[str, str]]) -> str:
    """What differs; or nothing."""
    if not (folder / f"{case.name}.ptx").is_file():
        return f"{case.name}: not recorded"
    recorded, old = ((folder / f"{case.name}.{kind}").read_text() for kind in ("schedule", "ptx"))
    for before, after in translations:
        recorded = recorded.replace(before, after)
    if recorded:  # shorthands are printed as what they stand for
        recorded = f"{lt.Schedule.parse(recorded)}\n"
    chosen, new = _compile(case)
    found = f"{case.name}: chosen\n  {chosen.strip()}\nin place of\n  {recorded.strip()}\n" * (chosen != recorded)
    if chosen != recorded and recorded:
        new = _compile(case, recorded.strip())[1]
    if _REFUSED in old + new:
        return found + f"{case.name}: {new.splitlines()[0]}, was {old.splitlines()[0]}" * (new != old)
    if normalized(old) != normalized(new):
        (folder / f"{case.name}.new.ptx").write_text(new)
        found += f"{case.name}: other PTX"
    return found


def main() -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    parser.add_argument("--translate", nargs=2, action="append", default=[], metavar=("OLD", "NEW"))
    arguments = parser.parse_args()
    chosen = [case for case in cases() if arguments.only in case.name]
    folders = [arguments.folder] * len(chosen)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        recording: Callable[..., str] = _record if arguments.action == "record" else _compare
        rest = () if arguments.action == "record" else ([arguments.translate] * len(chosen),)
        said = [text for text in pool.map(recording, chosen, folders, *rest) if text]
    print("\n".join(said))
    print(f"{len(chosen)} kernels: {arguments.action}; {len(said)} {'refused' if rest == () else 'differ'}")
    return 1 if said and arguments.action == "compare" else 0


if __name__ == "__main__":
    sys.exit(main())
