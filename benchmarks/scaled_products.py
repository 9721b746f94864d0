"""Products of 8-bit floats with scales, compared with torch._scaled_mm: A and B of e4m3, D of bf16, tn.

    python benchmarks/scaled_products.py [--size 8192 …] [--schedule FIELDS …] [--rounds 6] [--seed 0]
        [--save DIR | --saved DIR]

Scales are of each tensor, or of each row of A and of B; sums are the tensor cores' own (fast), or of at most 128
products added in f32. torch has both as `use_fast_accum`. Each Lowtide kernel is compiled with the schedule chosen for
it, or with those given. `--save` only compiles, where there is no GPU; `--saved` times what it wrote, where there is no
compiler. Prints TFLOP/s, median (least … greatest) of the shuffled rounds, and the ratio to the faster of torch's two
kernels with such sums. Before, every result is compared with float64 on sampled rows.
"""

import argparse
import os
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.compiler.bench.gpu_timing import (
    CHECKED_ROWS,
    KINDS,
    L2_MULTIPLE_BYTES,
    Contender,
    Operands,
    race,
    ratio,
    spread,
    torch_with_gpu,
)

SUMS = {"fast": "fast", "f32": "f32"}
MOST_ERROR = {"fast": 6e-3, "f32": 2.5e-3}  # relative, of D in bf16 from normal operands: by K = 16384 on an H200
CHOSEN = "chosen"


SCALES = ("tensor", "rows")


def epilogues() -> dict[str, Callable[..., Any]]:
    """By kind of scales; only where there is a compiler."""

    def by_tensor(acc: Any, scale_a: lt.Scalar, scale_b: lt.Scalar) -> Any:
        return acc * scale_a * scale_b

    def by_rows(acc: Any, scale_a: lt.PerRow["f32"], scale_b: lt.PerColumn["f32"]) -> Any:  # noqa: F821
        return acc * scale_a * scale_b

    return {"tensor": by_tensor, "rows": by_rows}


def compiled(size: tuple[int, int, int], schedules: list[str]) -> Iterator[tuple[str, Any]]:
    """A name and a kernel for each kind of sums and scales, and schedule."""
    m, n, k = size
    for sums in SUMS:
        for kind, epilogue in epilogues().items():
            spec = lt.GemmSpec(m=m, n=n, k=k, a="e4m3", b="e4m3", d="bf16", acc=sums, epilogue=epilogue)
            for number, schedule in enumerate(schedules):
                given = None if schedule == CHOSEN else schedule
                try:
                    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=given)
                    assert kernel.cubin
                except lt.Error as error:
                    print(f"lowtide {sums} {kind} {schedule}: left out: {error}", file=sys.stderr)
                    continue
                yield f"{sums}.{kind}.{number}", kernel


