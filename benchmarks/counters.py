"""The counts of `lowtide explain` beside those of the GPU: bank conflicts, wavefronts and sectors of whole launches.

    python benchmarks/counters.py [--folder FOLDER]      compile, profile with ncu and compare
    python benchmarks/counters.py prepare FOLDER         compile and explain: needs the compiler, no GPU
    python benchmarks/counters.py measure FOLDER         profile and compare: needs torch, ncu and a GPU, no compiler

Prints a Markdown table: wavefronts of shared memory and sectors of global memory of each kernel, one number if explain
and the counter agree, otherwise both. Problems are 1024x1024x1024 in f16 with whole tiles unless their names say
otherwise. ncu must be on PATH or named by --ncu, and must be allowed to read counters.
"""

import argparse
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.measurement.counters.ncu import counters_of

_KERNEL = "regex:^lowtide_gemm_f16_"  # products, not launches that prepare
_LAUNCHED = "launched "

_TILE = "grid.tile = [128, 128], grid.order = row, stages = 3, atoms = [2, 2, 1]"
_DIRECT = f"{_TILE}, epilogue.path = direct"
_ROLES = "grid.tile = [128, 128], k = 64, stages = 3, roles = cooperative(2)"


@dataclass(frozen=True)
class Case:
    """One kernel: a schedule for a target, and the fields of the problem that are not 1024, f16 and tn."""

    name: str
    target: str
    schedule: str
    layout: str = "tn"
    m: int = 1024
    n: int = 1024
    k: int = 1024


def _both(bits: int) -> str:
    return f"a.swizzle = <{bits},3,3>, b.swizzle = <{bits},3,3>"


CASES: Sequence[Case] = (
    *(Case(f"mma.sync, k = 32, <{bits},3,3>", "sm_80", f"{_DIRECT}, k = 32, {_both(bits)}") for bits in (0, 2, 3)),
    *(Case(f"mma.sync, k = 64, <{bits},3,3>", "sm_80", f"{_DIRECT}, k = 64, {_both(bits)}") for bits in (0, 2, 3)),
    Case("mma.sync, smem epilogue", "sm_80", f"{_TILE}, k = 32"),
    Case("mma.sync, smem epilogue without swizzle", "sm_80", f"{_TILE}, k = 32, epilogue.swizzle = <0,3,3>"),
    Case("mma.sync, nt", "sm_80", f"{_TILE}, k = 32", layout="nt"),
    Case("mma.sync, tt", "sm_80", f"{_TILE}, k = 32", layout="tt"),
    Case("mma.sync, cp.async.8", "sm_80", f"{_DIRECT}, k = 32, a.copy = cp.async.8, b.copy = cp.async.8"),
    Case("mma.sync, rows of 2064 bytes", "sm_80", f"{_DIRECT}, k = 64", k=1032),
    Case("wgmma, TMA stores", "sm_90a", f"{_ROLES}, epilogue.path = tma"),
    Case("wgmma, <2,3,3>, smem epilogue", "sm_90a", f"{_ROLES}, {_both(2)}, epilogue.path = smem"),
    Case("wgmma, <1,3,3>, direct epilogue", "sm_90a", f"{_ROLES}, {_both(1)}, epilogue.path = direct"),
    Case("wgmma, nt, TMA stores", "sm_90a", f"{_ROLES}, epilogue.path = tma", layout="nt"),
    Case("wgmma, tt, smem epilogue", "sm_90a", f"{_ROLES}, epilogue.path = smem", layout="tt"),
)

Explained = Mapping[str, Any]
Count = Callable[[Mapping[str, Any]], int]


def _wavefronts(access: Mapping[str, Any]) -> int:
    return int(access["wavefronts"])


def _conflicts(access: Mapping[str, Any]) -> int:
    return int(access["wavefronts"]) - int(access["ideal_wavefronts"])


def _sectors(access: Mapping[str, Any]) -> int:
    return int(access["total_sectors"])


def _boxes(access: Mapping[str, Any]) -> int:
    return int(access["boxes"]) * int(access["sectors"])


@dataclass(frozen=True)
class Quantity:
    """A quantity that both count: the sum of `count` over accesses in explain's JSON with `op` and `atom`."""

    column: str
    metric: str
    accesses: str
    op: str
    count: Count
    atom: str = ""

    def explained(self, found: Explained) -> int | None:
        """The count of a whole launch; None if the kernel has no such access, or its loops are known only at run
        time."""
        own = [
            one for one in found[self.accesses] if one["op"] == self.op and one.get("atom", "").startswith(self.atom)
        ]
        tiles = found["kernel"]["grid"]["tiles"]
        if not own or tiles is None or any(one["executions"] is None for one in own):
            return None
        return sum(self.count(one) * one["executions"] * tiles for one in own)


