"""Products of 8-bit floats with scales, compared with torch._scaled_mm: A and B of e4m3, D of bf16, tn.

    python benchmarks/scaled_products.py [--size 8192 …] [--scales blocks …] [--schedule FIELDS …] [--rounds 6]
        [--seed 0] [--save DIR | --saved DIR]

Scales are of each tensor, of each row of A and of B, or of blocks: 1×128 of A and 128×128 of B. Sums are the tensor
cores' own (fast), or of at most 128 products added in f32. torch has both as `use_fast_accum`. Each Lowtide kernel is
compiled with the schedule chosen for it, or with those given. `--save` only compiles, where there is no GPU; `--saved`
times what it wrote, where there is no compiler. Prints TFLOP/s, median (least … greatest) of the shuffled rounds, and
the ratio to the faster of torch's two kernels with such sums. Before, every result is compared with float64 on sampled
rows.
"""

import argparse
import os
import statistics
import sys
import threading
from collections.abc import Callable, Collection, Iterator
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


SCALES = ("tensor", "rows", "blocks")
BLOCK = 128  # of K, and of the columns of B; torch wants rows of B's scales at multiples of four blocks
ROW_OF_BLOCKS = 4


def epilogues() -> dict[str, Callable[..., Any] | None]:
    """By kind of scales; only where there is a compiler. Scales of blocks are no part of it."""

    def by_tensor(acc: Any, scale_a: lt.Scalar, scale_b: lt.Scalar) -> Any:
        return acc * scale_a * scale_b

    def by_rows(acc: Any, scale_a: lt.PerRow["f32"], scale_b: lt.PerColumn["f32"]) -> Any:  # noqa: F821
        return acc * scale_a * scale_b

    return {"tensor": by_tensor, "rows": by_rows, "blocks": None}


def compiled(size: tuple[int, int, int], schedules: list[str], kinds: Collection[str]) -> Iterator[tuple[str, Any]]:
    """A name and a kernel for each kind of sums and scales, and schedule."""
    m, n, k = size
    for sums in SUMS:
        for kind, epilogue in epilogues().items():
            if kind not in kinds or (sums, kind) == ("fast", "blocks"):
                continue
            scales = lt.BlockScales() if kind == "blocks" else None
            types = {"a": "e4m3", "b": "e4m3", "d": "bf16", "acc": sums}
            spec = lt.GemmSpec(m=m, n=n, k=k, **types, epilogue=epilogue, block_scales=scales)
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


