"""The largest absolute value of D on the GPU: targets, types of D, roads of the epilogue, calls one after the other."""

import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 520, 272), (1, 1000, 64), (131, 24, 1040))
# A CTA of each share needs a K step of its own.
SIZES_OF = {"wgmma, shares of the columns": ((300, 520, 272), (1, 1000, 128), (131, 24, 1040))}


def biased(acc, bias: lt.PerColumn["f32"]):  # noqa: F821
    return lt.relu(acc + bias)


CASES = {
    "mma.sync": ("sm_80", {"a": "bf16", "d": "f16"}, None),
    "mma.sync, from fragments": ("sm_80", {"a": "bf16", "d": "f32"}, "epilogue.path = direct"),
    "mma.sync, by rows": ("sm_80", {"a": "f16", "d": "f16", "epilogue": biased}, "epilogue.math = rows"),
    "mma.sync, K in parts": ("sm_80", {"a": "bf16", "d": "bf16"}, "grid.tile = [64, 64], k_division = split(3)"),
    "mma.sync of 8-bit floats": ("sm_89", {"a": "e4m3", "d": "e5m2"}, None),
    "wgmma": ("sm_90a", {"a": "bf16", "d": "bf16", "epilogue": biased}, None),
    "wgmma of 8-bit floats": ("sm_90a", {"a": "e4m3", "d": "e4m3"}, None),
    "wgmma, sums of f16": ("sm_90a", {"a": "f16", "d": "f16", "acc": "f16", "layout": "nt"}, None),
    "wgmma in turn": ("sm_90a", {"a": "bf16", "d": "f32", "layout": "nn"}, "roles = pingpong(2)"),
    "wgmma, shares of the columns": (
        "sm_90a",
        {"a": "bf16", "d": "bf16"},
        "grid.tile = [128, 64], k_division = scatter(2)",
    ),
    "D by columns": ("sm_90a", {"a": "bf16", "d": "bf16", "d_order": "column"}, None),
    "a batch": ("sm_90a", {"a": "bf16", "d": "bf16", "batch": None}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_amax_is_the_largest_of_d(name):
    target, fields, schedule = CASES[name]
    spec = lt.GemmSpec(**({"b": fields["a"], "amax": True} | fields))
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    for seed, size in enumerate(SIZES_OF.get(name, SIZES)):
        outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


def test_each_call_starts_anew_in_a_graph_too():
    torch = pytest.importorskip("torch")
    kernel = lt.compile_gemm(lt.GemmSpec(a="bf16", b="bf16", d="bf16", amax=True), target="sm_90a")
    a, b = (torch.randn(512, 256, device="cuda").bfloat16() for _ in range(2))
    amax, d = torch.full((1,), 1e30, device="cuda"), torch.empty(512, 512, device="cuda", dtype=torch.bfloat16)
    for scale in (1.0, 0.25, 8.0):
        kernel(a * scale, b, out=d, amax=amax)
        assert amax.bfloat16() == d.abs().max()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, out=d, amax=amax)
    for scale in (4.0, 0.125):
        a *= scale
        graph.replay()
        torch.cuda.synchronize()
        assert amax.bfloat16() == d.abs().max()
