"""Level ptx of what schedules have beside the default: divided K, clusters, turns, waves, threads by themselves."""

import numpy as np
import pytest
from compiled import expected, inputs_of, spec

import lowtide as lt
from lowtide.interpreter import Loaded, interpret


def relu_bias(acc, bias: lt.PerColumn):
    return lt.relu(acc + bias)


SPECS = {dtype: spec(epilogue=relu_bias, dtype=dtype) for dtype in ("f16", "f32")}
SMALL = "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 2"
SCHEDULES = {
    "partial sums": ("sm_80", "f16", f"{SMALL}, k_division = split(2)", (40, 40, 100)),
    "shares of K": ("sm_80", "f16", f"{SMALL}, k_division = stream_k, scheduler = persistent", (70, 70, 100)),
    "fma": (
        "sm_80",
        "f32",
        "grid.tile = [32, 32], k = 8, atom = fma.m1n1k1, atoms = [8, 8, 1], stages = 2",
        (40, 36, 20),
    ),
    "multicast": (
        "sm_90a",
        "f16",
        "grid.tile = [64, 64], k = 64, roles = cooperative(1), grid.cluster = [2, 1], epilogue.path = tma",
        (140, 72, 136),
    ),
    "turns": ("sm_90a", "f16", "grid.tile = [64, 64], k = 64, roles = pingpong(2), stages = 3", (200, 72, 136)),
    "waves": (
        "sm_90a",
        "f16",
        "grid.tile = [64, 64], k = 64, roles = cooperative(1), grid.waves = synchronized, scheduler = persistent",
        (200, 72, 72),
    ),
    "K turned around": (
        "sm_90a",
        "f16",
        "grid.tile = [64, 64], k = 64, roles = cooperative(1), k_order = serpentine",
        (200, 136, 136),
    ),
    "no sum": ("sm_90a", "f16", "grid.tile = [64, 64], k = 64, roles = cooperative(1)", (72, 40, 0)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_ptx_gives_the_exact_d_for_every_order_of_agents(name: str) -> None:
    target, dtype, schedule, extents = SCHEDULES[name]
    kernel = lt.compile_gemm(SPECS[dtype], target=target, schedule=schedule)
    inputs = inputs_of(SPECS[dtype], *extents)
    loaded = Loaded(kernel.levels["llvm"], kernel.ptx)
    for seed in range(2):
        d = interpret(loaded, inputs, sms=2, seed=seed, domain="exact")
        np.testing.assert_array_equal(d, expected(SPECS[dtype], inputs))
