"""Several full results on the GPU: types, roads of the epilogue, layouts, parts of one matrix, graphs."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 520, 272), (1, 1000, 64), (131, 24, 1040))
# A CTA of each share needs a K step of its own.
SIZES_OF = {"wgmma, shares of the columns": ((300, 520, 272), (1, 1000, 128), (131, 24, 1040))}


def saved(acc, bias: lt.PerColumn):
    pre = acc + bias
    return {"pre": pre, "d": lt.gelu(pre)}


def residual(acc, c: lt.Full["f32"]):  # noqa: F821
    total = acc + c
    return {"total": total, "rounded": total}


def three(acc, scale: lt.Scalar):
    return {"d": acc, "scaled": scale * acc, "square": acc * acc}


_F32 = {"result_types": {"pre": "f32"}}
_SUMS = {"epilogue": residual, "result_types": {"total": "f32"}}
CASES = {
    "mma.sync": ("sm_80", {}, None),
    "mma.sync, two types": ("sm_80", _F32, None),
    "mma.sync, from fragments": ("sm_80", _F32, "epilogue.path = direct"),
    "mma.sync, a sum and its rounding": ("sm_80", _SUMS, None),
    "mma.sync, K in parts": ("sm_80", _F32, "grid.tile = [64, 64], k_division = split(3)"),
    "mma.sync, K in shares": (
        "sm_80",
        {"epilogue": three},
        "grid.tile = [64, 64], grid.scheduler = persistent, k_division = stream_k",
    ),
    "wgmma": ("sm_90a", {}, None),
    "wgmma, two types": ("sm_90a", _F32, None),
    "wgmma, a sum and its rounding": ("sm_90a", _SUMS, None),
    "wgmma, TMA stores": ("sm_90a", {"n": None, **_F32}, "roles = cooperative(2), epilogue.path = tma"),
    "wgmma, TMA stores, a narrow part": (
        "sm_90a",
        _F32,
        "grid.tile = [128, 96], roles = cooperative(2), epilogue.path = tma, epilogue.tile = [128, 64]",
    ),
    "wgmma in turn": ("sm_90a", {"layout": "nn", **_F32}, "roles = pingpong(2), epilogue.path = tma"),
    "wgmma, three results": ("sm_90a", {"epilogue": three, "result_types": {"square": "f32"}}, None),
    "wgmma, shares of the columns": ("sm_90a", _F32, "grid.tile = [128, 64], k_division = scatter(2)"),
    "wgmma, swapped": ("sm_90a", _F32, "grid.operands = swapped"),
    "8-bit floats": ("sm_90a", {"a": "e4m3", "b": "e4m3", "d": "e4m3", "result_types": {"pre": "bf16"}}, None),
    "by columns": ("sm_90a", {"d_order": "column", **_F32}, None),
    "a batch": ("sm_90a", {"batch": None, **_F32}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_every_result_is_right(name):
    target, fields, schedule = CASES[name]
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": saved} | fields))
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    for seed, size in enumerate(SIZES_OF.get(name, SIZES)):
        outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


ROADS = (
    ("sm_80", None),
    ("sm_80", "epilogue.path = direct"),
    ("sm_90a", None),
    ("sm_90a", "roles = cooperative(2)"),
    ("sm_90a", "roles = cooperative(1), grid.tile = [64, 64], epilogue.path = tma"),
)


@pytest.mark.parametrize("seed", range(60))
def test_drawn_results_types_and_shapes(seed):
    rng = np.random.default_rng(seed)
    (target, schedule), count = ROADS[rng.integers(len(ROADS))], int(rng.integers(1, 4))
    names = [f"r{number}" for number in range(count)]
    types = {name: str(rng.choice(["bf16", "f16", "f32"])) for name in names}

    def epilogue(acc, bias: lt.PerColumn["f32"]):  # noqa: F821
        return {name: (number + 1) * acc + bias for number, name in enumerate(names)}

    known = bool(rng.integers(2))
    m, n, k = (int(x) for x in rng.integers(1, 40, 3) * (1, 8, 8))
    extents = {"m": m, "n": n, "k": k} if known else {}
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", result_types=types, epilogue=epilogue, **extents)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=(m, n, k), seed=seed)
    assert outcome.ok, outcome.message


def test_results_may_be_halves_of_one_matrix_and_are_written_again_in_graphs():
    torch = pytest.importorskip("torch")
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=saved)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    a, b = (torch.randn(rows, 256, device="cuda").bfloat16() for rows in (512, 384))
    bias, whole = torch.randn(384, device="cuda").bfloat16(), torch.empty(512, 768, device="cuda").bfloat16()
    out = {"pre": whole[:, :384], "d": whole[:, 384:]}
    found = kernel(a, b, bias=bias, out=out)
    assert found["pre"] is out["pre"] and found["d"] is out["d"]
    alone = kernel(a, b, bias=bias)
    assert torch.equal(whole, torch.cat([alone["pre"], alone["d"]], 1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, bias=bias, out=out)
    for scale in (4.0, 0.125):
        a.mul_(scale)
        whole.fill_(torch.nan)
        graph.replay()
        alone = kernel(a, b, bias=bias)
        assert torch.equal(whole, torch.cat([alone["pre"], alone["d"]], 1))


def test_the_first_result_may_be_a_full_operand():
    torch = pytest.importorskip("torch")
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", **_SUMS)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    a, b = (torch.randn(rows, 256, device="cuda").bfloat16() for rows in (300, 520))
    stream = torch.randn(300, 520, device="cuda")
    expected = kernel(a, b, c=stream)
    found = kernel(a, b, c=stream, out={"total": stream})
    assert found["total"] is stream and torch.equal(stream, expected["total"])
    assert torch.equal(found["rounded"], expected["rounded"])
