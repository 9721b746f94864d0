"""Kernels compiled with stamps compute the same D, and record when their agents work."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.dialects.tile.schedule import Schedule
from lowtide.inspection.timeline.measured import Stamps, stamps_of
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.passes.nvvm.stamp_agents import StampLayout

WARPS = "grid.tile = [64, 64], k = 32, atoms = [2, 2, 1], stages = 3"
ONE_CONSUMER = "grid.tile = [64, 64], roles = cooperative(1), k = 64, stages = 3"
M, N, K = 192, 128, 128
SPEC = lt.GemmSpec(m=M, n=N, k=K, a="bf16", b="bf16", d="f32")
# Schedules, SMs, the tiles of each agent of the first CTA, and the number of CTAs.
CASES: dict[str, tuple[str, str, int, dict[str, int], int]] = {
    "turns": (
        "sm_90a",
        "grid.tile = [64, 64], roles = pingpong(2), k = 64, stages = 3",
        2,
        {"producer": 3, "consumer 0": 2, "consumer 1": 1},
        2,
    ),
    "shared tiles": (
        "sm_90a",
        "grid.tile = [128, 64], roles = cooperative(2), k = 64, stages = 3",
        2,
        {"producer": 2, "consumer": 2},
        2,
    ),
    "persistent warps": ("sm_80", f"{WARPS}, scheduler = persistent", 1, {"warps": 2}, 4),
    "warps": ("sm_80", WARPS, 2, {"warps": 1}, 6),
    "divided K": ("sm_90a", f"{ONE_CONSUMER}, k_division = split(2)", 2, {"producer": 6, "consumer": 6}, 2),
    "shares of K": ("sm_90a", f"{ONE_CONSUMER}, k_division = stream_k", 4, {"producer": 2, "consumer": 2}, 4),
}


@lru_cache
def compiled(name: str, *, stamps: bool = True) -> CompiledKernel:
    target, schedule, *_ = CASES[name]
    return lt.compile_gemm(SPEC, target, schedule, stamps=stamps)


def block_of(kernel: CompiledKernel) -> int:
    """The threads of a CTA."""
    threads: int = kernel.manifest["host"][-1]["attributes"]["block"][0]
    return threads


class Memories:
    """The memories of runs of the interpreter, and the names of their buffers."""

    def __init__(self) -> None:
        self.made: list[tuple[GlobalMemory, str]] = []

    def stamps(self, layout: StampLayout) -> Stamps:
        """Those of the last run, in its last workspace. The interpreter counts steps, not cycles and nanoseconds."""
        memory, name = next(each for each in reversed(self.made) if each[1].startswith("workspace"))
        # Counts begin at 0, which a buffer of zeros does not tell from a stamp that is missing.
        values, is_written = (np.asarray(each).reshape(-1) for each in memory.contents(name))
        return stamps_of(np.where(is_written, values.astype(np.int64) + 1, 0), layout.agents, layout.tiles)


@pytest.fixture
def memories(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memories]:
    found, allocate = Memories(), GlobalMemory.allocate

    def kept(self: GlobalMemory, name: str, *given: Any) -> int:
        found.made.append((self, name))
        return allocate(self, name, *given)

    monkeypatch.setattr(GlobalMemory, "allocate", kept)
    yield found


@pytest.mark.parametrize(
    ("name", "level"),
    [*(("turns", level) for level in ("nvvm", "llvm", "ptx")), *((name, "ptx") for name in [*CASES][1:])],
)
def test_stamps_change_no_d_and_record_every_tile(name: str, level: str, memories: Memories) -> None:
    kernel = compiled(name)
    _, _, sms, tiles, ctas = CASES[name]
    inputs = lt.random_inputs(SPEC, m=M, n=N, k=K, rng=np.random.default_rng(0))
    found = kernel.interpret(**inputs, level=level, sms=sms, seed=1)
    exact = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64).T
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    stamps = memories.stamps(StampLayout.of(kernel.schedule, block_of(kernel)))
    assert stamps.agents == tuple(tiles) and len(stamps.times) == ctas
    for number, (agent, count) in enumerate(tiles.items()):
        assert (~np.isnan(stamps.times[0, number])).all(axis=-1).sum() == count, agent
    assert (np.diff(stamps.times, axis=-1)[~np.isnan(stamps.times[..., 0])] >= 0).all()
    assert stamps.sms.tolist() == [1 + cta % sms for cta in range(ctas)]  # 1: that of `Memories.stamps`


def test_halves_of_tiles_are_numbered_behind_whole_tiles(memories: Memories) -> None:
    spec = lt.GemmSpec(m=768, n=64, k=64, a="bf16", b="bf16", d="f32")
    schedule = "grid.tile = [256, 64], roles = cooperative(2), k = 64, stages = 3, tail = halves"
    kernel = lt.compile_gemm(spec, "sm_90a", schedule, stamps=True)
    inputs = lt.random_inputs(spec, m=768, n=64, k=64, rng=np.random.default_rng(0))
    found = kernel.interpret(**inputs, level="ptx", sms=2, seed=1)
    exact = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64).T
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    stamps = memories.stamps(StampLayout.of(kernel.schedule, block_of(kernel)))
    written = ~np.isnan(stamps.times).any(axis=-1)
    assert written.shape[:2] == (2, 2) and written[..., :2].all() and not written[..., 2:].any()
    assert (stamps.times[..., 0, 3] <= stamps.times[..., 1, 0]).all()


def test_the_code_without_stamps_is_the_same_and_reads_no_clock() -> None:
    plain = compiled("turns", stamps=False)
    assert "tile.stamps" not in plain.levels["problem"] and "%clock" not in plain.ptx
    stamped = compiled("turns", stamps=True)
    assert stamped.entry == plain.entry and stamped.schedule == plain.schedule
    text = stamped.levels["problem"].replace(" attributes {tile.stamps}", "")
    assert text == plain.levels["problem"] and lt.compile_ir(text).ptx == plain.ptx
    assert lt.compile_ir(stamped.levels["epilogue"]).ptx == stamped.ptx != plain.ptx


def test_a_kernel_without_products_that_it_knows_is_refused() -> None:
    spec = lt.GemmSpec(m=64, n=64, k=64, a="f32", b="f32", d="f32")
    with pytest.raises(lt.Error, match=r"compile without stamps \[stamps-products\]"):
        _ = lt.compile_gemm(spec, "sm_80", Schedule.parse("atom = fma.m1n1k1"), stamps=True).ptx


def test_products_in_f64_are_enclosed(memories: Memories) -> None:
    spec = lt.GemmSpec(m=64, n=64, k=32, a="f64", b="f64", d="f64")
    kernel = lt.compile_gemm(spec, "sm_90a", stamps=True)
    inputs = lt.random_inputs(spec, m=64, n=64, k=32, rng=np.random.default_rng(0))
    found = kernel.interpret(**inputs, level="nvvm", sms=1, seed=1)
    np.testing.assert_allclose(found, inputs["a"] @ inputs["b"].T, rtol=1e-12)
    stamps = memories.stamps(StampLayout.of(kernel.schedule, block_of(kernel)))
    assert (np.diff(stamps.times[0, 0, 0]) > 0).all()


def test_tiles_whose_number_only_the_device_knows_are_recorded(memories: Memories) -> None:
    spec = lt.GemmSpec(m=None, n=64, k=64, a="bf16", b="bf16", d="f32", groups=3)
    kernel = lt.compile_gemm(spec, "sm_90a", f"{ONE_CONSUMER}, scheduler = persistent", stamps=True)
    inputs = lt.random_inputs(spec, m=260, n=64, k=64, rng=np.random.default_rng(0))
    ends = inputs["ends"] = np.array([70, 70, 260], np.int32)  # two tiles, none, and three
    found = kernel.interpret(**inputs, level="ptx", sms=2, seed=1)
    group = np.searchsorted(ends, np.arange(260), side="right")
    exact = np.einsum("mk,mnk->mn", inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)[group])
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    stamps = memories.stamps(StampLayout.of(kernel.schedule, block_of(kernel)))
    assert (~np.isnan(stamps.times)).all(axis=-1).sum(axis=-1).tolist() == [[3, 3], [2, 2]]
