"""Products with their collectives on several GPUs, compared with NCCL and torch's fused operations.

    torchrun --nproc-per-node 4 benchmarks/ranks.py [--work ag rs ar few] [--seconds 90] [--rounds 15] [--seed 1]
        [--commit HASH] [--out ranks.json] [--sends]

M, N and K are those of the whole product, in bf16. For AG+GEMM, the rows of A and the columns of B are divided among
the ranks. For GEMM+RS and GEMM+AR, K is divided. All ranks shuffle the contenders of a round in the same way. A time is
that of the slowest rank, per call. "The product alone" is this project's product without a collective. A ratio is the
time of another contender divided by this project's time in the same round: above 1, this project takes less time. Its
median, least and greatest are written. Before the timing, results of this project and of torch's fused operations are
compared with NCCL's; those that differ are not timed. Rows that do not begin within `--seconds` are left out. A process
that takes 30 s more ends itself. With `--sends`, AG+GEMM is also timed with rows that the kernels send, and with rows
that the copy engine sends, whatever their size. The work `few` is AG+GEMM with few bytes of A; it is timed only if
`--work` names it. The file is a result of benchmarks/record.py, for docs/performance.md.
"""

import argparse
import faulthandler
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import record
import torch
import torch.distributed as dist
from record import Cell

import lowtide.torch as ltt
from lowtide.torch import distributed

SHAPES = {
    "ag": ((8192, 28672, 8192), (4096, 14336, 4096), (2048, 28672, 8192), (512, 28672, 8192), (64, 28672, 8192)),
    "rs": ((8192, 8192, 28672), (4096, 4096, 14336), (2048, 8192, 28672), (512, 8192, 28672), (64, 8192, 28672)),
    "ar": ((8192, 8192, 28672), (4096, 4096, 14336), (2048, 8192, 28672), (512, 8192, 28672), (64, 8192, 28672)),
    "few": (
        *((512, 8192, k) for k in (512, 1024, 2048, 4096, 8192)),
        *((1024, 8192, k) for k in (512, 1024, 2048)),
        *((2048, 8192, k) for k in (512, 1024)),
        *((4096, 8192, 256), (512, 28672, 2048)),
    ),
}
CONTENDERS = {
    "nccl": "NCCL and product",
    "fused": "torch's fused operation",
    "alone": "the product alone",
    "cublas": "torch.mm alone",
    "sent": "rows sent by the kernel",
    "copied": "rows sent by the copy engine",
}
COLUMNS = ("work", "µs", *(f"to {label}" for label in CONTENDERS.values()), "plain, because")
LABELS = {"ag": "AG+GEMM", "rs": "GEMM+RS", "ar": "GEMM+AR", "few": "AG+GEMM"}
CALLS = 5  # in a row; the host enqueues them while the GPU sleeps, if it is fast enough
Contenders = dict[str, Callable[[], torch.Tensor]]


