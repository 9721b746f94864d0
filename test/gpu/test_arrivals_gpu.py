"""Shards of A that arrive while a kernel waits, on one GPU: its copy engine fills them from pinned memory, on a stream
of their own, as that of a peer would. No other kernel runs meanwhile: it might wait for an SM that the first one holds.

D is compared with float64 for each way to copy; a shard that never comes ends the kernel by its time limit.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF ARRIVALS RAN: torch is not installed; pip install torch")
pytestmark = pytest.mark.gpu

SHARDS, ROWS, COLUMNS, DEPTH, RANK = 4, 1000, 2048, 1024, 1
LIMIT = 50  # ms
DELAY = 0.002  # s, in front of each shard
SCHEDULES = {
    "default": (None, ""),
    "mma.sync, one agent": ("sm_80", ""),
    "in turn, direct stores": (None, "roles = pingpong(2), epilogue.path = smem"),
}


def shifted(acc, column: lt.PerColumn):
    return acc + column


@cache
def compiled(name: str, **fields: Any) -> Any:
    target, schedule = SCHEDULES[name]
    if name != "default" and target is None and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("NO ROLES: wgmma needs compute capability 9.0")
    spec = lt.GemmSpec(
        a="bf16", b="bf16", d="f32", n=COLUMNS, k=DEPTH, batch=SHARDS, arrivals=True, epilogue=shifted, **fields
    )
    options = {} if target is None else {"target": target}
    return lt.compile_gemm(spec, schedule=schedule or None, **options)


class Gathered:
    """A, its flags, and what a launch takes; and the shards in pinned memory that are sent there."""

    def __init__(self, limit: int) -> None:
        self.peer, self.epoch = torch.cuda.Stream(), 2**31 - 3  # wraps during the test
        self.a = torch.zeros(SHARDS, ROWS, DEPTH, dtype=torch.bfloat16, device="cuda")
        self.b = torch.randn(COLUMNS, DEPTH, device="cuda").bfloat16()
        self.column = torch.randn(COLUMNS, device="cuda")
        self.arrived = torch.full((SHARDS,), self.epoch, dtype=torch.int32, device="cuda")
        self.turn = torch.tensor([RANK, self.epoch, limit], dtype=torch.int32, device="cuda")
        self.status = torch.zeros(4, dtype=torch.int32, device="cuda")
        self.d = torch.full((SHARDS, ROWS, COLUMNS), -1.0, device="cuda")
        self.shards = [torch.empty(ROWS, DEPTH, dtype=torch.bfloat16).pin_memory() for _ in range(SHARDS)]
        self.flag = torch.empty(1, dtype=torch.int32).pin_memory()

    def next_epoch(self) -> None:
        """Other shards, and an epoch that no flag has."""
        self.epoch = int((np.array([self.epoch], np.int64) + 1).astype(np.int32)[0])
        for shard in self.shards:
            shard.copy_(torch.randn(ROWS, DEPTH).bfloat16())
        self.flag[0] = self.epoch
        self.turn[1] = self.epoch
        torch.cuda.synchronize()

    def launch(self, kernel: Any) -> None:
        operands = {"arrived": self.arrived, "turn": self.turn, "status": self.status, "column": self.column}
        kernel(self.a, self.b, out=self.d, **operands)

    def send(self, order: list[int]) -> None:
        """Copies, each followed by its flag, by the copy engine."""
        with torch.cuda.stream(self.peer):
            for shard in order:
                time.sleep(DELAY)
                self.a[shard].copy_(self.shards[shard], non_blocking=True)
                self.arrived[shard : shard + 1].copy_(self.flag, non_blocking=True)

    def check(self) -> None:
        torch.cuda.synchronize()
        assert self.status.tolist() == [0, 0, 0, 0]
        a = torch.stack(self.shards).cuda().double()
        wanted = a @ self.b.double().T + self.column.double()
        found = self.d.double()
        assert ((found - wanted).norm() / wanted.norm()).item() < 1e-5


@pytest.mark.parametrize("name", SCHEDULES)
def test_shards_are_multiplied_as_they_arrive(name: str) -> None:
    """The kernel is launched before any of its shards is sent, in an order that it does not take."""
    torch.manual_seed(0)
    kernel, gathered = compiled(name), Gathered(limit=20_000)
    gathered.launch(kernel)  # all flags are there: what is loaded lazily is loaded
    gathered.send([0])
    torch.cuda.synchronize()
    for order in ([1, 2, 3, 0], [0, 3, 2, 1], [3, 1, 0, 2], [2, 0, 1, 3]):
        gathered.next_epoch()
        gathered.launch(kernel)
        gathered.send(order)
        gathered.check()


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_shard_that_does_not_come_is_named_and_d_is_not_touched(name: str) -> None:
    torch.manual_seed(0)
    kernel, gathered = compiled(name), Gathered(limit=LIMIT)
    gathered.launch(kernel)
    torch.cuda.synchronize()
    gathered.d.fill_(-1.0)
    gathered.next_epoch()
    before = int(gathered.arrived[0].item())
    began = time.perf_counter()
    gathered.launch(kernel)
    torch.cuda.synchronize()
    took = time.perf_counter() - began
    one, shard, seen, epoch = gathered.status.tolist()
    assert (one, seen, epoch) == (1, before, gathered.epoch) and shard in range(SHARDS)
    assert (gathered.d == -1.0).all().item()
    assert LIMIT / 1000 <= took < 10 * LIMIT / 1000
    gathered.status.zero_()  # the context lives on
    torch.cuda.synchronize()
    gathered.launch(kernel)
    gathered.send([1, 2, 3, 0])
    gathered.check()


def test_only_a_late_shard_is_left_out_if_the_others_are_done() -> None:
    torch.manual_seed(0)
    kernel, gathered = compiled("default"), Gathered(limit=20 * LIMIT)
    gathered.launch(kernel)
    gathered.send([0])
    torch.cuda.synchronize()
    gathered.d.fill_(-1.0)
    gathered.next_epoch()
    gathered.launch(kernel)
    gathered.send([1, 2, 3])
    torch.cuda.synchronize()
    assert gathered.status.tolist()[:2] == [1, 0]
    assert (gathered.d[0] == -1.0).all().item() and not (gathered.d[RANK] == -1.0).any().item()
