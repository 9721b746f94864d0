"""Pairs of columns on the GPU: ways to copy B and to store D, drawn shapes, activations and types, each compared with
float64 within a derived bound."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 264, 272), (1, 1000, 64), (131, 24, 1040))


def saved(gate, up, gate_bias: lt.PerColumn, up_bias: lt.PerColumn):
    gate, up = gate + gate_bias, up + up_bias
    return {"gate": gate, "up": up, "d": lt.gelu(gate) * up}


def residual(gate, up, c: lt.Full, scale: lt.PerRow["f32"]):  # noqa: F821
    return c + scale * gate * up


_TMA = "epilogue.path = tma"
CASES = {
    "mma.sync": ("sm_80", {}, None),
    "mma.sync, interleaved": ("sm_80", {"pairs": "interleaved"}, None),
    "mma.sync, saved": ("sm_80", {"epilogue": saved}, None),
    "mma.sync, full operand": ("sm_80", {"epilogue": residual}, None),
    "mma.sync, from fragments": ("sm_80", {}, "epilogue.path = direct"),
    "mma.sync, K in parts": ("sm_80", {}, "grid.tile = [64, 64], k_division = split(3)"),
    "mma.sync, any rows": ("sm_80", {}, "sm80-unaligned"),
    "wgmma": ("sm_90a", {}, None),
    "wgmma, interleaved": ("sm_90a", {"pairs": "interleaved"}, None),
    "wgmma, apart": ("sm_90a", {"pairs": "apart", "epilogue": saved}, None),
    "mma.sync, apart": ("sm_80", {"pairs": "apart"}, None),
    "wgmma, A by columns": ("sm_90a", {"layout": "nn"}, None),
    "wgmma, saved": ("sm_90a", {"epilogue": saved}, None),
    "wgmma, saved, TMA stores": ("sm_90a", {"epilogue": saved}, f"roles = cooperative(2), {_TMA}"),
    "wgmma, full operand": ("sm_90a", {"epilogue": residual}, None),
    "wgmma, a narrow part": ("sm_90a", {}, f"grid.tile = [128, 192], roles = cooperative(2), {_TMA}"),
    "wgmma, a tall tile": ("sm_90a", {}, f"grid.tile = [256, 192], roles = cooperative(2), {_TMA}"),
    "wgmma, a tail in halves": (
        "sm_90a",
        {},
        f"grid.tile = [256, 192], roles = cooperative(2), grid.tail = halves, {_TMA}",
    ),
    "wgmma in turn": ("sm_90a", {}, f"grid.tile = [128, 192], roles = pingpong(2), {_TMA}"),
    "wgmma, a cluster that shares A": ("sm_90a", {}, f"grid.cluster = [1, 2], roles = cooperative(2), {_TMA}"),
    "wgmma, K in shares": ("sm_90a", {}, "roles = cooperative(2), k_division = stream_k"),
    "TMA for mma.sync": ("sm_90a", {}, "sm90-tma-mma-sync"),
    "8-bit floats": ("sm_90a", {"a": "e4m3", "b": "e4m3"}, None),
    "f16": ("sm_90a", {"a": "f16", "b": "f16", "d": "f16"}, None),
    "an amax": ("sm_90a", {"amax": True}, None),
}


def _verify(spec, target, schedule, size, seed):
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    return verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)


@pytest.mark.parametrize("name", CASES)
def test_every_result_is_right(name):
    target, fields, schedule = CASES[name]
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "pairs": "stacked", "epilogue": lt.swiglu} | fields))
    for seed, size in enumerate(SIZES):
        outcome = _verify(spec, target, schedule, size, seed)
        assert outcome.ok, (size, outcome.message)


ROADS = (("sm_80", None), ("sm_80", "epilogue.path = direct"), ("sm_90a", None), ("sm_90a", "roles = cooperative(2)"))


@pytest.mark.parametrize("seed", range(60))
def test_drawn_pairs_types_and_shapes(seed):
    rng = np.random.default_rng(seed)
    target, schedule = ROADS[rng.integers(len(ROADS))]
    epilogue = (lt.swiglu, saved, residual)[rng.integers(3)]
    m, n, k = (int(x) for x in rng.integers(1, 70, 3) * (1, 8, 8))
    known = {name: extent for name, extent in (("m", m), ("n", n), ("k", k)) if rng.integers(2)}
    types = {"a": "bf16", "b": "bf16", "d": str(rng.choice(["bf16", "f32"]))}
    pairs = str(rng.choice(["stacked", "interleaved"]))
    spec = lt.GemmSpec(**types, pairs=pairs, epilogue=epilogue, **known)
    outcome = _verify(spec, target, schedule, (m, n, k), seed)
    assert outcome.ok, outcome.message


@pytest.mark.parametrize("pairs", ["stacked", "interleaved"])
def test_weights_may_be_views_and_results_are_written_again_in_graphs(pairs):
    torch = pytest.importorskip("torch")
    kernel = lt.compile_gemm(
        lt.GemmSpec(a="bf16", b="bf16", d="bf16", pairs=pairs, epilogue=lt.swiglu), target="sm_90a"
    )
    a = torch.randn(300, 256, device="cuda").bfloat16()
    b = torch.randn(528, 320, device="cuda").bfloat16()[:, :256]
    gate, up = (b[:264], b[264:]) if pairs == "stacked" else (b[::2], b[1::2])
    expected = torch.nn.functional.silu(a.double() @ gate.double().mT) * (a.double() @ up.double().mT)
    d = kernel(a, b)
    assert ((d.double() - expected).norm() / expected.norm()).item() < 2.0**-8
    out, graph = torch.full_like(d, torch.nan), torch.cuda.CUDAGraph()
    kernel(a, b, out=out)
    with torch.cuda.graph(graph):
        kernel(a, b, out=out)
    out.fill_(torch.nan)
    graph.replay()
    assert torch.equal(out, d)
    with pytest.raises(lt.Error, match=r"two rows for each of the N columns of D|\[.*\]"):
        kernel(a, b[:527])