# Counters by instruction, if there are any: those of the whole memory pipeline also count waiting.
_WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_"
_LDMATRIX_CONFLICTS = "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum"
_WGMMA = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"
_WGMMA_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum"
_SECTORS = "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_"
_TMA_LOADS = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"
_TMA_STORES = "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum"
_SHARED, _GLOBAL, _TMA = "shared_accesses", "global_accesses", "tma_accesses"
QUANTITIES: Sequence[Quantity] = (
    Quantity("operands read", f"{_WAVEFRONTS}ldsm.sum", _SHARED, "sm.ldmatrix", _wavefronts),
    Quantity("operands read", _WGMMA, _SHARED, "sm.wgmma", _wavefronts),
    Quantity("of these conflicts", _LDMATRIX_CONFLICTS, _SHARED, "sm.ldmatrix", _conflicts),
    Quantity("of these conflicts", _WGMMA_CONFLICTS, _SHARED, "sm.wgmma", _conflicts),
    Quantity("cp.async", f"{_WAVEFRONTS}ldgsts.sum", _SHARED, "sm.cp_async", _wavefronts),
    Quantity("scratch written", f"{_WAVEFRONTS}st.sum", _SHARED, "sm.store_shared", _wavefronts, "st.shared"),
    Quantity("scratch written", f"{_WAVEFRONTS}stsm.sum", _SHARED, "sm.store_shared", _wavefronts, "stmatrix"),
    Quantity("scratch read", f"{_WAVEFRONTS}ld.sum", _SHARED, "sm.load_shared", _wavefronts),
    Quantity("sectors loaded", f"{_SECTORS}ldgsts.sum", _GLOBAL, "sm.cp_async", _sectors),
    Quantity("sectors loaded", _TMA_LOADS, _TMA, "sm.tma_load", _boxes),
    Quantity("sectors stored", f"{_SECTORS}st.sum", _GLOBAL, "sm.store_global", _sectors),
    Quantity("sectors stored", _TMA_STORES, _TMA, "sm.tma_store", _boxes),
)


def prepare(folder: Path, cases: Iterable[Case] = CASES) -> None:
    """Save each kernel to a folder of its own, and cases.json with explain's report of each."""
    explanation = importlib.import_module("lowtide.inspection.explain.explanation")
    saved = []
    for number, case in enumerate(cases):
        spec = lt.GemmSpec(m=case.m, n=case.n, k=case.k, a="f16", b="f16", d="f16", layout=case.layout)
        kernel = lt.compile_gemm(spec, target=case.target, schedule=case.schedule)
        kernel.save(folder / f"kernel-{number}")
        report = explanation.explain_spec(spec, case.target, kernel.schedule).to_json()
        saved.append({"name": case.name, "kernel": f"kernel-{number}", "layout": case.layout, "explain": report})
    (folder / "cases.json").write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


def launch(folder: Path) -> None:
    """Launch each kernel once, checked against torch; ncu profiles this."""
    torch = importlib.import_module("torch")
    for case in _cases(folder):
        problem, layout = case["explain"]["problem"], case["layout"]
        m, n, k = (problem[name] for name in "mnk")
        a = torch.randn((m, k) if layout[0] == "t" else (k, m), device="cuda").half()
        b = torch.randn((n, k) if layout[1] == "n" else (k, n), device="cuda").half()
        d = lt.runtime.load(folder / case["kernel"])(a, b)
        wanted = (a if layout[0] == "t" else a.t()).float() @ (b.t() if layout[1] == "n" else b).float()
        error = ((d.float() - wanted).norm() / wanted.norm()).item()
        if not error < 1e-3:
            sys.exit(f"{case['name']}: D is wrong, relative error {error:.1e}")
        print(_LAUNCHED + case["name"], flush=True)


def measure(folder: Path, ncu: str) -> dict[str, dict[str, float]]:
    """Each kernel's counters, by metric. If ncu cannot profile, exits with its message."""
    metrics = ",".join(quantity.metric for quantity in QUANTITIES)
    command = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--metrics", metrics, "-k", _KERNEL, sys.executable, __file__, "launch", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    names = [line.removeprefix(_LAUNCHED) for line in done.stdout.splitlines() if line.startswith(_LAUNCHED)]
    rows = counters_of(done.stdout)
    if done.returncode or not names or len(rows) != len(names):
        sys.exit(f"{ncu} profiled {len(rows)} of {len(names)} launches: {(done.stderr or done.stdout).strip()[-2000:]}")
    return dict(zip(names, rows, strict=True))


def table_of(cases: Iterable[Mapping[str, Any]], counters: Mapping[str, Mapping[str, float]]) -> str:
    """A Markdown row for each kernel: explain's figure and the counter, or one number if they are equal."""
    columns = list(dict.fromkeys(quantity.column for quantity in QUANTITIES))
    lines = [f"| kernel | {' | '.join(columns)} |", "|---|" + "--:|" * len(columns)]
    for case in cases:
        cells = dict.fromkeys(columns, "")
        for quantity in QUANTITIES:
            explained, counted = quantity.explained(case["explain"]), counters[case["name"]].get(quantity.metric)
            if explained is not None and counted is not None:
                cells[quantity.column] = (
                    f"{explained}" if explained == counted else f"{explained}, counted {counted:.0f}"
                )
        lines.append(f"| {case['name']} | {' | '.join(cells.values())} |")
    return "\n".join(lines)


def _cases(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    return found


def _report(folder: Path, ncu: str) -> None:
    counters = measure(folder, ncu)
    (folder / "counters.json").write_text(json.dumps(counters, indent=1) + "\n", encoding="utf-8")
    print(table_of(_cases(folder), counters))


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    found.add_argument("what", nargs="?", choices=["all", "prepare", "measure", "launch"], default="all")
    found.add_argument("folder", nargs="?", type=Path, help="folder for the kernels (default: a temporary folder)")
    found.add_argument("--ncu", default="ncu", help="the profiler (default: ncu)")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    if options.what != "all" and options.folder is None:
        sys.exit(f"{options.what} needs a FOLDER")
    if options.what in ("all", "measure") and shutil.which(options.ncu) is None:
        sys.exit(f"{options.ncu} was not found; install Nsight Compute, or name it: --ncu PATH")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.what in ("all", "prepare"):
            prepare(folder)
        if options.what in ("all", "measure"):
            _report(folder, options.ncu)
        if options.what == "launch":
            launch(folder)


if __name__ == "__main__":
    main()
