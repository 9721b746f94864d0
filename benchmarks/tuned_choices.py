"""Compares the cost model's own choice of a schedule with the fastest schedule that tuning measures.

    python benchmarks/tuned_choices.py --journal DIR [--shapes benchmarks/tuned_shapes.txt] [--numerics any]
        [--most 9] [--seconds 0.7] [--duel 4] [--limit 100]

A pool of processes compiles the kernels of all shapes, while finished ones are verified and timed as in `lt.tune`, for
at most `--seconds` each. Then the chosen schedule and the fastest alternate for `--duel` rounds, each until clocks and
power have settled. Only these rounds count: among several of similar speed, the apparently fastest was also the
luckiest. Results are stored in DIR, so that a later run continues with the missing shapes. `--limit`: seconds after
which no shape is started. Prints a Markdown table of the shapes measured so far and the geometric mean of the ratios.
The model is not calibrated on these shapes, apart from 1536 1536 1536 (`calibrate.py`).
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.cli.console import problem_line
from lowtide.cli.tune import file_name, read_shapes
from lowtide.compiler.cache.precompile import Job, compile_job
from lowtide.compiler.cache.settings import open_store
from lowtide.compiler.compile import Request
from lowtide.compiler.native import NATIVE, resolve
from lowtide.compiler.numerics_words import ANY, NUMERICS
from lowtide.compiler.whole_files import write_whole
from lowtide.dialects.tile.agents import AGENT_PATHS
from lowtide.markdown import markdown
from lowtide.measurement.tuning import search
from lowtide.measurement.tuning.candidates import candidates
from lowtide.measurement.tuning.elimination import Race
from lowtide.measurement.tuning.gpu import GpuBench
from lowtide.measurement.tuning.journal import Journal
from lowtide.targets import get

HEADINGS = ("problem", "chosen, µs", "fastest, µs", "chosen / fastest", "certain", "rounds", "of", "fastest schedule")
_SHOWN = ("grid.tile", "grid.cluster", "grid.order", "grid.k_division", "grid.operands", *AGENT_PATHS)
_CONFIDENCE, _MARGIN = 0.95, 0.01


@dataclass(frozen=True)
class Plan:
    """A shape and the schedules to measure, the chosen one first: as text, in short form, and the kernel to compile."""

    spec: lt.GemmSpec
    schedules: tuple[tuple[str, str, Job], ...]


def plan(spec: lt.GemmSpec, target: str, numerics: str, most: int, folder: Path, most_bytes: int) -> Plan:
    """In a process of its own."""
    found = []
    for schedule in candidates(spec, get(target), numerics, most):
        request = Request(spec, get(target), schedule.shorthand(), numerics)
        fields = schedule.texts()
        shown = ", ".join(f"{path.partition('.')[2]} = {fields[path]}" for path in _SHOWN if path in fields)
        job = Job(request.key, request.problem(), target, folder, most_bytes)
        found.append((schedule.shorthand(), shown, job))
    return Plan(spec, tuple(found))


def measure(plan: Plan, running: dict[str, Future[None]], arguments: argparse.Namespace, target: str) -> dict[str, Any]:
    """The result for a shape, after waiting for its kernels."""
    begun = time.monotonic()
    journal, kernels = Journal({}), []
    for text, _, job in plan.schedules:
        error = running[job.key].exception()
        if error is None:
            kernels.append((text, lt.compile_gemm(plan.spec, target, text, numerics=arguments.numerics)))
        else:
            journal.refused[text] = str(error)
    waited = time.monotonic() - begun
    bench = GpuBench(plan.spec, 0, same_bits=arguments.numerics != ANY)
    names = search.admit(bench, kernels, journal)
    race, until = Race(_CONFIDENCE, _MARGIN), time.monotonic() + arguments.seconds
    certain = search.run(bench.seconds, names, race, journal, until=until, seed=0, on_round=lambda state: None)
    own, leader = plan.schedules[0][0], race.leader()
    alone = search.duel(bench, own, leader, arguments.duel) if leader != own else [race.seconds[own]] * 2
    median, speedup = statistics.median(alone[1]), statistics.median(x / y for x, y in zip(*alone, strict=True))
    return {
        "problem": problem_line(plan.spec, (plan.spec.m, plan.spec.n, plan.spec.k)),
        "device": bench.device,
        "own": median * speedup * 1e6,
        "fastest": median * 1e6,
        "speedup": speedup,
        "seemed": race.ratio(own, leader),
        "certain": certain,
        "rounds": race.rounds,
        "candidates": len(names),
        "refused": journal.refused,
        "schedule": "the chosen one" if leader == own else next(x for text, x, _ in plan.schedules if text == leader),
        "times": {shown: race.seconds.get(text, []) for text, shown, _ in plan.schedules},
        "waited": waited,
        "seconds": time.monotonic() - begun,
    }


def row(result: dict[str, Any]) -> tuple[str, ...]:
    return (
        result["problem"],
        f"{result['own']:.1f}",
        f"{result['fastest']:.1f}",
        f"{result['speedup']:.3f}",
        "yes" if result["certain"] else "no",
        str(result["rounds"]),
        str(result["candidates"]),
        result["schedule"],
    )


def measure_missing(specs: list[lt.GemmSpec], arguments: argparse.Namespace) -> None:
    """Measure the shapes without a result, in mixed order, until time is up."""
    end, store, target = time.monotonic() + arguments.limit, open_store(), resolve(NATIVE).name
    missing = [spec for spec in specs if not result_path(spec, arguments).exists()]
    random.Random(0).shuffle(missing)
    if store is None or not missing:
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs or os.cpu_count(), context) as pool:
        given = target, arguments.numerics, arguments.most, store.folder, store.most_bytes
        planned = [pool.submit(plan, spec, *given) for spec in missing]
        plans = [future.result() for future in planned]
        running = {job.key: pool.submit(compile_job, job) for one in plans for _, _, job in one.schedules}
        for one in plans:
            if time.monotonic() >= end:
                break
            try:
                found = measure(one, running, arguments, target)
            except lt.Error as error:
                print(f"{file_name(one.spec)}: left out: {error}", file=sys.stderr)
            else:
                write_whole(result_path(one.spec, arguments), json.dumps(found, indent=1) + "\n")
        pool.shutdown(wait=False, cancel_futures=True)


def result_path(spec: lt.GemmSpec, arguments: argparse.Namespace) -> Path:
    return Path(arguments.journal, f"{file_name(spec)}.json")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--journal", type=Path, required=True, help="folder of results")
    parser.add_argument("--shapes", type=Path, default=Path(__file__).with_name("tuned_shapes.txt"))
    parser.add_argument("--numerics", choices=NUMERICS, default=ANY, help="as for lt.tune")
    parser.add_argument("--most", type=int, default=9, help="candidates per shape")
    parser.add_argument("--seconds", type=float, default=0.7, help="of timing per shape")
    parser.add_argument("--duel", type=int, default=4, help="rounds of only the chosen schedule and the fastest")
    parser.add_argument("--limit", type=float, default=100.0, help="seconds after which no shape is started")
    parser.add_argument("--jobs", type=int, help="processes that compile; default one per core")
    arguments = parser.parse_args()
    os.environ.setdefault("LOWTIDE_CACHE", str((arguments.journal / "kernels").absolute()))
    specs = list(read_shapes(arguments.shapes, {}))
    try:
        measure_missing(specs, arguments)
    except lt.DeviceError as error:
        sys.exit(f"tuned_choices.py: error: {error}")
    paths = [path for path in (result_path(spec, arguments) for spec in specs) if path.exists()]
    results = [json.loads(path.read_text()) for path in paths]
    print(markdown(HEADINGS, [row(result) for result in results]))
    if results:
        mean = math.exp(sum(math.log(result["speedup"]) for result in results) / len(results))
        print(f"\n{len(results)} of {len(specs)} shapes: chosen / fastest {mean:.4f} in geometric mean; ", end="")
        print(f"{sum(result['seconds'] for result in results):.0f} s in all; {results[0]['device']}")


if __name__ == "__main__":
    main()
