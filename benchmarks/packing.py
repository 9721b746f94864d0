"""The kernel that packs or transposes a matrix, timed alone: bytes read and written per second.

    python benchmarks/packing.py [--size 8192,8192 …] [--dtype bf16] [--transpose] [--offset 1] [--rounds 5]
        [--save PATH] [--kernel PATH]

Times the launch that copies A in a product, without its other launches. A is rows × columns, and its base is `--offset`
elements past an aligned one. As a peer, torch copies the same matrix, or its transpose, to an aligned one. As in other
benchmarks, matrices rotate over more than L2 holds, in a CUDA graph; a figure is the median (least … greatest) of
shuffled rounds. `--save` writes the kernel for machines without the compiler; `--kernel` reads it.
"""

import argparse
import importlib
import random
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide import runtime
from lowtide.elements import element_type, types_of_d

L2_MULTIPLE_BYTES = 320 * 2**20
REPLAYS = 10
N = 64  # rows of B, which is not read


def packing_kernel(dtype: str, transpose: bool) -> Any:
    """A kernel for any extents that packs A of (M, K), or transposes A of (K, M)."""
    d = dtype if dtype in types_of_d() else element_type(dtype).computes_in
    spec = lt.GemmSpec(a=dtype, b=dtype, d=d, layout="nn" if transpose else "tn")
    pack = "transposed" if transpose else "rows"
    return lt.compile_gemm(spec, target="sm_90a", schedule=f"a.pack = {pack}, b.pack = none, epilogue.pack = none")


def copy_alone(kernel: Any) -> runtime.Kernel:
    """The kernel with only its copies: its host function launches nothing else."""
    host = [entry for entry in kernel.manifest["host"] if _is_kept(entry)]
    return runtime.Kernel({**kernel.manifest, "host": host}, kernel.ptx, kernel.cubin)


def _is_kept(entry: dict[str, Any]) -> bool:
    kernel = entry["attributes"].get("kernel", "")
    return entry["op"] not in ("tile.launch", "sm.tensor_map") or "_copy_" in kernel or "_transpose_" in kernel


def unaligned(torch: Any, rows: int, columns: int, dtype: str, offset: int) -> Any:
    """A random matrix, `offset` elements into its memory."""
    kind = getattr(torch, element_type(dtype).library)
    return (8 * torch.randn(offset + rows * columns, device="cuda")).to(kind)[offset:].view(rows, columns)


def graph_of(torch: Any, launch: Callable[[int], object], sets: int) -> Any:
    """A graph with one launch per set."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for i in range(sets):
            launch(i)
    stream.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(sets):
            launch(i)
    return graph


def seconds(torch: Any, graph: Any, sets: int) -> float:
    """Seconds per launch: the mean of some replays, after one more."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    start.record()
    for _ in range(REPLAYS):
        graph.replay()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)) / 1e3 / REPLAYS / sets


def time_copies(torch: Any, kernel: runtime.Kernel, size: tuple[int, int], arguments: argparse.Namespace) -> None:
    rows, columns = size
    dtype, moved = arguments.dtype, 2 * rows * columns * element_type(arguments.dtype).bytes
    count = max(2, -(-L2_MULTIPLE_BYTES // moved))
    sources = [unaligned(torch, rows, columns, dtype, arguments.offset) for _ in range(count)]
    read = [source.t() if arguments.transpose else source for source in sources]
    targets = [torch.empty(one.shape, device="cuda", dtype=one.dtype) for one in read]
    m, k = read[0].shape
    output = next(x for x in kernel.manifest["arguments"] if x["role"] == "output")
    b = torch.empty(N, -(-k // 16) * 16, device="cuda", dtype=sources[0].dtype)[:, :k]
    d = torch.empty(m, N, device="cuda", dtype=getattr(torch, element_type(output["dtype"]).library))
    graphs = {
        "Lowtide": graph_of(torch, lambda i: kernel(sources[i], b, out=d), count),
        "torch copy_": graph_of(torch, lambda i: targets[i].copy_(read[i]), count),
    }
    found: dict[str, list[float]] = {name: [] for name in graphs}
    how = f"{'transposed, ' * arguments.transpose}{arguments.offset} off"
    names, shuffler = list(graphs), random.Random(arguments.seed)
    for _ in range(arguments.rounds):
        shuffler.shuffle(names)
        for name in names:
            found[name].append(seconds(torch, graphs[name], count))
    for name, times in found.items():
        middle, least, most = (
            f"{moved / one / 1e12:.2f}" for one in (statistics.median(times), max(times), min(times))
        )
        print(
            f"| {rows}×{columns} {dtype}, {how} | {name} | {1e6 * statistics.median(times):.1f} | "
            f"{middle} ({least} … {most}) |",
            flush=True,
        )


def extents(text: str) -> tuple[int, int]:
    """`8192,8191`."""
    rows, columns = (int(part) for part in text.split(","))
    return rows, columns


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    result.add_argument("--size", action="append", type=extents, help="rows,columns")
    result.add_argument("--dtype", default="bf16", help="of the elements")
    result.add_argument("--transpose", action="store_true", help="time the transposing kernel")
    result.add_argument("--offset", type=int, default=1, help="elements past an aligned base")
    result.add_argument("--rounds", type=int, default=5)
    result.add_argument("--seed", type=int, default=0, help="of the random order")
    result.add_argument("--save", type=Path, help="write the kernel to this path, without timing")
    result.add_argument("--kernel", type=Path, help="a kernel written by --save with the same options")
    return result


def main() -> None:
    arguments = parser().parse_args()
    if arguments.save is not None:
        packing_kernel(arguments.dtype, arguments.transpose).save(arguments.save)
        return
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        sys.exit("packing.py: error: torch is not installed, but makes the matrices; install torch with CUDA")
    kernel = (
        runtime.load(arguments.kernel) if arguments.kernel else packing_kernel(arguments.dtype, arguments.transpose)
    )
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {arguments.rounds} rounds\n")
    print("| matrix | contender | µs | TB/s, read and written |\n| --- | --- | --- | --- |")
    for size in arguments.size or [(8192, 8192), (4096, 4096), (4095, 4103)]:
        time_copies(torch, copy_alone(kernel), size, arguments)


if __name__ == "__main__":
    main()
