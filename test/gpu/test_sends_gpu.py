"""A kernel that sends its rank's shard, on one GPU: the places on the peers are other tensors of this GPU.

The other shards are there. D is compared with float64, what was sent with the shard, bit by bit; also when a CUDA graph
replays the launch with another epoch.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF SENDS RAN: torch is not installed; pip install torch")
pytestmark = pytest.mark.gpu

SHARDS, ROWS, COLUMNS, DEPTH, RANK = 4, 200, 512, 1024, 1
LIMIT = 20_000  # ms
TARGETS = {"default": None, "one agent": "sm_80"}


@cache
def compiled(name: str, k: int | None) -> Any:
    options = {} if TARGETS[name] is None else {"target": TARGETS[name]}
    spec = lt.GemmSpec(a="bf16", b="bf16", d="f32", n=COLUMNS, k=k, batch=SHARDS, arrivals=True, peers=True)
    return lt.compile_gemm(spec, schedule="grid.sender = kernel", **options)


class Sent:
    """What a launch takes, and the windows of the peers."""

    def __init__(self) -> None:
        on_gpu = {"dtype": torch.int32, "device": "cuda"}
        self.a = torch.randn(SHARDS, ROWS, DEPTH, device="cuda").bfloat16()
        self.b = torch.randn(COLUMNS, DEPTH, device="cuda").bfloat16()
        self.d = torch.zeros(SHARDS, ROWS, COLUMNS, device="cuda")
        self.windows = torch.zeros(SHARDS, *self.a.shape, dtype=torch.bfloat16, device="cuda")
        self.flags = torch.zeros(SHARDS, SHARDS, **on_gpu)
        self.turn, self.status = torch.tensor([RANK, 0, LIMIT], **on_gpu), torch.zeros(4, **on_gpu)
        self.arrived, self.sent = torch.full((SHARDS,), 100, **on_gpu), torch.zeros(SHARDS, **on_gpu)
        pairs = [[self.windows[q, RANK].data_ptr(), self.flags[q, RANK].data_ptr()] for q in range(SHARDS)]
        pairs[RANK] = [0, 0]
        self.peers = torch.tensor(pairs).view(torch.int32).cuda()

    def launch(self, kernel: Any) -> None:
        names = ("arrived", "turn", "status", "peers", "sent")
        kernel(self.a, self.b, out=self.d, **{name: getattr(self, name) for name in names})

    def check(self, epoch: int) -> None:
        torch.cuda.synchronize()
        assert self.status.tolist() == [0] * 4 and self.sent.tolist() == [0] * SHARDS
        wanted = torch.zeros_like(self.windows)
        wanted[:, RANK] = self.a[RANK]
        wanted[RANK] = 0
        assert torch.equal(self.windows, wanted)
        flags = torch.zeros_like(self.flags)
        flags[:, RANK] = epoch
        flags[RANK] = 0
        assert torch.equal(self.flags, flags)
        product = self.a.double() @ self.b.double().T
        assert ((self.d.double() - product).norm() / product.norm()).item() < 1e-5


@pytest.mark.parametrize("k", [DEPTH, None])
@pytest.mark.parametrize("name", TARGETS)
def test_a_shard_is_sent_and_its_flags_are_set(name: str, k: int | None) -> None:
    torch.manual_seed(0)
    kernel, sent = compiled(name, k), Sent()
    for epoch in (1, 2, 3):
        sent.a.normal_()
        sent.turn[1] = epoch
        sent.launch(kernel)
        sent.check(epoch)


def test_a_graph_replays_what_is_sent() -> None:
    torch.manual_seed(0)
    kernel, sent, graph = compiled("default", DEPTH), Sent(), torch.cuda.CUDAGraph()
    sent.launch(kernel)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        sent.launch(kernel)
    for epoch in (5, 6):
        sent.a.normal_()
        sent.turn[1] = epoch
        graph.replay()
        sent.check(epoch)
