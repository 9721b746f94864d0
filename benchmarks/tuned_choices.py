"""How near the cost model's own choice of a schedule is to the fastest that tuning finds.

    python benchmarks/tuned_choices.py --journal DIR [--shapes benchmarks/tuned_shapes.txt] [--numerics any]
        [--most 16] [--budget 15] [--limit 300]

For each shape: `lt.tune`, whose results are kept in DIR, so that a later run goes on with the shapes that are missing.
`--limit`: seconds after which no shape is begun. Prints a Markdown table of the shapes done so far, the geometric mean
of the ratios, and what the tuned schedules are. The shapes are none of those that the model was calibrated on.
"""

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.compiler.bench.contest import markdown
from lowtide.compiler.cli.console import problem_line
from lowtide.compiler.cli.tune import file_name, read_shapes
from lowtide.compiler.dumps import write_whole
from lowtide.compiler.numerics_words import NUMERICS

HEADINGS = ("problem", "chosen, µs", "tuned, µs", "chosen / tuned", "known", "rounds", "of", "tuned schedule")
_SHOWN = ("grid.tile", "grid.cluster", "grid.order", "grid.k_division", "grid.operands", "mainloop.roles")


def measure(spec: lt.GemmSpec, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Tune one shape; what there is to tell about it."""
    begun = time.monotonic()
    found = lt.tune(
        spec,
        numerics=arguments.numerics,
        most=arguments.most,
        budget=arguments.budget,
        jobs=arguments.jobs,
        journal=folder / f"{file_name(spec)}.rounds.json",
    )
    fields = found.schedule.texts()
    return {
        "problem": problem_line(spec, (spec.m, spec.n, spec.k)),
        "device": found.device,
        "own": found.own_seconds * 1e6,
        "tuned": found.seconds * 1e6,
        "speedup": found.speedup,
        "certain": found.certain,
        "rounds": found.rounds,
        "candidates": found.candidates,
        "refused": dict(found.refused),
        "schedule": "chosen"
        if found.schedule == found.own_choice
        else ", ".join(f"{path.partition('.')[2]} = {fields[path]}" for path in _SHOWN if path in fields),
        "seconds": time.monotonic() - begun,
    }


def row(result: dict[str, Any]) -> tuple[str, ...]:
    return (
        result["problem"],
        f"{result['own']:.1f}",
        f"{result['tuned']:.1f}",
        f"{result['speedup']:.3f}",
        "yes" if result["certain"] else "no",
        str(result["rounds"]),
        str(result["candidates"]),
        result["schedule"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--journal", type=Path, required=True, help="folder of results")
    parser.add_argument("--shapes", type=Path, default=Path(__file__).with_name("tuned_shapes.txt"))
    parser.add_argument("--numerics", choices=NUMERICS, default="any", help="as of lt.tune")
    parser.add_argument("--most", type=int, default=16, help="candidates of a shape")
    parser.add_argument("--budget", type=float, default=15.0, help="seconds for a shape")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which no shape is begun")
    parser.add_argument("--jobs", type=int, help="processes that compile; one for each core if left out")
    arguments = parser.parse_args()
    os.environ.setdefault("LOWTIDE_CACHE", str((arguments.journal / "kernels").absolute()))
    end, results, missing = time.monotonic() + arguments.limit, [], 0
    for spec in read_shapes(arguments.shapes, {}):
        path = arguments.journal / f"{file_name(spec)}.json"
        if not path.exists() and time.monotonic() < end:
            try:
                write_whole(path, json.dumps(measure(spec, arguments.journal, arguments), indent=1) + "\n")
            except lt.DeviceError as error:
                sys.exit(f"tuned_choices.py: error: {error}")
            except lt.Error as error:
                print(f"{file_name(spec)}: left out: {error}", file=sys.stderr)
        if path.exists():
            results.append(json.loads(path.read_text()))
        else:
            missing += 1
    print(markdown(HEADINGS, [row(result) for result in results]))
    if results:
        mean = math.exp(sum(math.log(result["speedup"]) for result in results) / len(results))
        longest = max(result["seconds"] for result in results)
        print(f"\n{len(results)} shapes, {missing} to go: chosen / tuned {mean:.4f} in geometric mean; ", end="")
        print(f"the longest took {longest:.1f} s; {results[0]['device']}")


if __name__ == "__main__":
    main()
