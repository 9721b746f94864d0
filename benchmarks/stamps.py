"""When the agents of a kernel work: predicted by the cost model, and measured by stamps; and what stamps cost.

    python benchmarks/stamps.py [--folder FOLDER] [--size M,N,K] [--dtype bf16] [--schedule TEXT]
    python benchmarks/stamps.py prepare --folder FOLDER …     compile: needs the compiler, no GPU
    python benchmarks/stamps.py measure --folder FOLDER       run: needs torch and a GPU, no compiler

Prints the time of the kernel with and without stamps, and for each phase of each agent the predicted and the measured
time, as means over CTAs. Writes FOLDER/trace.json, which Perfetto opens: the predicted timeline of a CTA, and the
measured ones of the first and the last CTA. If ncu is on the PATH, prints what it counts of each resource.
"""

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.inspection.timeline.compared import compared
from lowtide.inspection.timeline.measured import measured_timeline, stamps_of
from lowtide.inspection.timeline.shares import FIELDS
from lowtide.inspection.timeline.timeline import Interval, Timeline, What, write_trace
from lowtide.markdown import markdown
from lowtide.measurement.counters.metrics import rows, summary
from lowtide.measurement.counters.ncu import count
from lowtide.measurement.stamped import race_stamped

_NAMES = ("plain", "stamped")
_CHECKED = 64  # rows of D


def prepare(folder: Path, spec: lt.GemmSpec, target: str, schedule: str | None) -> None:
    """Save the kernel without stamps and with them, and case.json with the prediction and the layout of the stamps."""
    explanation = importlib.import_module("lowtide.inspection.explain.explanation")
    stamp_agents = importlib.import_module("lowtide.passes.nvvm.stamp_agents")
    for name in _NAMES:
        kernel = lt.compile_gemm(spec, target, schedule, tuned=False, stamps=name == "stamped")
        kernel.save(folder / name)
    found = explanation.explain_spec(spec, target, kernel.schedule)
    predicted = None if found.spans is None else found.timeline()
    layout = stamp_agents.StampLayout.of(kernel.schedule, found.resources.threads)
    case = {
        "kernel": kernel.entry,
        "size": [spec.m, spec.n, spec.k],
        "dtypes": [spec.a, spec.d],
        "agents": layout.agents,
        "tiles": layout.tiles,
        "predicted": None if predicted is None else [_as_list(each) for each in predicted.intervals],
        "shares": {} if found.predicted is None else {each.resource: each.share for each in found.predicted.shares},
    }
    (folder / "case.json").write_text(json.dumps(case) + "\n", encoding="utf-8")


def _as_list(interval: Interval) -> list[Any]:
    return [interval.agent, interval.what.value, interval.begin, interval.end, interval.tile, interval.step]


def predicted_timeline(case: Mapping[str, Any]) -> Timeline | None:
    """The prediction in case.json."""
    rows = case["predicted"]
    if rows is None:
        return None
    return Timeline("predicted", tuple(Interval(agent, What(what), *rest) for agent, what, *rest in rows))


def measure(folder: Path) -> str:
    """Time both kernels, read the stamps of a launch, and write the trace. Gives the report. Exits without a GPU, and
    for a wrong D."""
    torch = _torch()
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    (m, n, k), (dtype, of_d) = case["size"], (getattr(torch, _TORCH[name]) for name in case["dtypes"])
    a, b = (torch.randn((rows, k), device="cuda").to(dtype) for rows in (m, n))
    ds = {name: torch.full((m, n), float("nan"), device="cuda", dtype=of_d) for name in _NAMES}
    kernels = {name: lt.runtime.load(folder / name) for name in _NAMES}
    kernels["plain"](a, b, out=ds["plain"])
    kernels["stamped"](a, b, out=ds["stamped"])
    wanted = a[:_CHECKED].float() @ b.float().t()
    error = ((ds["plain"][:_CHECKED].float() - wanted).norm() / wanted.norm()).item()
    if not error < 2.0**-6 or not torch.equal(ds["plain"], ds["stamped"]):
        sys.exit(f"D is wrong (relative error {error:.1e}), or differs with stamps")
    ran = race_stamped(kernels["plain"], kernels["stamped"], a, b, ds["stamped"])
    stamps, predicted = stamps_of(ran.words, case["agents"], case["tiles"]), predicted_timeline(case)
    measured = [measured_timeline(stamps, cta) for cta in (0, len(stamps.times) - 1)]
    write_trace(folder / "trace.json", [*([] if predicted is None else [predicted]), *measured])
    return "\n".join(
        [
            f"{case['kernel']}, {m}x{n}x{k}, {torch.cuda.get_device_name()}",
            f"without stamps {ran.plain * 1e6:.2f} µs, with stamps {ran.stamped * 1e6:.2f} µs:"
            f" median ratio {ran.ratio:.4f}",
            f"predicted {0.0 if predicted is None else predicted.total:.1f} µs; from the first stamp to the last"
            f" {stamps.total:.1f} µs, at {stamps.clock_mhz:.0f} MHz",
            "",
            markdown(("agent", "what", "µs, predicted", "µs, measured"), compared(predicted, stamps)),
            "",
            *_counted(folder, case),
            "",
            f"{folder / 'trace.json'} has the timelines; open it in https://ui.perfetto.dev",
        ]
    )


def _counted(folder: Path, case: Mapping[str, Any]) -> list[str]:
    """What ncu counts of each resource of the kernel without stamps; or why it counts nothing."""
    try:
        found = count(folder / "plain", case["kernel"])
    except lt.DeviceError as refusal:
        return [str(refusal)]
    left_out = [f"ncu does not have {', '.join(found.unknown)} here"] if found.unknown else []
    headings = ("resource", "predicted", "counted", "what ncu counts", "fields that change it")
    return [
        summary(found.values, FIELDS),
        *left_out,
        "",
        markdown(headings, rows(found.values, case["shares"], FIELDS)),
    ]


_TORCH = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        sys.exit("torch is not installed, and stamps are measured with it; install torch with CUDA")
    if not torch.cuda.is_available():
        sys.exit("torch finds no NVIDIA GPU here; prepare a folder here, and measure it where there is one")
    return torch


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    found.add_argument("what", nargs="?", choices=["all", "prepare", "measure"], default="all")
    found.add_argument("--folder", type=Path, help="folder for the kernels and the trace (default: a temporary folder)")
    found.add_argument("--size", default="4096,4096,4096", help="M,N,K (default: 4096,4096,4096)")
    found.add_argument("--dtype", choices=["bf16", "f16"], default="bf16", help="of A, B and D (default: bf16)")
    found.add_argument("--target", default="sm_90a", help="the target (default: sm_90a)")
    found.add_argument("--schedule", help="as for `lowtide run` (default: chosen)")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    if options.what != "all" and options.folder is None:
        sys.exit(f"{options.what} needs --folder FOLDER")
    m, n, k = (int(extent) for extent in options.size.split(","))
    spec = (
        lt.GemmSpec(m=m, n=n, k=k, a=options.dtype, b=options.dtype, d=options.dtype)
        if options.what != "measure"
        else None
    )
    folder = options.folder or Path(tempfile.mkdtemp(prefix="lowtide-stamps-"))
    folder.mkdir(parents=True, exist_ok=True)
    if spec is not None:
        prepare(folder, spec, options.target, options.schedule)
    if options.what != "prepare":
        print(measure(folder))


if __name__ == "__main__":
    main()
