"""Packed weights of 4 bits compared with torch: A of bf16, weights (28672, 4096) of s4 in groups of 128, D of bf16.

    python benchmarks/weights.py [--m 1 16 64] [--n 28672] [--k 4096] [--schedule FIELDS …] [--rounds 5] [--seed 0]
        [--save DIR | --saved DIR]

The peers are torch.matmul on the weights in bf16, and torch's int4 kernel, torch.ops.aten._weight_int4pack_mm, where it
takes the shape. Each Lowtide kernel is compiled with the schedule chosen for it, or with those given. `--save` only
compiles, where there is no GPU; `--saved` times what it wrote, where there is no compiler. Before, D is compared with
float64. Operands rotate over sets that L2 does not hold together. Prints microseconds, median (least … greatest) of the
shuffled rounds.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide.compiler.bench.gpu_timing import KINDS, L2_MULTIPLE_BYTES, Contender, race, torch_with_gpu
from lowtide.runtime.weights import pack_weights

GROUP = 128
CHOSEN = "chosen"
MOST_ERROR = 1e-2  # relative to the largest element of D, which is rounded to bf16


def save(options: argparse.Namespace, folder: Path) -> None:
    """Compile a kernel for each M and schedule."""
    cases = []
    for m in options.m:
        spec = lt.GemmSpec(m=m, n=options.n, k=options.k, a="bf16", b="s4", d="bf16", group=GROUP)
        for schedule in options.schedule:
            kernel = lt.compile_gemm(spec, target="sm_90a", schedule=None if schedule == CHOSEN else schedule)
            kernel.save(folder / str(len(cases)))
            cases.append({"m": m, "name": schedule, "kernel": str(len(cases))})
    (folder / "cases.json").write_text(json.dumps({"n": options.n, "k": options.k, "cases": cases}))


def time_saved(folder: Path, rounds: int, seed: int) -> None:
    """Race the kernels of each M with torch's."""
    torch = torch_with_gpu()
    found = json.loads((folder / "cases.json").read_text())
    n, k = found["n"], found["k"]
    torch.manual_seed(seed)
    sets = max(2, L2_MULTIPLE_BYTES // (n * k // 2))
    weights = torch.randint(-8, 8, (n, k), dtype=torch.int8)
    scales = (torch.rand(k // GROUP, n) * 0.02 + 0.005).bfloat16().cuda()
    packed = torch.from_numpy(pack_weights(weights.numpy(), "s4")).cuda()
    plain = weights.cuda().float() * scales.float().T.repeat_interleave(GROUP, 1)
    for m in sorted({case["m"] for case in found["cases"]}):
        inputs = [torch.randn(m, k, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
        outputs = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
        contenders = [*_peers(torch, inputs, outputs, (weights, scales, plain))]
        copies = [(packed.clone(), scales.clone()) for _ in range(sets)]
        for case in found["cases"]:
            if case["m"] == m:
                kernel = lt.runtime.load(folder / case["kernel"])
                contenders.append(Contender(case["name"], _launches(kernel, inputs, copies, outputs)))
        expected = inputs[0].double() @ plain.double().T
        for contender in contenders[2:]:
            contender.launch(0)
            error = ((outputs[0].double() - expected).abs().max() / expected.abs().max()).item()
            if error > MOST_ERROR:
                raise SystemExit(f"{contender.name}: D is off by {error:.3g} of its largest element")
        race(contenders, sets, rounds, seed)
        for contender in contenders:
            times = [[1e6 * x for x in contender.seconds(kind)] for kind in KINDS]
            cells = [f"{statistics.median(x):.1f} ({min(x):.1f} … {max(x):.1f})" for x in times]
            print(f"M = {m:3}  {' / '.join(cells)} us  {contender.name}")


def _launches(kernel: Any, inputs: list[Any], copies: list[Any], outputs: list[Any]) -> Any:
    def launch(i: int) -> None:
        packed, scales = copies[i]
        kernel(inputs[i], packed, scales=scales, out=outputs[i])

    return launch


def _peers(torch: Any, inputs: list[Any], outputs: list[Any], layer: tuple[Any, Any, Any]) -> list[Contender]:
    """torch on bf16, and its int4 kernel, whose weights are unsigned and whose scales have zero points beside them."""
    weights, scales, plain = layer
    whole = [plain.bfloat16() for _ in inputs]

    def matmul(i: int) -> None:
        torch.matmul(inputs[i], whole[i].T, out=outputs[i])

    unsigned = (weights.cuda().int() + 8).byte()
    nibbles = unsigned[:, ::2] << 4 | unsigned[:, 1::2]
    tiles = [torch.ops.aten._convert_weight_to_int4pack(nibbles, 8) for _ in inputs]
    both = torch.stack([scales, torch.zeros_like(scales)], dim=2).contiguous()

    def int4(i: int) -> None:
        torch.ops.aten._weight_int4pack_mm(inputs[i], tiles[i], GROUP, both)

    return [Contender("torch.matmul, bf16", matmul), Contender("torch _weight_int4pack_mm", int4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--m", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--n", type=int, default=28672)
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--schedule", action="append", help="fields, a preset, or 'chosen'; may be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--save", type=Path)
    where.add_argument("--saved", type=Path)
    options = parser.parse_args()
    options.schedule = options.schedule or [CHOSEN]
    folder = options.save or options.saved or Path("weights-kernels")
    if options.saved is None:
        folder.mkdir(parents=True, exist_ok=True)
        save(options, folder)
    if options.save is None:
        time_saved(folder, options.rounds, options.seed)


if __name__ == "__main__":
    main()