def scales(torch: Any, kind: str, size: tuple[int, int, int]) -> tuple[Any, Any]:
    """Scales of A and of B, about 1, as torch takes them: those of blocks (M, K / 128) and (K / 128, N / 128), M and K
    contiguous."""
    m, n, k = size
    if kind == "tensor":
        return torch.full((), 0.75, device="cuda"), torch.full((), 1.5, device="cuda")
    if kind == "rows":
        return tuple(torch.rand(shape, device="cuda") + 0.5 for shape in ((m, 1), (1, n)))
    blocks = -(-k // BLOCK)
    row = -(-blocks // ROW_OF_BLOCKS) * ROW_OF_BLOCKS
    of_a, of_b = (torch.rand(shape, device="cuda") + 0.5 for shape in ((blocks, m), (-(-n // BLOCK), row)))
    return of_a.t(), of_b[:, :blocks].t()


def as_taken(kind: str, scale: Any) -> Any:
    """A scale as Lowtide takes it, from one as torch does."""
    if kind == "blocks":
        return scale.t()
    return scale.item() if scale.ndim == 0 else scale.reshape(-1)


def scaled(one: Any, kind: str, scale: Any, is_b: bool) -> Any:
    """Rows of A, or of B = (N, K), in float64, multiplied by their scales."""
    if kind != "blocks":
        return one.double() * (scale.double().t() if is_b and scale.ndim else scale.double())
    by_row = scale.t().repeat_interleave(BLOCK, 0)[: one.shape[0]] if is_b else scale
    return one.double() * by_row.double().repeat_interleave(BLOCK, 1)[:, : one.shape[1]]


def contenders(
    torch: Any,
    size: tuple[int, int, int],
    sets: list[Operands],
    kernels: Iterator[tuple[str, Any]],
    kinds: Collection[str],
) -> dict[tuple[str, str], list[Contender]]:
    """torch's and Lowtide's by sums and scales, those that are right."""
    given = {kind: scales(torch, kind, size) for kind in kinds}
    found: dict[tuple[str, str], list[Contender]] = {}

    def add(name: str, sums: str, kind: str, launch: Any) -> None:
        contender = Contender(name, launch)
        error = error_of(torch, contender, sets, kind, *given[kind])
        if error < MOST_ERROR[sums]:
            found.setdefault((sums, kind), []).append(contender)
        else:
            print(f"{name}: left out: relative error {error:.1e}", file=sys.stderr)

    for sums in SUMS:
        for kind in kinds:
            if (sums, kind) == ("fast", "blocks"):
                continue
            a, b = given[kind]

            def multiply(i: int, sums: str = sums, a: Any = a, b: Any = b) -> None:
                one, fast = sets[i], sums == "fast"
                torch._scaled_mm(
                    one.a, one.b.t(), scale_a=a, scale_b=b, out_dtype=one.d.dtype, use_fast_accum=fast, out=one.d
                )

            add(f"torch {sums} {kind}", sums, kind, multiply)
    for name, kernel in kernels:
        sums, kind, _ = name.split(".")
        if kind not in kinds:
            continue
        scale_a, scale_b = (as_taken(kind, x) for x in given[kind])

        def run(i: int, kernel: Any = kernel, scale_a: Any = scale_a, scale_b: Any = scale_b) -> None:
            kernel(sets[i].a, sets[i].b, scale_a=scale_a, scale_b=scale_b, out=sets[i].d)

        add(f"lowtide {name.replace('.', ' ')}", sums, kind, run)
    return found


def error_of(torch: Any, contender: Contender, sets: list[Operands], kind: str, scale_a: Any, scale_b: Any) -> float:
    """Relative error of sampled rows of D; NaN where an element was not written."""
    one = sets[0]
    one.d.fill_(float("nan"))
    contender.launch(0)
    rows = torch.randperm(one.d.shape[0], device="cuda")[:CHECKED_ROWS]
    of_rows = scale_a[rows] if scale_a.ndim else scale_a
    expected = scaled(one.a[rows], kind, of_rows, False) @ scaled(one.b, kind, scale_b, True).t()
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
        for kind in KINDS if mine else ():
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
    parser.add_argument("--size", action="append", help="M = N = K, or MxNxK; 8192 if left out")
    parser.add_argument("--scales", action="append", choices=SCALES, help="of what; tensor and rows if left out")
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
    kinds = arguments.scales or SCALES[:2]
    for text in arguments.size or ["8192"]:
        extents = [int(extent) for extent in text.split("x")]
        m, n, k = extents * 3 if len(extents) == 1 else extents
        size = (m, n, k)
        if arguments.saved is None:
            kernels = compiled(size, arguments.schedule or [CHOSEN], kinds)
        else:
            folders = sorted((arguments.saved / text).iterdir())
            kernels = ((folder.name, lt.runtime.load(folder)) for folder in folders)
        if arguments.save is not None:
            for name, kernel in kernels:
                kernel.save(arguments.save / text / name)
            continue
        torch = torch_with_gpu()
        sets = operand_sets(torch, size, arguments.seed)
        found = contenders(torch, size, sets, kernels, kinds)
        race([one for each in found.values() for one in each], len(sets), arguments.rounds, arguments.seed)
        report(size, found)


if __name__ == "__main__":
    main()
