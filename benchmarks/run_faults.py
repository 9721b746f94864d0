"""Runs the kernels saved by save_faults.py on a GPU, and counts the visible faults: wrong results, hangs, errors, none.

    python benchmarks/run_faults.py FOLDER [--markdown DIR/hidden-faults.md]

Needs only torch and the runtime. Each kernel runs 25 times on two shapes, on integers, so that all right results have
the same bits. Kernels run in separate processes: a launch of more than four seconds is killed with its process.
"""

import argparse
import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from lowtide import runtime

EXTENTS = ((2048, 2048, 1024), (1000, 1032, 1200))
RUNS, HANG_SECONDS, START_SECONDS = 25, 4.0, 60.0
WORKERS = 3  # at a time: starting takes most of their time
WORDS = ("wrong result", "hang", "error", "hidden")
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def operands(manifest: dict[str, Any], m: int, n: int, generator: torch.Generator) -> dict[str, Any]:
    """The operands of the epilogue besides the accumulator, by name."""
    shapes = {"full": (m, n), "per_row": (m,), "per_column": (n,)}
    given: dict[str, Any] = {}
    for one in manifest["arguments"]:
        if one["kind"] == "scalar":
            given[one["name"]] = 2.0
        elif one["kind"] in shapes:
            values = torch.randint(-3, 4, shapes[one["kind"]], device="cuda", generator=generator)
            given[one["name"]] = values.to(DTYPES[one["dtype"]])
    return given


def expected(acc: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    """D in bf16, for the epilogues of the kernels that save_faults.py saves."""
    if "c" in given:
        inner = given["scale"] * acc + 2.0 * given["c"].float() - given["row"].float()[:, None]
        return (torch.relu(inner) + given["column"].float()).to(torch.bfloat16)
    return (torch.relu(acc + given["bias"].float()) if given else acc).to(torch.bfloat16)


def run(folder: Path, number: int) -> str:
    """The fraction of wrong runs of a saved kernel, "" if all are right."""
    kernel, generator = runtime.load(folder), torch.Generator(device="cuda").manual_seed(number)
    wrong, worst, begun = 0, 0.0, False
    for m, n, k in EXTENTS:
        a, b = (
            torch.randint(-3, 4, (rows, k), device="cuda", generator=generator).to(torch.bfloat16) for rows in (m, n)
        )
        given = operands(dict(kernel.manifest), m, n, generator)
        reference = expected(a.float() @ b.float().t(), given)
        for _ in range(RUNS):
            d = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
            torch.cuda.synchronize()
            if not begun:
                print(f"begin {number}", flush=True)
                begun = True
            kernel(a, b, out=d, **given)
            bad = int((d != reference).sum().item())
            wrong, worst = wrong + (bad > 0), max(worst, bad / d.numel())
    return f"{wrong} of {RUNS * len(EXTENTS)} runs, up to {100 * worst:.3g} % of elements" if wrong else ""


def worker(folder: Path, cases: list[dict[str, str]], numbers: list[int]) -> None:
    """Run cases and report on standard output; exits at the first error, which leaves no usable context."""
    for number in numbers:
        try:
            told = run(folder / cases[number]["folder"], number)
        except Exception as error:
            print(f"end {number} error {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
            raise SystemExit(3) from error
        print(f"end {number} {'wrong ' + told if told else 'hidden'}", flush=True)


def drive(folder: Path, left: list[int]) -> dict[int, tuple[str, str]]:
    """Each case's word and detail, from successive workers."""
    results: dict[int, tuple[str, str]] = {}
    while left:
        command = [sys.executable, __file__, str(folder), "--only", *map(str, left)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_pump, args=(process, lines), daemon=True).start()
        begun = False
        while (line := _next(lines, HANG_SECONDS if begun else START_SECONDS)) is not None:
            word, number, *rest = line.split(maxsplit=3)
            begun = word == "begin"
            if not begun:
                name = {"wrong": "wrong result"}.get(rest[0], rest[0])
                results[int(number)] = (name, rest[1].strip() if len(rest) > 1 else "")
                left.remove(int(number))
        hung = process.poll() is None and begun
        process.kill()
        process.wait()
        if left and begun:
            results[left.pop(0)] = ("hang", "") if hung else ("error", f"the process ended with {process.returncode}")
        elif left and not results:
            raise SystemExit("no kernel could be started")
    return results


def _pump(process: "subprocess.Popen[str]", lines: "queue.Queue[str | None]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    process.wait()
    lines.put(None)


def _next(lines: "queue.Queue[str | None]", seconds: float) -> str | None:
    try:
        return lines.get(timeout=seconds)
    except queue.Empty:
        return None


def page(cases: list[dict[str, str]], results: dict[int, tuple[str, str]], device: str) -> str:
    """The tables for docs/verification.md."""
    faults = [(cases[number], *results[number]) for number in results if cases[number]["fault"]]
    count = Counter(word for _, word, _ in faults)
    today = datetime.now(timezone.utc).date().isoformat()
    lines = [
        f"{today}, one {device}, {len(faults)} mutants of level `nvvm`: "
        + ", ".join(f"{count[word]} {word}" for word in WORDS)
        + "."
    ]
    lines += ["", f"| found on a CPU as | {' | '.join(WORDS)} |", "|---" * (1 + len(WORDS)) + "|"]
    by_rule = Counter((case["rule"], word) for case, word, _ in faults)
    for rule in dict.fromkeys(case["rule"] for case, _, _ in faults):
        lines.append(f"| {rule} | {' | '.join(str(by_rule[rule, word] or '') for word in WORDS)} |")
    lines += ["", "| schedule | fault | found on a CPU as | on the GPU | |", "|---|---|---|---|---|"]
    lines += [
        f"| {case['kernel']} | {case['fault']} | {case['rule']} | {word} | {told} |" for case, word, told in faults
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", type=int, nargs="*", help="run these cases, in this process")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    cases = json.loads((options.folder / "cases.json").read_text(encoding="utf-8"))
    if options.only is not None:
        worker(options.folder, cases, options.only)
        return
    shares = [list(range(first, len(cases), WORKERS)) for first in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(lambda share: drive(options.folder, share), shares))
    results = dict(sorted((number, result) for share in found for number, result in share.items()))
    wrong = [
        case["kernel"] for number, case in enumerate(cases) if not case["fault"] and results[number][0] != "hidden"
    ]
    if wrong:
        raise SystemExit(f"{', '.join(wrong)} is wrong without a fault, so the results of the others mean nothing")
    text = page(cases, results, torch.cuda.get_device_name())
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
