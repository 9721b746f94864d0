"""Reductions on the GPU: kinds, paths of the epilogue and shapes, against float64 within the derived bounds."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.verification.checking.gpu_run import run_on_gpu
from lowtide.verification.checking.verdicts import against_float64

pytestmark = pytest.mark.gpu

TARGET = lt.PerRow["s32"]


def rows(acc, c: lt.Full):
    total = acc + c
    return {"d": total, "squares": lt.sum(total * total, dim=1), "most": lt.amax(total, dim=1)}


def loss(acc, target: TARGET):
    return {"d": acc, "lse": lt.logsumexp(acc, dim=1), "wanted": lt.gather(acc, target)}


def columns(acc, bias: lt.PerColumn):
    x = acc + bias
    return {"least": lt.amin(x, dim=0), "d": x, "sums": lt.sum(x, dim=0), "lse": lt.logsumexp(x, dim=0)}


def whole(acc):
    return {
        "d": acc,
        "total": lt.sum(acc),
        "magnitude": lt.amax(abs(acc)),
        "lse": lt.logsumexp(acc),
        "rows": lt.sum(acc, 1),
    }


def alone(acc, target: TARGET):
    return {"lse": lt.logsumexp(acc, dim=1), "wanted": lt.gather(acc, target), "sums": lt.sum(acc, dim=0)}


EPILOGUES = (rows, loss, columns, whole, alone)
ROADS = (
    ("sm_80", None, {}),
    ("sm_80", "epilogue.path = direct", {}),
    ("sm_80", "grid.tile = [64, 64], k_division = split(3)", {}),
    ("sm_80", None, {"a": "f32", "b": "f32", "d": "f32"}),
    ("sm_90a", None, {}),
    ("sm_90a", None, {"d_order": "column"}),
    ("sm_90a", None, {"batch": None}),
    ("sm_90a", "roles = cooperative(2)", {}),
    ("sm_90a", "roles = pingpong(2)", {}),
    ("sm_90a", "grid.operands = swapped", {}),
    ("sm_90a", None, {"a": "e4m3", "b": "e4m3"}),
)


@pytest.mark.parametrize("seed", range(330))
def test_drawn_kinds_roads_and_shapes(seed):
    rng = np.random.default_rng(seed)
    epilogue, (target, schedule, fields) = EPILOGUES[seed % len(EPILOGUES)], ROADS[seed // len(EPILOGUES) % len(ROADS)]
    m, n, k = (int(x) for x in rng.integers(1, (400, 60, 40)) * (1, 8, 16))
    if seed % 3 == 0:
        n += int(rng.integers(1, 8))  # rows of any length
    known = bool(rng.integers(2))
    spec = lt.GemmSpec(
        **{"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": epilogue} | fields,
        **({"m": m, "n": n, "k": k} if known else {}),
    )
    try:
        kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    except lt.ScheduleError:  # the road has no schedule for this shape
        pytest.skip("the road does not take this problem")
    inputs = lt.random_inputs(spec, m, n, k, rng, batch=int(rng.integers(1, 4)) if spec.is_batched else None)
    found = run_on_gpu(kernel, spec, inputs)
    assert not found.complaint, found.complaint
    verdict = against_float64(spec, inputs, found.d)
    assert verdict.ok, verdict.message


def test_bits_repeat_and_rows_keep_theirs_beside_others():
    torch = pytest.importorskip("torch")

    def epilogue(acc):
        return {"d": acc, "sums": lt.sum(acc, dim=1), "total": lt.sum(acc)}

    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=epilogue)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    a, b = (torch.randn(count, 512, device="cuda").bfloat16() for count in (1000, 1544))
    first = kernel(a, b)
    for _ in range(10):
        again = kernel(a, b)
        assert all(torch.equal(again[name], first[name]) for name in first)
    part = kernel(a[:300], b)
    assert torch.equal(part["sums"], first["sums"][:300])


def test_infinities_nan_and_targets_outside_of_rows():
    torch = pytest.importorskip("torch")

    def epilogue(acc, bias: lt.PerColumn, row: lt.PerRow, target: TARGET):
        x = acc + bias + row
        return {"d": x, "lse": lt.logsumexp(x, dim=1), "most": lt.amax(x, dim=1), "wanted": lt.gather(x, target)}

    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=epilogue)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    inf, nan = float("inf"), float("nan")
    a, b = torch.zeros(6, 64, device="cuda").bfloat16(), torch.zeros(520, 64, device="cuda").bfloat16()
    bias = torch.full((520,), -inf, device="cuda").bfloat16()
    bias[300] = 0
    row = torch.tensor([0, -inf, nan, 1000, -1000, inf], device="cuda").bfloat16()
    target = torch.tensor([-1, 520, 300, 300, 2**31 - 1, 0], device="cuda", dtype=torch.int32)
    found = kernel(a, b, bias=bias, row=row, target=target)
    wanted = found["d"].float().logsumexp(1)
    assert torch.equal(found["lse"].nan_to_num(7), wanted.nan_to_num(7)), (found["lse"], wanted)
    assert torch.equal(found["most"].nan_to_num(7), found["d"].float().amax(1).nan_to_num(7))
    assert found["wanted"].tolist()[:2] == [0, 0] and found["wanted"][3] == 1000 and found["wanted"][4] == 0


def test_graphs_write_reductions_again():
    torch = pytest.importorskip("torch")
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=whole)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    a, b = (torch.randn(count, 256, device="cuda").bfloat16() for count in (512, 384))
    out = kernel(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, out=out)
    for scale in (4.0, 0.125):
        a.mul_(scale)
        graph.replay()
        alone = kernel(a, b)
        torch.cuda.synchronize()
        assert all(torch.equal(out[name], alone[name]) for name in alone)
