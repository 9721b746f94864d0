"""Warps that multiply by mma.sync what TMA brings: planted faults, and loads of fragments without bank conflicts."""

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import Fault

import lowtide as lt
from lowtide.dialects.tile import GemmLayout
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.passes.schedules.choice.permutation import conflicts
from lowtide.passes.support.problem.problem import Problem

SPEC = spec(d="f32")
WARPS = (
    "roles = cooperative(1), grid.tile = [32, 32], k = 32, stages = 2, atom = mma.m16n8k16, atoms = [2, 2, 1], "
    "epilogue.path = direct"
)
FAULTS = [
    Fault(
        "released before the loads",
        "atoms",
        r"^((?: *%.* = sm\.ldmatrix .*\n)+)((?: *%.* = sm\.mma_sync .*\n)*)"
        r"( *sm\.fence_proxy_async\n *sm\.mbarrier_arrive .* each_warp .*\n)",
        r"\3\1\2",
        "race",
    ),
    Fault("no proxy fence", "epilogue", r"^ *sm\.fence_proxy_async\n", "", r"\[async-proxy-reads\]", None),
    Fault(
        "the fence after the release",
        "atoms",
        r"( *sm\.fence_proxy_async\n)( *sm\.mbarrier_arrive .* each_warp .*\n)",
        r"\2\1",
        r"\[async-proxy-reads\]",
        None,
    ),
    Fault(
        "the fence before the loads",
        "atoms",
        r"^((?: *%.* = sm\.ldmatrix .*\n)+)((?: *%.* = sm\.mma_sync .*\n)*)( *sm\.fence_proxy_async\n)",
        r"\3\1\2",
        r"\[async-proxy-reads\]",
        None,
    ),
    Fault("no proxy fence in nvvm", "nvvm", r"^ *nvvm\.fence\.proxy .*\n", "", r"\[async-proxy-reads\]", -1),
    Fault("released by one warp of four", "epilogue", r" each_warp ", " ", "race|deadlock"),
    Fault("one arrival too few", "epilogue", r"arrivals\(4\)", "arrivals(3)", "race|once more|in flight"),
    Fault("not awaited", "epilogue", r"^ *sm\.mbarrier_wait %full.*\n", "", "in flight|uninitialised|race"),
]


@pytest.fixture(scope="module")
def levels() -> dict[str, str]:
    return levels_of(SPEC, WARPS, "sm_90a")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(levels: dict[str, str], fault: Fault) -> None:
    inputs = inputs_of(SPEC, 40, 36, 8 * 32)
    text = levels[fault.level]
    np.testing.assert_array_equal(interpret(text, inputs, sms=1, domain="exact"), expected(SPEC, inputs))
    with pytest.raises(InterpreterError, match=fault.found):
        for seed in range(6):
            interpret(fault.plant(text), inputs, sms=1, seed=seed, domain="exact")


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_f64_is_loaded_without_conflicts(layout: str) -> None:
    problem = lt.GemmSpec(m=None, n=None, k=None, a="f64", b="f64", d="f64", layout=layout)
    fields = f"{WARPS.replace('k = 32', 'k = 16')}, grid.tile = [64, 64]".replace("grid.tile = [32, 32], ", "")
    kernel = lt.compile_gemm(problem, target="sm_90a", schedule=fields)
    facts = Problem(None, None, None, "f64", "f64", "f64", "f64", GemmLayout[layout])
    usual: Schedule = kernel.schedule.with_(permutation=(32, 32, 16))
    assert conflicts(kernel.schedule, facts)[0] == 1 < conflicts(usual, facts)[0]


@pytest.mark.parametrize("schedule", ["sm90-tma-mma-sync", "roles = pingpong(2), atom = mma.m16n8k16"])
def test_a_fence_orders_the_loads_of_warps_before_tma_fills_the_slot_again(schedule: str) -> None:
    spec = lt.GemmSpec(m=256, n=256, k=256, a="bf16", b="bf16", d="bf16")
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=schedule)
    lines = [line.strip() for line in kernel.levels["atoms"].splitlines()]
    releases = [place for place, line in enumerate(lines) if "sm.mbarrier_arrive" in line and "each_warp" in line]
    assert releases and all(lines[place - 1] == "sm.fence_proxy_async" for place in releases)
    assert kernel.ptx.count("fence.proxy.async.shared::cta;") >= len(releases)