def operand_sets(torch: Any, size: tuple[int, int, int], seed: int) -> list[Operands]:
    """As many sets of normal random operands as L2 cannot hold, two at least."""
    m, n, k = size
    generator = torch.Generator(device="cuda").manual_seed(seed)
    sets = []
    for _ in range(max(2, -(-L2_MULTIPLE_BYTES // (m * k + n * k + 2 * m * n)))):
        a, b = (
            torch.randn(shape, device="cuda", generator=generator).to(torch.float8_e4m3fn) for shape in ((m, k), (n, k))
        )
        sets.append(Operands(a, b, torch.empty((m, n), device="cuda", dtype=torch.bfloat16), "tn"))
    return sets


def scales(torch: Any, kind: str, m: int, n: int) -> tuple[Any, Any]:
    """Scales of A and of B, about 1, as torch takes them."""
    if kind == "tensor":
        return torch.full((), 0.75, device="cuda"), torch.full((), 1.5, device="cuda")
    return tuple(torch.rand(shape, device="cuda") + 0.5 for shape in ((m, 1), (1, n)))


def contenders(
    torch: Any, size: tuple[int, int, int], sets: list[Operands], kernels: Iterator[tuple[str, Any]]
) -> dict[tuple[str, str], list[Contender]]:
    """torch's and Lowtide's by sums and scales, those that are right."""
    m, n, _ = size
    given = {kind: scales(torch, kind, m, n) for kind in SCALES}
    found: dict[tuple[str, str], list[Contender]] = {}

    def add(name: str, sums: str, kind: str, launch: Any) -> None:
        contender = Contender(name, launch)
        error = error_of(torch, contender, sets, *given[kind])
        if error < MOST_ERROR[sums]:
            found.setdefault((sums, kind), []).append(contender)
        else:
            print(f"{name}: left out: relative error {error:.1e}", file=sys.stderr)

    for sums in SUMS:
        for kind in SCALES:
            a, b = given[kind]

            def multiply(i: int, sums: str = sums, a: Any = a, b: Any = b) -> None:
                one, fast = sets[i], sums == "fast"
                torch._scaled_mm(
                    one.a, one.b.t(), scale_a=a, scale_b=b, out_dtype=one.d.dtype, use_fast_accum=fast, out=one.d
                )

            add(f"torch {sums} {kind}", sums, kind, multiply)
    for name, kernel in kernels:
        sums, kind, _ = name.split(".")
        scale_a, scale_b = (x.item() if x.ndim == 0 else x.reshape(-1) for x in given[kind])

        def run(i: int, kernel: Any = kernel, scale_a: Any = scale_a, scale_b: Any = scale_b) -> None:
            kernel(sets[i].a, sets[i].b, scale_a=scale_a, scale_b=scale_b, out=sets[i].d)

        add(f"lowtide {name.replace('.', ' ')}", sums, kind, run)
    return found


def error_of(torch: Any, contender: Contender, sets: list[Operands], scale_a: Any, scale_b: Any) -> float:
    """Relative error of sampled rows of D; NaN where an element was not written."""
    one = sets[0]
    one.d.fill_(float("nan"))
    contender.launch(0)
    rows = torch.randperm(one.d.shape[0], device="cuda")[:CHECKED_ROWS]
    expected = one.a[rows].double() @ one.b.double().t()
    expected *= scale_a.double() * scale_b.double() if scale_a.ndim == 0 else scale_a[rows].double() * scale_b.double()
    whole = float("nan") if bool(one.d.isnan().any()) else 1.0
    return float((one.d[rows].double() - expected).norm() / expected.norm()) * whole


def report(size: tuple[int, int, int], found: dict[tuple[str, str], list[Contender]]) -> None:
    """A Markdown table: ratios are to the faster of torch's kernels with such sums."""
    m, n, k = size
    print(f"\n### {m}×{n}×{k} e4m3 tn, D of bf16\n")
    print("| kernel | sustained | to torch | burst | to torch |\n|---|---|---|---|---|")
    for sums in SUMS:
        mine = [one for (own, _), each in found.items() if own == sums for one in each]
        cells: dict[str, list[str]] = {one.name: [] for one in mine}
        for kind in KINDS:
            peers = [one for one in mine if one.name.startswith("torch")]
            best = min(peers, key=lambda one: statistics.median(one.seconds(kind)))
            for one in mine:
                middle, least, most = spread(one.seconds(kind), 2.0 * m * n * k)
                times, low, high = ratio(one, best, kind)
                cells[one.name] += [f"{middle:.0f} ({least:.0f} … {most:.0f})", f"{times:.3f} ({low:.3f} … {high:.3f})"]
        for name, row in cells.items():
            print(f"| {name} | {' | '.join(row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", action="append", type=int, help="M = N = K; 8192 if left out")
    parser.add_argument("--schedule", action="append", help=f"fields, or {CHOSEN}, which is the default")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="compile and save to this folder, without timing")
    parser.add_argument("--saved", type=Path, help="time what --save wrote, without compiling")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which the process ends itself")
    arguments = parser.parse_args()
    watchdog = threading.Timer(arguments.timeout, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    for extent in arguments.size or [8192]:
        size = (extent, extent, extent)
        if arguments.saved is None:
            kernels = compiled(size, arguments.schedule or [CHOSEN])
        else:
            folders = sorted((arguments.saved / str(extent)).iterdir())
            kernels = ((folder.name, lt.runtime.load(folder)) for folder in folders)
        if arguments.save is not None:
            for name, kernel in kernels:
                kernel.save(arguments.save / str(extent) / name)
            continue
        torch = torch_with_gpu()
        sets = operand_sets(torch, size, arguments.seed)
        found = contenders(torch, size, sets, kernels)
        race([one for each in found.values() for one in each], len(sets), arguments.rounds, arguments.seed)
        report(size, found)


if __name__ == "__main__":
    main()
