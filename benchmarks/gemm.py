"""Lowtide's GEMMs compared with torch.matmul (cuBLAS), cuBLASLt's best algorithm, QuACK, and Triton by mma.sync.

    python benchmarks/gemm.py --size 4096 --size 4096,28672,4096 [--dtype bf16 --dtype f16] [--acc f16]
        [--layout tn --layout nt] [--batch 16] [--schedule NAME|TEXT|chosen …] [--cublaslt] [--triton] [--quack]
        [--target sm_90a] [--rounds 5] [--seed 0]

Prints two Markdown tables per case, sustained and burst: TFLOP/s and the ratios to torch.matmul, to cuBLASLt's best and
to the better of both, each as median (least … greatest) over the same shuffled rounds. Before timing, every contender's
result is compared with exact sums of integers, and with float64 on sampled rows. Every size is run with every dtype and
layout; a case that cannot run is left out, with the reason. A batch is compared with torch.bmm only.
"""

import argparse
import importlib
import itertools
import os
import sys
import threading

import lowtide as lt
from lowtide.compiler.spec_fields import LAYOUTS
from lowtide.markdown import markdown
from lowtide.measurement.bench.contest import HEADINGS, Contest
from lowtide.measurement.bench.cublaslt_search import WITH_SWEEP
from lowtide.measurement.bench.gpu_timing import KINDS, torch_with_gpu
from lowtide.targets import accumulator_types, operand_types

CHOSEN = "chosen"
PEERS = {  # modules NAME_gemm.py in this folder, for `tn` products
    "triton": "Triton limited to mma.sync",
    "quack": "QuACK on wgmma, by default and tuned",
}


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def add_kernels(contest: Contest, target: str, schedules: list[str]) -> None:
    """Compile each schedule, print the result, and add the kernel to the contest."""
    for schedule in schedules:
        try:
            kernel = lt.compile_gemm(contest.spec, target=target, schedule=None if schedule == CHOSEN else schedule)
            assembly = kernel.assembly
        except lt.Error as error:
            say(f"lowtide {schedule}: left out: {error}")
            continue
        say(f"lowtide {schedule}: {kernel.schedule}, {assembly.registers if assembly is not None else '?'} registers")
        contest.add_kernel(f"lowtide {schedule}", kernel)


def run_case(size: tuple[int, int, int], dtype: str, layout: str, arguments: argparse.Namespace) -> None:
    m, n, k = size
    acc = arguments.acc or accumulator_types(dtype, dtype)[0]
    batch = lt.UNBATCHED if arguments.batch is None else arguments.batch
    spec = lt.GemmSpec(m=m, n=n, k=k, batch=batch, a=dtype, b=dtype, d=dtype, acc=acc, layout=layout)
    with Contest(spec, arguments.seed, say) as contest:
        for peer in PEERS:
            if getattr(arguments, peer) and layout == "tn" and not spec.is_batched:
                for contender in importlib.import_module(f"{peer}_gemm").contenders(contest.sets):
                    contest.add(contender)
        add_kernels(contest, arguments.target, arguments.schedule or [CHOSEN])
        standings = contest.run(arguments.rounds, WITH_SWEEP if arguments.cublaslt else 0)
    for kind in KINDS:
        of_batch = f"{arguments.batch} × " if spec.is_batched else ""
        print(f"\n### {of_batch}{m}×{n}×{k} {dtype} {layout}, {acc} accumulators, {kind}\n")
        print(markdown(HEADINGS, standings.rows(kind)), flush=True)


def extents(text: str) -> tuple[int, int, int]:
    """`4096`, or `4096,28672,4096`."""
    numbers = [int(part) for part in text.split(",")]
    if len(numbers) not in (1, 3):
        raise argparse.ArgumentTypeError(f"{text!r} is neither N nor M,N,K")
    return numbers[0], numbers[len(numbers) // 2], numbers[-1]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else None, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    result.add_argument("--size", action="append", type=extents, help="N, for N×N×N, or M,N,K", required=True)
    result.add_argument("--dtype", action="append", choices=operand_types(), help="default bf16")
    result.add_argument("--acc", choices=accumulator_types(), help="type of the sums; default f64 for f64, else f32")
    result.add_argument("--layout", action="append", choices=LAYOUTS, help="default tn")
    result.add_argument("--batch", type=int, help="number of products in a batch; default one product")
    result.add_argument("--schedule", action="append", help=f"a preset's name, schedule fields, or {CHOSEN} (default)")
    result.add_argument("--target", default="sm_90a", help="what Lowtide compiles for")
    result.add_argument("--cublaslt", action="store_true", help="cuBLASLt's best of up to 96 algorithms")
    for peer, what in PEERS.items():
        result.add_argument(f"--{peer}", action="store_true", help=f"{what}, for tn")
    result.add_argument("--rounds", type=int, default=5, help="counted rounds")
    result.add_argument("--seed", type=int, default=0, help="of operands and of the order")
    result.add_argument("--timeout", type=float, default=500.0, help="seconds after which the process exits")
    return result


def main() -> None:
    arguments = parser().parse_args()
    watchdog = threading.Timer(arguments.timeout, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    try:
        torch = torch_with_gpu()
    except lt.Error as error:
        sys.exit(f"gemm.py: error: {error}")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    cases = itertools.product(arguments.size, arguments.dtype or ["bf16"], arguments.layout or ["tn"])
    for size, dtype, layout in cases:
        try:
            run_case(size, dtype, layout, arguments)
        except lt.Error as error:
            say(f"{'x'.join(map(str, size))} {dtype} {layout}: left out: {error}")


if __name__ == "__main__":
    main()
