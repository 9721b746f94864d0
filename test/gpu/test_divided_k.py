"""Division of K on a GPU: streams at once, captured graphs, replays and bits that repeat."""

import gc

import numpy as np
import pytest
from gemm_checks import check as check_within_bounds
from gemm_checks import torch_dtype

import lowtide as lt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

SM80 = "grid.tile = [128, 128], k = 32, stages = 3, atoms = [2, 4, 1]"
ROLES = "grid.tile = [128, 128], k = 64, roles = cooperative(2), scheduler = persistent"
CASES = [
    ("sm_80", "bf16", f"{SM80}, scheduler = one_shot, k_division = split(5)"),
    ("sm_80", "bf16", f"{SM80}, scheduler = persistent, k_division = hybrid"),
    ("sm_80", "f32", "grid.tile = [64, 64], k = 8, atoms = [8, 8, 1], k_division = split(7)"),
    ("sm_80", "f64", "grid.tile = [64, 64], k = 16, atoms = [2, 4, 1], k_division = split(3)"),
    ("sm_90a", "bf16", f"{ROLES}, k_division = split(7)"),
    ("sm_90a", "bf16", f"{ROLES}, k_division = scatter(8)"),
    ("sm_90a", "bf16", f"{ROLES}, cluster = [2, 1], k_division = scatter(4)"),
    ("sm_90a", "bf16", f"{ROLES}, k_division = stream_k, epilogue.path = tma"),
    ("sm_90a", "bf16", f"{ROLES}, k_division = tail(4), epilogue.path = tma"),
    ("sm_90a", "bf16", f"{ROLES}, k_division = scatter_tail(2), epilogue.path = tma"),
]
M, N, K = 650, 520, 1000


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[1]}-{case[2].rpartition('= ')[2]}")
def case(request):
    return request.param


@pytest.fixture(scope="module")
def kernel(case):
    target, dtype, schedule = case
    major, minor = torch.cuda.get_device_capability()
    if target == "sm_90a" and (major, minor) != (9, 0):
        pytest.skip("needs a GPU of capability 9.0")
    spec = lt.GemmSpec(m=None, n=None, k=None, a=dtype, b=dtype, d=dtype)
    return lt.compile_gemm(spec, target=target, schedule=schedule)


@pytest.fixture(scope="module")
def operands(case):
    dtype = torch_dtype(case[1])
    generator = torch.Generator(device="cuda").manual_seed(0)
    shapes = [(M, K), (N, K)]
    sets = []
    for _ in range(3):
        a, b = (torch.randn(shape, device="cuda", generator=generator).to(dtype) for shape in shapes)
        sets.append((a, b, torch.empty(M, N, device="cuda", dtype=dtype)))
    return sets


def check(operands):
    torch.cuda.synchronize()
    for a, b, d in operands:
        expected = a.double() @ b.double().T
        assert ((d.double() - expected).norm() / expected.norm()).item() < 4e-3
        d.fill_(float("nan"))


def test_launches_in_several_streams_at_once_have_workspaces_of_their_own(kernel, operands):
    streams = [torch.cuda.Stream() for _ in operands]
    for _ in range(20):
        for stream, (a, b, d) in zip(streams, operands, strict=True):
            with torch.cuda.stream(stream):
                kernel(a, b, out=d)
    check(operands)


def test_the_bits_of_d_repeat(kernel, operands):
    a, b, d = operands[0]
    kernel(a, b, out=d)
    first = d.clone()
    for _ in range(20):
        kernel(a, b, out=d)
        assert torch.equal(d, first)


def test_graphs_replay_at_once_and_outlive_each_other(kernel, operands):
    graphs = []
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            for a, b, d in operands:
                kernel(a, b, out=d)
        graphs.append(graph)
    for graph in graphs * 3:
        graph.replay()
    check(operands)
    streams = [torch.cuda.Stream() for _ in graphs]
    for _ in range(5):
        for stream, graph in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    check(operands)
    del graphs[:2], graph
    gc.collect()
    graphs[0].replay()
    check(operands)


def test_the_callers_workspace_does_whatever_it_holds(kernel, operands):
    a, b, d = operands[0]
    size = kernel.workspace_bytes(a, b)
    workspace = torch.full((size,), 7, dtype=torch.uint8, device="cuda")
    for _ in range(2):
        kernel(a, b, out=d, workspace=workspace)
    check(operands[:1])
    with pytest.raises(lt.LaunchError, match=f"these operands need {size}"):
        kernel(a, b, out=d, workspace=workspace[256:])


def relu_of_biased(acc, bias: lt.PerColumn, c: lt.Full):
    return lt.relu(acc + bias) + c


@pytest.mark.parametrize("size", [(256, 256, 8192), (64, 2048, 4096), (300, 200, 4104), (512, 512, 4096)])
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_what_is_chosen_where_tiles_are_few_divides_k_and_is_right(dtype, layout, size):
    m, n, k = size
    for target in ("sm_80", "sm_90"):
        for epilogue in (None, relu_of_biased):
            spec = lt.GemmSpec(m=m, n=n, k=k, a=dtype, b=dtype, d=dtype, layout=layout, epilogue=epilogue)
            kernel = lt.compile_gemm(spec, target=target)
            assert kernel.schedule.k_division is not None
            check_within_bounds(spec, kernel, size, np.random.default_rng(0))
