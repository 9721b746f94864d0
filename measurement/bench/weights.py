"""Packed weights beside torch's products: kernels raced at several numbers of rows of A, with D compared with float64.

Operands rotate over sets that together exceed L2.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type
from lowtide.errors import Error
from lowtide.measurement.bench.gpu_timing import KINDS, L2_MULTIPLE_BYTES, Contender, race, torch_with_gpu
from lowtide.runtime.weights import pack_weights

GROUP = 128
MOST_ERROR = 1e-2  # relative to the largest element of D, which is rounded to bf16


@dataclass(frozen=True)
class Case:
    """A kernel to time at one number of rows of A."""

    m: int
    name: str
    kernel: Any


def problem(m: int, weights: str, n: int = 28672, k: int = 4096) -> GemmSpec:
    """The product with weights of a type, in groups."""
    return GemmSpec(m=m, n=n, k=k, a="bf16", b=weights, d="bf16", group=GROUP)


def microseconds(contender: Contender) -> list[str]:
    """Sustained and burst: median (least … greatest)."""
    times = [[1e6 * x for x in contender.seconds(kind)] for kind in KINDS]
    return [f"{statistics.median(x):.1f} ({min(x):.1f} … {max(x):.1f})" for x in times]


def raced(
    dtype: str, n: int, k: int, cases: Sequence[Case], rounds: int, seed: int
) -> Iterator[tuple[int, list[Contender]]]:
    """For each M, torch's contenders and the kernels, timed together. Raises DeviceError."""
    torch = torch_with_gpu()
    torch.manual_seed(seed)
    sets = max(2, L2_MULTIPLE_BYTES // (n * k // element_type(dtype).per_byte))
    weights = _random_weights(torch, dtype, n, k)
    scales = (torch.rand(k // GROUP, n) * 0.02 + 0.005).bfloat16().cuda()
    packed = torch.from_numpy(pack_weights(weights.numpy(), dtype)).cuda()
    plain = weights.cuda().float() * scales.float().T.repeat_interleave(GROUP, 1)
    for m in sorted({case.m for case in cases}):
        inputs = [torch.randn(m, k, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
        outputs = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
        contenders = [_matmul(torch, inputs, outputs, plain)]
        if dtype == "s4":
            contenders.append(_int4(torch, inputs, weights, scales))
        peers = len(contenders)
        copies = [(packed.clone(), scales.clone()) for _ in range(sets)]
        for case in cases:
            if case.m == m:
                contenders.append(Contender(case.name, _launches(case.kernel, inputs, copies, outputs)))
        expected = inputs[0].double() @ plain.double().T
        for contender in contenders[peers:]:
            contender.launch(0)
            error = ((outputs[0].double() - expected).abs().max() / expected.abs().max()).item()
            if error > MOST_ERROR:
                raise Error(f"{contender.name}: D is off by {error:.3g} of its largest element [contender-wrong]")
        race(contenders, sets, rounds, seed)
        yield m, contenders


def _launches(kernel: Any, inputs: list[Any], copies: list[Any], outputs: list[Any]) -> Any:
    def launch(i: int) -> None:
        packed, scales = copies[i]
        kernel(inputs[i], packed, scales=scales, out=outputs[i])

    return launch


def _random_weights(torch: Any, dtype: str, n: int, k: int) -> Any:
    """Random integers over the range of the type, or normal floats that use its range, rounded."""
    row = element_type(dtype)
    if not row.is_float:
        return torch.randint(int(row.lowest), int(row.largest) + 1, (n, k), dtype=torch.int16)
    normal = torch.randn(n, k, device="cuda") * (row.largest / 8)
    return normal.clamp(-row.largest, row.largest).to(getattr(torch, row.library)).float().cpu()


def _matmul(torch: Any, inputs: list[Any], outputs: list[Any], plain: Any) -> Contender:
    """torch on bf16 weights."""
    whole = [plain.bfloat16() for _ in inputs]

    def matmul(i: int) -> None:
        torch.matmul(inputs[i], whole[i].T, out=outputs[i])

    return Contender("torch.matmul, bf16", matmul)


def _int4(torch: Any, inputs: list[Any], weights: Any, scales: Any) -> Contender:
    """torch's int4 kernel, with unsigned weights, scales and zero points."""
    unsigned = (weights.cuda().int() + 8).byte()
    nibbles = unsigned[:, ::2] << 4 | unsigned[:, 1::2]
    tiles = [torch.ops.aten._convert_weight_to_int4pack(nibbles, 8) for _ in inputs]
    both = torch.stack([scales, torch.zeros_like(scales)], dim=2).contiguous()

    def int4(i: int) -> None:
        torch.ops.aten._weight_int4pack_mm(inputs[i], tiles[i], GROUP, both)

    return Contender("torch _weight_int4pack_mm", int4)