def gather(shape: tuple[int, int, int], rank: int, size: int) -> Contenders:
    m, n, k = shape
    a, weight = drawn(m // size, k), drawn(n // size, k)
    whole, out, ours = a.new_empty(m, k), a.new_empty(m, n // size), a.new_empty(m, n // size)
    dist.all_gather_into_tensor(whole, a)
    local, name = whole.clone(), dist.group.WORLD.group_name

    def nccl() -> torch.Tensor:
        dist.all_gather_into_tensor(whole, a)
        return torch.mm(whole, weight.mT, out=out)

    return {
        "nccl": nccl,
        "sent": lambda: distributed.all_gather_matmul(a, weight.mT, out=ours, sender="kernel"),
        "copied": lambda: distributed.all_gather_matmul(a, weight.mT, out=ours, sender="copy_engine"),
        "ours": lambda: distributed.all_gather_matmul(a, weight.mT, out=ours),
        "alone": lambda: ltt.matmul(local, weight.mT, out=ours),
        "cublas": lambda: torch.mm(local, weight.mT, out=out),
        "fused": lambda: torch.ops.symm_mem.fused_all_gather_matmul(a, [weight.mT], 0, name)[1][0],
    }


def scatter(shape: tuple[int, int, int], rank: int, size: int) -> Contenders:
    m, n, k = shape
    a, weight = drawn(m, k // size), drawn(n, k // size)
    part, whole = a.new_empty(m, n), a.new_empty(m, n)
    out, ours, name = a.new_empty(m // size, n), a.new_empty(m // size, n), dist.group.WORLD.group_name

    def nccl() -> torch.Tensor:
        torch.mm(a, weight.mT, out=part)
        dist.reduce_scatter_tensor(out, part)
        return out

    return {
        "nccl": nccl,
        "ours": lambda: distributed.matmul_reduce_scatter(a, weight.mT, out=ours),
        "alone": lambda: ltt.matmul(a, weight.mT, out=whole),
        "cublas": lambda: torch.mm(a, weight.mT, out=whole),
        "fused": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(a, weight.mT, "sum", 0, name),
    }


def reduce(shape: tuple[int, int, int], rank: int, size: int) -> Contenders:
    m, n, k = shape
    a, weight = drawn(m, k // size), drawn(n, k // size)
    part, whole, ours = a.new_empty(m, n), a.new_empty(m, n), a.new_empty(m, n)

    def nccl() -> torch.Tensor:
        torch.mm(a, weight.mT, out=part)
        dist.all_reduce(part)
        return part

    return {
        "nccl": nccl,
        "ours": lambda: distributed.matmul_all_reduce(a, weight.mT, out=ours),
        "alone": lambda: ltt.matmul(a, weight.mT, out=whole),
        "cublas": lambda: torch.mm(a, weight.mT, out=whole),
    }


WORKS = {"ag": gather, "rs": scatter, "ar": reduce, "few": gather}


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda").bfloat16() / shape[-1] ** 0.25


def errors(contenders: Contenders) -> dict[str, str]:
    """What is wrong with the result of each contender, "" if nothing; all ranks get the same. Contenders with a wrong
    result are removed."""
    wanted, found = contenders["nccl"]().float().clone(), {}
    for name in [name for name in contenders if name not in ("nccl", "alone", "cublas")]:
        try:
            difference = (contenders[name]().float() - wanted).abs().max() / wanted.abs().max()
            said = "" if difference < 0.03 else f"differs from NCCL by {difference:.2g} of the largest"
        except Exception as error:
            said = str(error).splitlines()[0][:200]
        all_said: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(all_said, said)
        found[name] = next((f"rank {number}: {each}" for number, each in enumerate(all_said) if each), "")
        if found[name]:
            del contenders[name]
    return found


def timed(contenders: Contenders, rounds: int, seed: int) -> dict[str, list[float]]:
    """For each contender, the microseconds per call on the slowest rank, in each round."""
    order, found = random.Random(seed), {name: [] for name in contenders}
    for call in contenders.values():
        for _ in range(3):
            call()
    for _ in range(rounds):
        for name in order.sample([*contenders], len(contenders)):
            torch.cuda.synchronize()
            dist.barrier()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(4_000_000)  # about 2 ms, in which the host fills the queue
            start.record()
            for _ in range(CALLS):
                contenders[name]()
            end.record()
            end.synchronize()
            slowest = torch.tensor(start.elapsed_time(end) / CALLS * 1e3, device="cuda")
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            found[name].append(slowest.item())
    return found


def row(work: str, shape: tuple[int, int, int], times: dict[str, list[float]], said: str) -> tuple[Cell, ...]:
    """The cells of COLUMNS. `said`: the last cell, which says what is wrong, or why the ranks took the plain ops."""
    named = f"{dist.get_world_size()} GPUs, {LABELS[work]} {' × '.join(map(str, shape))}"
    ours = times.get("ours")
    if ours is None:
        return named, *[""] * (len(COLUMNS) - 2), said
    ratios = ([each / own for each, own in zip(times.get(name, []), ours, strict=False)] for name in CONTENDERS)
    return named, digits(ours, 1)[0], *[digits(each, 3) if each else "" for each in ratios], said


def digits(values: list[float], places: int) -> list[Decimal]:
    """Median, least and greatest."""
    return [Decimal(f"{each:.{places}f}") for each in (statistics.median(values), min(values), max(values))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", nargs="+", choices=[*WORKS], default=["ag", "rs", "ar"])
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit", default="")
    parser.add_argument("--sends", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("ranks.json"))
    asked = parser.parse_args()
    begun = time.monotonic()
    faulthandler.dump_traceback_later(asked.seconds + 30, exit=True, file=sys.stderr)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    rank, size = dist.get_rank(), dist.get_world_size()
    rows: list[tuple[Cell, ...]] = []
    turns = zip_longest(*([(work, shape) for shape in SHAPES[work]] for work in asked.work))
    for work, shape in filter(None, chain.from_iterable(turns)):
        late = torch.tensor(time.monotonic() - begun > asked.seconds, device="cuda", dtype=torch.int32)
        dist.all_reduce(late, op=dist.ReduceOp.MAX)
        if late.item():
            break
        torch.manual_seed(asked.seed * 100 + rank)
        contenders = WORKS[work](shape, rank, size)
        if not asked.sends:
            contenders = {name: call for name, call in contenders.items() if name not in ("sent", "copied")}
        said = "; ".join(f"{name}: {what}" for name, what in errors(contenders).items() if what)
        said = said or next(iter(plain_reasons()), "")
        rows.append(row(work, shape, timed(contenders, asked.rounds, asked.seed), said))
        if rank == 0:
            print(" | ".join(map(record.printed, rows[-1])), flush=True)
            result = record.Result(
                device=f"{size} × {torch.cuda.get_device_name()}",
                date=record.today(),
                command=f"torchrun --nproc-per-node {size} benchmarks/ranks.py --rounds {asked.rounds}",
                columns=COLUMNS,
                rows=tuple(rows),
                area="ranks",
                software=f"torch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}",
                rounds=str(asked.rounds),
                about="bf16; M, N and K of the whole product; time of the slowest rank",
                commit=asked.commit,
                seed=str(asked.seed),
            )
            asked.out.write_text(result.text(), encoding="utf-8")
    dist.destroy_process_group()


def plain_reasons() -> list[str]:
    """Why the last signature that the ranks agreed on takes the plain ops."""
    agreed = distributed.ranks_of(None).agreed
    return [reason for key, reason in agreed.items() if isinstance(key, distributed.Signature)][-1:]


if __name__ == "__main__":
    main()
