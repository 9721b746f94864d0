"""Groups of rows with pairs of columns and with operands of each group on the GPU: against float64 within a derived
bound, and `lt.grouped_matmul` against a loop over groups on small integers."""

from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 264, 272), (1, 1000, 64), (4097, 72, 512))


def saved(gate, up, gate_bias: lt.PerColumn, up_bias: lt.PerColumn):
    gate, up = gate + gate_bias, up + up_bias
    return {"gate": gate, "up": up, "d": lt.gelu(gate) * up}


def routed(acc, bias: lt.PerColumn, weight: lt.PerRow):
    return weight * (acc + bias)


_PAIRS = {"pairs": "stacked", "epilogue": lt.swiglu}
_TMA = "epilogue.path = tma"
CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "mma.sync": ("sm_80", _PAIRS, None),
    "mma.sync, interleaved": ("sm_80", {"pairs": "interleaved", "epilogue": lt.swiglu}, None),
    "mma.sync, saved": ("sm_80", {"pairs": "stacked", "epilogue": saved}, None),
    "mma.sync, from fragments": ("sm_80", _PAIRS, "epilogue.path = direct"),
    "mma.sync, a bias and a weight": ("sm_80", {"epilogue": routed}, None),
    "wgmma": ("sm_90a", _PAIRS, None),
    "wgmma, interleaved": ("sm_90a", {"pairs": "interleaved", "epilogue": lt.swiglu}, None),
    "wgmma, saved": ("sm_90a", {"pairs": "stacked", "epilogue": saved}, None),
    "wgmma, saved, TMA stores": ("sm_90a", {"pairs": "stacked", "epilogue": saved}, f"roles = cooperative(2), {_TMA}"),
    "wgmma, low tiles": ("sm_90a", _PAIRS, f"grid.tile = [64, 256], {_TMA}"),
    "wgmma, tall tiles": ("sm_90a", _PAIRS, f"grid.tile = [256, 192], roles = cooperative(2), {_TMA}"),
    "wgmma in turn": ("sm_90a", _PAIRS, f"grid.tile = [128, 192], roles = pingpong(2), {_TMA}"),
    "wgmma, a bias and a weight": ("sm_90a", {"epilogue": routed}, None),
    "wgmma, a bias and a weight, B as (K, N)": ("sm_90a", {"epilogue": routed, "layout": "tt"}, None),
    "TMA for mma.sync": ("sm_90a", _PAIRS, "grid.tile = [64, 64], roles = cooperative(1), atom = mma.m16n8k16"),
    "8-bit floats": ("sm_90a", {"a": "e4m3", "b": "e4m3"} | _PAIRS, None),
}


@pytest.mark.parametrize("groups", [1, 7, 64])
@pytest.mark.parametrize("name", CASES)
def test_random_groups_agree_with_float64(name: str, groups: int) -> None:
    target, fields, schedule = CASES[name]
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "groups": None} | fields))
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    manifest = {**kernel.manifest, "example": {**kernel.manifest["example"], "row_groups": groups}}
    for seed, size in enumerate(SIZES):
        outcome = verify_kernel(lt.runtime.Kernel(manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, (size, outcome.message)


def combined(gate, up, gate_bias: lt.PerColumn, up_bias: lt.PerColumn, weight: lt.PerRow):
    return weight * (gate + gate_bias + 2.0 * (up + up_bias))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("pairs", ["stacked", "interleaved"])
def test_calls_without_a_spec_agree_with_a_loop_at_random_splits(pairs: str, shared: bool) -> None:
    """Weights are a part of a larger array, so that groups lie apart; 20 splits."""
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 1000, 136, 192, 9
    torch.manual_seed(groups)
    a = torch.randint(-2, 3, (rows, k), device="cuda").bfloat16()
    w = torch.randint(-2, 3, (groups, 2 * n + 8, k + 8), device="cuda").bfloat16()[:, : 2 * n, :k]
    of_columns = (n,) if shared else (groups, n)
    gate_bias, up_bias = (torch.randint(-3, 4, of_columns, device="cuda").float() for _ in range(2))  # as D
    weight = torch.randint(-1, 2, (rows,), device="cuda").float()
    given = {"gate_bias": gate_bias, "up_bias": up_bias, "weight": weight}
    rng = np.random.default_rng(0)
    for _ in range(20):
        ends = np.sort(rng.integers(0, rows + 1, groups)).tolist()
        d, first = torch.full((rows, n), 77.0, device="cuda"), 0
        expected = d.double()
        for group, end in enumerate(ends):
            sums = a[first:end].double() @ w[group].double().mT
            gate, up = (sums[:, :n], sums[:, n:]) if pairs == "stacked" else (sums[:, ::2], sums[:, 1::2])
            one, two = ((x if shared else x[group]).double() for x in (gate_bias, up_bias))
            expected[first:end] = weight[first:end, None].double() * (gate + one + 2 * (up + two))
            first = end
        own = torch.tensor(ends, dtype=torch.int32, device="cuda")
        lt.grouped_matmul(a, w.mT, own, epilogue=combined, pairs=pairs, out=d, **given)
        assert torch.equal(d.double(), expected), ends
