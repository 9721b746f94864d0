"""`tn` GEMMs of both roads beside their peers: torch.matmul (cuBLAS) and Triton held to mma.sync.

    python benchmarks/gemm.py --size 4096 --size 8192 --dtype bf16 --dtype f16 [--schedule NAME|TEXT …] [--triton]

Prints one Markdown table a case: TFLOP/s sustained and burst (median, least … greatest over the rounds), and the ratio
to torch.matmul in the same rounds. Every contender's result is first compared with float64 on sampled rows.
"""

import argparse
import os
import sys
import threading
from collections.abc import Callable

import timing
import torch
import triton
import triton.language as tl

import lowtide as lt

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
TRITON_CONFIGS = (
    # BM, BN, BK, warps, stages
    (128, 128, 32, 4, 4),
    (128, 128, 64, 4, 3),
    (128, 256, 32, 8, 4),
    (128, 256, 64, 8, 3),
    (256, 128, 32, 8, 4),
)


@triton.jit
def triton_gemm(
    a_ptr, b_ptr, d_ptr, m, n, k, lda, ldb, ldd,
    bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    """D (M, N) = A (M, K) · B (N, K)ᵀ, tiles in bands of `group` rows."""
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, bm), tl.cdiv(n, bn)
    band = group * tiles_n
    first = pid // band * group
    height = min(tiles_m - first, group)
    tile_m, tile_n = first + pid % band % height, pid % band // height
    rows, columns = tile_m * bm + tl.arange(0, bm), tile_n * bn + tl.arange(0, bn)
    depth = tl.arange(0, bk)
    a = a_ptr + rows[:, None] * lda + depth[None, :]
    b = b_ptr + columns[None, :] * ldb + depth[:, None]
    acc = tl.zeros((bm, bn), dtype=tl.float32)
    for _ in range(0, k, bk):
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += bk
        b += bk
    tl.store(d_ptr + rows[:, None] * ldd + columns[None, :], acc.to(d_ptr.dtype.element_ty))


def triton_launch(sets: list[timing.Operands], config: tuple[int, ...]) -> Callable[[int], object]:
    bm, bn, bk, warps, stages = config

    def launch(i: int) -> None:
        a, b, d = sets[i].a, sets[i].b, sets[i].d
        m, k = a.shape
        n = b.shape[0]
        grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
        triton_gemm[grid](
            a, b, d, m, n, k, a.stride(0), b.stride(0), d.stride(0),
            bm=bm, bn=bn, bk=bk, group=8, num_warps=warps, num_stages=stages, arch="sm80",
        )  # fmt: skip

    return launch


def lowtide_launch(
    sets: list[timing.Operands], dtype: str, size: tuple[int, int, int], target: str, schedule: str | None
):
    spec = lt.GemmSpec(m=size[0], n=size[1], k=size[2], a=dtype, b=dtype, d=dtype)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    assembly = kernel.assembly
    registers = assembly.registers if assembly is not None else "?"
    print(f"  {schedule or 'chosen'}: {kernel.schedule}, {registers} registers", file=sys.stderr)
    return lambda i: kernel(sets[i].a, sets[i].b, out=sets[i].d)


def check(name: str, sets: list[timing.Operands], launch: Callable[[int], object]) -> bool:
    """Poison, launch, compare 64 rows with float64."""
    operands = sets[0]
    operands.d.fill_(float("nan"))
    launch(0)
    torch.cuda.synchronize()
    rows = torch.randperm(operands.a.shape[0], device="cuda")[:64]
    expected = operands.a[rows].double() @ operands.b.double().t()
    error = (operands.d[rows].double() - expected).norm() / expected.norm()
    ok = bool(error < 4e-3) and not bool(operands.d.isnan().any())
    if not ok:
        print(f"  {name}: WRONG, relative error {error.item():.2e}", file=sys.stderr)
    return ok


def run_case(
    size: tuple[int, int, int],
    dtype: str,
    target: str,
    schedules: list[str],
    rounds: int,
    seed: int,
    with_triton: bool,
) -> None:
    m, n, k = size
    sets = timing.operand_sets((m, k), (n, k), (m, n), DTYPES[dtype])
    contenders = [timing.Contender("torch.matmul", lambda i: torch.matmul(sets[i].a, sets[i].b.t(), out=sets[i].d))]
    for config in TRITON_CONFIGS if with_triton else ():
        contenders.append(timing.Contender(f"Triton mma.sync {config}", triton_launch(sets, config)))
    for schedule in [None, *schedules]:
        try:
            launch = lowtide_launch(sets, dtype, size, target, schedule)
        except lt.Error as error:
            print(f"  {schedule}: {error}", file=sys.stderr)
            continue
        contenders.append(timing.Contender(f"lowtide {schedule or 'chosen'}", launch))
    contenders = [contender for contender in contenders if check(contender.name, sets, contender.launch)]
    timing.race(contenders, len(sets), rounds, seed)
    flops = 2.0 * m * n * k
    print(f"\n### {m}×{n}×{k} {dtype}\n")
    print("| contender | sustained TFLOP/s | ratio to torch | burst TFLOP/s | ratio to torch |")
    print("|---|---|---|---|---|")
    for contender in contenders:
        cells = []
        for kind in ("sustained", "burst"):
            middle, least, greatest = timing.spread(getattr(contender, kind), flops)
            cells.append(f"{middle:.0f} ({least:.0f} … {greatest:.0f})")
            middle, least, greatest = timing.ratio(contender, contenders[0], kind)
            cells.append(f"{middle:.3f} ({least:.3f} … {greatest:.3f})")
        print(f"| {contender.name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", action="append", help="N, for N×N×N, or M,N,K", required=True)
    parser.add_argument("--dtype", action="append", choices=list(DTYPES))
    parser.add_argument("--schedule", action="append", default=[], help="a preset's name, or schedule fields")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--triton", action="store_true", help="Triton held to mma.sync beside them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=500.0, help="seconds after which the process ends itself")
    arguments = parser.parse_args()
    watchdog = threading.Timer(arguments.timeout, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}")
    for text in arguments.size:
        extents = [int(part) for part in text.split(",")]
        size = (extents * 3)[:3] if len(extents) == 1 else extents
        for dtype in arguments.dtype or ["bf16"]:
            run_case(
                (size[0], size[1], size[2]),
                dtype,
                arguments.target,
                arguments.schedule,
                arguments.rounds,
                arguments.seed,
                arguments.triton,
            )


if __name__ == "__main__":
    main()
